"""The SQL door: a store as a database of a Spark session."""

from .database import Database
from .session import connect

__all__ = ["Database", "connect"]
