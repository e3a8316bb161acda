"""A project from Python: open it, run it, query it. The command line is a thin layer over this."""

from tallyman.project.project import Project

__all__ = ["Project"]
