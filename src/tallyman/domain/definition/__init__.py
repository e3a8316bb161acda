"""The plan of an asset: frames, steps, expressions, and the facts of each step."""
