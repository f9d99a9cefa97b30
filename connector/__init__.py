"""relstate for Spark: the data source (source), the sinks (sink) and the SQL interface (sql).

Imports nothing by itself: Spark loads this package in every Python worker.
"""

__all__: list[str] = []
