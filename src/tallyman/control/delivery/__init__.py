"""Delivery of lineage events: spool them, send them to a collector, retry."""
