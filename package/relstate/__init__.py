"""relstate: keyed relational tables for Apache Spark, with nothing to run but Spark.

    store = relstate.create("/data/shop")
    store.create_table("orders", "order_id BIGINT, amount DECIMAL(12,2)", primary_key=["order_id"])
    store.table("orders").get(42)

    db = relstate.connect(spark, "/data/shop")
    db.sql("SELECT sum(amount) FROM orders").show()

Importing it loads nothing: names are looked up when they are first used. So a process that serves
lookups never loads Spark, and Spark, which imports this to look at its sources, waits for nothing.
"""

import typing

if typing.TYPE_CHECKING:
    from relstate.connector.sql import Database, connect, debezium
    from relstate.storage import Row, Store, errors

    create = Store.create

    def open(path: str) -> Store:
        """Open the store at ``path``: see `Store.open`."""

    AppendOnlyError = errors.AppendOnlyError
    ClockError = errors.ClockError
    ClosedError = errors.ClosedError
    CommitError = errors.CommitError
    ConflictError = errors.ConflictError
    ConsistencyError = errors.ConsistencyError
    CorruptionError = errors.CorruptionError
    DataError = errors.DataError
    DependentViewsError = errors.DependentViewsError
    DuplicateKeyError = errors.DuplicateKeyError
    EpochExpiredError = errors.EpochExpiredError
    EpochNotFoundError = errors.EpochNotFoundError
    ExistsError = errors.ExistsError
    FilesystemError = errors.FilesystemError
    FormatVersionError = errors.FormatVersionError
    InternalTableError = errors.InternalTableError
    LostMessageError = errors.LostMessageError
    MissingError = errors.MissingError
    NotAStoreError = errors.NotAStoreError
    NullKeyError = errors.NullKeyError
    NullValueError = errors.NullValueError
    OptionError = errors.OptionError
    RelstateError = errors.RelstateError
    RepeatedWriteError = errors.RepeatedWriteError
    SchemaError = errors.SchemaError
    SchemaMismatchError = errors.SchemaMismatchError
    SegmentMissingError = errors.SegmentMissingError
    SessionError = errors.SessionError
    StaleJobError = errors.StaleJobError
    StorageError = errors.StorageError
    StorageFullError = errors.StorageFullError
    StoreExistsError = errors.StoreExistsError
    StoreNotFoundError = errors.StoreNotFoundError
    TableExistsError = errors.TableExistsError
    TableNameError = errors.TableNameError
    TableNotFoundError = errors.TableNotFoundError
    UnknownOperationError = errors.UnknownOperationError
    UnknownOutcomeError = errors.UnknownOutcomeError
    UnsupportedExpressionError = errors.UnsupportedExpressionError
    UnsupportedStatementError = errors.UnsupportedStatementError
    UnsupportedTypeError = errors.UnsupportedTypeError
    UsageError = errors.UsageError
    ValueRangeError = errors.ValueRangeError
    ViewFailedError = errors.ViewFailedError
    ViewNotFoundError = errors.ViewNotFoundError
    ViewNotPopulatedError = errors.ViewNotPopulatedError

__all__ = [
    "AppendOnlyError",
    "ClockError",
    "ClosedError",
    "CommitError",
    "ConflictError",
    "ConsistencyError",
    "CorruptionError",
    "DataError",
    "Database",
    "DependentViewsError",
    "DuplicateKeyError",
    "EpochExpiredError",
    "EpochNotFoundError",
    "ExistsError",
    "FilesystemError",
    "FormatVersionError",
    "InternalTableError",
    "LostMessageError",
    "MissingError",
    "NotAStoreError",
    "NullKeyError",
    "NullValueError",
    "OptionError",
    "RelstateError",
    "RepeatedWriteError",
    "Row",
    "SchemaError",
    "SchemaMismatchError",
    "SegmentMissingError",
    "SessionError",
    "StaleJobError",
    "StorageError",
    "StorageFullError",
    "Store",
    "StoreExistsError",
    "StoreNotFoundError",
    "TableExistsError",
    "TableNameError",
    "TableNotFoundError",
    "UnknownOperationError",
    "UnknownOutcomeError",
    "UnsupportedExpressionError",
    "UnsupportedStatementError",
    "UnsupportedTypeError",
    "UsageError",
    "ValueRangeError",
    "ViewFailedError",
    "ViewNotFoundError",
    "ViewNotPopulatedError",
    "ViewStream",
    "__version__",
    "connect",
    "create",
    "debezium",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _found(name)
    return value


def _found(name: str) -> object:
    if name == "__version__":
        return _version()
    if name in ("connect", "Database", "ViewStream", "debezium"):
        from relstate.connector import sql

        return getattr(sql, name)
    from relstate import storage

    if name in ("create", "open"):
        return getattr(storage.Store, name)
    return getattr(storage if name in ("Row", "Store") else storage.errors, name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("relstate")
    except PackageNotFoundError:
        return "0+not-installed"
