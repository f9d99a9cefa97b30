"""The SQL interface: a store as a database of a Spark session.

Read in this order: database (what there is); statement, ddl, dml and view_ddl (statements as
values); pruning and query_reader (a query over the store's tables); ddl_run (tables are defined);
dml_query, dml_rows and dml_run (rows are changed); apply_changes, debezium and debezium_sequence
(changes from other databases); view_run and check_views (views); maintenance.
"""

from relstate.connector.views.stream import ViewStream

from .database import Database, connect
from .debezium import debezium

__all__ = ["Database", "ViewStream", "connect", "debezium"]
