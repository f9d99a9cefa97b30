"""relstate: keyed relational tables for Apache Spark, with nothing to run but Spark.

    store = relstate.create("/data/shop")
    store.create_table("orders", "order_id BIGINT, amount DECIMAL(12,2)", primary_key=["order_id"])
    store.table("orders").get(42)

    db = relstate.connect(spark, "/data/shop")
    db.sql("SELECT sum(amount) FROM orders").show()

Importing it loads nothing: a process that serves lookups never loads Spark, and what Spark loads
to look at its sources stays small.
"""

from typing import TYPE_CHECKING

from relstate.storage.errors import (
    ClockError,
    ClosedError,
    CommitError,
    ConflictError,
    ConsistencyError,
    CorruptionError,
    DataError,
    DuplicateKeyError,
    EpochExpiredError,
    EpochNotFoundError,
    ExistsError,
    FilesystemError,
    FormatVersionError,
    LostMessageError,
    MissingError,
    NotAStoreError,
    NullKeyError,
    NullValueError,
    OptionError,
    RelstateError,
    RepeatedWriteError,
    SchemaError,
    SchemaMismatchError,
    SegmentMissingError,
    SessionError,
    StaleJobError,
    StorageError,
    StorageFullError,
    StoreExistsError,
    StoreNotFoundError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
    UnknownOperationError,
    UnknownOutcomeError,
    UnsupportedStatementError,
    UnsupportedTypeError,
    UsageError,
    ValueRangeError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database
    from relstate.storage.store import Store

__all__ = [
    "ClockError",
    "ClosedError",
    "CommitError",
    "ConflictError",
    "ConsistencyError",
    "CorruptionError",
    "DataError",
    "DuplicateKeyError",
    "EpochExpiredError",
    "EpochNotFoundError",
    "ExistsError",
    "FilesystemError",
    "FormatVersionError",
    "LostMessageError",
    "MissingError",
    "NotAStoreError",
    "NullKeyError",
    "NullValueError",
    "OptionError",
    "RelstateError",
    "RepeatedWriteError",
    "SchemaError",
    "SchemaMismatchError",
    "SegmentMissingError",
    "SessionError",
    "StaleJobError",
    "StorageError",
    "StorageFullError",
    "StoreExistsError",
    "StoreNotFoundError",
    "TableExistsError",
    "TableNameError",
    "TableNotFoundError",
    "UnknownOperationError",
    "UnknownOutcomeError",
    "UnsupportedStatementError",
    "UnsupportedTypeError",
    "UsageError",
    "ValueRangeError",
    "__version__",
    "connect",
    "create",
    "open",
]


def create(
    path: str,
    *,
    vnode_count: int = 256,
    shards: int | None = None,
    retention: int = 24 * 3600,
    exist_ok: bool = False,
) -> "Store":
    """Make an empty store in the folder ``path`` and return it open.

    ``vnode_count``: virtual nodes, 1 to 32768, fixed for ever: no table is ever read or written by
    more tasks. ``shards``: ranges of vnodes that are compacted together, by default 16.
    ``retention``: seconds for which older epochs stay readable. ``exist_ok``: open the store that
    is there already. OptionError, StoreExistsError, NotAStoreError, FilesystemError.
    """
    from relstate.storage.store import Store

    return Store.create(
        path, vnode_count=vnode_count, shards=shards, retention=retention, exist_ok=exist_ok
    )


def open(path: str) -> "Store":
    """Open the store in the folder ``path``.

    StoreNotFoundError, NotAStoreError, CorruptionError, FormatVersionError.
    """
    from relstate.storage.store import Store

    return Store.open(path)


def connect(spark: "SparkSession", path: str) -> "Database":
    """Return the store in the folder ``path`` as a database of a session of Spark.

    The errors of `open`, and SessionError if the session cannot read from Python.
    """
    from relstate.connector.sql import connect

    return connect(spark, path)


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("relstate")
