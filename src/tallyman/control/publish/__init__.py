"""What readers see, and every move of it."""
