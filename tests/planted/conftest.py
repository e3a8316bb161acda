"""The engine's own fixtures: one Spark, and small projects in this process."""

from tests.engine.conftest import new_database, spark, workshop

__all__ = ["new_database", "spark", "workshop"]
