"""What readers see: datasets, versions, commits and changes to tables."""
