"""The error classes of relstate, all in one hierarchy.

    RelstateError
    ├── UsageError (also a ValueError)    the call itself is wrong; nothing was touched
    │   ├── OptionError
    │   ├── TableNameError
    │   ├── SchemaError
    │   ├── UnsupportedTypeError
    │   ├── UnsupportedStatementError
    │   ├── UnsupportedExpressionError
    │   ├── InternalTableError
    │   ├── DependentViewsError
    │   └── ClosedError
    ├── MissingError                      a named object does not exist
    │   ├── StoreNotFoundError
    │   ├── NotAStoreError
    │   ├── TableNotFoundError
    │   │   └── ViewNotFoundError
    │   ├── IndexNotFoundError
    │   ├── EpochNotFoundError
    │   ├── EpochExpiredError
    │   ├── ViewNotPopulatedError
    │   └── SegmentMissingError
    ├── ExistsError                       the object to be created exists
    │   ├── StoreExistsError
    │   ├── TableExistsError
    │   └── IndexExistsError
    ├── DataError                         rows do not fit the table; nothing was written
    │   ├── SchemaMismatchError
    │   ├── NullKeyError
    │   ├── NullValueError
    │   ├── ValueRangeError
    │   ├── UnknownOperationError
    │   ├── DuplicateKeyError
    │   ├── AppendOnlyError
    │   ├── UniqueViolationError
    │   ├── CheckViolationError
    │   ├── ViewFailedError
    │   └── ConsistencyError
    ├── CommitError                       a commit did not happen, or may not have
    │   ├── ConflictError
    │   ├── UnknownOutcomeError
    │   ├── StaleJobError
    │   ├── ClockError
    │   ├── RepeatedWriteError
    │   ├── LostMessageError
    │   └── JobFailedError
    ├── StorageError                      the files or the file system cannot be trusted
    │   ├── CorruptionError
    │   ├── StorageFullError
    │   ├── FilesystemError
    │   └── FormatVersionError
    └── SessionError                      the Spark session cannot run relstate

A message says what was wrong, with its value and name, and then what to do. An error carries only
its message, so it pickles unchanged across process boundaries.

This module imports nothing.
"""

__all__ = [
    "AppendOnlyError",
    "CheckViolationError",
    "ClockError",
    "ClosedError",
    "CommitError",
    "ConflictError",
    "ConsistencyError",
    "CorruptionError",
    "DataError",
    "DependentViewsError",
    "DuplicateKeyError",
    "EpochExpiredError",
    "EpochNotFoundError",
    "ExistsError",
    "FilesystemError",
    "FormatVersionError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InternalTableError",
    "JobFailedError",
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
    "UniqueViolationError",
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
]


class RelstateError(Exception):
    """The base class of every error that relstate raises on purpose."""


# --- The call itself is wrong; nothing was touched. -------------------------------------------


class UsageError(RelstateError, ValueError):
    """A call was made with arguments that can never work."""


class OptionError(UsageError):
    """An option is unknown, is missing, or has a value that is not allowed."""


class TableNameError(UsageError):
    """A table name is not an identifier, is too long, or is reserved."""


class SchemaError(UsageError):
    """A table definition is not possible: its columns, its keys, or their types."""


class UnsupportedTypeError(UsageError):
    """A data type is not known, or cannot be stored."""


class UnsupportedStatementError(UsageError):
    """relstate does not run this SQL statement."""


class UnsupportedExpressionError(UsageError):
    """A SQL expression cannot be parsed, or cannot be evaluated exactly."""


class InternalTableError(UsageError):
    """The table belongs to a view or an index: only they write its rows."""


class DependentViewsError(UsageError):
    """Views read the table or column that was to be dropped or altered."""


class ClosedError(UsageError):
    """A store, table or writer was used after it was closed."""


# --- A named object does not exist. ---------------------------------------------------------


class MissingError(RelstateError):
    """A named store, table, view, epoch or segment does not exist."""


