"""A query that is planned: its text and tree, and what is read of each table that it references.

Does not know: how a query is planned, or becomes a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from relstate.connector.source.read import DRIVER_BYTES
from relstate.connector.syntax.parsed_query import ChangeFeed, Edit, ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree
from relstate.connector.types import named_columns, passes_as_is
from relstate.storage import AddedUp, AggregatePlan, Predicate, ReadPlan, TableSchema

from .pushed_aggregate import PushedAggregate
from .pushed_limit import PushedLimit
from .remaining_time import TtlCall

_MOST_LOOKUPS = 64
# The clauses of a SELECT over groups that neither order its rows nor bring several together.
_ROW_BY_ROW = frozenset(
    {"expressions", "from_", "where", "group", "having", "distinct", "limit", "hint"}
)


@dataclass(frozen=True, slots=True)
class RelationLookup:
    """How the rows of a relation are looked up: the equalities, and the index; None: the key.

    ``points``: by how many keys, if that is known; ``is_local``: by the driver, when it plans.
    """

    condition: str
    index: str | None
    points: int | None = None
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """The read of one reference.

    ``conjuncts``: the conditions of the query that the read evaluates, ``where`` all of them, None
    if there are none. ``is_pinned``: the query names its epoch. ``lookup``: how its rows are looked
    up by those of others; None if it is read by itself. ``aggregate``: what the tasks add up; None
    if they send the rows. ``limit``: how many rows they send at most; None if all. ``reduction``:
    what ``where`` has of the values of small relations, for people; ``rows``: what the driver read;
    ``partials``: what the driver added up; ``is_regrouped``: whether Spark groups it again in any
    case.
    """

    reference: TableReference
    plan: ReadPlan
    conjuncts: tuple[Tree, ...]
    where: Predicate | None
    is_pinned: bool
    lookup: RelationLookup | None = None
    aggregate: PushedAggregate | None = None
    limit: PushedLimit | None = None
    reduction: str | None = None
    rows: pa.Table | None = field(default=None, compare=False)
    partials: AddedUp | None = field(default=None, compare=False)
    is_regrouped: bool = field(default=False, compare=False)

    @property
    def schema(self) -> TableSchema:
        """The schema of the table."""
        return self.plan.definition.schema

    @property
    def read(self) -> ReadPlan:
        """The plan with its condition."""
        where = self.where if self.limit is None else self.limit.where
        return replace(self.plan, where=where)

    @property
    def aggregate_plan(self) -> AggregatePlan | None:
        """What the tasks add up, and of which rows."""
        if self.aggregate is None:
            return None
        plan = replace(self.plan, where=self.aggregate.where)
        return AggregatePlan.of(plan, self.aggregate.aggregate)

    @property
    def has_final_rows(self) -> bool:
        """Whether Spark has nothing to group: the driver has a row of each group of the query."""
        if self.aggregate is None or self.partials is None or self.is_regrouped:
            return False
        return self.partials.is_final and self.aggregate.final_edits is not None

    @property
    def aggregate_edits(self) -> tuple[Edit, ...]:
        """How the text of the query changes for what is added up."""
        if self.aggregate is None:
            return ()
        final_edits = self.aggregate.final_edits if self.has_final_rows else None
        return self.aggregate.edits if final_edits is None else final_edits


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query at one epoch, and the relations for its references to the store's tables.

    ``feeds``: its calls of ``table_changes``; ``calls``: those of ``ttl``.
    """

    query: ParsedQuery
    epoch: int
    relations: tuple[Relation, ...]
    feeds: tuple[ChangeFeed, ...] = ()
    calls: tuple[TtlCall, ...] = ()

    @property
    def is_row_by_row(self) -> bool:
        """Whether each of its rows follows from one row of its only relation, if that is final.

        Spark then needs no job for rows that it holds itself.
        """
        tree = self.query.tree
        clauses = {name for name, value in tree.args.items() if value}
        return (
            isinstance(tree, exp.Select)
            and clauses <= _ROW_BY_ROW
            and len(self.relations) == 1
            and self.relations[0].has_final_rows
            and not self.feeds
            and len(list(tree.find_all(exp.Table))) == 1
            and tree.find(exp.Window, exp.Subquery) is None
        )

    def without_aggregates(self) -> PlannedQuery:
        """Return the query of which no task adds up rows; itself if none does."""
        if not any(relation.aggregate for relation in self.relations):
            return self
        relations = tuple(replace(relation, aggregate=None) for relation in self.relations)
        return replace(self, relations=relations)

    def ways_to_group(self) -> Iterator[PlannedQuery]:
        """Yield the query as it is, and then one of which Spark groups all rows, if it does not."""
        yield self
        if any(relation.has_final_rows for relation in self.relations):
            relations = tuple(replace(relation, is_regrouped=True) for relation in self.relations)
            yield replace(self, relations=relations)

    def columns_by_table(self) -> dict[str, list[str]]:
        """Return the names of the columns of each table, by its name."""
        definitions = [relation.plan.definition for relation in self.relations]
        return {
            definition.name: [column.name for column in definition.schema.visible_columns]
            for definition in definitions
        }

    def input_named(self, alias: str) -> Relation:
        """Return the relation with an alias in the outermost FROM; it must be there."""
        return next(r for r in self.relations if is_input(self.query, r.reference, alias))


def is_input(query: ParsedQuery, reference: TableReference, alias: str | None) -> bool:
    """Return whether a reference is the input of the outermost FROM with an alias."""
    if reference.node is None or alias is None:
        return False
    return reference.node.alias_or_name == alias and (
        reference.node.find_ancestor(exp.Query) is query.tree
    )


def is_read_on_driver(read: ReadPlan) -> bool:
    """Return whether a read is of little, and of types that Spark takes as they are."""
    if not takes_as_is(read):
        return False
    if read.examined_bytes() <= DRIVER_BYTES:
        return True
    pruning = read.pruning()
    return pruning.ranges == 0 and pruning.points <= _MOST_LOOKUPS


def takes_as_is(read: ReadPlan) -> bool:
    """Return whether Spark takes all columns of a read unchanged when it makes a frame of them."""
    columns = named_columns(read.definition.schema, read.columns)
    return all(passes_as_is(column.type) for column in columns)
