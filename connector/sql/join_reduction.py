"""Join reduction: what small relations leave of a large table that is joined with them.

Where a column of a large table equals one of a relation that the driver has, by a join or an IN,
the values there are a condition on the large table: its rows are looked up by key, or found in
ranges of keys, instead of all being read.

Promises: only rows without effect on the query are left out, and only if that saves at least half
of what is read.
Does not know: which rows have an effect (pruning), or how relations are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.local_rows import known_rows, table_of
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.types import fields_of
from relstate.storage import Predicate, ReadPlan, TableSchema, arrow, errors, types

from .planned_query import Relation, is_read_on_driver
from .pruning import KeySource

MOST_VALUES = 4096
"""Values of a column that are looked up: more take longer to plan than a task takes to read."""

# Rows of a view of the session whose values are collected.
_MOST_ROWS = 4 * MOST_VALUES

_INTEGERS = (types.TinyInt, types.SmallInt, types.Int, types.BigInt)
# Equal values of them are identical; the NaNs and zeros of floats are not, nor are collated texts.
_EXACT = (
    *_INTEGERS, types.Boolean, types.Date, types.Timestamp, types.TimestampNtz, types.Decimal,
    types.String, types.Binary,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmallRelation:
    """The rows of a relation that the driver has; ``fields``: its columns, in their order."""

    name: str
    fields: tuple[types.Field, ...]
    rows: pa.Table

    def values(self, column: str, data_type: types.DataType) -> pa.Array | None:
        """Return the distinct values of a column, as values of another one of some type.

        ``column``: in lower case. None if there is not one of this name, if values of the two types
        may be equal without being identical, or if they are more than `MOST_VALUES`.
        """
        positions = [i for i, field in enumerate(self.fields) if field.name.lower() == column]
        if len(positions) != 1:
            return None
        source_type = self.fields[positions[0]].type
        if not _are_comparable(source_type, data_type):
            return None
        distinct = pc.unique(self.rows.column(positions[0]).drop_null())
        if len(distinct) > MOST_VALUES:
            return None
        if source_type != data_type:
            target = arrow.arrow_type(data_type)
            half = 1 << target.bit_width - 1
            numbers = distinct.cast(pa.int64())
            fits = pc.and_(pc.greater_equal(numbers, -half), pc.less_equal(numbers, half - 1))
            distinct = numbers.filter(fits).cast(target)
        return distinct


@dataclass(frozen=True, slots=True)
class Reduction:
    """A condition of a read that small relations give it, and what it says for people."""

    where: Predicate
    description: str


def reduction(
    read: ReadPlan,
    sources: Iterable[KeySource],
    small_relation: Callable[[int], SmallRelation | None],
) -> Reduction | None:
    """Return the condition that the values of some sources make of a read; None if it saves little.

    ``small_relation``: returns the rows of a source by the id of its node, None if the driver does
    not have them.
    """
    schema = read.definition.schema
    best: dict[str, tuple[pa.Array, str]] = {}
    for source in sources:
        relation = small_relation(source.source)
        column = next(c for c in schema.columns if c.name.lower() == source.column)
        if relation is None or not _finds_keys(read, schema, column.id):
            continue
        values = relation.values(source.source_column, column.type)
        if values is None or (column.name in best and len(best[column.name][0]) <= len(values)):
            continue
        origin = f"{relation.name}.{source.source_column}"
        best[column.name] = values, f"{column.name} IN ({len(values)} values of {origin})"
    if not best:
        return None
    of_values = Predicate.of_values({name: values for name, (values, _) in best.items()}, schema)
    if of_values is None:
        return None
    where = of_values if read.where is None else Predicate.all_of([read.where, of_values])
    if not _saves(read, replace(read, where=where)):
        return None
    return Reduction(where, " AND ".join(text for _, text in best.values()))


def _are_comparable(source: types.DataType, target: types.DataType) -> bool:
    if isinstance(source, _INTEGERS) and isinstance(target, _INTEGERS):
        return True
    is_collated = isinstance(target, types.String) and target.is_collated
    return source == target and isinstance(target, _EXACT) and not is_collated


def _finds_keys(read: ReadPlan, schema: TableSchema, column_id: int) -> bool:
    """Return whether a column is one of the primary key or the first one of an index."""
    keys = {column.id for column in schema.key_columns}
    return column_id in keys or any(
        index.columns[0] == column_id for index in read.definition.indexes
    )


def _saves(read: ReadPlan, reduced: ReadPlan) -> bool:
    """Return whether a reduced read examines at most half as much."""
    pruning = reduced.pruning()
    if pruning.ranges == 0 and pruning.points <= MOST_VALUES:
        return True
    return 2 * reduced.examined_bytes() <= read.examined_bytes()


class SmallRelations:
    """The rows of small relations of one query, read once each.

    ``by_node``: the relations of tables by the ids of their nodes, which get their rows here.
    """

    def __init__(
        self, spark: SparkSession, query: ParsedQuery, by_node: dict[int, Relation]
    ) -> None:
        self._spark = spark
        self._by_node = by_node
        others = query.table_references(lambda _, as_of: as_of is None)
        self._names = {id(reference.node): reference.name for reference in others}
        self._rows: dict[int, SmallRelation | None] = {}

    def rows_of(self, node: int) -> SmallRelation | None:
        """Return the rows of a relation by the id of its node; None if the driver has not got them.

        A name that is not one of a table means a view of the session, or is unknown.
        """
        if node not in self._rows:
            self._rows[node] = self._read(node)
        return self._rows[node]

    def _read(self, node: int) -> SmallRelation | None:
        relation = self._by_node.get(node)
        if relation is None:
            name = self._names.get(node)
            return None if name is None else _session_rows(self._spark, name)
        read = relation.read
        if not is_read_on_driver(read):
            return None
        small = _table_rows(relation.reference.alias, read, read.read((range(read.vnode_count),)))
        self._by_node[node] = replace(relation, rows=small.rows)
        return small


def _session_rows(spark: SparkSession, name: str) -> SmallRelation | None:
    """Return the rows of a view of a session that is made of local rows; None of any other."""
    try:
        frame = spark.table(name)
        if not _holds_rows(frame):
            return None
        batches, fields = known_rows(frame, _MOST_ROWS), fields_of(frame.schema)
    except (PySparkException, errors.UnsupportedTypeError):
        return None
    if batches is None:
        return None
    schema = pa.schema([pa.field(f"c{i}", arrow.arrow_type(f.type)) for i, f in enumerate(fields)])
    return SmallRelation(name, fields, table_of(batches, schema))


def _holds_rows(frame: DataFrame) -> bool:
    """Return whether a frame is rows and names for them.

    Whatever Spark computes it computes again for the query, and it may be something else then.
    """
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return False
    node = plan.queryExecution().analyzed()
    while node.nodeName() in ("SubqueryAlias", "View", "Project"):
        if node.nodeName() == "Project":
            items = node.projectList()
            names = [items.apply(number).prettyName() for number in range(items.size())]
            if set(names) != {"attributereference"}:
                return False
        node = node.child()
    return bool(node.nodeName() == "LocalRelation")


def _table_rows(name: str, read: ReadPlan, batches: Iterable[pa.RecordBatch]) -> SmallRelation:
    """Return the rows of a table that were read by a plan."""
    schema = read.definition.schema
    names = read.columns
    if names is None:
        names = tuple(column.name for column in schema.visible_columns)
    fields = tuple(schema.column(column).field for column in names)
    return SmallRelation(name, fields, pa.Table.from_batches(batches, read.arrow_schema()))


def by_target(sources: Iterable[KeySource]) -> Mapping[int, list[KeySource]]:
    """Return sources by the ids of the nodes whose columns have their values."""
    grouped: dict[int, list[KeySource]] = {}
    for source in sources:
        grouped.setdefault(source.target, []).append(source)
    return grouped
