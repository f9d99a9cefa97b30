"""The state table of an executor in memory: what `State` promises, as plainly as can be.

As in a store, rows are visible once they are committed, and read back as they were written: of
equal keys, as -0 and 0, that which was written last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.connector.views.executor.executor import StateTableSpec
from relstate.connector.views.executor.state import Positions, StoredRows
from relstate.storage import arrow
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.codec.ragged import Bytes


@dataclass(frozen=True)
class _DecodedRows:
    """Rows, and their keys as they are sorted by."""

    rows: pa.RecordBatch
    keys: Bytes

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, rows: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of the rows at some positions."""
        return self.rows.select(list(columns)).take(pa.array(rows))


class MemoryState:
    """A `State` over rows sorted by their encoded keys. ``reads`` counts the rows returned."""

    def __init__(self, spec: StateTableSpec) -> None:
        self.spec = spec
        self.schema = arrow.arrow_schema(spec.fields)
        self.reads = 0
        self._types = {field.name: field.type for field in spec.fields}
        self._keys: list[bytes] = []
        self._rows = pa.RecordBatch.from_pylist([], self.schema)
        self._written: dict[bytes, tuple[pa.RecordBatch, int] | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is committed."""
        return not self._keys

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the keys that exist."""
        encoded_keys = self._encode(keys, len(self.spec.primary_key)).to_pylist()
        positions = [self._position(key) for key in encoded_keys]
        matches = [index for index, position in enumerate(positions) if position is not None]
        return self._rows_at(matches, [positions[index] for index in matches], columns)

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of all rows with the prefixes."""
        counts = np.full(prefixes.num_rows, max(len(self._keys), 1), np.int64)
        return self.first_per_prefix(prefixes, counts, columns)

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the first rows of each prefix."""
        ranges = self._ranges_of(prefixes, counts)
        firsts = [positions[: int(count)] for positions, count in zip(ranges, counts, strict=True)]
        return self._rows_in(firsts, columns)

    def last_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the last rows of each prefix."""
        ranges = self._ranges_of(prefixes, counts)
        lasts = [
            positions[max(len(positions) - int(count), 0) :]
            for positions, count in zip(ranges, counts, strict=True)
        ]
        return self._rows_in(lasts, columns)

    def _ranges_of(self, prefixes: pa.RecordBatch, counts: Positions) -> list[range]:
        """Return the positions of the rows of each prefix."""
        starts = self._encode(prefixes, prefixes.num_columns).to_pylist()
        assert len(set(starts)) == len(starts), "a prefix is asked for twice"
        assert len(counts) == len(starts)
        ranges = []
        for start in starts:
            first = end = bisect_left(self._keys, start)
            while end < len(self._keys) and self._keys[end].startswith(start):
                end += 1
            ranges.append(range(first, end))
        return ranges

    def _rows_in(
        self, ranges: Sequence[range], columns: Sequence[str] | None
    ) -> tuple[Positions, pa.RecordBatch]:
        indices = [index for index, positions in enumerate(ranges) for _ in positions]
        return self._rows_at(indices, [row for positions in ranges for row in positions], columns)

    def first_encoded_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions
    ) -> tuple[Positions, StoredRows]:
        """Return (indices, rows) as `first_per_prefix` does."""
        indices, rows = self.first_per_prefix(prefixes, counts)
        return indices, _DecodedRows(rows, self._encode(rows, len(self.spec.primary_key)))

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the first rows from each start on, before the next."""
        return self._next_to(starts, group, counts, columns, is_after=True)

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of the last rows before each end, from the one before it on."""
        return self._next_to(ends, group, counts, columns, is_after=False)

    def _next_to(
        self,
        bounds: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None,
        *,
        is_after: bool,
    ) -> tuple[Positions, pa.RecordBatch]:
        encoded = self._encode(bounds, bounds.num_columns).to_pylist()
        groups = self._encode(bounds, group).to_pylist()
        assert len(set(encoded)) == len(encoded), "a bound is given twice"
        indices: list[int] = []
        positions: list[int | None] = []
        for index, (bound, prefix, count) in enumerate(zip(encoded, groups, counts, strict=True)):
            if is_after:
                nearest = min((end for end in encoded if end > bound), default=None)
                low, high = bound, nearest
            else:
                low, high = max((start for start in encoded if start < bound), default=b""), bound
            inside = [
                position
                for position, key in enumerate(self._keys)
                if key.startswith(prefix) and low <= key and (high is None or key < high)
            ]
            chosen = (
                inside[: int(count)] if is_after else inside[max(len(inside) - int(count), 0) :]
            )
            indices += [index] * len(chosen)
            positions += chosen
        return self._rows_at(indices, positions, columns)

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each range, three at a time."""
        first = self._key_names[0]
        for low, high in zip(lows, highs, strict=True):
            assert low.type == high.type == self.schema.field(first).type
            start = self._bound(low, 0) if low.is_valid else 0
            stop = self._bound(high, 1) if high.is_valid else len(self._keys)
            positions = list(range(start, stop))[:most]
            for part in range(0, len(positions), 3):
                yield self._rows_at([], list(positions[part : part + 3]), columns)[1]

    def _bound(self, value: pa.Scalar, after: int) -> int:
        """Return the position of the first key that is not before a value, or is after it."""
        key = self._codec(1).encode([pa.array([value.as_py()], value.type)])[0].as_py()
        return bisect_left(self._keys, key + b"\xff" * after)

    def owns(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return that all rows belong to the one unit there is."""
        return np.ones(rows.num_rows, np.bool_)

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put or delete rows, visible from `commit` on. A column that is missing is NULL."""
        keys = self._encode(rows, len(self.spec.primary_key))
        columns = [self._value(rows, field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        is_deleted = np.zeros(len(keys), np.bool_) if deleted is None else deleted
        assert len(is_deleted) == len(keys)
        for position, key in enumerate(keys.to_pylist()):
            self._written[key] = None if is_deleted[position] else (batch, position)

    def commit(self) -> pa.RecordBatch:
        """Make what was written visible; return all rows in the order of their keys."""
        committed = {key: (self._rows, position) for position, key in enumerate(self._keys)}
        merged = {**committed, **self._written}
        remaining = sorted((key, source) for key, source in merged.items() if source is not None)
        batches = {id(batch): batch for _, (batch, _) in remaining}
        base, start = {}, 0
        for name, batch in batches.items():
            base[name], start = start, start + batch.num_rows
        self._keys = [key for key, _ in remaining]
        positions = pa.array(
            [base[id(batch)] + position for _, (batch, position) in remaining], pa.int64()
        )
        table = pa.Table.from_batches(list(batches.values()), self.schema).take(positions)
        self._rows = (
            table.combine_chunks().to_batches(max_chunksize=None)[0]
            if remaining
            else (pa.RecordBatch.from_pylist([], self.schema))
        )
        self._written = {}
        return self._rows

    def forget(self) -> None:
        """Drop what was written since the last commit, as if the epoch had failed."""
        self._written = {}

    def replace_rows(self, rows: pa.RecordBatch) -> None:
        """Write the rows that differ from the committed ones, and delete the others of these."""
        new = set(self._encode(rows, len(self._key_names)).to_pylist())
        is_gone = np.array([key not in new for key in self._keys], np.bool_)
        gone = self._rows.filter(pa.array(is_gone))
        self.write(gone, np.ones(len(gone), np.bool_))
        old = self._rows.to_pylist()
        differs = [row not in old for row in rows.select(self._rows.schema.names).to_pylist()]
        self.write(rows.filter(pa.array(differs, pa.bool_())))

    @property
    def written(self) -> list[tuple[bytes, Any]]:
        """What was written since the last commit, by key; None for what is deleted."""
        return [
            (key, None if source is None else source[0].slice(source[1], 1).to_pylist())
            for key, source in sorted(self._written.items())
        ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The committed rows as Python values, in the order of their keys."""
        rows: list[dict[str, Any]] = self._rows.to_pylist()
        return rows

    @property
    def _key_names(self) -> list[str]:
        return [order.name for order in self.spec.primary_key]

    def _codec(self, count: int) -> KeyCodec:
        orders = self.spec.primary_key[:count]
        return KeyCodec([self._types[order.name] for order in orders], orders)

    def _encode(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        names = self._key_names[:count]
        assert set(names) <= set(rows.schema.names), f"{rows.schema.names} without {names}"
        return self._codec(count).encode([rows.column(name) for name in names])

    def _value(self, rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name not in rows.schema.names:
            return pa.nulls(rows.num_rows, field.type)
        column = rows.column(field.name)
        assert column.type == field.type, f"{field.name} is {field.type}, not {column.type}"
        return column

    def _position(self, key: bytes) -> int | None:
        position = bisect_left(self._keys, key)
        return position if position < len(self._keys) and self._keys[position] == key else None

    def _rows_at(
        self, indices: list[int], positions: list[int | None], columns: Sequence[str] | None
    ) -> tuple[Positions, pa.RecordBatch]:
        self.reads += len(positions)
        rows = self._rows if columns is None else self._rows.select(list(columns))
        return np.array(indices, np.int64), rows.take(pa.array(positions, pa.int64()))


class UnitState:
    """The part of a state that belongs to one of several units: rows by the hash of their keys."""

    def __init__(self, state: MemoryState, unit: int, units: int) -> None:
        self._state = state
        self._unit = unit
        self._units = units

    def owns(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows belong to the unit."""
        units = owners(rows.select(list(self._state.spec.distribution)), self._units)
        is_own: NDArray[np.bool_] = units == self._unit
        return is_own

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each range that belong to the unit."""
        assert most is None, "the first rows may belong to other units"
        for batch in self._state.range_scan(lows, highs, columns):
            yield batch if everywhere else batch.filter(pa.array(self.owns(batch)))

    def write(self, rows: pa.RecordBatch, deleted: NDArray[np.bool_] | None = None) -> None:
        """Put or delete rows, all of which must belong to the unit."""
        assert self.owns(rows).all()
        self._state.write(rows, deleted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


def owners(keys: pa.RecordBatch, units: int) -> NDArray[np.int64]:
    """Return the unit to which each key belongs."""
    return np.array([hash(str(row)) % units for row in keys.to_pylist()], np.int64)
