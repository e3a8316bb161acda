"""The state that readers see: datasets, versions, commits and changes to tables."""
