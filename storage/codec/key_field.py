"""The fields of a key: values of one type as bytes that sort as the values do.

A field gives its *parts*: a part is one piece of every row of a batch, a constant, one unsigned
number per row (written big endian), or one run of bytes per row. Numbers stay numbers until parts
are joined, because copying them into place is ten times as fast as moving their bytes.

    field        tag | value, or the tag alone if NULL; see `Tagged`
    fixed width  unsigned numbers, big endian; see sortable.py
    text, bytes  0x00 becomes 0x00 0x01; then 0x00 0x00
    struct       its fields, NULLs first
    array        0x01 and a field, NULLs first, for each element; then 0x00

On disk: never change. Everything here ascends; memcomparable.py inverts what descends.
Promises that no value's bytes are a prefix of another's, and to read back what was written.
Does not know: keys, columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.vnode import cached_property

from ..errors import SchemaError
from ..schema import types as t
from ..schema.arrow import arrow_type
from .ragged import (
    Buffer,
    Bytes,
    Positions,
    concat,
    content_of,
    from_binary,
    from_matrix,
    from_parts,
    gather,
    load,
    parts_of,
)
from .sortable import Numbers, Sortable, sortable
from .value_field import check_offsets

Part: TypeAlias = bytes | Numbers | Bytes

# On disk: never change.
VALUE_TAG, NULL_FIRST_TAG, NULL_LAST_TAG = 0x01, 0x00, 0x02
TERMINATOR, ZERO, ESCAPED_ZERO = b"\x00\x00", b"\x00", b"\x00\x01"
ELEMENT, END_OF_ARRAY = 0x01, 0x00


def inverted(part: Part) -> Part:
    """Return the part with every bit flipped: what sorted first sorts last."""
    if isinstance(part, bytes):
        return bytes(byte ^ 0xFF for byte in part)
    if isinstance(part, np.ndarray):
        return ~part
    offsets = parts_of(part)[1]
    return from_parts(~content_of(part), offsets - offsets[0])


def join(parts: Sequence[Part], rows: int) -> Bytes:
    """Return, row by row, the concatenation of the parts, of which there is at least one."""
    joined: list[Bytes] = []
    for is_bytes_array, group in groupby(parts, lambda part: isinstance(part, pa.Array)):
        neighbours = list(group)
        joined += neighbours if is_bytes_array else [_side_by_side(neighbours, rows)]
    return joined[0] if len(joined) == 1 else concat(joined)


def _side_by_side(parts: Sequence[bytes | Numbers], rows: int) -> Bytes:
    formats = [
        f"S{len(part)}" if isinstance(part, bytes) else f">u{part.itemsize}" for part in parts
    ]
    table = np.empty(
        rows, np.dtype([(f"part{number}", kind) for number, kind in enumerate(formats)])
    )
    for name, part in zip(table.dtype.names or (), parts, strict=True):
        table[name] = part
    return from_matrix(table.view(np.uint8).reshape(rows, table.dtype.itemsize))


class KeyBytes:
    """The bytes of a batch of keys, one after another, as fields read them."""

    def __init__(self, data: Buffer) -> None:
        self.data = data

    @cached_property
    def terminators(self) -> Positions:
        """The positions of two zero bytes in a row; no text holds such a pair before its end."""
        zero = self.data == 0
        return np.flatnonzero(zero[:-1] & zero[1:])

    @cached_property
    def inverted(self) -> KeyBytes:
        """The same bytes with every bit flipped, as descending columns were before."""
        return KeyBytes(~self.data)


class KeyField(ABC):
    """Values of one type, none of them NULL.

    ``width``: how many bytes every value takes; None if that depends on the value.
    """

    width: int | None = None

    @abstractmethod
    def parts(self, array: pa.Array) -> list[Part]:
        """Return the pieces whose concatenation encodes ``array``, which holds no NULL."""

    def tagged_parts(self, array: pa.Array, null_tag: int) -> list[Part]:
        """Return the pieces of values with a tag before each, of which some are NULL."""
        present = array.drop_null()
        encoded = join([bytes([VALUE_TAG]), *self.parts(present)], len(present))
        valid = np.asarray(array.is_valid())
        return [_spread(encoded, valid).fill_null(bytes([null_tag]))]

    @abstractmethod
    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        """Return the values that begin at ``starts``, which ascend, and where each ends.

        ValueError or IndexError if the bytes are not those of such values.
        """


def key_field_of(data_type: t.DataType, *, tells_zeros: bool = False) -> KeyField:
    """Return the field for a type; SchemaError if values of the type have no order.

    ``tells_zeros``: as in `sortable`.
    """
    fixed = sortable(data_type, tells_zeros=tells_zeros)
    if fixed is not None:
        return _FixedKeyField(fixed)
    match data_type:
        case t.String() if not data_type.is_collated:
            return _TextField(pa.string())
        case t.Binary():
            return _TextField(pa.binary())
        case t.Struct():
            return _StructField(data_type, tells_zeros)
        case t.Array():
            return _ArrayField(data_type, tells_zeros)
    raise SchemaError(f"a column of type {data_type} cannot be in a key: its values have no order")


class Tagged:
    """A field that may be NULL: a tag, then the value if there is one."""

    def __init__(self, field: KeyField, null_tag: int = NULL_FIRST_TAG) -> None:
        self._field = field
        self._null_tag = null_tag
        self.width = None if field.width is None else field.width + 1

    def parts(self, array: pa.Array) -> list[Part]:
        """Return the pieces whose concatenation encodes ``array``."""
        if not array.null_count:
            return [bytes([VALUE_TAG]), *self._field.parts(array)]
        return self._field.tagged_parts(array, self._null_tag)

    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        """Return the values that begin at ``starts``, and where each ends; see `Field.read`."""
        tags = keys.data[starts]
        valid = tags == VALUE_TAG
        if valid.all():
            return self._field.read(keys, starts + 1)
        if (tags[~valid] != self._null_tag).any():
            raise ValueError("a field of a key begins with an unknown tag")
        ends = starts + 1
        array, ends[valid] = self._field.read(keys, ends[valid])
        return _spread(array, valid), ends


def _spread(values: pa.Array, valid: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    """Return ``values`` in the rows that are valid, NULL in the others."""
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


class _FixedKeyField(KeyField):
    def __init__(self, form: Sortable) -> None:
        self._form = form
        self.width = sum(form.sizes)

    def parts(self, array: pa.Array) -> list[Part]:
        return [*self._form.numbers(array)]

    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        numbers = []
        for size in self._form.sizes:
            numbers.append(load(keys.data, starts, f">u{size}").astype(f"u{size}"))
            starts = starts + size
        return self._form.values(numbers), starts


class _TextField(KeyField):
    def __init__(self, arrow: pa.DataType) -> None:
        self._arrow = arrow

    def parts(self, array: pa.Array) -> list[Part]:
        text = from_binary(array)
        if _has_zero(text):
            text = pc.replace_substring(text, ZERO, ESCAPED_ZERO)
        return [text, TERMINATOR]

    def tagged_parts(self, array: pa.Array, null_tag: int) -> list[Part]:
        # They are joined once: other fields join the values without the NULLs first.
        valid = np.asarray(array.is_valid())
        text, terminator = self.parts(array.fill_null(""))
        assert isinstance(terminator, bytes)
        ends = np.append(0, np.cumsum(valid) * len(terminator))
        content = np.frombuffer(terminator * int(np.count_nonzero(valid)), np.uint8)
        tags = np.where(valid, VALUE_TAG, null_tag).astype(np.uint8)
        return [tags, text, from_parts(content, ends)]

    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        stops = keys.terminators[np.searchsorted(keys.terminators, starts)]
        text: pa.Array = gather(keys.data, starts, stops - starts)
        if _has_zero(text):
            text = pc.replace_substring(text, ESCAPED_ZERO, ZERO)
        check_offsets(len(content_of(text)))
        return text.cast(self._arrow), stops + len(TERMINATOR)


def _has_zero(text: Bytes) -> bool:
    content = content_of(text)
    return bool(content.size) and not content.min()


class _StructField(KeyField):
    def __init__(self, struct: t.Struct, tells_zeros: bool) -> None:
        self._arrow = arrow_type(struct)
        self._fields = [
            Tagged(key_field_of(field.type, tells_zeros=tells_zeros)) for field in struct.fields
        ]
        widths = [
            None if field.nullable else tagged.width
            for field, tagged in zip(struct.fields, self._fields, strict=True)
        ]
        self.width = None if None in widths else sum(width or 0 for width in widths)

    def parts(self, array: pa.Array) -> list[Part]:
        children = zip(self._fields, array.flatten(), strict=True)
        return [part for field, child in children for part in field.parts(child)]

    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        if not self._fields:
            return pa.Array.from_buffers(self._arrow, len(starts), [None]), starts
        children = []
        for field in self._fields:
            child, starts = field.read(keys, starts)
            children.append(child)
        return pa.StructArray.from_arrays(children, fields=list(self._arrow)), starts


class _ArrayField(KeyField):
    def __init__(self, array: t.Array, tells_zeros: bool) -> None:
        self._arrow = arrow_type(array)
        self._element = Tagged(key_field_of(array.element, tells_zeros=tells_zeros))

    def parts(self, array: pa.Array) -> list[Part]:
        elements = array.flatten()
        encoded = join([bytes([ELEMENT]), *self._element.parts(elements)], len(elements))
        data, ends = parts_of(encoded)
        counts = np.asarray(array.value_lengths())
        firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return [from_parts(data, ends[firsts]), bytes([END_OF_ARRAY])]

    def read(self, keys: KeyBytes, starts: Positions) -> tuple[pa.Array, Positions]:
        """Read all first elements, then all second ones: as many rounds as the longest array."""
        rows, positions, ends = np.arange(len(starts)), starts, starts.copy()
        owners: list[Positions] = []
        elements: list[pa.Array] = []
        while len(rows):
            marks = keys.data[positions]
            more = marks == ELEMENT
            if (marks[~more] != END_OF_ARRAY).any():
                raise ValueError("an array in a key has an unknown mark")
            ends[rows[~more]] = positions[~more] + 1
            rows = rows[more]
            element, positions = self._element.read(keys, positions[more] + 1)
            owners.append(rows)
            elements.append(element)
        return self._assembled(elements, owners, len(starts)), ends

    def _assembled(
        self, elements: Sequence[pa.Array], owners: Sequence[Positions], rows: int
    ) -> pa.Array:
        """Return the arrays of ``rows`` rows from their elements, in rounds, and whose they are."""
        if not elements:
            return pa.array([], self._arrow)
        owner = np.concatenate(owners)
        check_offsets(len(owner))
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=rows), out=offsets[1:])
        values = pa.concat_arrays(elements).take(pa.array(np.argsort(owner, kind="stable")))
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=self._arrow)
