"""The declarations of a project: assets and sources, their graph, partitions, targets, limits."""
