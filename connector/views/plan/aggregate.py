"""The aggregate of a plan: groups, and what is told of each.

Does not know: how it is kept (executor/aggregate).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from relstate.storage import types

from .node import Names, Unary


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
class Aggregate(Unary):
    """One row a group: the group's fields, then the calls' outputs.

    ``group``: fields of the child. ``is_global``: the aggregate of a SELECT without GROUP BY, whose
    only group field is a constant of the child's, and which has one row always.
    DISTINCT is an aggregate without calls.
    """

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
        """The group; a global aggregate lives with vnode 0."""
        return () if self.is_global else self.group

    @property
    def is_append_only(self) -> bool:
        """False but for DISTINCT over rows that are only inserted: other groups change."""
        return not self.calls and self.child.is_append_only
