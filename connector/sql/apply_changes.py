"""Applying a source of changes to a table: Spark's AUTO CDC of type SCD 1, over a store.

Each change has a key and a sequence. Of all changes of a key, in any order of arrival, the one with
the greatest sequence wins, deletes included. The table's version column stores the sequence, so a
late change is recognized in any later batch too.

Promises: a batch is one epoch; a micro-batch of a stream is one epoch, once. All changes of a key
in a batch are in one task, which writes one row of them.
Does not know: where changes come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NullType, StringType, StructType

from relstate.connector.failure import unwrap_errors
from relstate.connector.sink.foreach import ForeachBatchWriter
from relstate.connector.sink.shuffle import adaptively, shuffle_by_key
from relstate.connector.syntax.tokens import quoted
from relstate.storage import Column as TableColumn
from relstate.storage import (
    KeyCodec,
    KeyColumn,
    TableDefinition,
    TableSchema,
    WriteTarget,
    encoding_of,
    errors,
    no_key_error,
    types,
)

from .change_batches import BatchWrite, start_stream
from .change_expressions import (
    Expression,
    as_column,
    check_condition,
    expression_type,
    named_by,
    required,
)

_OPERATION = "__relstate_op"
_ORDER = "__relstate_order"
# What changes are sorted by. Of a delete and an update with one sequence the delete is the last.
_SORTED = ("key", "version", "is_delete")


@dataclass(frozen=True, slots=True)
class Changelog:
    """How to read the rows of a source as changes of a table: the arguments of AUTO CDC."""

    keys: tuple[str, ...]
    sequence_by: Expression
    apply_as_deletes: Expression | None
    column_list: tuple[str, ...] | None
    except_column_list: tuple[str, ...] | None


def make_changelog(
    target: WriteTarget,
    source: DataFrame,
    keys: Sequence[Expression],
    sequence_by: Expression,
    apply_as_deletes: Expression | None,
    column_list: Sequence[Expression] | None,
    except_column_list: Sequence[Expression] | None,
) -> Changelog:
    """Return the arguments after checking them against the table.

    OptionError for an argument that is not supported or does not fit the table, UsageError for a
    table without a primary key, SchemaMismatchError for a column that the source does not have.
    """
    if column_list is not None and except_column_list is not None:
        raise errors.OptionError("give column_list or except_column_list, but not both")
    _check_table(target.definition)
    changelog = Changelog(
        named_by(source, keys, "keys"),
        sequence_by,
        apply_as_deletes,
        None if column_list is None else named_by(source, column_list, "column_list"),
        None
        if except_column_list is None
        else named_by(source, except_column_list, "except_column_list"),
    )
    _check_keys(target.definition, changelog.keys)
    _check_columns(source, changelog)
    _check_sequence(target.definition, source, sequence_by)
    check_condition(source, apply_as_deletes, "apply_as_deletes")
    return changelog


@dataclass(frozen=True, slots=True)
class ChangeApplier:
    """Applies changes to a table. It holds no session, so it can be pickled.

    ``application`` names the writer of writes that must happen once.
    """

    target: WriteTarget
    changelog: Changelog
    application: str | None = None

    def run(self, source: DataFrame, version: int | None) -> None:
        """Write the changes of a batch as one epoch; ``version`` numbers it among the writer's."""
        write = BatchWrite(self.target, self.application, version, _OPERATION)
        with unwrap_errors():
            changes = changed_rows(self.target, self.changelog, source)
            rows = write.driver_rows(changes)
            if rows is None:
                write.by_job(self._last_changes(source))
            else:
                write.by_driver([last_of_each_key(self.target, rows)], changes.schema)

    def start(
        self,
        source: DataFrame,
        checkpoint: str | None,
        trigger: Mapping[str, Any] | None,
        name: str | None,
    ) -> StreamingQuery:
        """Start a query that writes the changes of every micro-batch as one epoch, once."""
        return start_stream(source, self._write, checkpoint, trigger, name)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        # The rows are in the right partitions: `write` does not shuffle them again.
        writer = ForeachBatchWriter(self.target, self.application, _OPERATION)
        with unwrap_errors(), adaptively(batch.sparkSession):
            writer.write(self._last_changes(batch), batch_id)

    def _last_changes(self, source: DataFrame) -> DataFrame:
        return last_changes(self.target, self.changelog, source)


