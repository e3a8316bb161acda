"""The history of a project: runs, results, seals, traces and lineage."""
