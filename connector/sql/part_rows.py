"""A statement that changes parts of rows, as the rows of changes.

Where the condition is the whole key, given by constants, and no expression names a column, nothing
is read and no job of Spark runs: the analyser evaluates the constants. Otherwise Spark computes the
keys of the rows, and the values, as for any UPDATE.

Promises: an expression is stored by the rule of any UPDATE (see dml_rows.py); of a row only what
changes is written.
Does not know: how changes are written or committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s
from sqlglot import exp

from relstate.connector.sink.dml_task import OPERATION, Operation
from relstate.connector.sink.part_task import PartColumns
from relstate.connector.syntax.tree import Tree
from relstate.connector.types import spark_type
from relstate.storage import (
    Column,
    TableDefinition,
    Target,
    arrow,
    document_encoding,
    encoding_of,
    errors,
    syntax,
)
from relstate.storage import types as t

from .dml import Delete, DeleteParts, Update
from .dml_query import constant_query, old_key, part_key, part_query, part_value
from .dml_rows import DmlRows, planned_query
from .lookup import LookupPlanner
from .part_changes import PartChange, part_changes
from .planned_query import PlannedQuery
from .query_reader import QueryReader
from .stored_value import StoredValues

_INTEGERS: tuple[type[s.DataType], ...] = (
    s.ByteType,
    s.ShortType,
    s.IntegerType,
    s.LongType,
)
# NULL has a type of its own, and is refused as a key later.
_TEXTS = (s.StringType, s.CharType, s.VarcharType, s.NullType)


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of changes of parts, the query they come from, and the columns of each change.

    ``names``: of the columns, those of the primary key first. ``batch``: the rows if nothing has to
    be read for them, else None. ``is_clustered``: the rows of a range of vnodes are in one
    partition.
    """

    names: tuple[str, ...]
    changes: tuple[PartColumns, ...]
    rows: DataFrame
    query: PlannedQuery
    batch: pa.RecordBatch | None = None
    is_clustered: bool = False


