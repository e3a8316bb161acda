"""OpenLineage events: built here, kept in the spool, sent to a collector."""
