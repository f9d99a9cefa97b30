"""The plan of a view: a tree of operators.

    Scan                                    a table or a view
    Project, Filter                         stateless: Spark evaluates their expressions
    Aggregate, Join, TopN                   stateful: executors keep them (executor/)
    Union                                   of any number of inputs

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
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeAlias

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
class Project(Node):
    """Columns computed from each row. All key fields of the child pass through it."""

    child: Node
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        missing = set(self.child.key) - {output.source for output in self.outputs}
        assert not missing, f"a projection drops the key fields {missing}"

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

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
    def is_append_only(self) -> bool:
        """As the child."""
        return self.child.is_append_only

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
class Filter(Node):
    """The rows for which ``condition``, in Spark's SQL over the child's fields, is true."""

    child: Node
    condition: str

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As the child."""
        return self.child.fields

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


class Function(StrEnum):
    """An aggregate function that an executor keeps."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call.

    ``argument``: a field of the child, None for count(*); for the functions of variance it is
    DOUBLE. ``filter``: a BOOLEAN field of the child; only rows for which it is true count.
    ``output``: the field of the result, of the type that Spark gives it.
    """

    function: Function
    argument: str | None
    output: types.Field
    is_distinct: bool = False
    filter: str | None = None


@dataclass(frozen=True)
class Aggregate(Node):
    """One row a group: the group's fields, then the calls' outputs.

    ``group``: fields of the child. ``is_global``: the aggregate of a SELECT without GROUP BY, whose
    only group field is a constant of the child's, and which has one row always.
    DISTINCT is an aggregate without calls.
    """

    child: Node
    group: Names
    calls: tuple[Call, ...]
    is_global: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The group's fields and the outputs of the calls."""
        group = (types.Field(name, self.child.type_of(name)) for name in self.group)
        return (*group, *(call.output for call in self.calls))

    @property
    def key(self) -> Names:
        """The group."""
        return self.group

    @property
    def distribution(self) -> Names | None:
        """The group; a global aggregate lives with vnode 0."""
        return () if self.is_global else self.group

    @property
    def is_append_only(self) -> bool:
        """False but for DISTINCT over rows that are only inserted: other groups change."""
        return not self.calls and self.child.is_append_only


class JoinKind(StrEnum):
    """How two inputs are joined."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def keeps_left(self) -> bool:
        """Whether rows of the left side are told of by whether they have a partner."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)

    @property
    def keeps_right(self) -> bool:
        """Whether rows of the right side are told of by whether they have a partner."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def gives_pairs(self) -> bool:
        """Whether its rows are pairs, with fields of both sides."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality: a field of each side, of one type.

    ``field`` is that of the result: the value of whichever side is there. ``is_null_safe``: NULL
    equals NULL.
    """

    left: str
    right: str
    field: types.Field
    is_null_safe: bool = False


@dataclass(frozen=True)
class Join(Node):
    """The rows of two inputs joined by at least one equality.

    ``condition``: in Spark's SQL over the fields of both; None where the equalities are all of
    it, as in an inner join always (a filter above it says the rest). The names of the two inputs'
    fields are disjoint. ``presence``: of a full join a field of the left and one of the right that
    are never NULL there: two rows with nothing but NULLs in their keys, one of each side and padded
    both, are told apart by nothing else. Fields: those of the keys, the left ones and, where the
    join gives pairs, the right ones.
    """

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[JoinKey, ...]
    condition: str | None = None
    presence: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        assert self.keys, "a join needs an equality"
        assert not set(self.left.names) & set(self.right.names), "fields of one name on both sides"
        assert self.kind is not JoinKind.INNER or self.condition is None
        assert self.kind is JoinKind.FULL or self.presence is None

    @property
    def children(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The keys' fields and the inputs'."""
        keys = tuple(key.field for key in self.keys)
        right = self.right.fields if self.kind.gives_pairs else ()
        return (*keys, *self.left.fields, *right)

    @cached_property
    def key(self) -> Names:
        """The distribution and the keys of the inputs, but for what these tell already.

        A row whose partner is found by all of the partner's key has one at most.
        """
        left, right = self.left.key, self.right.key if self.kind.gives_pairs else ()
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and self._is_one(self.right, "right"):
            right = ()
        elif self.kind in (JoinKind.INNER, JoinKind.RIGHT) and self._is_one(self.left, "left"):
            left = ()
        found = (*self._distribution, *(self.presence or ()), *left, *right)
        return tuple(dict.fromkeys(found))

    @cached_property
    def distribution(self) -> Names | None:
        """The fields that hold the keys' values in every row."""
        return self._distribution

    @property
    def _distribution(self) -> Names:
        # Of a side whose rows are all there the fields say what the keys' own would.
        is_right = self.kind is JoinKind.RIGHT
        names = tuple(key.right if is_right else key.left for key in self.keys)
        if self.kind is JoinKind.FULL or len(set(names)) < len(names):
            return tuple(key.field.name for key in self.keys)
        return names

    def _is_one(self, side: Node, name: Literal["left", "right"]) -> bool:
        """Return whether the keys hold all of a side's key, so that one row at most has them."""
        return set(side.key) <= {getattr(key, name) for key in self.keys}

    @property
    def is_append_only(self) -> bool:
        """Whether no row of it can ever go: both inputs only grow, and no row waits for one."""
        grows = self.left.is_append_only and self.right.is_append_only
        return grows and self.kind in (JoinKind.INNER, JoinKind.SEMI)


