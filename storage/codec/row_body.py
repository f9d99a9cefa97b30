"""The bytes of a row, or of a struct within one: the layout of its fields.

    null bitmap | fixed area | variable area

- The null bitmap has one bit per field, ``fields // 8 + 1`` bytes, the lowest bit of the first
  byte for the first field; 1 means NULL. The highest bit of the first byte belongs to no field and
  is 0: a value that begins with a header has it, see table/header.py.
- The fixed area has one slot per field, in order, packed, little endian: the value itself where
  the type is of fixed width; else, as u32, where the field's bytes end in the variable area.
  They begin where the variable field before ends. A NULL has a slot of zeros, or empty bytes.
  The last variable field has no slot: its bytes end where the row does.
- The variable area is the bytes of the variable fields, one after another, to the row's end.

Promises: works on whole batches, field by field; what it reads it checks against the rows'
lengths first, so that damaged rows are a ValueError and never touch memory beyond them.
Does not know: what the values of a field look like.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ValueRangeError
from .ragged import Buffer, Bytes, Positions, concat, from_matrix, lengths_of, load_matrix
from .value_field import (
    MAX_ARROW_OFFSET,
    Field,
    FixedField,
    Nulls,
    Slots,
    VariableField,
    fill,
    nulls_of,
)

# On disk: never change.
END = np.dtype("<u4")
MAX_END = 2**32 - 1
_NUMBER = np.dtype("<i8")

# Copying this many bytes too many is cheaper than going to every row a second time.
_WORTHWHILE_GAP = 128
# Rows of up to this many bytes are copied in any order as fast as in ascending order.
_SHORT_ROW = 256


class RowBody:
    """The layout of a row with the given fields. Immutable."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.bitmap_width = bitmap_width(len(fields))
        self._variable = [
            index for index, field in enumerate(fields) if isinstance(field, VariableField)
        ]
        # The field whose bytes end where the row does.
        self._last = self._variable[-1] if self._variable else None
        self._dtypes = [field.dtype if isinstance(field, FixedField) else END for field in fields]
        self._spare = [field.spare if isinstance(field, FixedField) else 0 for field in fields]
        widths = [
            0 if index == self._last else dtype.itemsize for index, dtype in enumerate(self._dtypes)
        ]
        self._offsets = [self.bitmap_width + sum(widths[:index]) for index in range(len(widths))]
        self.fixed_width = self.bitmap_width + sum(widths)

    # Encoding

    def encode(self, columns: Sequence[pa.Array], rows: int, header: bytes = b"") -> Bytes:
        """Return the bytes of ``rows`` rows, each after ``header``.

        ``columns``: one array per field, of exactly its type. ValueRangeError if the variable area
        of a row would pass 4 GiB, or a value does not fit its type.
        """
        if not rows:
            return pa.array([], pa.large_binary())
        area = np.zeros((rows, len(header) + self.fixed_width), np.uint8)
        area[:, : len(header)] = np.frombuffer(header, np.uint8)
        parts: list[Bytes] = []
        ends = np.zeros(rows, np.int64)
        for index, (field, column) in enumerate(zip(self.fields, columns, strict=True)):
            nulls = nulls_of(column)
            if nulls is not None:
                byte, bit = divmod(null_bit(index), 8)
                area[:, len(header) + byte] |= nulls.astype(np.uint8) << np.uint8(bit)
            # Zeros, or no bytes, where all are NULL. Most columns of the narrowest rows are such.
            is_empty = column.null_count == rows
            if isinstance(field, FixedField):
                if not is_empty:
                    fill(self._slots(area, len(header), index), field, column, nulls)
                continue
            if not is_empty:
                parts.append(field.encode(column, nulls))
                ends += lengths_of(parts[-1])
            if index != self._last:
                self._slots(area, len(header), index)[...] = ends
        check_ends(ends)
        return concat([from_matrix(area), *parts]) if parts else from_matrix(area)

    def _slots(self, area: NDArray[np.uint8], start: int, index: int) -> Slots:
        """Return the slots of a field as a view of rows whose bodies begin at ``start``."""
        rows, width = area.shape
        return np.ndarray(
            (rows,), self._dtypes[index], area, start + self._offsets[index], (width,)
        )

    # Decoding

    def decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, indices: Sequence[int]
    ) -> list[pa.Array]:
        """Return the fields, at ``indices``, in that order, of the rows at ``starts``.

        Only the bytes of these fields are touched. ValueError if the rows are not within the
        buffer, or their bytes do not fit the layout. OverflowError if a field of all rows
        together is too large for one array.
        """
        if not len(starts):
            return [pa.array([], self.fields[index].arrow_type) for index in indices]
        self._check_rows(buffer, starts, lengths)
        if (
            lengths.max() > _SHORT_ROW
            and (starts[1:] <= starts[:-1]).any()
            and not set(indices).isdisjoint(self._variable)
            and lengths.sum() <= MAX_ARROW_OFFSET
        ):
            # It is faster to fetch many bytes in the order of their positions, each once, and to
            # move them afterwards; but the moved array may not outgrow Arrow's offsets.
            rows, ranks = _ascending(starts)
            arrays = self._decode(buffer, starts[rows], lengths[rows], indices)
            return [array.take(pa.array(ranks)) for array in arrays]
        return self._decode(buffer, starts, lengths, indices)

    def _decode(
        self, buffer: Buffer, starts: Positions, lengths: Positions, indices: Sequence[int]
    ) -> list[pa.Array]:
        room = max((self._spare[index] - self._offsets[index] for index in indices), default=0)
        if room > 0 and starts.min() < room:
            # What is loaded with the slots of a row may begin before the row, and the buffer.
            buffer, starts = np.concatenate([np.zeros(room, np.uint8), buffer]), starts + room
        area = _FixedArea(buffer, starts, self._touched(indices))
        arrays = []
        for index in indices:
            field, nulls = self.fields[index], self._nulls(area, index)
            if isinstance(field, FixedField):
                arrays.append(field.array_of(self._load(area, index), nulls))
                continue
            begins, sizes = self._runs(area, index, lengths - self.fixed_width, nulls)
            arrays.append(field.decode(buffer, starts + self.fixed_width + begins, sizes, nulls))
        return arrays

    def _check_rows(self, buffer: Buffer, starts: Positions, lengths: Positions) -> None:
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < self.fixed_width or (longest > self.fixed_width and not self._variable):
            raise ValueError(
                f"a row has {shortest} to {longest} bytes; its fields take {self.fixed_width}"
            )
        if starts.min() < 0 or (starts > len(buffer) - lengths).any():
            raise ValueError(f"a row ends after the {len(buffer)} bytes that hold it")

    def _touched(self, indices: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Return (begin, end) of the bitmap and of every slot needed, in ascending order."""
        slots = set(indices)
        followed = zip(self._variable, self._variable[1:], strict=False)
        slots |= {before for before, index in followed if index in slots}
        yield 0, self.bitmap_width
        for index in sorted(slots - {self._last}):
            offset = self._offsets[index]
            yield offset - self._spare[index], offset + self._dtypes[index].itemsize

    def _load(self, area: _FixedArea, index: int) -> Slots:
        spare = self._spare[index]
        dtype = _NUMBER if spare else self._dtypes[index]
        return area.load(self._offsets[index] - spare, dtype)

    def _nulls(self, area: _FixedArea, index: int) -> Nulls:
        byte, bit = divmod(null_bit(index), 8)
        bitmap = area.load(byte, np.dtype(np.uint8)).view(np.uint8)
        nulls = (bitmap & np.uint8(1 << bit)).astype(np.bool_)
        return nulls if nulls.any() else None

    def _runs(
        self, area: _FixedArea, index: int, sizes: Positions, nulls: Nulls
    ) -> tuple[Positions, Positions]:
        """Return (begins, lengths) of a variable field's bytes in variable areas of ``sizes``."""
        rank = self._variable.index(index)
        ends = sizes if index == self._last else self._load(area, index).astype(np.int64)
        begins = (
            self._load(area, self._variable[rank - 1]).astype(np.int64)
            if rank
            else np.zeros(len(ends), np.int64)
        )
        if (ends > sizes).any() or (begins > ends).any():
            raise ValueError(f"field {index} of a row does not end where its bytes do")
        if nulls is not None and (begins != ends)[nulls].any():
            raise ValueError(f"field {index} of a row is NULL and has bytes")
        return begins, ends - begins


def bitmap_width(fields: int) -> int:
    """Return how many bytes the null bitmap of so many fields has."""
    return fields // 8 + 1


def null_bit(index: int) -> int:
    """Return the number of a field's bit in the null bitmap, which bit 7 is not."""
    return index if index < 7 else index + 1


def check_ends(ends: Positions) -> None:
    """Refuse positions that a u32 cannot hold. ValueRangeError names the row."""
    if len(ends) and ends.max() > MAX_END:
        raise ValueRangeError(
            f"row {int(ends.argmax())} has {int(ends.max())} bytes of text, binary or nested "
            f"values; one row holds at most {MAX_END}"
        )


class _FixedArea:
    """Copies of those parts of the rows' bitmaps and fixed areas that are needed."""

    def __init__(
        self, buffer: Buffer, starts: Positions, touched: Iterable[tuple[int, int]]
    ) -> None:
        self._windows = [
            (begin, load_matrix(buffer, starts + begin, end - begin))
            for begin, end in _joined(touched)
        ]

    def load(self, offset: int, dtype: np.dtype[np.generic]) -> Slots:
        """Return the values at ``offset`` in every row, contiguous."""
        begin, matrix = next(w for w in reversed(self._windows) if w[0] <= offset)
        rows, width = matrix.shape
        return np.ndarray((rows,), dtype, matrix, offset - begin, (width,)).copy()


def _ascending(starts: Positions) -> tuple[Positions, Positions]:
    """Return the rows in the order of their starts, each once, and every row's rank there."""
    order = np.argsort(starts)
    in_order = starts[order]
    is_first = np.concatenate([[True], in_order[1:] != in_order[:-1]])
    ranks = np.empty(len(starts), np.int64)
    ranks[order] = np.cumsum(is_first) - 1
    return order[is_first], ranks


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ascending ranges, those with only a small gap between them joined."""
    joined: list[tuple[int, int]] = []
    for begin, end in ranges:
        if joined and begin - joined[-1][1] <= _WORTHWHILE_GAP:
            joined[-1] = min(joined[-1][0], begin), end
        else:
            joined.append((begin, end))
    return joined
