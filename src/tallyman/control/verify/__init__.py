"""Check the past: files, inputs, and whether a run can be reproduced."""
