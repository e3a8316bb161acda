"""What a project declares: assets and sources, their graph, partitions, targets and limits."""
