"""What a run keeps of its rows, written, measured and proved against what came in."""
