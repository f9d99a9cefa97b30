"""Reading tables through Spark: the data source that ``format("relstate")`` names.

Light to import: the storage is loaded when something of a store is asked for, since every session
of Spark looks at the sources that are installed.
"""

from .datasource import RelstateDataSource

__all__ = ["RelstateDataSource"]
