"""Fields made of fields: structs, and arrays and maps of any number of elements.

A struct is a row body of its fields. An array is

    count u32 | flag u8 | [validity] | elements

The flag is 1 if an element is NULL; ``count`` validity bytes, 0 for NULL and else 1, follow only
then. Elements of fixed width are packed, zeros for NULL; others are ``count`` ends u32,
relative to the data, and the data, as in the variable area of a row. A map is an array of
structs of key and value. All numbers are little endian. On disk: never change.

Promises: recursion over types, never over rows: the elements of all rows are the rows of one
array. There is no NULL where the type allows none, neither in what is written nor in what is read.
Does not know: which codec the fields within have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import NullValueError
from .ragged import (
    Buffer,
    Bytes,
    Positions,
    concat,
    content_of,
    expand,
    from_matrix,
    from_parts,
    gather,
    lengths_of,
    load_matrix,
    parts_of,
)
from .row_body import END, RowBody, check_ends
from .value_field import (
    BytesField,
    Field,
    FixedField,
    Nulls,
    Slots,
    VariableField,
    VoidField,
    arrow_offsets,
    bitmap_of,
    fill,
    nulls_of,
)

# On disk: never change.
_HEADER_WIDTH = 5


class StructField(VariableField):
    """A field of structs."""

    def __init__(self, arrow_type: pa.StructType, fields: Sequence[Field]) -> None:
        self.arrow_type = arrow_type
        self.body = RowBody(fields)

    def encode(self, array: pa.Array, nulls: Nulls) -> Bytes:
        """Return a row body for every struct. NullValueError, ValueRangeError as for a row."""
        # The fields of a NULL struct are arbitrary: only those of the others are encoded.
        present = array if nulls is None else array.filter(pa.array(~nulls))
        children = [present.field(index) for index in range(len(self.body.fields))]
        for field, child in zip(self.arrow_type, children, strict=True):
            _refuse_nulls(child, field)
        bodies = self.body.encode(children, len(present))
        return bodies if nulls is None else _spread_bytes(bodies, ~nulls)

    def decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, nulls: Nulls
    ) -> pa.Array:
        """Return the structs."""
        everything = range(len(self.body.fields))
        if nulls is None:
            children = self.body.decode(buffer, starts, lengths, everything)
        else:
            children = self.body.decode(buffer, starts[~nulls], lengths[~nulls], everything)
        for field, child in zip(self.arrow_type, children, strict=True):
            if child.null_count and not field.nullable:
                raise ValueError(f"the field {field.name!r} of a struct is NULL and must not be")
        if nulls is not None:
            children = [
                _spread(child, ~nulls, codec)
                for child, codec in zip(children, self.body.fields, strict=True)
            ]
        return pa.Array.from_buffers(
            self.arrow_type, len(starts), [bitmap_of(nulls)], children=children
        )


class ListField(VariableField):
    """A field of arrays, or of maps, whose elements are structs of key and value."""

    def __init__(self, arrow_type: pa.ListType | pa.MapType, element: Field) -> None:
        self.arrow_type = arrow_type
        self._element = element
        self._contains_null = not pa.types.is_map(arrow_type) and arrow_type.value_field.nullable

    # Encoding

    def encode(self, array: pa.Array, nulls: Nulls) -> Bytes:
        """Return every array's bytes."""
        if not len(array):
            return pa.array([], pa.large_binary())
        elements, bounds = _elements_of(array, nulls)
        element_nulls = nulls_of(elements)
        if element_nulls is not None and not self._contains_null:
            raise NullValueError(f"an element of {self.arrow_type} is null; its type allows none")
        parts = self._encode_headers(bounds, nulls, element_nulls)
        if isinstance(self._element, FixedField):
            parts.append(self._encode_fixed(self._element, elements, element_nulls, bounds))
        else:
            parts += _with_ends(self._element.encode(elements, element_nulls), bounds)
        return concat(parts)

    def _encode_headers(self, bounds: Positions, nulls: Nulls, element_nulls: Nulls) -> list[Bytes]:
        """Return the counts and flags, and where an element is NULL the validity bytes."""
        counts = np.diff(bounds)
        headers = np.zeros((len(counts), _HEADER_WIDTH), np.uint8)
        headers[:, :4] = counts.astype(END).view(np.uint8).reshape(-1, 4)
        parts = []
        if element_nulls is not None:
            nulls_before = np.concatenate([[0], np.cumsum(element_nulls)])
            flags = np.diff(nulls_before[bounds]) > 0
            headers[:, 4] = flags
            validity = (~element_nulls).view(np.uint8)[np.repeat(flags, counts)]
            parts.append(from_parts(validity, _bounds_of(np.where(flags, counts, 0))))
        if nulls is None:
            return [from_matrix(headers), *parts]
        return [_spread_bytes(from_matrix(headers[~nulls]), ~nulls), *parts]

    def _encode_fixed(
        self, element: FixedField, elements: pa.Array, nulls: Nulls, bounds: Positions
    ) -> Bytes:
        slots = np.empty(len(elements), element.dtype)
        fill(slots, element, elements, nulls)
        return from_parts(_bytes_of(slots), bounds * element.dtype.itemsize)

    # Decoding

    def decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, nulls: Nulls
    ) -> pa.Array:
        """Return the arrays or maps."""
        if not len(starts):
            return pa.array([], self.arrow_type)
        counts, flags, starts, lengths = _load_headers(buffer, starts, lengths, nulls)
        bounds = _bounds_of(counts)
        offsets = arrow_offsets(bounds)
        element_nulls = self._load_validity(buffer, starts, counts, flags)
        starts, lengths = starts + flags * counts, lengths - flags * counts
        if isinstance(self._element, FixedField):
            slots = _load_fixed(buffer, starts, lengths, counts, self._element.dtype)
            elements = self._element.array_of(slots, element_nulls)
        else:
            starts, lengths = _load_runs(buffer, starts, lengths, bounds)
            if element_nulls is not None and lengths[element_nulls].any():
                raise ValueError("an element of an array is NULL and has bytes")
            elements = self._element.decode(buffer, starts, lengths, element_nulls)
        return pa.Array.from_buffers(
            self.arrow_type, len(counts), [bitmap_of(nulls), offsets], children=[elements]
        )

    def _load_validity(
        self, buffer: Buffer, starts: Positions, counts: Positions, flags: Positions
    ) -> Nulls:
        """Return which elements are NULL, None if none is."""
        if not flags.any():
            return None
        if not self._contains_null:
            raise ValueError(f"an element of {self.arrow_type} is NULL and must not be")
        nulls = np.zeros(int(counts.sum()), np.bool_)
        validity = content_of(gather(buffer, starts, flags * counts))
        nulls[np.repeat(flags.astype(np.bool_), counts)] = validity == 0
        return nulls


