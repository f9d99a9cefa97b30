"""Conditions on the primary key as ranges of keys.

A condition becomes *boxes*: for each key column a set of values, NULL alone, or None for all of
them; every row for which the condition is true is in one of the boxes. A box with single values in
the first columns of the key becomes keys, or prefixes with a range on the column after them.

Promises: every row for which the condition is true has a key in the ranges; it still has to be
evaluated on what is read. There are never more ranges than `MOST_RANGES`: more are replaced by
fewer and wider ones.
Does not know: bytes, vnodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any, TypeAlias

from ..schema.schema import Column, KeyColumn, KeyRange, TableSchema
from .condition import And, Condition, Member, Or, Truth
from .domain import domain_of
from .valueset import Ordinal, ValueSet, intersection, union

MOST_RANGES = 16_384
# A range in one key column of at most this many values is taken value by value.
_FEW_VALUES = 64


class _Null(Enum):
    """The side of a box that holds NULL and no value."""

    NULL = "NULL"


_Side: TypeAlias = ValueSet | _Null | None
_Box: TypeAlias = tuple[_Side, ...]


def key_ranges(condition: Condition, schema: TableSchema) -> tuple[KeyRange, ...] | None:
    """Return ranges that hold the keys of all rows for which a condition is true.

    None: it does not limit the key. Empty: it is true for no row. A range whose prefix is a whole
    key is a point.
    """
    boxes = _boxes(condition, schema.key_columns)
    free: _Box = (None,) * len(schema.key_columns)
    if free in boxes:
        return None
    key = _Key(schema)
    ranges = [key_range for box in boxes for key_range in key.ranges(box)]
    if len(ranges) > MOST_RANGES:
        ranges = list(key.ranges(_hull(boxes)))
    if KeyRange() in ranges or len(ranges) > MOST_RANGES:
        return None
    return tuple(ranges)


def _boxes(condition: Condition, keys: Sequence[Column]) -> list[_Box]:
    names = [column.name for column in keys]
    match condition:
        case Truth(value):
            return [(None,) * len(names)] if value else []
        case Member(path, _, values, when_null) if len(path) == 1 and path[0] in names:
            position = names.index(path[0])
            sides: list[_Side] = []
            if not values.is_empty:
                is_free = values.is_everything or domain_of(condition.type) is None
                sides.append(None if is_free else values)
            if when_null and keys[position].nullable and None not in sides:
                sides.append(_Null.NULL)
            return [
                tuple(side if index == position else None for index in range(len(names)))
                for side in sides
            ]
        case And(parts):
            return _crossed([_boxes(part, keys) for part in parts], len(names))
        case Or(parts):
            boxes = [box for part in parts for box in _boxes(part, keys)]
            return boxes if len(boxes) <= MOST_RANGES else [_hull(boxes)]
    return [(None,) * len(names)]


def _crossed(choices: list[list[_Box]], width: int) -> list[_Box]:
    """Return boxes for the rows that are in a box of each choice."""
    crossed: list[_Box] = [(None,) * width]
    for boxes in sorted(choices, key=len):
        if len(crossed) * len(boxes) > MOST_RANGES:
            boxes = [_hull(boxes)]
        pairs = (_intersected(first, second) for first, second in product(crossed, boxes))
        crossed = [box for box in pairs if box is not None]
    return crossed


def _intersected(first: _Box, second: _Box) -> _Box | None:
    """Return the box of the rows that are in both of two; None if there can be none."""
    sides: list[_Side] = []
    for left, right in zip(first, second, strict=True):
        if left is None or right is None or left == right:
            sides.append(right if left is None else left)
            continue
        if isinstance(left, _Null) or isinstance(right, _Null):
            return None
        side = intersection([left, right])
        if side.is_empty:
            return None
        sides.append(side)
    return tuple(sides)


def _hull(boxes: Sequence[_Box]) -> _Box:
    """Return a box around some boxes; there must be one."""
    return tuple(map(_around, zip(*boxes, strict=True)))


def _around(sides: Sequence[_Side]) -> _Side:
    """Return a side around some sides."""
    sets = [side for side in sides if isinstance(side, ValueSet)]
    if len(sets) == len(sides):
        return union(sets)
    # No set of values has NULL in it.
    return _Null.NULL if all(isinstance(side, _Null) for side in sides) else None


@dataclass(frozen=True, slots=True)
class _Key:
    """The primary key of a table: turns boxes into ranges of it."""

    schema: TableSchema

    def ranges(self, box: _Box) -> Iterator[KeyRange]:
        """Yield the ranges of a box, at most a few more than `MOST_RANGES`."""
        prefixes: list[tuple[Any, ...]] = [()]
        for position, values in enumerate(box):
            points = self._points(position, values)
            if points is None or len(prefixes) * len(points) > MOST_RANGES:
                break
            prefixes = [(*prefix, point) for prefix in prefixes for point in points]
        yield from self._within(prefixes, box, len(prefixes[0]))

    def _within(
        self, prefixes: list[tuple[Any, ...]], box: _Box, position: int
    ) -> Iterator[KeyRange]:
        """Yield the ranges of the column at ``position`` after each prefix."""
        bounds: list[tuple[Any, bool, Any, bool]] = [((), False, (), False)]
        if position < len(box):
            bounds = self._bounds(position, box[position])
            if len(bounds) * len(prefixes) > MOST_RANGES:
                bounds = self._bounds(position, _outer(box[position]))
        hashed = self._hashed(box, position)
        for prefix in prefixes:
            for start, after_start, stop, with_stop in bounds:
                for distribution in hashed:
                    yield KeyRange(
                        prefix,
                        (*prefix, *start) if start else (),
                        (*prefix, *stop) if stop else (),
                        after_start,
                        with_stop,
                        distribution,
                    )

    def _points(self, position: int, values: _Side) -> list[Any] | None:
        """Return the single values of a set; None if there are too many, or no last one."""
        if values is None:
            return None
        if isinstance(values, _Null):
            return [None]
        domain = domain_of(self.schema.key_columns[position].type)
        assert domain is not None
        points: list[Ordinal] = []
        for first, stop in values.ranges():
            if isinstance(first, int):
                assert domain.most is not None
                end = stop if isinstance(stop, int) else domain.most + 1
                if end - first > _FEW_VALUES:
                    return None
                points += range(first, end)
            elif stop == domain.after(first):
                points.append(first)
            else:
                return None
            if len(points) > MOST_RANGES:
                return None
        single_values = [domain.value(point) for point in points]
        return None if None in single_values else single_values

    def _bounds(
        self, position: int, values: _Side
    ) -> list[tuple[tuple[Any, ...], bool, tuple[Any, ...], bool]]:
        """Return (start, is it excluded, stop, is it included) of each range of a set.

        Start and stop are in the key's order: in a descending column the start is the greatest.
        """
        if not isinstance(values, ValueSet):
            return [((), False, (), False)]
        key: KeyColumn = self.schema.primary_key[position]
        domain = domain_of(self.schema.key_columns[position].type)
        assert domain is not None
        bounds = []
        for first, end in values.ranges():
            low = () if first == domain.least else _bound(domain.value(first))
            # The last value inside, where values have predecessors; otherwise the first outside.
            has_last = isinstance(end, int)
            last = end - 1 if isinstance(end, int) else end
            high = () if last is None else _bound(domain.value(last))
            if key.descending:
                bounds.append((high, not has_last, low, True))
            else:
                bounds.append((low, False, high, has_last))
        return bounds

    def _hashed(self, box: _Box, position: int) -> list[tuple[Any, ...] | None]:
        """Return the values of the distribution key that a box has and prefixes do not."""
        ids = [key.column_id for key in self.schema.primary_key]
        positions = [ids.index(column_id) for column_id in self.schema.distribution_key]
        if max(positions, default=-1) < position:
            return [None]
        columns = [self._points(index, box[index]) for index in positions]
        few = [points for points in columns if points is not None]
        count = 1
        for points in few:
            count *= len(points)
        if len(few) < len(columns) or count > _FEW_VALUES:
            return [None]
        return list(product(*few))


def _bound(value: Any) -> tuple[Any, ...]:
    # A value that Python cannot hold is not used as a bound.
    return () if value is None else (value,)


def _outer(values: _Side) -> _Side:
    """Return the range from the first value of a set to its last."""
    if not isinstance(values, ValueSet) or len(values.cuts) <= 2:
        return values
    ends = values.cuts[:1] if len(values.cuts) % 2 else (values.cuts[0], values.cuts[-1])
    return ValueSet(values.least, ends)