def changed_rows(target: WriteTarget, changelog: Changelog, source: DataFrame) -> DataFrame:
    """Return all changes of a source: what is stored, and the operation as the last column."""
    schema = target.definition.schema
    versions = _versions(target.definition)
    sequence = _sequence(changelog.sequence_by, versions)
    deletes = f.lit(False)
    if changelog.apply_as_deletes is not None:
        deletes = f.coalesce(as_column(changelog.apply_as_deletes), f.lit(False))
    columns = [f.col(quoted(name)) for name in _stored_columns(schema, changelog, source, versions)]
    operation = f.when(deletes, f.lit("delete")).otherwise(f.lit("update"))
    return source.select(
        *columns,
        *(value.alias(column.name) for column, value in zip(versions, sequence, strict=True)),
        operation.alias(_OPERATION),
    )


def last_of_each_key(target: WriteTarget, rows: pa.Table) -> pa.RecordBatch:
    """Return the last change of every key among `changed_rows`; errors as of a write."""
    encoding = encoding_of(target.definition, target.vnode_count)
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], schema=rows.schema)
    (batch,) = rows.combine_chunks().to_batches()
    versions = _versions(target.definition)
    codec = KeyCodec([column.type for column in versions], [KeyColumn(c.id) for c in versions])
    by_name = {name.lower(): index for index, name in enumerate(batch.schema.names)}
    values = [batch.column(by_name[column.name.lower()]) for column in versions]
    keys = encoding.encode_keys(encoding.conform_keys(batch))
    is_delete = pc.equal(batch.column(_OPERATION), "delete")
    changes = pa.table([keys, codec.encode(values), is_delete], _SORTED)
    order = pc.sort_indices(changes, sort_keys=[(name, "ascending") for name in _SORTED])
    ordered = keys.take(order)
    is_followed = np.zeros(len(ordered), np.bool_)
    is_followed[:-1] = np.asarray(pc.equal(ordered.slice(0, len(ordered) - 1), ordered.slice(1)))
    return batch.take(order.filter(pa.array(~is_followed)))


def last_changes(target: WriteTarget, changelog: Changelog, source: DataFrame) -> DataFrame:
    """Return the last change of every key of a source, with its operation."""
    schema = target.definition.schema
    versions = _versions(target.definition)
    rows = changed_rows(target, changelog, source)
    # Of a delete and an update with one sequence the delete wins, in any order of arrival.
    order = f.struct(
        *(f.col(quoted(column.name)) for column in versions),
        (f.col(_OPERATION) == "delete").alias(_ORDER),
    )
    row = f.struct(*(f.col(quoted(name)) for name in rows.columns))
    names = [quoted(name) for name in changelog.keys]
    last = rows.groupBy(*names).agg(f.max_by(row, order).alias("last"))
    return shuffle_by_key(last.select("last.*"), schema, target.vnode_count)


def _sequence(sequence_by: Expression, versions: Sequence[TableColumn]) -> list[Column]:
    """Return the values of the version columns: the sequence, or the fields of a struct."""
    sequence = as_column(sequence_by)
    missing = required("sequence_by")
    if len(versions) == 1:
        return [f.coalesce(sequence.cast(str(versions[0].type)), missing)]
    # The fields are matched by position, whatever their names are.
    names = [f"c{index}" for index in range(len(versions))]
    parts = ", ".join(f"{name}: {c.type}" for name, c in zip(names, versions, strict=True))
    values = f.coalesce(sequence.cast(f"STRUCT<{parts}>"), missing)
    return [values.getField(name) for name in names]