# Elements and the bounds of their arrays: those of row i are ``bounds[i]`` to ``bounds[i + 1]``.


def _bounds_of(counts: Positions) -> Positions:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _elements_of(array: pa.Array, nulls: Nulls) -> tuple[pa.Array, Positions]:
    """Return the elements of all rows but NULL ones as one array, and their bounds."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    starts, counts = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        elements = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    else:
        elements = array.values
    if nulls is not None and counts[nulls].any():
        # A NULL array may have elements in Arrow; they are not stored.
        counts = np.where(nulls, 0, counts)
        return elements.take(pa.array(expand(starts, counts))), _bounds_of(counts)
    return elements.slice(offsets[0], offsets[-1] - offsets[0]), _bounds_of(counts)


def _with_ends(elements: Bytes, bounds: Positions) -> list[Bytes]:
    """Return, for every row, the ends of its elements, and their bytes."""
    data, offsets = parts_of(elements)
    firsts = offsets[bounds]
    ends = offsets[1:] - np.repeat(firsts[:-1], np.diff(bounds))
    check_ends(ends)
    return [
        from_parts(_bytes_of(ends.astype(END)), bounds * END.itemsize),
        from_parts(data, firsts),
    ]


def _load_headers(
    buffer: Buffer, starts: Positions, lengths: Positions, nulls: Nulls
) -> tuple[Positions, Positions, Positions, Positions]:
    """Return counts and flags, and where what follows them starts and how long it is."""
    present = slice(None) if nulls is None else ~nulls
    if (lengths[present] < _HEADER_WIDTH).any():
        raise ValueError("an array is shorter than its header")
    headers = np.zeros((len(starts), _HEADER_WIDTH), np.uint8)
    headers[present] = load_matrix(buffer, starts[present], _HEADER_WIDTH)
    counts = headers[:, :4].copy().view(END).reshape(-1).astype(np.int64)
    flags = headers[:, 4].astype(np.int64)
    width = _HEADER_WIDTH if nulls is None else np.where(nulls, 0, _HEADER_WIDTH)
    # Every element takes a byte at least, of its own or of validity.
    if (flags > 1).any() or (counts > lengths - width).any():
        raise ValueError("an array's header does not fit its length")
    return counts, flags, starts + width, lengths - width


def _load_fixed(
    buffer: Buffer,
    starts: Positions,
    lengths: Positions,
    counts: Positions,
    dtype: np.dtype[np.generic],
) -> Slots:
    """Return the slots of all elements, contiguous."""
    if (lengths != counts * dtype.itemsize).any():
        raise ValueError("the elements of an array do not fill its length")
    if not dtype.itemsize:
        return np.empty(int(counts.sum()), dtype)
    return content_of(gather(buffer, starts, lengths)).view(dtype)


def _load_runs(
    buffer: Buffer, starts: Positions, lengths: Positions, bounds: Positions
) -> tuple[Positions, Positions]:
    """Return where each element starts and how long it is."""
    counts = np.diff(bounds)
    data_lengths = lengths - counts * END.itemsize
    if (data_lengths < 0).any():
        raise ValueError("an array is shorter than the ends of its elements")
    stored = content_of(gather(buffer, starts, counts * END.itemsize))
    ends = np.zeros(len(stored) // END.itemsize + 1, np.int64)
    ends[1:] = stored.view(END)
    begins = ends[:-1].copy()
    begins[bounds[:-1][counts > 0]] = 0
    totals = np.where(counts > 0, ends[bounds[1:]], 0)
    if (begins > ends[1:]).any() or (totals != data_lengths).any():
        raise ValueError("the elements of an array do not end where its bytes do")
    data_starts = np.repeat(starts + counts * END.itemsize, counts)
    return data_starts + begins, ends[1:] - begins


# Rows that are there among rows that are NULL.


def _spread_bytes(present: Bytes, mask: NDArray[np.bool_]) -> Bytes:
    """Return the given rows, in order, where ``mask`` says so, and empty rows elsewhere."""
    lengths = np.zeros(len(mask), np.int64)
    lengths[mask] = lengths_of(present)
    return from_parts(content_of(present), _bounds_of(lengths))


def _spread(present: pa.Array, mask: NDArray[np.bool_], codec: Field) -> pa.Array:
    """Return the given rows, in order, where ``mask`` says so, and blanks elsewhere.

    Not NULLs: a field of a NULL struct may have a type that allows none.
    """
    indices = np.where(mask, np.cumsum(mask) - 1, len(present))
    return pa.concat_arrays([present, _blank(codec)]).take(pa.array(indices))


def _blank(codec: Field) -> pa.Array:
    """Return one value that is not NULL: zero, empty, or a struct of such."""
    match codec:
        case VoidField():
            return pa.nulls(1)
        case FixedField():
            return codec.array_of(np.zeros(1, codec.dtype), None)
        case StructField():
            children = [_blank(child) for child in codec.body.fields]
            return pa.Array.from_buffers(codec.arrow_type, 1, [None], children=children)
        case BytesField():
            return pa.array([b""]).cast(codec.arrow_type)
    return pa.array([[]], codec.arrow_type)


def _refuse_nulls(child: pa.Array, field: pa.Field) -> None:
    if child.null_count and not field.nullable:
        raise NullValueError(f"the field {field.name!r} of a struct is null; it is NOT NULL")


def _bytes_of(slots: Slots) -> Buffer:
    """Return contiguous slots as bytes."""
    return np.frombuffer(slots, np.uint8) if slots.nbytes else np.empty(0, np.uint8)
