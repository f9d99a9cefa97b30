"""A source of changes, applied to a table: Spark's AUTO CDC of type SCD 1, over a store.

Each change has a key and a sequence; of all changes of a key, in whatever order they arrive, the
one of the greatest sequence counts, a delete too. The table's version column holds the sequence, so
what arrives late is told from what is new for ever, not only within a batch.

Promises: a batch is one epoch, a micro-batch of a stream one epoch and once. Changes are shuffled
by vnode here, so that none of a key can get past another; of a key and batch one row is written.
Does not know: where changes come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NullType, StringType

from relstate.connector.failure import unwrap_errors
from relstate.connector.sink import ForeachBatchWriter
from relstate.connector.sink.shuffle import grouped_by_key
from relstate.connector.syntax.tokens import quoted
from relstate.storage import TableDefinition, TableSchema, WriteTarget, errors, types

_OPERATION = "__relstate_op"
_SEQUENCE = "__relstate_sequence"
_ORDER = "__relstate_order"

Expression: TypeAlias = str | Column


@dataclass(frozen=True, slots=True)
class Changelog:
    """How the rows of a source are changes of a table: the arguments of AUTO CDC."""

    keys: tuple[str, ...]
    sequence_by: Expression
    apply_as_deletes: Expression | None
    column_list: tuple[str, ...] | None
    except_column_list: tuple[str, ...] | None


def changelog(
    target: WriteTarget,
    source: DataFrame,
    keys: Sequence[Expression],
    sequence_by: Expression,
    apply_as_deletes: Expression | None,
    apply_as_truncates: Expression | None,
    column_list: Sequence[Expression] | None,
    except_column_list: Sequence[Expression] | None,
    stored_as_scd_type: Literal[1, 2, "1", "2"],
) -> Changelog:
    """Return the arguments, checked against the table.

    OptionError for what is not offered, or does not fit the table; SchemaMismatchError for columns.
    """
    if str(stored_as_scd_type) != "1":
        raise errors.OptionError(
            f"stored_as_scd_type is {stored_as_scd_type!r}; only 1 is offered: the table's change "
            "feed and its earlier epochs have the history"
        )
    if apply_as_truncates is not None:
        raise errors.OptionError(
            "apply_as_truncates is not offered: a truncate has no place among the changes of keys "
            "that may arrive in any order; run TRUNCATE TABLE"
        )
    if column_list is not None and except_column_list is not None:
        raise errors.OptionError("give column_list or except_column_list, but not both")
    _check_table(target.definition)
    found = Changelog(
        _names(source, keys),
        sequence_by,
        apply_as_deletes,
        None if column_list is None else _names(source, column_list),
        None if except_column_list is None else _names(source, except_column_list),
    )
    _check_keys(target.definition, found.keys)
    _check_columns(source, found)
    _check_sequence(target.definition, source, sequence_by)
    return found


@dataclass(frozen=True, slots=True)
class ChangeApplier:
    """Applies changes to a table. Holds no session, so that it travels.

    ``application`` names the writer, for writes that are to happen once.
    """

    target: WriteTarget
    changes: Changelog
    application: str | None = None

    def run(self, source: DataFrame, version: int | None) -> None:
        """Write the changes of a batch as one epoch; ``version`` numbers it among the writer's."""
        options = {"table": self.target.definition.name, "opColumn": _OPERATION}
        if self.application is not None:
            options["txnAppId"] = self.application
        if version is not None:
            options["txnVersion"] = str(version)
        with unwrap_errors():
            writer = self._last(source).write.format("relstate").mode("append")
            writer.options(**options).save(self.target.path)

    def start(
        self,
        source: DataFrame,
        checkpoint: str | None,
        trigger: Mapping[str, Any] | None,
        name: str | None,
    ) -> StreamingQuery:
        """Start a query that writes the changes of every micro-batch as one epoch, once."""
        if checkpoint is None:
            raise errors.OptionError("a stream of changes needs checkpoint, a folder of its own")
        writer = source.writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", checkpoint).outputMode("append")
        writer = writer if name is None else writer.queryName(name)
        return (writer if trigger is None else writer.trigger(**trigger)).start()

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        # The rows lie where they belong; the writer does not move them again.
        writer = ForeachBatchWriter(self.target, self.application, _OPERATION)
        with unwrap_errors():
            writer.write(self._last(batch), batch_id)

    def _last(self, source: DataFrame) -> DataFrame:
        return last_changes(self.target, self.changes, source)


