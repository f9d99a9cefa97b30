"""Spark's hook: it looks into packages named ``pyspark_*`` for a ``DefaultSource``."""

from relstate.connector.source import RelstateDataSource as DefaultSource

__all__ = ["DefaultSource"]
