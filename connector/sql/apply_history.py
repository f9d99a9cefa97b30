"""Applying a source of changes as their history: Spark's AUTO CDC of type SCD 2, over a store.

Every change is kept in a table, `changes_table`, whose key is the target's key and the sequence.
The target is a materialized view of that table: of each key one row per state that it had, with
the sequences at which the state began (``__START_AT``) and ended (``__END_AT``, NULL of the current
state).

Promises: the target follows from the set of the changes alone, so they may arrive in any order, and
repeatedly. A batch is one epoch, and the refresh of the view another one.
Does not know: where changes come from, or how a view is maintained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.sql.streaming.query import StreamingQuery

from relstate.connector.failure import unwrap_errors
from relstate.connector.sink.foreach import ForeachBatchWriter
from relstate.connector.sink.shuffle import adaptively
from relstate.connector.syntax.tokens import quoted
from relstate.connector.types import fields_of
from relstate.connector.views.views import Views
from relstate.storage import Store, WriteTarget, errors

from .batch_refresh import BatchRefresh
from .change_batches import BatchWrite, start_stream
from .change_expressions import (
    Expression,
    as_column,
    check_condition,
    expression_type,
    named_by,
    required,
)

_START, _END, _DELETE = "__START_AT", "__END_AT", "__IS_DELETE"
_RESERVED = (_START, _END, _DELETE, "__FIRST_AT", "__IS_FIRST", "__NEXT_IS_FIRST")


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """How to read the rows of a source as the history of a table: the arguments of AUTO CDC.

    ``columns``: those that are stored, the keys first. ``tracked``: a change of one of these begins
    a new row of the history; a change of the others alone replaces them in the row that is there.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    tracked: tuple[str, ...]
    sequence_by: Expression
    apply_as_deletes: Expression | None

    @classmethod
    def of(
        cls,
        source: DataFrame,
        keys: Sequence[Expression],
        sequence_by: Expression,
        apply_as_deletes: Expression | None,
        column_list: Sequence[Expression] | None,
        except_column_list: Sequence[Expression] | None,
        tracked_list: Sequence[Expression] | None,
        except_tracked_list: Sequence[Expression] | None,
    ) -> ChangeHistory:
        """Return the arguments after checking them against the source.

        OptionError for lists that exclude each other, or columns that cannot be stored or compared;
        SchemaMismatchError for a column that the source does not have.
        """
        key_names = _chosen(source, keys, None, source.columns, "keys")
        if not key_names:
            raise errors.OptionError("keys is empty: name the columns that identify a row")
        columns = _chosen(source, column_list, except_column_list, source.columns, "column_list")
        values = tuple(name for name in columns if name not in key_names)
        tracked = _chosen(
            source, tracked_list, except_tracked_list, values, "track_history_column_list"
        )
        history = cls(key_names, (*key_names, *values), tracked, sequence_by, apply_as_deletes)
        history._check(source)
        return history

    def changes(self, source: DataFrame) -> DataFrame:
        """Return the changes of a source as rows of the table of changes."""
        deletes = f.lit(False)
        if self.apply_as_deletes is not None:
            deletes = f.coalesce(as_column(self.apply_as_deletes), f.lit(False))
        sequence = f.coalesce(as_column(self.sequence_by), required("sequence_by"))
        names = map(quoted, self.columns)
        return source.select(*names, sequence.alias(_START), deletes.alias(_DELETE))

    def definition(self, source: DataFrame) -> str:
        """Return the columns of the table of changes, as DDL."""
        fields = fields_of(self.changes(source).schema)
        return ", ".join(f"{quoted(field.name)} {field.type}" for field in fields)

    def query(self, table: str) -> str:
        """Return the SELECT of the target over the table of changes.

        A change is the first of its state if it is a delete, follows one or nothing, or changes a
        tracked column. The last change of a state has its values. Of changes with one sequence the
        delete is the last, and a state that ends where it began is none.
        """
        window = f"PARTITION BY {_list(self.keys)} ORDER BY {_START}, {_DELETE}"
        equal = " AND ".join(f"{name} <=> lag({name}) OVER w" for name in map(quoted, self.tracked))
        firsts = (
            f"SELECT *, {_DELETE} OR coalesce(lag({_DELETE}) OVER w, TRUE) "
            f"OR NOT ({equal or 'TRUE'}) AS __IS_FIRST FROM {quoted(table)} WINDOW w AS ({window})"
        )
        states = (
            f"SELECT *, lead(__IS_FIRST) OVER w AS __NEXT_IS_FIRST, lead({_START}) OVER w AS "
            f"{_END}, max(CASE WHEN __IS_FIRST THEN {_START} END) OVER ({window} ROWS BETWEEN "
            f"UNBOUNDED PRECEDING AND CURRENT ROW) AS __FIRST_AT FROM ({firsts}) "
            f"WINDOW w AS ({window})"
        )
        return (
            f"SELECT {_list(self.columns)}, __FIRST_AT AS {_START}, {_END} FROM ({states}) "
            f"WHERE NOT {_DELETE} AND coalesce(__NEXT_IS_FIRST, TRUE) "
            f"AND ({_END} IS NULL OR {_END} > __FIRST_AT)"
        )

    def _check(self, source: DataFrame) -> None:
        expression_type(source, self.sequence_by, "sequence_by")
        check_condition(source, self.apply_as_deletes, "apply_as_deletes")
        reserved = {name.lower(): name for name in _RESERVED}
        for name in self.columns:
            if name.lower() in reserved:
                raise errors.OptionError(
                    f"the column {name!r} has a name of the history's own columns: leave it out "
                    "with except_column_list, or rename it in the source"
                )
        types = {field.name: field.dataType for field in source.schema.fields}
        for name in self.tracked:
            if _is_incomparable(types[name]):
                raise errors.OptionError(
                    f"the column {name!r} is {types[name].simpleString()}, whose values Spark does "
                    "not compare: name it in track_history_except_column_list"
                )


