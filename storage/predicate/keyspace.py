"""Conditions on the primary key as ranges of keys.

A condition is seen as *boxes*: for each key column a set of values, or none said; a row that
fulfils the condition lies in one of them. A box whose sets are single values down the key becomes
keys, or prefixes and a range on the column after them.

Promises: every row that fulfils the condition has a key in the ranges; the condition still has to
be evaluated on what is read. There are never more ranges than `MOST_RANGES`: what would need more
becomes fewer and wider ones.
Does not know: bytes, vnodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from ..schema.schema import Column, KeyColumn, KeyRange, TableSchema
from .condition import Condition, Every, Member, Some, Truth
from .domain import domain_of
from .valueset import Ordinal, ValueSet, intersection, union

MOST_RANGES = 16_384
# A range of so few values in one key column is as good as the values one by one.
_FEW_VALUES = 64

_Box: TypeAlias = tuple[ValueSet | None, ...]


def key_ranges(condition: Condition, schema: TableSchema) -> tuple[KeyRange, ...] | None:
    """Return ranges with the keys of all rows for which a condition is true.

    None: it says nothing about the key. Empty: no row can fulfil it. A range whose prefix holds
    the whole key is a point.
    """
    boxes = _boxes(condition, schema.key_columns)
    free: _Box = (None,) * len(schema.key_columns)
    if free in boxes:
        return None
    key = _Key(schema)
    ranges = [found for box in boxes for found in key.ranges(box)]
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
            place = names.index(path[0])
            if when_null and keys[place].nullable:
                # No set of values holds NULL.
                return [(None,) * len(names)]
            if values.is_empty:
                return []
            said = None if values.is_everything or domain_of(condition.type) is None else values
            return [tuple(said if index == place else None for index in range(len(names)))]
        case Every(parts):
            return _crossed([_boxes(part, keys) for part in parts], len(names))
        case Some(parts):
            boxes = [box for part in parts for box in _boxes(part, keys)]
            return boxes if len(boxes) <= MOST_RANGES else [_hull(boxes)]
    return [(None,) * len(names)]


def _crossed(choices: list[list[_Box]], width: int) -> list[_Box]:
    """Return the boxes in which a row lies that lies in a box of each choice."""
    found: list[_Box] = [(None,) * width]
    for boxes in sorted(choices, key=len):
        if len(found) * len(boxes) > MOST_RANGES:
            boxes = [_hull(boxes)]
        pairs = (_intersected(one, other) for one, other in product(found, boxes))
        found = [box for box in pairs if box is not None]
    return found


def _intersected(one: _Box, other: _Box) -> _Box | None:
    sides: list[ValueSet | None] = []
    for left, right in zip(one, other, strict=True):
        both = intersection([left, right]) if left and right else left or right
        if both is not None and both.is_empty:
            return None
        sides.append(both)
    return tuple(sides)


def _hull(boxes: Sequence[_Box]) -> _Box:
    """Return a box around some boxes, of which there is at least one."""
    sides = zip(*boxes, strict=True)
    return tuple(
        None if None in side else union([values for values in side if values is not None])
        for side in sides
    )


@dataclass(frozen=True, slots=True)
class _Key:
    """The primary key of a table, as boxes become ranges of it."""

    schema: TableSchema

    def ranges(self, box: _Box) -> Iterator[KeyRange]:
        """Yield the ranges of a box, no more than a few beyond the most there may be."""
        prefixes: list[tuple[Any, ...]] = [()]
        for place, values in enumerate(box):
            points = self._points(place, values)
            if points is None or len(prefixes) * len(points) > MOST_RANGES:
                break
            prefixes = [(*prefix, point) for prefix in prefixes for point in points]
        place = len(prefixes[0])
        yield from self._within(prefixes, box, place)

    def _within(self, prefixes: list[tuple[Any, ...]], box: _Box, place: int) -> Iterator[KeyRange]:
        """Yield the ranges of the column at ``place`` after each prefix."""
        bounds: list[tuple[Any, bool, Any, bool]] = [((), False, (), False)]
        if place < len(box):
            bounds = self._bounds(place, box[place])
            if len(bounds) * len(prefixes) > MOST_RANGES:
                bounds = self._bounds(place, _outer(box[place]))
        hashed = self._hashed(box, place)
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

    def _points(self, place: int, values: ValueSet | None) -> list[Any] | None:
        """Return the values of a set one by one; None if they are too many or have no end."""
        if values is None:
            return None
        domain = domain_of(self.schema.key_columns[place].type)
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
        found = [domain.value(point) for point in points]
        return None if None in found else found

    def _bounds(
        self, place: int, values: ValueSet | None
    ) -> list[tuple[tuple[Any, ...], bool, tuple[Any, ...], bool]]:
        """Return (start, is it excluded, stop, is it included) of each range of a set.

        In the key's order: of a descending column the greatest value comes first.
        """
        if values is None:
            return [((), False, (), False)]
        key: KeyColumn = self.schema.primary_key[place]
        domain = domain_of(self.schema.key_columns[place].type)
        assert domain is not None
        found = []
        for first, end in values.ranges():
            low = () if first == domain.least else _bound(domain.value(first))
            # The last value inside, where a value has one before it; else the first outside.
            has_last = isinstance(end, int)
            last = end - 1 if isinstance(end, int) else end
            high = () if last is None else _bound(domain.value(last))
            if key.descending:
                found.append((high, not has_last, low, True))
            else:
                found.append((low, False, high, has_last))
        return found

    def _hashed(self, box: _Box, place: int) -> list[tuple[Any, ...] | None]:
        """Return the values of the distribution key where a box says them, and prefixes do not."""
        ids = [key.column_id for key in self.schema.primary_key]
        places = [ids.index(column_id) for column_id in self.schema.distribution_key]
        if max(places, default=-1) < place:
            return [None]
        columns = [self._points(index, box[index]) for index in places]
        few = [points for points in columns if points is not None]
        count = 1
        for points in few:
            count *= len(points)
        if len(few) < len(columns) or count > _FEW_VALUES:
            return [None]
        return list(product(*few))


def _bound(value: Any) -> tuple[Any, ...]:
    # A value that Python cannot hold bounds nothing.
    return () if value is None else (value,)


def _outer(values: ValueSet | None) -> ValueSet | None:
    """Return the one range from the first value of a set to its last."""
    if values is None or len(values.cuts) <= 2:
        return values
    ends = values.cuts[:1] if len(values.cuts) % 2 else (values.cuts[0], values.cuts[-1])
    return ValueSet(values.least, ends)
