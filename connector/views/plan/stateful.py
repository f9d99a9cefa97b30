"""The operators with state: aggregates, joins, the first rows of an order, and the view's table.

Each is maintained by the executor of its name.
Does not know: how an operator is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from relstate.storage import types

from .node import (
    Expression,
    FieldsOf,
    Json,
    Names,
    Node,
    Order,
    ReadNode,
    Unary,
    check_names,
    field_json,
    free_name,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_number,
    read_orders,
    read_text,
    require,
)

UNBOUNDED = 1 << 62
"""The limit of a `TopN` whose rank no condition above it bounds yet."""


class Function(StrEnum):
    """An aggregate function that the aggregate executor maintains."""

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
    DOUBLE. ``filter``: a BOOLEAN field of the child; only rows for which it is true are read.
    ``output``: the field of the result, of the type that it has in Spark.
    """

    function: Function
    argument: str | None
    output: types.Field
    is_distinct: bool = False
    filter: str | None = None

    def __str__(self) -> str:
        argument = f"{'DISTINCT ' if self.is_distinct else ''}{self.argument or '*'}"
        condition = f" FILTER {self.filter}" if self.filter else ""
        return f"{self.function}({argument}){condition} AS {self.output.name}"

    @property
    def sql(self) -> str:
        """The call in Spark's SQL, without DISTINCT and FILTER: its type is that of the output."""
        return f"{self.function}({'*' if self.argument is None else types.quoted(self.argument)})"

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON values. On disk: never change a name."""
        return {
            "function": str(self.function),
            "argument": self.argument,
            "output": field_json(self.output),
            "is_distinct": self.is_distinct,
            "filter": self.filter,
        }

    @classmethod
    def from_json(cls, value: Json) -> Call:
        """Return the call that `to_json` described."""
        argument, condition = value["argument"], value["filter"]
        return cls(
            Function(value["function"]),
            None if argument is None else read_text(argument),
            read_field(value["output"]),
            read_flag(value["is_distinct"]),
            None if condition is None else read_text(condition),
        )

    def check(self, child: Node) -> None:
        """ValueError if the call does not fit the input of its aggregate."""
        if self.argument is None:
            is_count = self.function is Function.COUNT and not self.is_distinct
            require(is_count, f"{self.function} has no argument")
        else:
            child.type_of(self.argument)
        if self.filter is not None:
            is_condition = child.type_of(self.filter) == types.Boolean()
            require(is_condition, f"the filter {self.filter!r} is not a BOOLEAN")


@dataclass(frozen=True)
class Aggregate(Unary):
    """One row per group: the group's fields, then the calls' outputs.

    ``group``: fields of the child. ``is_global``: the aggregate of a SELECT without GROUP BY; its
    only group field is a constant of the child, and it always has one row.
    DISTINCT is an aggregate without calls.
    """

    operator = "aggregate"

    group: Names
    calls: tuple[Call, ...]
    is_global: bool = False

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
        """The group; a global aggregate is in vnode 0."""
        return () if self.is_global else self.group

    @property
    def input_distribution(self) -> Names | None:
        """The distribution of the output."""
        return self.distribution

    @property
    def is_append_only(self) -> bool:
        """True only for DISTINCT over rows that are only inserted: other groups change."""
        return not self.calls and self.child.is_append_only

    def pruned(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the aggregate with the calls that are read; a global one keeps at least one."""
        calls = tuple(call for call in self.calls if call.output.name in read)
        if self.is_global and not calls:
            calls = self.calls[:1]
        inputs = {name for call in calls for name in (call.argument, call.filter) if name}
        child = self.child.pruned({*self.group, *inputs}, fields_of)
        return replace(self, child=child, calls=calls)

    @property
    def line(self) -> str:
        """``Aggregate by [field] [call AS field]``, or ``Distinct by [field]``."""
        group = "" if self.is_global else f" by [{', '.join(self.group)}]"
        calls = ", ".join(map(str, self.calls))
        return f"Aggregate{group} [{calls}]" if calls else f"Distinct{group}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "calls": [call.to_json() for call in self.calls],
            "is_global": self.is_global,
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the aggregate that `to_json` described."""
        group = read_names(value["group"])
        calls = tuple(map(Call.from_json, read_list(value["calls"])))
        return cls(read(value["child"]), group, calls, read_flag(value["is_global"]))

    def check(self) -> None:
        """ValueError, too, if the group or a call does not fit the input."""
        require(bool(self.group), "an aggregate has no group")
        check_names(self.group, self.child.names, "the group of an aggregate")
        require(not self.is_global or len(self.group) == 1, "a global aggregate has several groups")
        for call in self.calls:
            call.check(self.child)
        super().check()


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
        """Whether the output for a left row depends on it having a match (outer, semi, anti)."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)

    @property
    def keeps_right(self) -> bool:
        """Whether the output for a right row depends on it having a match (outer)."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def gives_pairs(self) -> bool:
        """Whether the output rows are pairs, with the fields of both sides."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality: a field of each side, of one type.

    ``field`` is the result's: its value is that of a side that has a row. ``is_null_safe``: NULL
    equals NULL.
    """

    left: str
    right: str
    field: types.Field
    is_null_safe: bool = False

    def __str__(self) -> str:
        return f"{self.left} {'<=>' if self.is_null_safe else '='} {self.right}"

    def to_json(self) -> list[Any]:
        """Return the equality as JSON values. On disk: never change."""
        return [self.left, self.right, field_json(self.field), self.is_null_safe]

    @classmethod
    def from_json(cls, value: Any) -> JoinKey:
        """Return the equality that `to_json` described."""
        left, right, field, is_null_safe = value
        return cls(read_text(left), read_text(right), read_field(field), read_flag(is_null_safe))


@dataclass(frozen=True)
class Join(Node):
    """The rows of two inputs joined by at least one equality.

    ``condition``: the residual condition in Spark's SQL over the fields of both; None if
    there are only equalities, as always in an inner join (a filter above has the rest). The names
    of the two inputs' fields are disjoint. ``presence``: of a full join a field of the left input
    and one of the right that are never NULL there: nothing else distinguishes a padded left row
    from a padded right row if both have nothing but NULLs in their keys. Fields: those of the keys,
    the left ones and, if the join gives pairs, the right ones.
    """

    operator = "join"

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[JoinKey, ...]
    condition: str | None = None
    presence: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        require(bool(self.keys), "a join needs an equality")
        require(not set(self.left.names) & set(self.right.names), "both sides have a field")
        is_inner = self.kind is JoinKind.INNER
        require(not is_inner or self.condition is None, "an inner join has a condition")
        require(self.kind is JoinKind.FULL or self.presence is None, "no full join has presence")

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
        """The distribution and the keys of the inputs, without a key that they determine.

        A row has at most one match if the join keys include the whole key of the other input.
        """
        left, right = self.left.key, self.right.key if self.kind.gives_pairs else ()
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and self._is_unique(self.right, "right"):
            right = ()
        elif self.kind in (JoinKind.INNER, JoinKind.RIGHT) and self._is_unique(self.left, "left"):
            left = ()
        return tuple(dict.fromkeys((*self._distribution, *(self.presence or ()), *left, *right)))

    @cached_property
    def distribution(self) -> Names | None:
        """The fields that hold the keys' values in every row."""
        return self._distribution

    @property
    def _distribution(self) -> Names:
        # If all rows of a side are in the result, its fields equal those of the keys.
        is_right = self.kind is JoinKind.RIGHT
        names = tuple(key.right if is_right else key.left for key in self.keys)
        if self.kind is JoinKind.FULL or len(set(names)) < len(names):
            return tuple(key.field.name for key in self.keys)
        return names

    def _is_unique(self, side: Node, name: Literal["left", "right"]) -> bool:
        """Return whether the join keys include a side's whole key: they match at most one row."""
        return set(side.key) <= {getattr(key, name) for key in self.keys}

    @property
    def input_distribution(self) -> Names | None:
        """The keys' fields, which are added to every input row before the executor."""
        return tuple(key.field.name for key in self.keys)

    @property
    def is_append_only(self) -> bool:
        """Whether no row is ever removed: inputs only grow, and no row needs a missing match."""
        grows = self.left.is_append_only and self.right.is_append_only
        return grows and self.kind in (JoinKind.INNER, JoinKind.SEMI)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The residual condition, if there is one."""
        return () if self.condition is None else (Expression(self.condition, types.Boolean()),)

    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the join with these inputs."""
        left, right = children
        return replace(self, left=left, right=right)

    def pruned(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the join of the fields that are read of each side, by the join or above it."""
        needed = {*read, *self.key}
        if self.condition is not None:
            needed |= fields_of(self.condition)
        left = needed & set(self.left.names) | {key.left for key in self.keys}
        right = needed & set(self.right.names) | {key.right for key in self.keys}
        return self.with_children(
            [self.left.pruned(left, fields_of), self.right.pruned(right, fields_of)]
        )

    @property
    def line(self) -> str:
        """``Join kind ON a = b AND (condition)``."""
        keys = " AND ".join(map(str, self.keys))
        condition = "" if self.condition is None else f" AND ({self.condition})"
        return f"Join {self.kind} ON {keys}{condition}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "kind": str(self.kind),
            "keys": [key.to_json() for key in self.keys],
            "condition": self.condition,
            "presence": None if self.presence is None else list(self.presence),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the join that `to_json` described."""
        keys = tuple(map(JoinKey.from_json, read_list(value["keys"])))
        condition = value["condition"]
        presence = None
        if value["presence"] is not None:
            in_left, in_right = read_names(value["presence"])
            presence = (in_left, in_right)
        return cls(
            read(value["left"]),
            read(value["right"]),
            JoinKind(value["kind"]),
            keys,
            None if condition is None else read_text(condition),
            presence,
        )

    def check(self) -> None:
        """ValueError, too, if a key or the presence does not fit the inputs."""
        for key in self.keys:
            sides = self.left.type_of(key.left), self.right.type_of(key.right)
            require(sides == (key.field.type,) * 2, f"the types of the join key {key} differ")
        is_full = self.kind is JoinKind.FULL
        require(is_full == (self.presence is not None), "a full join has presence, no other has")
        if self.presence is not None:
            check_names(self.presence[:1], self.left.names, "the presence of a join")
            check_names(self.presence[1:], self.right.names, "the presence of a join")
        super().check()


@dataclass(frozen=True)
class TopN(Unary):
    """The rows of every group at the positions ``offset`` to ``offset + limit`` of an order.

    Rows that are equal in the order are sorted by their keys. ``group``: fields of the child;
    ``is_global``: its only group field is a constant of the child. ``rank``: a further field with a
    row's position in its group, from 1; None if nothing reads it.
    """

    operator = "top_n"

    group: Names
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    rank: types.Field | None = None
    is_global: bool = False

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's fields and the rank."""
        return (*self.child.fields, *(() if self.rank is None else (self.rank,)))

    @cached_property
    def key(self) -> Names:
        """The group and the child's key."""
        return (*self.group, *(name for name in self.child.key if name not in self.group))

    @property
    def distribution(self) -> Names | None:
        """The group; a global top n is in vnode 0."""
        return () if self.is_global else self.group

    @property
    def input_distribution(self) -> Names | None:
        """The distribution of the output."""
        return self.distribution

    @property
    def is_append_only(self) -> bool:
        """False: an inserted row can push another one out of the window."""
        return False

    def pruned(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the top n of the fields that are read or sorted by; drops an unread rank."""
        needed = {*read, *self.key} & set(self.child.names)
        needed |= {*self.group, *(order.name for order in self.order)}
        rank = self.rank if self.rank is not None and self.rank.name in read else None
        return replace(self, child=self.child.pruned(needed, fields_of), rank=rank)

    @property
    def line(self) -> str:
        """``TopN limit after offset of each [group] by [order] place as rank``."""
        group = "" if self.is_global else f" of each [{', '.join(self.group)}]"
        offset = f" after {self.offset}" if self.offset else ""
        rank = f" place as {self.rank.name}" if self.rank else ""
        return f"TopN {self.limit}{offset}{group} by [{', '.join(map(str, self.order))}]{rank}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "order": [order.to_json() for order in self.order],
            "limit": self.limit,
            "offset": self.offset,
            "rank": None if self.rank is None else field_json(self.rank),
            "is_global": self.is_global,
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_orders(value["order"]),
            read_number(value["limit"], UNBOUNDED),
            read_number(value["offset"], UNBOUNDED),
            None if value["rank"] is None else read_field(value["rank"]),
            read_flag(value["is_global"]),
        )

    def check(self) -> None:
        """ValueError, too, if the group, the order or the rank does not fit the input."""
        require(bool(self.group), "the first rows of no group")
        check_names(self.group, self.child.names, "the group of a top n")
        check_names([order.name for order in self.order], self.child.names, "the order of a top n")
        require(not self.is_global or len(self.group) == 1, "a global top n has several groups")
        require(self.offset + self.limit < UNBOUNDED, "a top n has no bound")
        is_int = self.rank is None or self.rank.type == types.Int()
        require(is_int, "the rank of a top n is not an INT")
        super().check()


@dataclass(frozen=True)
class Materialize(Unary):
    """The root: the rows of the child as the view's table holds them.

    ``visible``: for each column of the SELECT its name and the child's field; the other
    fields of the key are stored in hidden columns. ``order``: the order by which the table is
    sorted before its key, if the SELECT ends in ORDER BY.
    """

    operator = "materialize"

    visible: tuple[tuple[str, str], ...]
    order: tuple[Order, ...] = ()

    @cached_property
    def stored(self) -> tuple[tuple[str, str], ...]:
        """For each column of the table its name and the child's field, the visible ones first.

        If several visible columns are the same field, the first is in the key.
        """
        seen = {field for _, field in self.visible}
        needed = dict.fromkeys((*(order.name for order in self.order), *self.child.key))
        taken = {name.lower() for name, _ in self.visible}
        hidden = [(free_name(f"_{name}", taken), name) for name in needed if name not in seen]
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
        """The primary key of the table: the order, then the rest of the key."""
        order = [Order(self._column_of(o.name), o.descending, o.nulls_first) for o in self.order]
        sorted_by = {column.name for column in order}
        return (*order, *(Order(name) for name in self.key if name not in sorted_by))

    @cached_property
    def distribution(self) -> Names | None:
        """The table's columns that hold the child's distribution; the key if it has none."""
        names = self.child.distribution
        return self.key if names is None else tuple(map(self._column_of, names))

    @property
    def input_distribution(self) -> Names | None:
        """The child's distribution; its key if it has none."""
        names = self.child.distribution
        return self.child.key if names is None else names

    def _column_of(self, field: str) -> str:
        return next(name for name, stored in self.stored if stored == field)

    def pruned(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the root over the fields that its table holds."""
        needed = {field for _, field in self.stored}
        return replace(self, child=self.child.pruned(needed, fields_of))

    @property
    def line(self) -> str:
        """``Materialize [field AS column] key [column] hidden [column]``."""
        columns = ", ".join(f if f == n else f"{f} AS {n}" for n, f in self.visible)
        hidden = f" hidden [{', '.join(self.hidden)}]" if self.hidden else ""
        return f"Materialize [{columns}] key [{', '.join(map(str, self.table_key))}]{hidden}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "visible": [list(column) for column in self.visible],
            "order": [order.to_json() for order in self.order],
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the root that `to_json` described."""
        visible = tuple(_read_visible(column) for column in read_list(value["visible"]))
        return cls(read(value["child"]), visible, read_orders(value["order"]))

    def check(self) -> None:
        """ValueError, too, if a column does not fit the input."""
        check_names([field for _, field in self.visible], self.child.names, "the view")
        check_names([order.name for order in self.order], self.child.names, "the view's order")
        super().check()


def _read_visible(value: Any) -> tuple[str, str]:
    name, field = value
    return read_text(name), read_text(field)
