"""Terminal basics: shared options, text and JSON output, progress. No commands."""
