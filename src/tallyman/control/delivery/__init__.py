"""Lineage events on their way: kept in the spool, sent to a collector, tried again."""
