"""Ask: trace a row back to its records, a record to its rows, and results through the graph."""
