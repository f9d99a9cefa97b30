"""The layout of an aggregate's state: its tables, and the purpose of their columns.

Promises: a function of the node alone. One row per group has all parts; values that must be sorted
or counted individually have tables of their own.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from relstate.storage import errors, types
from relstate.vnode import cached_property

from ..plan.aggregate import COVARIANCES, Aggregate, Call, Function
from ..plan.node import Order, free_name
from .bits import WIDTHS, BitCounts
from .distinct import Distinct, distinct_table
from .executor import StateTableSpec
from .extreme import Extreme, extreme_table
from .floats import FloatSum, SquareSum
from .mode import Mode, rank_table
from .part import Count, Part, ValueSource, whole_sum
from .products import PAIR, ProductSum
from .result import Result

_EXTREMES = (Function.MIN, Function.MAX)
_SUMS = (Function.SUM, Function.AVG)
_BITS = (Function.BIT_AND, Function.BIT_OR, Function.BIT_XOR)
_WHOLE = (
    types.TinyInt,
    types.SmallInt,
    types.Int,
    types.BigInt,
    types.Decimal,
    types.DayTimeInterval,
)
_FLOATS = (types.Float, types.Double)
_ALL_ROWS = ValueSource(None, None, False)


class StateLayout:
    """The parts of an aggregate's state, each once, and the results of its calls.

    ``row_count``: the part that counts the rows of a group; a group exists while it has rows.
    """

    def __init__(self, node: Aggregate) -> None:
        """UnsupportedTypeError for a function that is not maintained over values of its type."""
        self.node = node
        self._parts: dict[tuple[str, ValueSource], Part] = {}
        self._taken = {name.lower() for name in node.group}
        self.row_count = self._count(_ALL_ROWS, "row")
        self.results = tuple(map(self._result, node.calls))
        self.parts = tuple(self._parts.values())

    @cached_property
    def groups(self) -> StateTableSpec:
        """The table of the groups."""
        node = self.node
        fields = (
            *node.group_fields,
            *(field for part in self.parts for field in part.fields),
        )
        key = tuple(map(Order, node.group))
        return StateTableSpec("groups", fields, key, node.distribution or ())

    @cached_property
    def extremes(self) -> tuple[tuple[tuple[Extreme, ...], StateTableSpec], ...]:
        """The extremes whose values are stored in a table, and these tables.

        The least and the greatest of the same values are the two ends of one table.
        """
        sharing: dict[tuple[type[Extreme], ValueSource], list[Extreme]] = {}
        for part in self.parts:
            if isinstance(part, Extreme) and not part.is_running:
                sharing.setdefault((type(part), part.source), []).append(part)
        roles: set[str] = set()
        tables = []
        for parts in sharing.values():
            suffixes = "_".join(part.suffix for part in parts)
            role = free_name(f"{suffixes}_{parts[0].argument}", roles)
            tables.append((tuple(parts), self._extreme_table(parts[0], role)))
        return tuple(tables)

    def _extreme_table(self, part: Extreme, role: str) -> StateTableSpec:
        if isinstance(part, Mode):
            return rank_table(self.node, part, role)
        return extreme_table(self.node, part, role)

    @cached_property
    def adding(self) -> tuple[Part, ...]:
        """The parts whose changes add up: all except the extremes with a table."""
        extremes = {part for parts, _ in self.extremes for part in parts}
        return tuple(part for part in self.parts if part not in extremes)

    @property
    def adds_up(self) -> bool:
        """Whether the changes of a group add up, so that no single row is needed."""
        return len(self.tables) == 1

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """The values that the parts read, each once, without those of DISTINCT calls."""
        sources = dict.fromkeys(part.source for part in self.parts)
        return tuple(source for source in sources if not source.is_distinct)

    @cached_property
    def distincts(self) -> tuple[Distinct, ...]:
        """The tables of distinct values, one per argument."""
        filters: dict[str, dict[str | None, None]] = {}
        for part in self.parts:
            if part.source.is_distinct:
                filters.setdefault(part.argument, {})[part.source.filter] = None
        return tuple(
            distinct_table(self.node, argument, tuple(conditions), f"distinct_{argument}")
            for argument, conditions in filters.items()
        )

    @property
    def tables(self) -> tuple[StateTableSpec, ...]:
        """All tables: the groups', the extremes', the distinct values'."""
        extremes = (spec for _, spec in self.extremes)
        return (self.groups, *extremes, *(distinct.spec for distinct in self.distincts))

    def _result(self, call: Call) -> Result:
        if call.argument is None:
            count = self._count(ValueSource(None, call.filter, False), call.output.name)
            return Result(call, (count,), None)
        argument = self.node.child.type_of(call.argument)
        return Result(call, self._parts_of(call, argument), argument)

    def _parts_of(self, call: Call, argument: types.DataType) -> tuple[Part, ...]:
        name = call.output.name
        if call.function in _EXTREMES:
            # The extreme of the distinct values is the extreme of all values.
            source = ValueSource(call.argument, call.filter, False)
            return (self._extreme(source, name, argument, call.function is Function.MAX),)
        if call.function is Function.MODE:
            # The table of the distinct values counts the rows of each.
            source = ValueSource(call.argument, call.filter, True)
            mode = partial(Mode.over, self.node, source, data_type=argument)
            return (self._part(name, source, mode),)
        source = ValueSource(call.argument, call.filter, call.is_distinct)
        if call.function is Function.COUNT:
            return (self._count(source, name),)
        if call.function in COVARIANCES and argument == PAIR:
            return (self._part(name, source, partial(ProductSum, source)),)
        if call.function in _BITS and type(argument) in WIDTHS:
            bits = self._part(name, source, partial(BitCounts, source, type=argument))
            return (bits, self._count(source, name))
        if call.function in _SUMS and isinstance(argument, _WHOLE):
            total = self._part(name, source, partial(whole_sum, source, data_type=argument))
            return (total, self._count(source, name))
        if not isinstance(argument, _FLOATS):
            raise errors.UnsupportedTypeError(
                f"{call.function} of {call.argument}, which is {argument}, is not kept by a "
                "materialized view; cast the argument to DOUBLE or to a decimal"
            )
        total = self._part(name, source, partial(FloatSum, source))
        if call.function in _SUMS:
            return (total,)
        return (total, self._part(name, source, partial(SquareSum, source)))

    def _count(self, source: ValueSource, name: str) -> Count:
        part = self._part(name, source, partial(Count, source))
        assert isinstance(part, Count)
        return part

    def _extreme(
        self, source: ValueSource, name: str, argument: types.DataType, is_greatest: bool
    ) -> Part:
        is_running = self.node.child.is_append_only
        return self._part(
            name,
            source,
            lambda column: Extreme(source, column, argument, is_greatest, is_running),
        )

    def _part(self, name: str, source: ValueSource, make: Callable[[str], Part]) -> Part:
        """Return the part of this kind over these values, a new one if there is none."""
        part, number = make(name), 2
        existing = self._parts.get((part.kind, source))
        if existing is not None:
            return existing
        while self._taken & _names(part):
            part, number = make(f"{name}_{number}"), number + 1
        self._parts[part.kind, source] = part
        self._taken |= _names(part)
        return part


def _names(part: Part) -> set[str]:
    return {field.name.lower() for field in part.fields}
