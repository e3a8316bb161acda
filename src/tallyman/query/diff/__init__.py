"""Two versions or two runs compared."""
