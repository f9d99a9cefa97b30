"""Keyed recompute: operators that are evaluated again over all rows of the keys that changed.

A *key* is a group of a GROUP BY or a partition of a window. What such an operator returns for a key
depends only on the input rows of that key. Its executors keep the input rows and the output rows.
Between them Spark evaluates the calls, whose text is its own SQL, over the input rows of the keys
that changed; sessions, which are no call, are found by the tasks themselves.

Does not know: how an operator is maintained (executor), or what a call means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from relstate.storage import types
from relstate.vnode import cached_property

from .aggregate import Aggregate
from .node import (
    Expression,
    FieldsOf,
    Grouped,
    Json,
    Names,
    Node,
    Order,
    ReadNode,
    check_names,
    field_json,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_optional,
    read_orders,
    read_text,
    require,
)


@dataclass(frozen=True, slots=True)
class RecomputedCall(ABC):
    """A call that Spark evaluates.

    ``text``: in Spark's SQL, over fields of the child and constants. ``output``: its field.
    """

    text: str
    output: types.Field

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON values. On disk: never change a name."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Json) -> RecomputedCall:
        """Return the call that `to_json` described."""


@dataclass(frozen=True)
class KeyedRecompute(Grouped):
    """An operator that is evaluated again for the groups whose rows changed."""

    @property
    def is_append_only(self) -> bool:
        """False: an inserted row can change the output for all rows of its group."""
        return False

    @property
    def is_of_spark(self) -> bool:
        """Whether Spark evaluates it, by default; otherwise tasks do, without a shuffle for it."""
        return True

    @property
    def is_never_empty(self) -> bool:
        """Whether there may be rows even if the input has none; by default not."""
        return False

    @property
    def distinct_sets(self) -> tuple[DistinctSet, ...]:
        """What calls with DISTINCT read only once per key, each set once; by default none."""
        return ()

    def _cost(self, key: str) -> str:
        """Return what EXPLAIN shows of the cost; ``key``: what the rows of one key are."""
        return f"by keyed recompute, a change costs {'all rows' if self.is_global else key}"


@dataclass(frozen=True)
class CallRecompute(KeyedRecompute):
    """A keyed recompute of calls."""

    call_type: ClassVar[type[RecomputedCall]]

    calls: tuple[RecomputedCall, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "is_global": self.is_global,
            "calls": [call.to_json() for call in self.calls],
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        group, is_global = read_names(value["group"]), read_flag(value["is_global"])
        calls = tuple(map(cls.call_type.from_json, read_list(value["calls"])))
        return cls(read(value["child"]), group, calls, is_global=is_global)

    def check(self) -> None:
        """ValueError, too, if there are no calls."""
        require(bool(self.calls), f"{self.operator} has no calls")
        super().check()


@dataclass(frozen=True, slots=True)
class DistinctSet:
    """The rows of a key that are the first with their values in ``columns``.

    ``filter``: a BOOLEAN field; only rows for which it is true are considered.
    """

    columns: Names
    filter: str | None


_RESPECT_NULLS = " RESPECT NULLS"


@dataclass(frozen=True, slots=True)
class GroupCall(RecomputedCall):
    """An aggregate call; its text has no DISTINCT and no FILTER.

    ``distinct``: the fields whose values are read once per group; None for a call without DISTINCT.
    ``filter``: a BOOLEAN field of the child; only rows for which it is true are read.
    """

    distinct: Names | None = None
    filter: str | None = None

    def __str__(self) -> str:
        distinct = "" if self.distinct is None else f" DISTINCT ({', '.join(self.distinct)})"
        condition = f" FILTER {self.filter}" if self.filter else ""
        return f"{self.text}{distinct}{condition} AS {self.output.name}"

    def sql(self, condition: str | None, *, is_distinct: bool = False) -> str:
        """Return the call in Spark's SQL, over the rows that meet a condition."""
        text = self.text.removesuffix(_RESPECT_NULLS)
        nulls = "" if text == self.text else _RESPECT_NULLS
        if is_distinct:
            text = text.replace("(", "(DISTINCT ", 1)
        # Spark takes FILTER before RESPECT NULLS alone.
        return f"{text}{'' if condition is None else f' FILTER (WHERE {condition})'}{nulls}"

    @property
    def distinct_set(self) -> DistinctSet | None:
        """The rows that the call reads; None without DISTINCT."""
        return None if self.distinct is None else DistinctSet(self.distinct, self.filter)

    @property
    def inputs(self) -> Names:
        """The fields that it reads besides those in its text."""
        return (*(self.distinct or ()), *((self.filter,) if self.filter else ()))

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON values. On disk: never change a name."""
        return {
            "text": self.text,
            "output": field_json(self.output),
            "distinct": None if self.distinct is None else list(self.distinct),
            "filter": self.filter,
        }

    @classmethod
    def from_json(cls, value: Json) -> GroupCall:
        """Return the call that `to_json` described."""
        return cls(
            read_text(value["text"]),
            read_field(value["output"]),
            read_optional(value["distinct"], read_names),
            read_optional(value["filter"], read_text),
        )


@dataclass(frozen=True)
class GroupRecompute(CallRecompute):
    """One row per group: the group's fields, then the calls' outputs.

    ``is_global``: the aggregate of a SELECT without GROUP BY, which always has one row.
    """

    operator = "group_recompute"
    call_type = GroupCall

    calls: tuple[GroupCall, ...]

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The group's fields and the outputs of the calls."""
        return (*self.group_fields, *(call.output for call in self.calls))

    @property
    def key(self) -> Names:
        """The group."""
        return self.group

    @property
    def is_never_empty(self) -> bool:
        """Whether it is global."""
        return self.is_global

    @cached_property
    def distinct_sets(self) -> tuple[DistinctSet, ...]:
        """Those of the calls, each once."""
        sets = (call.distinct_set for call in self.calls)
        return tuple(dict.fromkeys(rows for rows in sets if rows is not None))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The calls."""
        return tuple(Expression(call.text, call.output.type) for call in self.calls)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator with the calls that are read; a global one keeps at least one.

        Without calls it is a DISTINCT.
        """
        calls = tuple(call for call in self.calls if call.output.name in read)
        if self.is_global and not calls:
            calls = self.calls[:1]
        inputs = {name for call in calls for name in (*fields_of(call.text), *call.inputs)}
        child = self.child.prune({*self.group, *inputs}, fields_of)
        if not calls:
            return Aggregate(child, self.group, ())
        return replace(self, child=child, calls=calls)

    @property
    def explain_line(self) -> str:
        """``Aggregate by [field] [call AS field] by keyed recompute, a change costs its group``."""
        group = self._group_text("by")
        return f"Aggregate{group} [{', '.join(map(str, self.calls))}] {self._cost('its group')}"

    def check(self) -> None:
        """ValueError, too, if a call does not fit the input."""
        for call in self.calls:
            check_names(call.inputs, self.child.names, f"a call of {self.operator}")
            is_condition = call.filter is None or self.child.type_of(call.filter) == types.Boolean()
            require(is_condition, f"the filter {call.filter!r} is not a BOOLEAN")
        super().check()


