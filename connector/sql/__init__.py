"""The SQL interface: a store as a database of a Spark session.

Read in this order: database (what there is); statement, create_table, ddl, show, dml, view_ddl and
maintenance_statements (statements as values); pruning and query_reader (a query over the store's
tables); ddl_run and create_as (tables are defined); show_run and creation_text (tables are
described); frame_write (DataFrames are written); dml_query, dml_rows and dml_run (rows are
changed); apply_changes, apply_history, change_batches, debezium, debezium_messages,
debezium_values, debezium_placeholder and debezium_sequence (changes from other databases); view_run
and check_views (views); maintenance_run and maintenance.
"""

from relstate.connector.source.s3a_source import use_s3a_settings
from relstate.connector.views.listener import ViewStreamListener
from relstate.connector.views.stream import ViewStream

from .database import Database, connect
from .debezium import debezium

__all__ = [
    "Database",
    "ViewStream",
    "ViewStreamListener",
    "connect",
    "debezium",
    "use_s3a_settings",
]
