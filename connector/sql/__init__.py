"""The SQL interface: a store as a database of a Spark session.

Read in this order: database (what there is); statement, ddl, dml and view_ddl (statements as
values); conjunct, pruning, consistency and relation (a query over the store's tables), explain;
ddl_run and properties (tables are defined); dml_rows, dml_merge, assignment, dml_run and read_set
(rows are changed); apply_changes and debezium (changes from other databases); view_run, inputs and
check_views (views).
"""

from relstate.connector.views.stream import ViewStream

from .database import Database
from .debezium import debezium
from .session import connect

__all__ = ["Database", "ViewStream", "connect", "debezium"]
