"""What a pipeline declares: assets, steps, plans, the graph and its partitions."""
