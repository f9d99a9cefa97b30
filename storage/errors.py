"""The errors of relstate, all of them, in one hierarchy.

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
    ├── MissingError                      what was asked for is not there
    │   ├── StoreNotFoundError
    │   ├── NotAStoreError
    │   ├── TableNotFoundError
    │   │   └── ViewNotFoundError
    │   ├── EpochNotFoundError
    │   ├── EpochExpiredError
    │   ├── ViewNotPopulatedError
    │   └── SegmentMissingError
    ├── ExistsError                       what was to be created is already there
    │   ├── StoreExistsError
    │   └── TableExistsError
    ├── DataError                         rows do not fit the table; nothing was written
    │   ├── SchemaMismatchError
    │   ├── NullKeyError
    │   ├── NullValueError
    │   ├── ValueRangeError
    │   ├── UnknownOperationError
    │   ├── DuplicateKeyError
    │   ├── AppendOnlyError
    │   ├── ViewFailedError
    │   └── ConsistencyError
    ├── CommitError                       a commit did not happen, or may not have
    │   ├── ConflictError
    │   ├── UnknownOutcomeError
    │   ├── StaleJobError
    │   ├── ClockError
    │   ├── RepeatedWriteError
    │   └── LostMessageError
    ├── StorageError                      the files or the file system cannot be trusted
    │   ├── CorruptionError
    │   ├── StorageFullError
    │   ├── FilesystemError
    │   └── FormatVersionError
    └── SessionError                      the Spark session cannot run relstate

A message says what was found, where, and what to do. Every error carries its message only, so it
pickles across process boundaries unchanged.

This module imports nothing.
"""

__all__ = [
    "AppendOnlyError",
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
    "InternalTableError",
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
    """The root: every error that relstate raises on purpose is one of these."""


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
    """A SQL statement is not one that relstate runs."""


class UnsupportedExpressionError(UsageError):
    """A SQL expression cannot be read, or cannot be evaluated exactly."""


class InternalTableError(UsageError):
    """The table holds a view's rows or state: only the view's refresh writes it."""


class DependentViewsError(UsageError):
    """Views read what was to be dropped or altered."""


class ClosedError(UsageError):
    """A store, table or writer was used after it was closed."""


# --- What was asked for is not there. ---------------------------------------------------------


class MissingError(RelstateError):
    """Something that was asked for by name does not exist."""


class StoreNotFoundError(MissingError):
    """There is nothing at the path of the store."""


class NotAStoreError(MissingError):
    """There is something at the path, but it is not a store."""


class TableNotFoundError(MissingError):
    """The store has no table of this name, or it was dropped."""


class ViewNotFoundError(TableNotFoundError):
    """The store has no view of this name, or it was dropped."""


class ViewNotPopulatedError(MissingError):
    """A view does not hold all rows yet that were there before it."""


class EpochNotFoundError(MissingError):
    """The epoch lies in the future: nothing has been committed under it yet."""


class EpochExpiredError(MissingError):
    """The epoch is no longer kept; the message names the oldest one that is."""


class SegmentMissingError(MissingError):
    """A segment that a commit names, or is about to name, is not in the store."""


# --- What was to be created is already there. -------------------------------------------------


class ExistsError(RelstateError):
    """Something that was to be created exists already."""


class StoreExistsError(ExistsError):
    """There is a store at the path already."""


class TableExistsError(ExistsError):
    """The store has a table of this name already."""


# --- Rows do not fit the table; nothing was written. ------------------------------------------


class DataError(RelstateError):
    """The rows handed over cannot be rows of the table."""


class SchemaMismatchError(DataError):
    """The columns handed over are not the table's columns."""


class NullKeyError(DataError):
    """A primary key column holds a null."""


class NullValueError(DataError):
    """A NOT NULL column holds a null."""


class ValueRangeError(DataError):
    """A value does not fit the type of its column."""


class UnknownOperationError(DataError):
    """An operation column holds a value that names no operation."""


class DuplicateKeyError(DataError):
    """One batch holds two rows of one key where the rules allow only one."""


class AppendOnlyError(DataError):
    """A write would change, delete or replace rows of a table that only takes new ones."""


class ViewFailedError(DataError):
    """A view cannot be computed: mostly, an expression of its SELECT fails on a row it reads."""


class ConsistencyError(DataError):
    """A strict writer inserted over a live row, or changed or deleted one that is not there."""


# --- A commit did not happen, or may not have. ------------------------------------------------


class CommitError(RelstateError):
    """A commit was refused, or its outcome is not known."""


class ConflictError(CommitError):
    """Another commit changed what this one had read: nothing was committed; read and retry."""


class UnknownOutcomeError(CommitError):
    """The commit may or may not have happened: look at the log again before writing it anew."""


class StaleJobError(CommitError):
    """The job began longer ago than the orphan grace, so its files may have been vacuumed."""


class ClockError(CommitError):
    """The clock of this machine is behind the last commit by more than is tolerated."""


class RepeatedWriteError(CommitError):
    """One run wrote one table twice under one batch id, and the second write has no place to go."""


class LostMessageError(CommitError):
    """A task finished without handing over what it wrote, so the job must not be committed."""


# --- The files or the file system cannot be trusted. ------------------------------------------


class StorageError(RelstateError):
    """The store's files, or the file system under them, cannot be relied on."""


class CorruptionError(StorageError):
    """A file of the store is damaged, or is missing where the log says that it must be."""


class StorageFullError(StorageError):
    """There is no space left, on the device or in the quota."""


class FilesystemError(StorageError):
    """The file system refused an operation, or lacks one that the store needs."""


class FormatVersionError(StorageError):
    """The file was written in a format that this version of relstate does not read."""


# --- The Spark session cannot run relstate. ---------------------------------------------------


class SessionError(RelstateError):
    """The Spark session is configured so that relstate cannot work in it."""
