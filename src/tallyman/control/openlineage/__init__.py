"""OpenLineage events and facets of a run, built from its records and files."""