def last_changes(target: WriteTarget, changes: Changelog, source: DataFrame) -> DataFrame:
    """Return the last change of every key of a source, with its operation."""
    schema = target.definition.schema
    version = _version_name(target.definition)
    sequence = _expression(changes.sequence_by).cast(str(schema.column(version).type))
    missing = f.raise_error(
        f.lit(f"\n{errors.__name__}.NullValueError: sequence_by is NULL in a change of a key\n")
    )
    deletes = f.lit(False)
    if changes.apply_as_deletes is not None:
        deletes = f.coalesce(_expression(changes.apply_as_deletes), f.lit(False))
    kept = [f.col(quoted(name)) for name in _kept(schema, changes, source, version)]
    operation = f.when(deletes, f.lit("delete")).otherwise(f.lit("update"))
    rows = source.select(
        *kept,
        f.coalesce(sequence, missing).alias(version),
        operation.alias(_OPERATION),
    )
    # A delete counts more than an update of the same sequence, whichever comes first.
    order = f.struct(
        f.col(quoted(version)).alias(_SEQUENCE), (f.col(_OPERATION) == "delete").alias(_ORDER)
    )
    whole = f.struct(*(f.col(quoted(name)) for name in rows.columns))
    names = [quoted(name) for name in changes.keys]
    last = rows.groupBy(*names).agg(f.max_by(whole, order).alias("last"))
    return grouped_by_key(last.select("last.*"), schema, target.vnode_count)


def _kept(schema: TableSchema, changes: Changelog, source: DataFrame, version: str) -> list[str]:
    """Return the source's columns that are stored, beside that of the sequence."""
    known = {column.name.lower(): column.name for column in schema.columns}
    found = {name.lower(): name for name in source.columns}
    wanted = list(found)
    if changes.column_list is not None:
        wanted = [name.lower() for name in changes.column_list]
    if changes.except_column_list is not None:
        left_out = {name.lower() for name in changes.except_column_list}
        wanted = [name for name in wanted if name not in left_out]
    keys = [key.lower() for key in changes.keys]
    wanted = [*keys, *(name for name in wanted if name not in keys)]
    unknown = [found[name] for name in wanted if name not in known]
    if unknown:
        raise errors.SchemaMismatchError(
            f"the source has columns that the table lacks: {', '.join(unknown)}; leave them out "
            "with column_list or except_column_list, or add them with ALTER TABLE"
        )
    return [found[name] for name in wanted if name != version.lower()]


def _check_table(definition: TableDefinition) -> None:
    if definition.properties.version_column is None:
        raise errors.OptionError(
            f"the table {definition.name!r} has no version column, without which a change that "
            "arrives late would undo a later one: create it with version_column, a column for the "
            "sequence"
        )
    if definition.properties.append_only or definition.properties.merge == "ignore":
        raise errors.OptionError(
            f"the table {definition.name!r} takes no updates: it is append-only, or keeps the "
            "first row of a key"
        )


def _check_keys(definition: TableDefinition, keys: Sequence[str]) -> None:
    own = [column.name for column in definition.schema.key_columns]
    if {name.lower() for name in keys} != {name.lower() for name in own} or len(keys) != len(own):
        raise errors.OptionError(
            f"keys are {', '.join(keys) or 'none'}; those of the table {definition.name!r} are "
            f"{', '.join(own)}"
        )


def _check_columns(source: DataFrame, changes: Changelog) -> None:
    known = {name.lower() for name in source.columns}
    named = (*changes.keys, *(changes.column_list or ()), *(changes.except_column_list or ()))
    for name in named:
        if name.lower() not in known:
            raise errors.SchemaMismatchError(
                f"the source has no column {name!r}; it has {', '.join(source.columns)}"
            )


def _check_sequence(
    definition: TableDefinition, source: DataFrame, sequence_by: Expression
) -> None:
    """OptionError for a sequence whose order is not that of the version column."""
    name = _version_name(definition)
    data_type = source.select(_expression(sequence_by)).schema.fields[0].dataType
    is_text = isinstance(data_type, StringType | NullType)
    if isinstance(definition.schema.column(name).type, types.String) and not is_text:
        raise errors.OptionError(
            f"sequence_by is of type {data_type.simpleString()} and the version column {name!r} is "
            "STRING, in which '9' is greater than '10': use a version column of the sequence's type"
        )


def _version_name(definition: TableDefinition) -> str:
    wanted = definition.properties.version_column
    return next(column.name for column in definition.schema.columns if column.id == wanted)


def _expression(given: Expression) -> Column:
    return f.expr(given) if isinstance(given, str) else given


def _names(source: DataFrame, given: Sequence[Expression]) -> tuple[str, ...]:
    """Return the names of columns that are given by them, or as unqualified ``col``s."""
    known = {name.lower() for name in source.columns}
    return tuple(one if isinstance(one, str) else _name(one, known) for one in given)


def _name(column: Column, known: Collection[str]) -> str:
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    # Spark shows a name as it is, with a dot in backticks; Spark Connect shows what was written.
    shown = (text, text[1:-1], text[1:-1].replace("``", "`"))
    return next((name for name in shown if name.lower() in known), text)