class PartPlanner:
    """Plans the changes of parts of one document table, at the epoch of a query reader."""

    def __init__(self, reader: QueryReader, definition: TableDefinition, vnode_count: int) -> None:
        self._reader = reader
        self._definition = definition
        self._encoding = document_encoding(encoding_of(definition, vnode_count))
        self._lookups = LookupPlanner(reader, definition)
        self._keys = definition.schema.key_columns

    def plan(self, statement: Update | DeleteParts) -> PartRows:
        """Return the changes of a statement. Errors as of `part_changes`; SchemaMismatchError."""
        changes = part_changes(statement, self._encoding)
        columns = tuple(
            PartColumns(
                change.path,
                change.action,
                tuple(part_key(number, index) for index in range(len(change.keys))),
                None if change.value is None else part_value(number),
            )
            for number, change in enumerate(changes)
        )
        return self._constant_rows(statement, changes, columns) or self._read_rows(
            statement, changes, columns
        )

    def is_blind(self, statement: Update | DeleteParts | Delete) -> bool:
        """Return whether a statement names one row and constants, so that it has nothing to read.

        It may read all the same, if the constants are not of the key's types. Errors as of
        `part_changes`.
        """
        changes = () if isinstance(statement, Delete) else part_changes(statement, self._encoding)
        return _constant_key(statement, self._keys, changes) is not None

    def deletion(self, statement: Delete) -> DmlRows | None:
        """Return the delete of the row whose whole key a statement names by constants, else None.

        Nothing is read: there may be no such row.
        """
        rows = self._constant_rows(statement, (), ())
        if rows is None:
            return None
        assert rows.batch is not None
        operation = int(Operation.DELETE)
        operations = pa.array([operation] * rows.batch.num_rows, pa.int32())
        batch = pa.RecordBatch.from_arrays(
            [operations, *rows.batch.columns], names=[OPERATION, *rows.batch.schema.names]
        )
        frame = rows.rows.select(f.lit(operation).alias(OPERATION), "*")
        return DmlRows(frame, rows.query, is_checked=False, batch=batch)

    def _read_rows(
        self,
        statement: Update | DeleteParts,
        changes: Sequence[PartChange],
        columns: tuple[PartColumns, ...],
    ) -> PartRows:
        """Return the changes of the rows that the condition finds."""

        def text_of(statement: Update | DeleteParts) -> str:
            return part_query(statement, self._definition, changes)

        query = planned_query(self._reader, statement, text_of(statement))
        looked_up = self._lookups.named_rows(statement, query, text_of).in_spark()
        rows = self._stored(looked_up.frame, changes)
        return PartRows(
            tuple(rows.columns),
            columns,
            rows,
            looked_up.query,
            is_clustered=looked_up.is_clustered,
        )

    def _stored(self, frame: DataFrame, changes: Sequence[PartChange]) -> DataFrame:
        """Return the keys of rows as they are, and what is stored of keys and values of parts.

        SchemaMismatchError for a key in a variant whose type is not text.
        """
        columns = [
            frame[old_key(index)].alias(column.name) for index, column in enumerate(self._keys)
        ]
        for number, change in enumerate(changes):
            keys = zip(change.target.keys, change.target.of_variants, strict=True)
            for index, (key_type, is_of_variant) in enumerate(keys):
                if is_of_variant:
                    self._check_text(frame, part_key(number, index), change.target)
                columns.append(self._value(frame, part_key(number, index), key_type, change.target))
            if change.value is not None:
                name = part_value(number)
                columns.append(self._value(frame, name, change.target.type, change.target))
        return frame.select(*columns)

    def _check_text(self, frame: DataFrame, name: str, target: Target) -> None:
        """SchemaMismatchError for a key in a variant that is not text: it would be an index."""
        key_type = frame.schema[name].dataType
        if not isinstance(key_type, _TEXTS):
            raise errors.SchemaMismatchError(
                f"table {self._definition.name}: {target.name}: the key is of type "
                f"{key_type.simpleString()} and in a variant, whose keys are text: cast it to "
                "STRING; for an element of an array, set the whole array"
            )

    def _value(self, frame: DataFrame, name: str, data_type: t.DataType, target: Target) -> Any:
        if isinstance(data_type, t.Variant):
            return _as_variant(frame, name).alias(name)
        description = f"table {self._definition.name}: {target.name}"
        values = StoredValues(self._reader.session.is_ansi, by_name=True)
        return f.expr(values.text(frame, name, data_type, description)).alias(name)

    # Without reading

    def _constant_rows(
        self,
        statement: Update | DeleteParts | Delete,
        changes: Sequence[PartChange],
        columns: tuple[PartColumns, ...],
    ) -> PartRows | None:
        """Return the changes of one row if they follow from constants alone, else None."""
        keys = _constant_key(statement, self._keys, changes)
        if keys is None:
            return None
        query = self._reader.plan(constant_query(keys, changes))
        frame = self._reader.frame(query)
        key_types = [spark_type(column.type) for column in self._keys]
        constant_types = [frame.schema[old_key(index)].dataType for index in range(len(keys))]
        if not all(map(_is_exact, constant_types, key_types)):
            return None
        rows = self._stored(frame, changes)
        return PartRows(tuple(rows.columns), columns, rows, query, self._batch(rows, changes))

    def _batch(self, frame: DataFrame, changes: Sequence[PartChange]) -> pa.RecordBatch:
        """Return the row of a frame of constants; no row if a part of its key is NULL."""
        rows = self._collected(frame)
        if None in rows[0][: len(self._keys)]:
            rows = []
        types = [column.type for column in self._keys]
        for change in changes:
            types += change.target.keys
            if change.value is not None:
                types.append(change.target.type)
        arrays = [
            pa.array(
                [arrow_form(data_type, row[index]) for row in rows], arrow.arrow_type(data_type)
            )
            for index, data_type in enumerate(types)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=frame.columns)

    def _collected(self, frame: DataFrame) -> list[tuple[Any, ...]]:
        """Return the rows of a frame. ValueRangeError for values that Python does not have."""
        try:
            return [tuple(row) for row in frame.collect()]
        except (ValueError, OverflowError) as error:
            raise errors.ValueRangeError(
                f"table {self._definition.name}: a value of the statement is outside the range of "
                f"Python's dates and times ({error}); timestamps are of the years 1 to 9999, "
                "without the first and the last day"
            ) from None


