"""Reading of traces, by row and by step."""
