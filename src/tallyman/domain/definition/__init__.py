"""What a plan says: frames, steps, expressions, and the facts of each step."""
