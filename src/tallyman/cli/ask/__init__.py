"""Ask: follow a row back, a record forward, a change by its steps, results through the graph."""