def _stored_columns(
    schema: TableSchema, changelog: Changelog, source: DataFrame, versions: Sequence[TableColumn]
) -> list[str]:
    """Return the names of the source's columns that are stored, without the sequence."""
    table_columns = {column.name.lower() for column in schema.columns}
    source_columns = {name.lower(): name for name in source.columns}
    names = list(source_columns)
    if changelog.column_list is not None:
        names = [name.lower() for name in changelog.column_list]
    if changelog.except_column_list is not None:
        excluded = {name.lower() for name in changelog.except_column_list}
        names = [name for name in names if name not in excluded]
    keys = [key.lower() for key in changelog.keys]
    names = [*keys, *(name for name in names if name not in keys)]
    unknown = [source_columns[name] for name in names if name not in table_columns]
    if unknown:
        advice = _FEED_ADVICE if "_change_type" in map(str.lower, unknown) else _COLUMNS_ADVICE
        raise errors.SchemaMismatchError(
            f"the source has columns that the table does not have: {', '.join(unknown)}; {advice}"
        )
    version_names = {column.name.lower() for column in versions}
    return [source_columns[name] for name in names if name not in version_names]


_COLUMNS_ADVICE = (
    "leave them out with column_list or except_column_list, or add them with ALTER TABLE"
)
_FEED_ADVICE = (
    "of a change feed leave out its preimages, where(\"_change_type != 'update_preimage'\"), pass "
    "apply_as_deletes=\"_change_type = 'delete'\" and sequence_by='_commit_version', and name its "
    "own columns in except_column_list"
)


def _check_table(definition: TableDefinition) -> None:
    if definition.schema.row_id is not None:
        raise no_key_error(
            definition.name, "changes cannot name its rows: create it with a primary key"
        )
    if not definition.properties.is_versioned:
        raise errors.OptionError(
            f"the table {definition.name!r} has no version column, so a late change would "
            "overwrite a newer one: create it with a version_column that stores the sequence"
        )
    if definition.properties.append_only or definition.properties.merge == "ignore":
        raise errors.OptionError(
            f"the table {definition.name!r} takes no updates, because it is append-only or keeps "
            "the first row of a key: create it without append_only and merge = 'ignore'"
        )


def _check_keys(definition: TableDefinition, keys: Sequence[str]) -> None:
    names = [column.name for column in definition.schema.key_columns]
    if sorted(map(str.lower, keys)) != sorted(map(str.lower, names)):
        raise errors.OptionError(
            f"keys are {', '.join(keys) or 'none'}, but those of the table {definition.name!r} are "
            f"{', '.join(names)}: name exactly these"
        )


def _check_columns(source: DataFrame, changelog: Changelog) -> None:
    present = {name.lower() for name in source.columns}
    argument_names = (
        *changelog.keys,
        *(changelog.column_list or ()),
        *(changelog.except_column_list or ()),
    )
    for name in argument_names:
        if name.lower() not in present:
            raise errors.SchemaMismatchError(
                f"the source has no column {name!r}; it has {', '.join(source.columns)}"
            )


def _check_sequence(
    definition: TableDefinition, source: DataFrame, sequence_by: Expression
) -> None:
    """OptionError for a sequence whose order is not that of the version columns."""
    versions = _versions(definition)
    data_type = expression_type(source, sequence_by, "sequence_by")
    data_types = [data_type]
    if len(versions) > 1:
        count = len(data_type.fields) if isinstance(data_type, StructType) else 1
        if count != len(versions):
            names = ", ".join(column.name for column in versions)
            raise errors.OptionError(
                f"sequence_by is of type {data_type.simpleString()}, and the version columns are "
                f"{names}: write struct(…) of as many values"
            )
        assert isinstance(data_type, StructType)
        data_types = [field.dataType for field in data_type.fields]
    for column, part in zip(versions, data_types, strict=True):
        is_text = isinstance(part, StringType | NullType)
        if isinstance(column.type, types.String) and not is_text:
            raise errors.OptionError(
                f"sequence_by is of type {part.simpleString()} and the version column "
                f"{column.name!r} is STRING, in which '9' is greater than '10': use a version "
                "column of the sequence's type"
            )


def _versions(definition: TableDefinition) -> tuple[TableColumn, ...]:
    return definition.schema.version_columns(definition.properties.version_columns)
