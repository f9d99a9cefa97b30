"""The plan of a view: a tree of operators.

    Scan                        a table or a view
    Project, Filter             stateless: Spark evaluates their expressions
    Union                       of any number of inputs
    Aggregate, Join, TopN       stateful: executors keep them (aggregate, join, topn)
    Materialize                 the root (materialize)

Every operator has *fields*, named uniquely among themselves; expressions are text in Spark's SQL
over the fields of what is beneath. It has a *key*: fields that together tell its rows apart (their
values may be NULL). It has a *distribution*: fields, all of them in the key, by whose hash its rows
lie in the parallel units; ``()`` where all of them lie with vnode 0; None where they lie anyhow.

Promises: nodes are values, checked when they are made.
Does not know: SQL's text as a whole (planner), state tables (state), Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from relstate.storage import types

Names: TypeAlias = tuple[str, ...]


class Node(ABC):
    """An operator of a plan."""

    @property
    @abstractmethod
    def children(self) -> tuple[Node, ...]:
        """What it reads, in order."""

    @property
    @abstractmethod
    def fields(self) -> tuple[types.Field, ...]:
        """Its columns, all nullable."""

    @property
    @abstractmethod
    def key(self) -> Names:
        """The fields that tell its rows apart; of a global aggregate the one constant field."""

    @property
    @abstractmethod
    def distribution(self) -> Names | None:
        """The fields by whose hash its rows are distributed; None: they lie anyhow."""

    @property
    @abstractmethod
    def is_append_only(self) -> bool:
        """Whether its rows are only ever inserted."""

    @cached_property
    def names(self) -> Names:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)

    def type_of(self, name: str) -> types.DataType:
        """Return the type of a field."""
        return next(field.type for field in self.fields if field.name == name)


@dataclass(frozen=True)
class Unary(Node):
    """An operator with one input; what it does not say of itself is as of its child."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @property
    def key(self) -> Names:
        """As the child."""
        return self.child.key

    @property
    def distribution(self) -> Names | None:
        """As the child."""
        return self.child.distribution

    @property
    def is_append_only(self) -> bool:
        """As the child."""
        return self.child.is_append_only


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of a table, by its name there, and the field that holds it."""

    column: str
    field: types.Field


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a table of the store, or of a view.

    ``columns``: those that are read. ``primary_key``: the fields of the table's primary key, in its
    order; all of them are among the columns. ``grows_only``: the table is append-only.
    """

    table_id: int
    table: str
    columns: tuple[ScanColumn, ...]
    primary_key: Names
    grows_only: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        """None."""
        return ()

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The columns' fields."""
        return tuple(column.field for column in self.columns)

    @property
    def key(self) -> Names:
        """The primary key."""
        return self.primary_key

    @property
    def distribution(self) -> Names | None:
        """None: a feed is read by as many tasks as it is worth."""
        return None

    @property
    def is_append_only(self) -> bool:
        """Whether the table is."""
        return self.grows_only


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a projection: ``expression`` in Spark's SQL over the child's fields.

    ``source``: the field of the child that it is, unchanged and of the same type; None where it
    is computed.
    """

    field: types.Field
    expression: str
    source: str | None = None


@dataclass(frozen=True)
class Project(Unary):
    """Columns computed from each row. All key fields of the child pass through it."""

    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        missing = set(self.child.key) - {output.source for output in self.outputs}
        assert not missing, f"a projection drops the key fields {missing}"

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The outputs' fields."""
        return tuple(output.field for output in self.outputs)

    @cached_property
    def key(self) -> Names:
        """The child's key, under its names here."""
        return tuple(self._names[name] for name in self.child.key)

    @cached_property
    def distribution(self) -> Names | None:
        """The child's distribution, under its names here."""
        found = self.child.distribution
        return None if found is None else tuple(self._names[name] for name in found)

    @property
    def is_selection(self) -> bool:
        """Whether all it does is to choose, order and name columns."""
        return all(output.source is not None for output in self.outputs)

    @cached_property
    def _names(self) -> dict[str, str]:
        # Of several outputs that are one field the first stands for it.
        passed = [(o.source, o.field.name) for o in self.outputs if o.source is not None]
        return dict(reversed(passed))


@dataclass(frozen=True)
class Filter(Unary):
    """The rows for which ``condition``, in Spark's SQL over the child's fields, is true."""

    condition: str

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As the child."""
        return self.child.fields


@dataclass(frozen=True, slots=True)
class Order:
    """A field to sort by."""

    name: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Union(Node):
    """The rows of all inputs, which have fields of the same names and types.

    ``row_key``: the fields that tell all rows apart, among them one that tells the inputs apart.
    """

    inputs: tuple[Node, ...]
    row_key: Names

    @property
    def children(self) -> tuple[Node, ...]:
        """The inputs."""
        return self.inputs

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As every input."""
        return self.inputs[0].fields

    @property
    def key(self) -> Names:
        """The fields that tell all rows apart."""
        return self.row_key

    @property
    def distribution(self) -> Names | None:
        """None: inputs are distributed each in its way."""
        return None

    @property
    def is_append_only(self) -> bool:
        """Whether all inputs are."""
        return all(child.is_append_only for child in self.inputs)


def walk(node: Node) -> Sequence[Node]:
    """Return a node and all beneath it, children before their parents, left before right."""
    return [*(one for child in node.children for one in walk(child)), node]