def changes_table(target: str) -> str:
    """Return the name of the table with the changes of a target."""
    return f"{target}_changes"


@dataclass(frozen=True, slots=True)
class HistoryApplier:
    """Applies changes to the history ``name``. It can be pickled.

    ``target``: the table of changes. ``application`` names the writer of writes that must happen
    once.
    """

    name: str
    target: WriteTarget
    history: ChangeHistory
    refresh: BatchRefresh
    application: str | None = None

    @classmethod
    def create(
        cls,
        views: Views,
        name: str,
        history: ChangeHistory,
        source: DataFrame,
        application: str | None,
    ) -> HistoryApplier:
        """Return the applier, after creating the table of changes and the view that are missing.

        OptionError if there is a table of the name, or a view with another SELECT.
        """
        store, table = views.store, changes_table(name)
        if name.lower() in store.state.table_ids:
            cls._check_view(store, name, history.query(table))
        key = [*map(quoted, history.keys), _START, _DELETE]
        store.create_table(
            table,
            history.definition(source),
            primary_key=key,
            distribution_key=list(history.keys),
            if_not_exists=True,
        )
        if name.lower() not in store.state.table_ids:
            views.create(name, history.query(table))
        target = store.jobs.write_target(table)
        refresh = BatchRefresh(target.path, name, views)
        return cls(name, target, history, refresh, application)

    @staticmethod
    def _check_view(store: Store, name: str, query: str) -> None:
        view = store.state.views.get(store.state.table_ids[name.lower()])
        if view is None:
            raise errors.OptionError(
                f"{name!r} is a table; with stored_as_scd_type=2 the target is a view, which "
                f"apply_changes creates over the table {changes_table(name)!r}: take another name"
            )
        if view.definition.query.split() != query.split():
            raise errors.OptionError(
                f"the view {name!r} was not created with these arguments: call apply_changes with "
                f"the arguments of its first call; or DROP MATERIALIZED VIEW {name}, which the "
                f"next call creates again from {changes_table(name)!r}"
            )

    def run(self, views: Views, source: DataFrame, version: int | None) -> None:
        """Write the changes of a batch, then refresh the view."""
        write = BatchWrite(self.target, self.application, version)
        with unwrap_errors():
            changes = self.history.changes(source)
            rows = write.driver_rows(changes)
            if rows is None:
                write.by_job(changes)
            else:
                write.by_driver(rows.combine_chunks().to_batches(), changes.schema)
        views.refresh([self.name])

    def start(
        self,
        source: DataFrame,
        checkpoint: str | None,
        trigger: Mapping[str, Any] | None,
        name: str | None,
    ) -> StreamingQuery:
        """Start a query that writes every micro-batch once, and then refreshes the view."""
        return start_stream(source, self._write, checkpoint, trigger, name)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        with adaptively(batch.sparkSession):
            ForeachBatchWriter(self.target, self.application)(self.history.changes(batch), batch_id)
        self.refresh(batch.sparkSession)


def _chosen(
    source: DataFrame,
    listed: Sequence[Expression] | None,
    excluded: Sequence[Expression] | None,
    columns: Sequence[str],
    argument: str,
) -> tuple[str, ...]:
    """Return those of some columns that a list, or what it leaves out, says; by default all."""
    except_argument = argument.replace("column_list", "except_column_list")
    if listed is not None and excluded is not None:
        raise errors.OptionError(f"give {argument} or {except_argument}, but not both")
    by_name = {name.lower(): name for name in columns}
    if listed is not None:
        names = named_by(source, listed, argument)
    else:
        names = named_by(source, excluded or (), except_argument)
    for name in names:
        if name.lower() not in by_name:
            raise errors.SchemaMismatchError(
                f"{argument.split('_column')[0]}: there is no column {name!r}; there are "
                f"{', '.join(columns)}"
            )
    chosen = tuple(dict.fromkeys(by_name[name.lower()] for name in names))
    if listed is not None:
        return chosen
    return tuple(name for name in columns if name not in chosen)


def _is_incomparable(data_type: s.DataType) -> bool:
    """Return whether `<=>` is not defined for values of a type."""
    match data_type:
        case s.ArrayType():
            return _is_incomparable(data_type.elementType)
        case s.StructType():
            return any(_is_incomparable(field.dataType) for field in data_type.fields)
    return isinstance(data_type, s.MapType | s.VariantType)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
