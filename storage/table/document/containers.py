"""Values that have parts: which parts each of their types has.

    struct   its fields that are not NULL, each under its number
    map      its entries, each under its key
    array    its elements, each under its place
    set      the elements of an array that are distinct and in order, each under itself
    variant  the fields of objects, each under its key, at any depth; see variantshape.py
    others   none: a value is written and replaced whole

A struct with a field that is NOT NULL has no parts, because the field could not be missing alone;
nor has one with two fields of a name, or a map whose keys have no order (collated text).

Does not know: which of several parts at a path counts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...codec.key_field import Tagged, join, key_field_of
from ...codec.path import (
    MAX_NUMBER,
    NUMBER_BYTES,
    PLACE_BYTES,
    check_places,
    extended,
    load_numbers,
    number_component,
    place_components,
)
from ...codec.ragged import (
    Bytes,
    Positions,
    concat,
    first_of_equal,
    from_matrix,
    lengths_of,
    parts_of,
)
from ...codec.value_field import arrow_offsets
from ...errors import NullValueError, SchemaError
from ...schema import types as t
from ...segment.key import Kind
from .itemkeys import begin_items, read_keys
from .part import Parts
from .shape import MOST_DEPTH, Branch, Flags, Items, Leaf, PutParts, Shape, validity_of
from .variantshape import VariantShape


class _Container(Shape):
    """Values that have parts. ``keeps_nulls``: whether an item that is NULL is a part."""

    has_parts = True
    keeps_nulls = True

    @abstractmethod
    def items(self, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the items of some values, none of them NULL."""

    def explode(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return an OBJECT for each value, and the parts of its items."""
        valid = np.asarray(values.is_valid())
        pieces = [
            self._parts(values, paths, np.where(valid, Kind.OBJECT, Kind.PUT).astype(np.uint8))
        ]
        for items in self._present_items(valid, values, paths):
            owners, item_values, item_paths = items.owners, items.values, items.paths
            if not self.keeps_nulls and item_values.null_count:
                rows = np.flatnonzero(np.asarray(item_values.is_valid()))
                indices = pa.array(rows)
                owners = owners[rows]
                item_values, item_paths = item_values.take(indices), item_paths.take(indices)
            pieces.append(items.shape.explode(item_values, item_paths).owned_by(owners))
        return Parts.joined(pieces)

    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return a DELETE for each NULL, and what changes the items of the other values."""
        valid = np.asarray(values.is_valid())
        nulls = np.flatnonzero(~valid)
        pieces = [self.deletes(paths.take(pa.array(nulls))).owned_by(nulls)]
        pieces += [
            items.shape.patch(items.values, items.paths, put).owned_by(items.owners)
            for items in self._present_items(valid, values, paths)
        ]
        return Parts.joined(pieces)

    def _present_items(self, valid: Flags, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the items of the values that are not NULL; they are owned by these values."""
        present = np.flatnonzero(valid)
        # A copy begins at offset 0, which a slice of an Arrow array does not.
        rows = pa.array(present)
        for items in self.items(values.take(rows), paths.take(rows)):
            yield Items(items.shape, items.values, present[items.owners], items.paths)

    def _own_and_below(
        self, count: int, parts: Parts, starts: Positions
    ) -> tuple[Flags, Positions]:
        """Return which values there are, and the indices of the parts below them."""
        is_below = starts < lengths_of(parts.paths)
        exists = np.zeros(count, np.bool_)
        exists[parts.owners[is_below | (parts.kinds == Kind.OBJECT)]] = True
        return exists, np.flatnonzero(is_below)


class StructShape(_Container):
    """Structs all of whose fields are nullable."""

    keeps_nulls = False

    def __init__(self, struct: t.Struct, depth: int) -> None:
        super().__init__(struct, depth)
        self._fields = [shape_of(field.type, depth + 1) for field in struct.fields]
        self._indices = {field.name: index for index, field in enumerate(struct.fields)}
        self.has_places = any(field.has_places for field in self._fields)

    def items(self, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the fields that the structs have, each of all structs."""
        owners = np.arange(len(values))
        for field, column in zip(values.type, values.flatten(), strict=True):
            index = self._indices[field.name]
            item_paths = extended(paths, number_component(index + 1))
            yield Items(self._fields[index], column, owners, item_paths)

    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the parts in each field that has any."""
        data, offsets = parts_of(parts.paths)
        numbers = load_numbers(data, offsets[:-1][rows] + starts)
        if len(numbers) and not (1 <= numbers.min() <= numbers.max() <= len(self._fields)):
            raise ValueError(f"a path names a field that {self.arrow_type} does not have")
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            yield Branch(self._fields[number - 1], rows[chosen], starts[chosen] + NUMBER_BYTES)

    def collect(self, count: int, parts: Parts, starts: Positions) -> pa.Array:
        """Return the structs; a field without a part is NULL."""
        exists, below = self._own_and_below(count, parts, starts)
        columns = [pa.nulls(count, field.arrow_type) for field in self._fields]
        for branch in self.branches(parts, below, starts[below]):
            columns[self._fields.index(branch.shape)] = branch.shape.collect(
                count, parts.take(branch.rows), branch.starts
            )
        return pa.Array.from_buffers(
            self.arrow_type, count, [validity_of(exists)], children=columns
        )


class _Sequence(_Container):
    """Values of any number of items, in the order of their components."""

    def __init__(self, data_type: t.DataType, item: t.DataType, depth: int) -> None:
        super().__init__(data_type, depth)
        self._item = shape_of(item, depth + 1)
        self.has_places = self._item.has_places

    def collect(self, count: int, parts: Parts, starts: Positions) -> pa.Array:
        """Return the values, their items in order."""
        exists, below = self._own_and_below(count, parts, starts)
        members = parts.take(below)
        member_starts = starts[below]
        rows = np.arange(len(members))
        ends = np.zeros(0, np.int64)
        for branch in self.branches(members, rows, member_starts):
            ends = branch.starts
        is_first = begin_items(members, member_starts, ends)
        numbers = np.cumsum(is_first) - 1
        firsts = np.flatnonzero(is_first)
        own = Parts(numbers, members.paths, members.depths, members.kinds, members.bodies)
        items = self._item.collect(len(firsts), own, ends)
        counts = np.bincount(members.owners[firsts], minlength=count)
        offsets = arrow_offsets(np.concatenate([[0], np.cumsum(counts)]))
        buffers = [validity_of(exists), offsets]
        elements = self._elements(members.take(firsts), member_starts[firsts], items)
        return pa.Array.from_buffers(self.arrow_type, count, buffers, children=[elements])

    def _elements(self, firsts: Parts, starts: Positions, items: pa.Array) -> pa.Array:
        """Return the elements of the Arrow array. ``firsts``: the first part of each item."""
        return items


class ListShape(_Sequence):
    """Arrays: an element is known by its place."""

    def __init__(self, data_type: t.DataType, item: t.DataType, depth: int) -> None:
        super().__init__(data_type, item, depth)
        self.has_places = True

    def items(self, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the elements of all arrays."""
        bounds = np.asarray(values.offsets).astype(np.int64)
        counts = np.diff(bounds)
        owners = np.repeat(np.arange(len(values)), counts)
        places = np.arange(len(owners)) - np.repeat(bounds[:-1] - bounds[0], counts)
        yield self.items_at(values, paths, owners, place_components(places))

    def items_at(self, values: pa.Array, paths: Bytes, owners: Positions, places: Bytes) -> Items:
        """Return the elements of all arrays, at some places.

        ``owners``: the number of the array of each; ``places``: components.
        """
        item_paths = extended(paths.take(pa.array(owners)), places)
        return Items(self._item, values.flatten(), owners, item_paths)

    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the parts in the elements."""
        data, offsets = parts_of(parts.paths)
        if len(rows):
            check_places(data, offsets[:-1][rows] + starts)
            yield Branch(self._item, rows, starts + PLACE_BYTES)

    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return a DELETE for each NULL, and what replaces the arrays by the others."""
        return _replaced(self, values, paths, put)


class _Keyed(_Sequence):
    """Values whose items are known by a key, which is in the path."""

    def __init__(
        self, data_type: t.DataType, key: t.DataType, item: t.DataType, depth: int
    ) -> None:
        super().__init__(data_type, item, depth)
        self._key = Tagged(key_field_of(key))

    def components(self, keys: pa.Array) -> Bytes:
        """Return the components of the items under some keys, none of which is NULL."""
        if not len(keys):
            return pa.array([], pa.large_binary())
        return join(self._key.parts(keys), len(keys))

    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the parts in the items."""
        if len(rows):
            yield Branch(self._item, rows, starts + read_keys(self._key, parts, rows, starts)[1])


class MapShape(_Keyed):
    """Maps whose keys have an order."""

    def __init__(self, data_type: t.Map, depth: int) -> None:
        super().__init__(data_type, data_type.key, data_type.value, depth)

    def items(self, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the values of the entries of all maps."""
        bounds = np.asarray(values.offsets).astype(np.int64)
        owners = np.repeat(np.arange(len(values)), np.diff(bounds))
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        components = self.components(values.keys.slice(first, count))
        item_paths = extended(paths.take(pa.array(owners)), components)
        yield Items(self._item, values.items.slice(first, count), owners, item_paths)

    def _elements(self, firsts: Parts, starts: Positions, items: pa.Array) -> pa.Array:
        keys, _ = read_keys(self._key, firsts, np.arange(len(firsts)), starts)
        fields = [self.arrow_type.key_field, self.arrow_type.item_field]
        return pa.StructArray.from_arrays([keys, items], fields=fields)


class SetShape(_Keyed):
    """Arrays of distinct elements in order: an element is its own key, and has no value."""

    def __init__(self, data_type: t.Array, depth: int) -> None:
        super().__init__(data_type, data_type.element, t.Void(), depth)

    def whole(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return one part for each value, with distinct elements."""
        return super().whole(self.distinct(values), paths)

    def items(self, values: pa.Array, paths: Bytes) -> Iterator[Items]:
        """Yield the elements of all sets. NullValueError for one that is NULL."""
        owners = np.repeat(np.arange(len(values)), np.diff(np.asarray(values.offsets)))
        elements = self._present(values)
        item_paths = extended(paths.take(pa.array(owners)), self.components(elements))
        yield Items(self._item, pa.nulls(len(elements)), owners, item_paths)

    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return a DELETE for each NULL, and what replaces the sets by the others."""
        return _replaced(self, values, paths, put)

    def distinct(self, values: pa.Array) -> pa.Array:
        """Return arrays with each of their elements once, in order. NullValueError for a NULL."""
        counts = np.asarray(pc.list_value_length(values).fill_null(0))
        owners = np.repeat(np.arange(len(values)), counts)
        elements = self._present(values)
        numbers = from_matrix(owners.astype(">u8").view(np.uint8).reshape(len(owners), 8))
        chosen = first_of_equal(concat([numbers, self.components(elements)]))
        ends = np.cumsum(np.bincount(owners[chosen], minlength=len(values)))
        offsets = arrow_offsets(np.concatenate([[0], ends]))
        buffers = [validity_of(np.asarray(values.is_valid())), offsets]
        children = [elements.take(pa.array(chosen))]
        return pa.Array.from_buffers(self.arrow_type, len(values), buffers, children=children)

    def _present(self, values: pa.Array) -> pa.Array:
        """Return the elements of all arrays. NullValueError for one that is NULL."""
        elements = values.flatten()
        if elements.null_count:
            raise NullValueError(f"an element of a set is NULL in {values.type}; leave NULLs out")
        return elements

    def _elements(self, firsts: Parts, starts: Positions, items: pa.Array) -> pa.Array:
        return read_keys(self._key, firsts, np.arange(len(firsts)), starts)[0]


def _replaced(shape: Shape, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
    """Return a DELETE for each NULL, and what replaces what is at the paths by the others."""
    valid = np.asarray(values.is_valid())
    nulls, present = np.flatnonzero(~valid), np.flatnonzero(valid)
    rest = pa.array(present)
    return Parts.joined(
        [
            shape.deletes(paths.take(pa.array(nulls))).owned_by(nulls),
            put(shape, values.take(rest), paths.take(rest)).owned_by(present),
        ]
    )


def shape_of(data_type: t.DataType, depth: int) -> Shape:
    """Return the shape of the values of a type whose paths have ``depth`` components."""
    if depth < MOST_DEPTH:
        match data_type:
            case t.Struct(fields) if _has_parts(fields):
                return StructShape(data_type, depth)
            case t.Map(key, _, _) if _has_order(key):
                return MapShape(data_type, depth)
            case t.Array(element, _):
                return ListShape(data_type, element, depth)
            case t.Variant():
                return VariantShape(depth)
    return Leaf(data_type, depth)


def _has_parts(fields: tuple[t.Field, ...]) -> bool:
    names = {field.name.lower() for field in fields}
    return 0 < len(names) == len(fields) <= MAX_NUMBER and all(field.nullable for field in fields)


def _has_order(data_type: t.DataType) -> bool:
    try:
        key_field_of(data_type)
    except SchemaError:
        return False
    return True
