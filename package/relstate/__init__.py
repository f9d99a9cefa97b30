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
    from relstate.connector.sql import connect
    from relstate.storage import Store
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

    create = Store.create
    open = Store.open

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _found(name)
    return value


def _found(name: str) -> object:
    if name == "connect":
        from relstate.connector.sql import connect

        return connect
    if name == "__version__":
        return _version()
    from relstate.storage import Store, errors

    return getattr(Store if name in ("create", "open") else errors, name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("relstate")
    except PackageNotFoundError:
        return "0+not-installed"