class StoreNotFoundError(MissingError):
    """Nothing exists at the path of the store."""


class NotAStoreError(MissingError):
    """What exists at the path is not a store."""


class TableNotFoundError(MissingError):
    """The store has no table of this name, or it was dropped."""


class ViewNotFoundError(TableNotFoundError):
    """The store has no view of this name, or it was dropped."""


class ViewNotPopulatedError(MissingError):
    """The view is still being filled with the rows that existed before it."""


class IndexNotFoundError(MissingError):
    """The table has no index of this name."""


class EpochNotFoundError(MissingError):
    """The epoch has not been committed yet, or the store is younger than the time."""


class EpochExpiredError(MissingError):
    """The epoch is older than the oldest readable epoch, which the message names."""


class SegmentMissingError(MissingError):
    """The file of a segment is missing that a commit names or was about to name."""


# --- The object to be created exists. -------------------------------------------------


class ExistsError(RelstateError):
    """The store or table to be created exists already."""


class StoreExistsError(ExistsError):
    """A store exists at the path already."""


class TableExistsError(ExistsError):
    """The store has a table of this name already."""


class IndexExistsError(ExistsError):
    """The table has an index of this name already."""


# --- Rows do not fit the table; nothing was written. ------------------------------------------


class DataError(RelstateError):
    """The given rows cannot be rows of the table."""


class SchemaMismatchError(DataError):
    """The given columns are not the table's columns."""


class NullKeyError(DataError):
    """A primary key column holds a null."""


class NullValueError(DataError):
    """A NOT NULL column holds a null."""


class ValueRangeError(DataError):
    """A value does not fit the type of its column."""


class UnknownOperationError(DataError):
    """An operation column holds a value that names no operation."""


class DuplicateKeyError(DataError):
    """A batch has two rows with the same key where only one is allowed."""


class AppendOnlyError(DataError):
    """A write would change, delete or replace rows of an append-only table."""


class UniqueViolationError(DataError):
    """A write would give two rows equal values in the columns of a unique index."""


class CheckViolationError(DataError):
    """A row makes a CHECK constraint false, or a generated column would have another value."""


class ViewFailedError(DataError):
    """A view cannot be computed, mostly because an expression of its SELECT fails on a row."""


class ConsistencyError(DataError):
    """A strict writer inserted a row that exists, or changed or deleted a missing one."""


# --- A commit did not happen, or may not have. ------------------------------------------------


class CommitError(RelstateError):
    """A commit was refused, or its outcome is not known."""


class ConflictError(CommitError):
    """Another commit changed what this commit was based on; nothing was committed: retry."""


class UnknownOutcomeError(CommitError):
    """The commit may or may not have happened: read the log again before repeating it."""


class StaleJobError(CommitError):
    """The job began before the orphan grace period, so its files may have been vacuumed."""


class ClockError(CommitError):
    """A machine's clock is far behind the last commit, or far ahead of the file system's."""


class RepeatedWriteError(CommitError):
    """One run wrote a table twice under one batch id."""


class LostMessageError(CommitError):
    """The report of a finished task is missing, so the job must not be committed."""


class JobFailedError(CommitError):
    """A job failed for a reason that is not known to be in its query or in a row: retry."""


# --- The files or the file system cannot be trusted. ------------------------------------------


class StorageError(RelstateError):
    """The store's files or its file system cannot be relied on."""


class CorruptionError(StorageError):
    """A file of the store is damaged, or missing although the log names it."""


class StorageFullError(StorageError):
    """No space is left on the device or in the quota, or a file would be too large."""


class FilesystemError(StorageError):
    """The file system refused an operation, or does not support one that a store needs."""


class FormatVersionError(StorageError):
    """The file has a format that this version of relstate does not read."""


# --- The Spark session cannot run relstate. ---------------------------------------------------


class SessionError(RelstateError):
    """The configuration of the Spark session does not allow relstate to work."""
