"""The aggregate operator: one row per group, with the outputs of aggregate calls.

Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .node import (
    Expression,
    FieldsOf,
    Grouped,
    Json,
    Names,
    Node,
    ReadNode,
    field_json,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_optional,
    read_text,
    require,
)


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
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    MODE = "mode"

    def sql(self, argument: str | None) -> str:
        """Return a call in Spark's SQL; ``argument``: as that of `Call`.

        Of several modes Spark returns the least with ``true``, and any without.
        """
        if argument is None:
            return f"{self}(*)"
        field = types.quoted(argument)
        if self in COVARIANCES:
            return f"{self}({field}.y, {field}.x)"
        return f"{self}({field}, true)" if self is Function.MODE else f"{self}({field})"


COVARIANCES = (Function.COVAR_POP, Function.COVAR_SAMP)


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call.

    ``argument``: a field of the child, None for count(*); for the functions of variance it is
    DOUBLE, for those of covariance a struct of two, y and x, neither of which is NULL.
    ``filter``: a BOOLEAN field of the child; only rows for which it is true are read.
    ``output``: the field of the result, of the type that it has in Spark. ``is_determined``: False
    for one of several values, each of which would be right, as a first one in no order.
    """

    function: Function
    argument: str | None
    output: types.Field
    is_distinct: bool = False
    filter: str | None = None
    is_determined: bool = True

    def __str__(self) -> str:
        condition = f" FILTER {self.filter}" if self.filter else ""
        return f"{self.text}{condition} AS {self.output.name}"

    @property
    def text(self) -> str:
        """The call for a person, without FILTER."""
        return f"{self.function}({'DISTINCT ' if self.is_distinct else ''}{self.argument or '*'})"

    @property
    def sql(self) -> str:
        """The call in Spark's SQL, without DISTINCT and FILTER: its type is that of the output."""
        return self.function.sql(self.argument)

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON values. On disk: never change a name."""
        return {
            "function": str(self.function),
            "argument": self.argument,
            "output": field_json(self.output),
            "is_distinct": self.is_distinct,
            "filter": self.filter,
            "is_determined": self.is_determined,
        }

    @classmethod
    def from_json(cls, value: Json) -> Call:
        """Return the call that `to_json` described."""
        return cls(
            Function(value["function"]),
            read_optional(value["argument"], read_text),
            read_field(value["output"]),
            read_flag(value["is_distinct"]),
            read_optional(value["filter"], read_text),
            read_flag(value["is_determined"]),
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
class Aggregate(Grouped):
    """One row per group: the group's fields, then the calls' outputs.

    A global aggregate, that of a SELECT without GROUP BY, always has one row. DISTINCT is an
    aggregate without calls.
    """

    operator = "aggregate"

    calls: tuple[Call, ...]

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The group's fields and the outputs of the calls."""
        return (*self.group_fields, *(call.output for call in self.calls))

    @property
    def key(self) -> Names:
        """The group."""
        return self.group

    @property
    def aggregate_expressions(self) -> tuple[Expression, ...]:
        """The calls."""
        return tuple(Expression(call.sql, call.output.type) for call in self.calls)

    @property
    def is_append_only(self) -> bool:
        """True only for DISTINCT over rows that are only inserted: other groups change."""
        return not self.calls and self.child.is_append_only

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the aggregate with the calls that are read; a global one keeps at least one."""
        calls = tuple(call for call in self.calls if call.output.name in read)
        if self.is_global and not calls:
            calls = self.calls[:1]
        inputs = {name for call in calls for name in (call.argument, call.filter) if name}
        child = self.child.prune({*self.group, *inputs}, fields_of)
        return replace(self, child=child, calls=calls)

    @property
    def explain_line(self) -> str:
        """``Aggregate by [field] [call AS field]``, or ``Distinct by [field]``."""
        group = self._group_text("by")
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
        return cls(read(value["child"]), group, calls, is_global=read_flag(value["is_global"]))

    def check(self) -> None:
        """ValueError, too, if a call does not fit the input."""
        super().check()
        for call in self.calls:
            call.check(self.child)