@dataclass(frozen=True, slots=True)
class Order:
    """A field to sort by."""

    name: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class TopN(Node):
    """Of every group the rows at places ``offset`` to ``offset + limit`` in an order.

    Rows that the order does not tell apart come in that of their keys. ``group``: fields of the
    child; ``is_global``: its only group field is a constant of the child's. ``rank``: a further
    field with a row's place in its group, from 1; None where nobody asks for it.
    """

    child: Node
    group: Names
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    rank: types.Field | None = None
    is_global: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's and the rank."""
        return (*self.child.fields, *(() if self.rank is None else (self.rank,)))

    @cached_property
    def key(self) -> Names:
        """The group and the child's key."""
        return (*self.group, *(name for name in self.child.key if name not in self.group))

    @property
    def distribution(self) -> Names | None:
        """The group; a global one lives with vnode 0."""
        return () if self.is_global else self.group

    @property
    def is_append_only(self) -> bool:
        """False: rows are pushed out."""
        return False


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


@dataclass(frozen=True)
class Materialize(Node):
    """The root: the rows of the child as the view's table holds them.

    ``visible``: for each column of the SELECT its name and the child's field; what the key needs
    beside them is stored in hidden columns under the fields' names. ``order``: by which the table
    is sorted before its key, where the SELECT ends in ORDER BY.
    """

    child: Node
    visible: tuple[tuple[str, str], ...]
    order: tuple[Order, ...] = ()

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @cached_property
    def stored(self) -> tuple[tuple[str, str], ...]:
        """For each column of the table its name and the child's field, the visible ones first.

        Of several visible columns that are one field the first is in the key.
        """
        seen = {field for _, field in self.visible}
        wanted = dict.fromkeys((*(one.name for one in self.order), *self.child.key))
        taken = {name.lower() for name, _ in self.visible}
        hidden = [(_free(f"_{name}", taken), name) for name in wanted if name not in seen]
        return (*self.visible, *hidden)

    @property
    def hidden(self) -> Names:
        """The names of the table's columns that the SELECT does not have."""
        return tuple(name for name, _ in self.stored[len(self.visible) :])

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The table's columns."""
        return tuple(types.Field(name, self.child.type_of(field)) for name, field in self.stored)

    @cached_property
    def key(self) -> Names:
        """The table's columns that hold the child's key."""
        return tuple(self._column_of(name) for name in self.child.key)

    @cached_property
    def table_key(self) -> tuple[Order, ...]:
        """The primary key of the table: the order, then what of the key is not in it."""
        order = [Order(self._column_of(o.name), o.descending, o.nulls_first) for o in self.order]
        sorted_by = {one.name for one in order}
        return (*order, *(Order(name) for name in self.key if name not in sorted_by))

    @cached_property
    def distribution(self) -> Names | None:
        """The table's columns that hold the child's distribution; the key where it has none."""
        found = self.child.distribution
        return self.key if found is None else tuple(map(self._column_of, found))

    @property
    def is_append_only(self) -> bool:
        """As the child."""
        return self.child.is_append_only

    def _column_of(self, field: str) -> str:
        return next(name for name, stored in self.stored if stored == field)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, ``name`` itself where it can be, and take it."""
    found, number = name, 2
    while found.lower() in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found.lower())
    return found


def walk(node: Node) -> Sequence[Node]:
    """Return a node and all beneath it, children before their parents, left before right."""
    return [*(one for child in node.children for one in walk(child)), node]
