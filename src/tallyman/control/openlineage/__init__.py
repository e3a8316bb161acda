"""OpenLineage events and facets of a run, built from what it did."""
