"""The changes of a table's definition: its columns, constraints and properties.

Promises: every change is one epoch, all or nothing; concurrent changes by others are kept. Columns
that a view reads are not changed.
Does not know: rows, or how a definition becomes the next one (alteration.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from . import alteration
from .epochs import Epochs
from .errors import ConflictError
from .instant import optional_seconds_in
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .schema.ddl import parse_type
from .schema.properties import EncodingName
from .table.encoding import encoding_of
from .user_tables import described_table, user_table

if TYPE_CHECKING:
    from .log.proposal import AlteredTable


class DefinitionChanges:
    """Changes the definitions of a store's tables. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def add_columns(self, table: str, columns: str | pa.Schema) -> int:
        """Add columns after the existing ones, NULL in existing rows, and return the epoch.

        ``columns``: Spark DDL or an Arrow schema. SchemaError, UnsupportedTypeError.
        """
        from .table_creation import fields_from

        alter = partial(alteration.with_columns, fields=fields_from(columns))
        return self._alter_table(table, "add columns", alter)

    def drop_columns(self, table: str, *names: str) -> int:
        """Drop columns outside of the key and return the epoch. Older epochs still have them.

        DependentViewsError if a view reads one.
        """
        alter = partial(alteration.without_columns, names=names)
        return self._alter_table(table, "drop columns", alter)

    def rename_column(self, table: str, name: str, new: str) -> int:
        """Rename a column and return the epoch. Older epochs have its old name.

        DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_renamed, name=name, new=new)
        return self._alter_table(table, "rename column", alter)

    def widen_column(self, table: str, name: str, data_type: str) -> int:
        """Give a column a wider type (Spark DDL) and return the epoch: see `alteration.is_wider`.

        DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_widened, name=name, data_type=parse_type(data_type))
        return self._alter_table(table, "widen column", alter)

    def allow_null(self, table: str, name: str) -> int:
        """Make a NOT NULL column nullable and return the epoch.

        SchemaError for a column of the primary key; DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_nullable, name=name)
        return self._alter_table(table, "allow null", alter)

    def add_constraint(self, table: str, name: str, expression: str) -> int:
        """Add a CHECK constraint and return the epoch: ``expression`` may not be false for a row.

        The expression is SQL over the columns, as for `Table.scan`; times without a zone are in
        UTC. If it is unknown because of a NULL, the row is allowed. It holds for all writers, also
        those that began before. CheckViolationError if a row of the table violates it,
        SchemaError, UnsupportedExpressionError.
        """
        alter = partial(alteration.with_constraint, name=name, expression=expression)
        return self._alter_table(table, "add constraint", alter)

    def add_expectation(
        self,
        table: str,
        name: str,
        expression: str,
        on_violation: Literal["count", "drop", "fail"] = "count",
    ) -> int:
        """Add an expectation and return the epoch: rows are to be written that do not violate it.

        A row for which ``expression`` is false, or fails, is written and counted (``count``),
        dropped and counted (``drop``), or fails its write (``fail``: CheckViolationError). Counts
        are in the history and the metrics. Rows that are stored already are not looked at. The
        expression is as for `add_constraint`, and errors are, but for rows of the table.
        """
        alter = partial(
            alteration.with_constraint, name=name, expression=expression, on_violation=on_violation
        )
        return self._alter_table(table, "add expectation", alter)

    def drop_constraint(self, table: str, name: str, *, if_exists: bool = False) -> int:
        """Drop a CHECK constraint or an expectation and return the epoch.

        SchemaError if it is not there, unless ``if_exists``.
        """
        alter = partial(alteration.without_constraint, name=name, if_exists=if_exists)
        return self._alter_table(table, "drop constraint", alter)

    def set_default(self, table: str, column: str, expression: str | None) -> int:
        """Set the default of a column, for rows that are written without it, and return the epoch.

        ``expression``: SQL of constants, or a function such as current_timestamp(), which is the
        time of each write; times without a zone are in UTC. None removes the default. Stored rows
        do not change. SchemaError for a column of the primary key, a generated column, a table
        with merge 'partial', or another type;
        UnsupportedExpressionError for other functions.
        """
        alter = partial(alteration.with_default, name=column, expression=expression)
        return self._alter_table(table, "set default", alter)

    def comment_column(self, table: str, name: str, comment: str | None) -> int:
        """Set the comment of a column (None: remove it) and return the epoch.

        The table may be a view.
        """
        describe = partial(alteration.with_comment, name=name, comment=comment)
        return self._describe_table(table, "comment column", describe)

    def set_user_properties(self, table: str, changes: Mapping[str, str | None]) -> int:
        """Set your own properties of a table or view, which relstate ignores; return the epoch.

        None removes one. The property ``comment`` is the comment of the table.
        """
        describe = partial(alteration.with_user_properties, changes=changes)
        return self._describe_table(table, "set properties", describe)

    def set_ttl(self, table: str, ttl: int | str | None) -> int:
        """Set the time to live of rows that are written from now on (None: never).

        In seconds, or as a text (``"7 days"``). Return the epoch. Rows that were written before
        keep their expiry. OptionError for a text that is no duration;
        DependentViewsError if a view reads the table.
        """
        seconds = optional_seconds_in("ttl", ttl)
        return self._alter_table(table, "set ttl", partial(alteration.with_ttl, ttl=seconds))

    def set_transaction_retention(self, table: str, retention: int | str | None) -> int:
        """Set the time after which a writer whose last batch is older is forgotten.

        In seconds, or as a text (``"30 days"``). None, the default, keeps all for ever. A forgotten
        writer that repeats its last batch writes it again: take a time in which no stream or job
        that is continued stands still. Return the epoch. OptionError for a text that is no
        duration, SchemaError for what is no number of seconds from 1.
        """
        seconds = optional_seconds_in("transaction_retention", retention)
        alter = partial(alteration.with_transaction_retention, retention=seconds)
        return self._alter_table(table, "set transaction retention", alter)

    def set_encoding(self, table: str, encoding: EncodingName) -> int:
        """Set whether parts of rows may be written separately; return the epoch.

        ``encoding``: ``document`` or ``row``. No rows or parts are rewritten. SchemaError for a
        table that cannot be a document table: one with an index, a merge behaviour or a column that
        is NOT NULL; DependentViewsError if a view tracks the expiry of its rows.
        """
        alter = partial(alteration.with_encoding, encoding=encoding)
        return self._alter_table(table, "set encoding", alter)

    def _alter_table(
        self, name: str, operation: str, alter: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``alter`` makes of a table's definition and return the epoch.

        If others alter the table at the same time, ``alter`` is called again on what they left.
        The errors of ``alter``, InternalTableError, DependentViewsError, ConflictError.
        """
        from .index.layout import check_indexes_remain
        from .log.proposal import AlteredTable
        from .log.rules import check_alterable

        def altered_in(state: StoreState) -> AlteredTable:
            before = user_table(state, name, "altered")
            altered = AlteredTable(before, alter(before))
            check_indexes_remain(before, altered.after)
            check_alterable(state, altered)
            encoding_of(altered.after, vnode_count=1)
            return altered

        return self._commit_altered(name, operation, altered_in)

    def _describe_table(
        self, name: str, operation: str, describe: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``describe`` makes of the definition of a table or view.

        Return the epoch. It changes comments and a user's properties, which a view may have as
        well as a table.
        InternalTableError for a state table, the errors of ``describe``, ConflictError.
        """
        from .log.proposal import AlteredTable

        def altered_in(state: StoreState) -> AlteredTable:
            before = described_table(state, name)
            return AlteredTable(before, describe(before))

        return self._commit_altered(name, operation, altered_in)

    def _commit_altered(
        self, name: str, operation: str, altered_in: Callable[[StoreState], AlteredTable]
    ) -> int:
        """Commit what ``altered_in`` returns for the latest state, and return the epoch."""
        from .catalog_commit import ATTEMPTS, contested_error, propose

        for _ in range(ATTEMPTS):
            altered = altered_in(self._epochs.state)
            try:
                return propose(
                    self._epochs, operation, data_change=False, altered_tables=(altered,)
                ).epoch
            except ConflictError:
                continue
        raise contested_error(name)
