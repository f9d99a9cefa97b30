"""The SQL door: a store as a database of a Spark session.

Read in this order: database (what there is); statement, definition, change and view (texts to
values); conjunct, pruning, consistency and relation (a query over the store's tables), explain;
catalog and properties (tables defined); changerows, assignment, changing and conflict (rows
changed); applying and debezium (changes from elsewhere); viewing, inputs and verification
(views).
"""

from relstate.connector.views.stream import ViewStream

from .database import Database
from .debezium import debezium
from .session import connect

__all__ = ["Database", "ViewStream", "connect", "debezium"]
