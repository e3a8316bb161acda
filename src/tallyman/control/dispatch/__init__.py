"""Dispatch of tasks: claims, reports, operators' decisions, and the loops of a server."""
