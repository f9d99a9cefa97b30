"""Reads of a table with a condition: through indexes, or of the keys that the condition leaves.

Promises: what is read decides what a read costs, never its rows: the whole condition is evaluated
on them.
Does not know: files, or versions of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, Positions
from ..errors import SchemaMismatchError
from ..schema.schema import EVERY_KEY, Column, KeyRange
from ..segment.block import Block
from .encoding import Encoding
from .pruning import (
    Pruned,
    matching_vnodes,
    prune,
    ranges_in,
    worthwhile_seeks,
)
from .record import Row, row_type
from .scan import Bounds, Piece, Scan, join_small_batches, matching_rows
from .secondary import IndexMatches, TableIndexes
from .vnoderanges import VnodeRanges

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

# If a larger share of the rows of a piece matches, they are all decoded, and then filtered.
_MOST_MATCHES = 0.75
# So many rows are looked up by their keys at once, or as many as have about so many bytes.
_POINTS_AT_ONCE, _BYTES_AT_ONCE = 4096, 64 << 20


class ReadableTable(Protocol):
    """What a read with a condition asks of its table, at one epoch."""

    @property
    def encoding(self) -> Encoding:
        """The encoding of the table."""

    @property
    def indexes(self) -> TableIndexes:
        """Its indexes."""

    @property
    def stored_rows(self) -> int:
        """How many entries its files hold."""

    @property
    def file_count(self) -> int:
        """How many files it has."""

    def get_at(self, key: Sequence[Any], full_key: bytes) -> Row | None:
        """Return the row with a primary key, which is also given as a full key."""

    def find(
        self, full_keys: Bytes, columns: Sequence[str] | None, newest: Block | None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows) of those of some full keys that exist."""

    @property
    def stored_bytes(self) -> int:
        """How many bytes these entries take."""

    def bytes_in(self, ranges: Sequence[Bounds]) -> int:
        """Return about how many stored bytes are in some ascending ranges of full keys."""

    def first_rows(
        self,
        columns: Sequence[Column],
        ranges: Sequence[Bounds],
        count: int,
        most: int,
        *,
        descending: bool,
    ) -> pa.RecordBatch | None:
        """Return the first rows of some ascending ranges of full keys, by their primary keys."""

    def scan_of(
        self,
        columns: Sequence[Column],
        newest: Block | None,
        ranges: Sequence[Bounds] | None = None,
        within: Sequence[Bounds] | None = None,
    ) -> Scan:
        """Return the scan of some columns; ``ranges``: of these ascending ranges of full keys.

        ``within``: of bounds that are within these ranges.
        """

    def sorts_in_memory(self, newest: Block | None) -> bool:
        """Return whether all rows are few enough to be sorted at once."""

    def key_chunks(
        self, ranges: Sequence[Bounds], within: Bounds, newest: Block | None
    ) -> list[Bounds]:
        """Return ranges of primary keys of which each has so few rows that they can be sorted."""

    def portions(self, groups: Sequence[range]) -> Iterator[Sequence[range]]:
        """Yield ranges of vnodes as parts: of each all files are open at once in a scan."""

    def decode(self, piece: Piece, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return some columns of the rows of a piece. CorruptionError if they are damaged."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which rows a read is of, and which of their columns.

    ``groups``: ranges of vnodes; ``newest``: entries that hide those of the table.
    """

    columns: Sequence[Column]
    groups: Sequence[range]
    keys: KeyRange = EVERY_KEY
    newest: Block | None = None


def get_by(
    table: ReadableTable, index: str, values: Sequence[Any], names: tuple[str, ...] | None
) -> list[Row]:
    """Return the rows with these values in the first columns of an index, in its order.

    ``names``: of the columns, None for all visible ones. IndexNotFoundError, SchemaMismatchError,
    ValueRangeError.
    """
    secondary = table.indexes.named(index)
    held = secondary.rows(values, names)
    if held is not None:
        return held
    keys = secondary.keys(values)
    rows = [row for key in keys if (row := table.get_at(*key)) is not None]
    if names is None:
        return rows
    narrow = row_type(names)
    return [narrow(row[name] for name in names) for row in rows]


def index_matches(table: ReadableTable, where: Predicate) -> IndexMatches | None:
    """Return the rows that can match, from the indexes that leave fewest of them to read.

    None if no index is better than the primary key, or than reading all rows.
    """
    if table.indexes.is_empty or _is_bound_by_key(table.encoding, where):
        return None
    return table.indexes.matches(where, table.stored_rows)


def examined_bytes(table: ReadableTable, where: Predicate) -> int:
    """Return about how many stored bytes a read of the rows that match a condition examines."""
    row_bytes = mean_row_bytes(table)
    matches = index_matches(table, where)
    if matches is not None:
        return len(matches.keys) * row_bytes
    pruned = pruned_keys(table, where, Reading((), [range(table.encoding.vnode_count)]))
    if pruned is None:
        return table.stored_bytes
    return len(pruned.points) * row_bytes + table.bytes_in(pruned.ranges)


def read_matching(
    table: ReadableTable, where: Predicate, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that match a condition, in no order."""
    result_columns = reading.columns
    names = [column.name for column in result_columns]
    reading = replace(reading, columns=with_columns_of(table.encoding, where, result_columns))
    matches = matches_of(table, where, reading)
    pruned = None if matches is not None else pruned_keys(table, where, reading)
    if matches is not None:
        batches = _read_matches(table, matches.within(reading.groups), reading.columns)
    elif pruned is None and where.columns:
        return join_small_batches(_read_range_matching(table, where, reading, result_columns))
    elif pruned is None:
        batches = read_range(table, reading)
    else:
        batches = read_pruned(table, pruned, reading.columns, reading.newest)
    return matching_rows(batches, where, names)


def read_range(table: ReadableTable, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of keys, one range of vnodes after another."""
    for groups in table.portions(reading.groups):
        scan, ranges = _scan_in(table, groups, reading)
        yield from scan.batches(ranges)


def _scan_in(
    table: ReadableTable, groups: Sequence[range], reading: Reading
) -> tuple[Scan, Sequence[Bounds]]:
    """Return (scan, ranges): what reads the rows of some ranges of vnodes, and its ranges."""
    ranges = ranges_in(table.encoding, groups, reading.keys)
    if not isinstance(ranges, VnodeRanges):
        return table.scan_of(reading.columns, reading.newest, within=ranges), ranges
    around = [(ranges[0][0], ranges[-1][1])] if ranges else []
    return table.scan_of(reading.columns, reading.newest, ranges), around


def _read_range_matching(
    table: ReadableTable, where: Predicate, reading: Reading, result_columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `read_range` that match a condition, with some of their columns.

    Of a piece few of whose rows match, the columns that the condition does not use are decoded
    for these rows alone.
    """
    names = [column.name for column in result_columns]
    tested_columns = list(map(table.encoding.schema.column, where.columns))
    other_columns = [column for column in result_columns if column not in tested_columns]
    for groups in table.portions(reading.groups):
        scan, ranges = _scan_in(table, groups, reading)
        for piece in scan.pieces(ranges):
            tested = table.decode(piece, tested_columns)
            mask = where.mask(tested)
            if not mask.true_count:
                continue
            if not other_columns:
                yield tested.filter(mask).select(names)
            elif mask.true_count > _MOST_MATCHES * len(mask):
                batch = _with_columns(tested, table.decode(piece, other_columns))
                yield batch.select(names).filter(mask)
            else:
                rows = np.flatnonzero(np.asarray(mask))
                others = table.decode(Piece((piece.blocks[0].take(rows),), None), other_columns)
                yield _with_columns(tested.filter(mask), others).select(names)


def _with_columns(batch: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of two batches of the same rows."""
    fields = [*batch.schema, *others.schema]
    return pa.record_batch([*batch.columns, *others.columns], schema=pa.schema(fields))


def read_ranges(
    table: ReadableTable, columns: Sequence[Column], ranges: Sequence[KeyRange]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some ranges of keys, and perhaps others, in no order; each row once."""
    seeks = worthwhile_seeks(table.stored_rows, table.file_count)
    every_vnode = [range(table.encoding.vnode_count)]
    return read_pruned(table, prune(table.encoding, ranges, every_vnode, seeks), columns, None)


def mean_row_bytes(table: ReadableTable) -> int:
    """Return how many bytes a stored entry of a table has on average."""
    return table.stored_bytes // max(table.stored_rows, 1)


def _is_bound_by_key(encoding: Encoding, where: Predicate) -> bool:
    """Return whether a predicate leaves ranges of the primary key, each in one vnode."""
    ranges = where.ranges()
    return ranges is not None and matching_vnodes(encoding, ranges) is not None


def with_columns_of(
    encoding: Encoding, where: Predicate, columns: Sequence[Column]
) -> Sequence[Column]:
    """Return some columns, followed by the others that a predicate uses."""
    if where.schema != encoding.schema:
        raise SchemaMismatchError(
            f"table {encoding.name}: the condition was parsed for another schema; parse it again"
        )
    used = map(encoding.schema.column, where.columns)
    return [*columns, *(column for column in used if column not in columns)]


def matches_of(table: ReadableTable, where: Predicate, reading: Reading) -> IndexMatches | None:
    """Return what indexes leave to read, where they know all rows that are read."""
    knows_all = reading.newest is None and reading.keys == EVERY_KEY
    return index_matches(table, where) if knows_all else None


def pruned_keys(table: ReadableTable, where: Predicate, reading: Reading) -> Pruned | None:
    """Return what a predicate leaves to read; None to read all keys."""
    ranges = where.ranges() if reading.keys == EVERY_KEY else None
    if ranges is None:
        return None
    seeks = worthwhile_seeks(table.stored_rows, table.file_count)
    return prune(table.encoding, ranges, reading.groups, seeks)


def _read_matches(
    table: ReadableTable, matches: IndexMatches, columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of the rows that indexes have named, from the index if it holds them."""
    names = [column.name for column in columns]
    if matches.rows is not None and set(names) <= set(matches.rows.schema.names):
        return iter([matches.rows.select(names)])
    return read_pruned(table, Pruned(matches.keys, []), columns, None)


def read_pruned(
    table: ReadableTable, pruned: Pruned, columns: Sequence[Column], newest: Block | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with some keys, and of some ranges and perhaps others, in no order."""
    names = [column.name for column in columns]
    count = len(pruned.points)
    step = (
        min(_POINTS_AT_ONCE, max(_BYTES_AT_ONCE // (mean_row_bytes(table) + 1), 1)) if count else 1
    )
    for start in range(0, count, step):
        yield table.find(pruned.points.slice(start, step), names, newest)[1]
    if pruned.ranges:
        yield from table.scan_of(columns, newest, pruned.ranges).batches([pruned.around])