@dataclass(frozen=True, slots=True)
class WindowCall(RecomputedCall):
    """A window function; its text has no OVER.

    ``order``: the fields by which a partition is sorted. ``frame``: the frame in Spark's SQL; None
    for the default one.
    """

    order: tuple[Order, ...] = ()
    frame: str | None = None

    def __str__(self) -> str:
        order = f"ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        clauses = " ".join(clause for clause in (order, self.frame) if clause)
        return f"{self.text} OVER ({clauses}) AS {self.output.name}"

    def sql(self, partition: Sequence[str]) -> str:
        """Return the function in Spark's SQL over partitions by some columns."""
        clauses = [f"PARTITION BY {', '.join(map(types.quoted, partition))}"]
        if self.order:
            clauses.append(f"ORDER BY {', '.join(order.sql for order in self.order)}")
        if self.frame is not None:
            clauses.append(self.frame)
        return f"{self.text} OVER ({' '.join(clauses)})"

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values. On disk: never change a name."""
        return {
            "text": self.text,
            "output": field_json(self.output),
            "order": [order.to_json() for order in self.order],
            "frame": self.frame,
        }

    @classmethod
    def from_json(cls, value: Json) -> WindowCall:
        """Return the function that `to_json` described."""
        return cls(
            read_text(value["text"]),
            read_field(value["output"]),
            read_orders(value["order"]),
            read_optional(value["frame"], read_text),
        )


@dataclass(frozen=True)
class WindowRecompute(CallRecompute):
    """Every row of the child with the values of window functions over its partition.

    Rows that are equal in the order of a function are taken in the order of their keys.
    """

    operator = "window_recompute"
    call_type = WindowCall

    calls: tuple[WindowCall, ...]

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's fields and the outputs of the functions."""
        return (*self.child.fields, *(call.output for call in self.calls))

    @property
    def key(self) -> Names:
        """The group and the rest of the child's key."""
        return self.row_key

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The functions over their partitions."""
        return tuple(Expression(call.sql(self.group), call.output.type) for call in self.calls)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator with the functions that are read, and at least one."""
        calls = tuple(call for call in self.calls if call.output.name in read) or self.calls[:1]
        inputs = {name for call in calls for name in fields_of(call.text)}
        inputs |= {order.name for call in calls for order in call.order}
        needed = {*read, *self.key} & set(self.child.names) | inputs
        return replace(self, child=self.child.prune(needed, fields_of), calls=calls)

    @property
    def explain_line(self) -> str:
        """``Window of each [field] [function OVER (…) AS field] by keyed recompute, …``."""
        group = self._group_text("of each")
        return f"Window{group} [{', '.join(map(str, self.calls))}] {self._cost('its partition')}"

    def check(self) -> None:
        """ValueError, too, if a function does not fit the input."""
        for call in self.calls:
            names = [order.name for order in call.order]
            check_names(names, self.child.names, f"the order of {self.operator}")
        super().check()