def _constant_key(
    statement: Update | DeleteParts | Delete,
    keys: Sequence[Column],
    changes: Sequence[PartChange],
) -> list[str] | None:
    """Return the constants that are the key of the only row that changes, to constants, as text."""
    constants = key_constants(statement.where, keys, (statement.table, statement.alias))
    expressions = [key for change in changes for key in change.keys]
    expressions += [change.value for change in changes if change.value is not None]
    return constants if all(map(is_constant, expressions)) else None


def key_constants(
    where: str | None, keys: Sequence[Column], names: tuple[str, str]
) -> list[str] | None:
    """Return the constants, as text, that a condition says a whole key has; None for another one.

    ``names``: of the table, as the condition may call it.
    """
    if where is None:
        return None
    try:
        tree = syntax.parse_condition(where)
    except errors.UnsupportedExpressionError:
        return None
    constants: dict[str, str] = {}
    for conjunct in syntax.operands(tree, exp.And):
        pair = _equality(conjunct, names)
        if pair is None or pair[0] in constants:
            return None
        constants[pair[0]] = pair[1]
    if set(constants) != {column.name.lower() for column in keys}:
        return None
    return [constants[column.name.lower()] for column in keys]


def _equality(tree: Tree, names: tuple[str, str]) -> tuple[str, str] | None:
    """Return (a column's name, a constant) where a condition says that they are equal."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.EQ):
        return None
    for column, constant in ((tree.left, tree.right), (tree.right, tree.left)):
        if not isinstance(column, exp.Column) or not _is_constant_tree(constant):
            continue
        if not column.table or column.table.lower() in {name.lower() for name in names}:
            return column.name.lower(), syntax.text_of(constant)
    return None


def is_constant(text: str) -> bool:
    """Return whether an expression names no column and no table."""
    try:
        return _is_constant_tree(syntax.parse_condition(text))
    except errors.UnsupportedExpressionError:
        return False


def _is_constant_tree(tree: Tree) -> bool:
    return tree.find(exp.Column, exp.Query, exp.Star, exp.Lambda) is None


def _is_exact(constant: s.DataType, key: s.DataType) -> bool:
    """Return whether a constant of a type is compared with a key as the same value of its type."""
    if constant == key:
        return True
    if type(constant) in _INTEGERS and type(key) in _INTEGERS:
        return _INTEGERS.index(type(constant)) <= _INTEGERS.index(type(key))
    return False


def _as_variant(frame: DataFrame, name: str) -> SparkColumn:
    """Return a column of a frame as a variant."""
    value, value_type = f.col(name), frame.schema[name].dataType
    if isinstance(value_type, s.VariantType):
        return value
    if isinstance(value_type, s.ArrayType | s.MapType | s.StructType):
        return f.to_variant_object(value)
    return value.cast(s.VariantType())


def arrow_form(data_type: t.DataType, value: Any) -> Any:
    """Return a value that Spark collected as Arrow takes it."""
    if value is None:
        return None
    match data_type:
        case t.Timestamp():
            return _microseconds(value)
        case t.TimestampNtz():
            return s.TimestampNTZType().toInternal(value)
        case t.Variant():
            return {"value": bytes(value.value), "metadata": bytes(value.metadata)}
        case t.Array(element, _):
            return [arrow_form(element, item) for item in value]
        case t.Map(key, item, _):
            return [
                (arrow_form(key, name), arrow_form(item, inner)) for name, inner in value.items()
            ]
        case t.Struct(fields):
            return {
                field.name: arrow_form(field.type, inner)
                for field, inner in zip(fields, value, strict=True)
            }
    return value


def _microseconds(value: datetime) -> int:
    """Return the microseconds from 1970 to a time of the local time zone.

    `TimestampType.toInternal` takes both repeated hours at the end of summer time as the first.
    """
    try:
        return int(value.replace(microsecond=0).timestamp()) * 1_000_000 + value.microsecond
    except (ValueError, OverflowError):
        # Near the years 1 and 9999 no hour is repeated.
        internal: int = s.TimestampType().toInternal(value)
        return internal
