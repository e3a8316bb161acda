"""What happened: runs, results, seals, traces and lineage."""
