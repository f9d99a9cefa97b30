"""One column of some rows, of values that were written whole and of parts that were written alone.

Promises: a value none of whose parts was written alone stays as it is.
Does not know: other columns, or which entries count; it is told both.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...codec.path import NUMBER_BYTES, number_component
from ...codec.ragged import (
    Bytes,
    Positions,
    concat,
    constant,
    equal_neighbours,
    from_matrix,
    lengths_of,
    sort_order,
)
from ...schema.schema import Column
from ...segment.key import Kind
from .containers import shape_of
from .documents import Documents
from .part import Parts
from .shape import Shape
from .visible import are_there, counting, have_below

# A version, and the depth of the entry that it is the version of, in one number: what an entry
# holds below its own path is older than an entry there of the same version.
_DEPTHS = 256


class ColumnMerge:
    """Makes the values of one column. Immutable.

    ``older``: the column as it was under older schemas, by their versions. ``shape``: the column's.
    """

    def __init__(self, column: Column, older: dict[int, Column], shape: Shape) -> None:
        self.column = column
        self._shape = shape
        self.path: bytes = number_component(column.id)
        self._shapes = {version: shape_of(before.type, 1) for version, before in older.items()}

    @property
    def shape(self) -> Shape:
        """The shape of its values."""
        return self._shape

    @property
    def has_places(self) -> bool:
        """Whether parts of its values are elements of arrays, known by their places."""
        return self._shape.has_places

    def merged(self, documents: Documents, values: pa.Array) -> pa.Array:
        """Return the column of all rows.

        ``values``: the column of the rows that were written whole, NULL elsewhere.
        """
        written = np.flatnonzero(documents.is_counted & (documents.column_ids == self.column.id))
        if not len(written):
            return values
        if self._shape.has_parts:
            return self._with_parts(documents, values, written)
        return self._replaced(documents, values, written)

    def last_expiries(
        self, documents: Documents, values: pa.Array, path: bytes, shape: Shape
    ) -> Positions:
        """Return for each row the time at which what is at a path is gone, int64.

        Of a value with parts that is when the last of them expires. `NEVER` for what stays; 0 where
        nothing is there, or NULL. ``values``: as of `merged`; ``path``: the column's, or one below
        it that its values can have, ``shape``: that of the values there. Times are in microseconds
        since 1970.
        """
        written = np.flatnonzero(documents.is_counted & (documents.column_ids == self.column.id))
        rows = np.arange(documents.count)
        whole_expiries = documents.row_expiries
        if not self._shape.has_parts:
            times = np.where(np.asarray(values.is_valid()), whole_expiries, 0)
            is_alive = documents.is_alive[written]
            expiries = documents.headers.expiries[written]
            times[documents.rows[written]] = np.where(is_alive, expiries, 0)
            return times
        whole, whole_versions = self._parts_below(documents, values, rows)
        parts, versions, entries = self._written_parts(documents, written, documents.rows[written])
        expiries = np.append(whole_expiries[whole.owners], documents.headers.expiries[entries])
        parts, versions = Parts.joined([whole, parts]), np.append(whole_versions, versions)
        visible = _visible(parts, versions)
        parts, expiries = parts.take(visible), expiries[visible]
        is_last = ~have_below(_keys_of(parts), parts.depths, np.ones(len(parts), np.bool_))
        is_at = np.asarray(pc.starts_with(parts.paths, path))
        is_own = is_at & (lengths_of(parts.paths) == len(path))
        is_at &= ~_are_null(shape, parts, is_own)
        lasts = np.flatnonzero(is_last & is_at)
        times = np.zeros(documents.count, np.int64)
        np.maximum.at(times, parts.owners[lasts], expiries[lasts])
        return times

    def _replaced(self, documents: Documents, values: pa.Array, written: Positions) -> pa.Array:
        """Return values without parts, some of them replaced."""
        if (documents.depths[written] != 1).any():
            raise ValueError(f"the column {self.column.name!r} has parts, and its type has none")
        alive = written[documents.is_alive[written]]
        if (documents.headers.kinds[alive] != Kind.PUT).any():
            raise ValueError(f"the column {self.column.name!r} is empty, and its type has no parts")
        versions = documents.headers.schema_versions[alive]
        pieces, rows = [values], [np.empty(0, np.int64)]
        for version in np.unique(versions).tolist():
            entries = alive[versions == version]
            shape = self._shapes.get(version, self._shape)
            decoded = shape.decode(documents.bodies(entries))
            pieces.append(decoded.cast(values.type) if decoded.type != values.type else decoded)
            rows.append(documents.rows[entries])
        indices = np.arange(len(values))
        indices[documents.rows[written]] = -1
        indices[np.concatenate(rows)] = len(values) + np.arange(len(alive))
        return pa.concat_arrays(pieces).take(pa.array(indices, mask=indices < 0))

    def _with_parts(self, documents: Documents, values: pa.Array, written: Positions) -> pa.Array:
        """Return values that have parts, some of which were written alone."""
        rows, owners = np.unique(documents.rows[written], return_inverse=True)
        whole, whole_versions = self._parts_below(documents, values.take(pa.array(rows)), rows)
        parts, versions, _ = self._written_parts(documents, written, owners.astype(np.int64))
        merged = _collected(
            self._shape,
            len(rows),
            Parts.joined([whole, parts]),
            np.concatenate([whole_versions, versions]),
        )
        indices = np.arange(len(values))
        indices[rows] = len(values) + np.arange(len(rows))
        return pa.concat_arrays([values, merged]).take(pa.array(indices))

    def _written_parts(
        self, documents: Documents, written: Positions, owners: Positions
    ) -> tuple[Parts, Positions, Positions]:
        """Return the parts of some entries, their versions, and the entry of each.

        Values with parts are their parts; ``owners``: of each entry.
        """
        kinds = np.where(documents.is_alive[written], documents.headers.kinds[written], Kind.DELETE)
        parts = Parts(
            owners,
            documents.paths(written),
            documents.depths[written],
            kinds.astype(np.uint8),
            documents.bodies(written),
        )
        parts, entries = _unpacked(self._shape, parts, written)
        versions = documents.versions[entries] * _DEPTHS + documents.depths[entries]
        return parts, versions, entries

    def _parts_below(
        self, documents: Documents, values: pa.Array, rows: Positions
    ) -> tuple[Parts, Positions]:
        """Return the parts of values that were written with their rows, and their versions."""
        present = np.flatnonzero(np.asarray(values.is_valid()))
        bases = documents.bases
        versions = np.zeros(documents.count, np.int64)
        versions[documents.rows[bases]] = documents.versions[bases] * _DEPTHS
        paths = constant(number_component(self.column.id), len(present))
        parts = self._shape.explode(values.take(pa.array(present)), paths).owned_by(present)
        return parts, versions[rows][parts.owners]


def _unpacked(shape: Shape, parts: Parts, entries: Positions) -> tuple[Parts, Positions]:
    """Return parts, and their entries, without those that are whole values with parts.

    Instead there are the parts of these values, of the same entries.
    """
    starts = np.full(len(parts), NUMBER_BYTES)
    is_whole = np.zeros(len(parts), np.bool_)
    pieces, piece_entries = [], []
    for branch in shape.packed(parts, np.arange(len(parts)), starts):
        values = branch.shape.decode(parts.bodies.take(pa.array(branch.rows)))
        present = np.flatnonzero(np.asarray(values.is_valid()))
        rows = branch.rows[present]
        is_whole[rows] = True
        exploded = branch.shape.explode_stored(
            values.take(pa.array(present)), parts.paths.take(pa.array(rows))
        )
        pieces.append(exploded.owned_by(parts.owners[rows]))
        piece_entries.append(entries[rows][exploded.owners])
    if not pieces:
        return parts, entries
    rest = np.flatnonzero(~is_whole)
    joined = Parts.joined([parts.take(rest), *pieces])
    return joined, np.concatenate([entries[rest], *piece_entries])


def _collected(shape: Shape, count: int, parts: Parts, versions: Positions) -> pa.Array:
    """Return ``count`` values from parts of several versions."""
    visible = parts.take(_visible(parts, versions))
    return shape.collect(count, visible, np.full(len(visible), NUMBER_BYTES))


def _visible(parts: Parts, versions: Positions) -> Positions:
    """Return the indices of the parts that are there, in the order of their owners and paths."""
    keys = _keys_of(parts)
    order = sort_order(keys)
    keys = keys.take(pa.array(order))
    counts = counting(keys, equal_neighbours(keys), parts.depths[order], versions[order])
    counted = order[counts]
    is_alive = parts.kinds[counted] != Kind.DELETE
    is_there = are_there(keys.filter(pa.array(counts)), parts.depths[counted], is_alive)
    visible: Positions = counted[is_there]
    return visible


def _are_null(shape: Shape, parts: Parts, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of some parts with values of a shape are NULL, as the value of an entry is.

    An element of a set has no value, and is not.
    """
    are_null = np.zeros(len(parts), np.bool_)
    rows = np.flatnonzero(candidates & (parts.kinds == Kind.PUT))
    if len(rows) and not pa.types.is_null(shape.arrow_type):
        are_null[rows] = ~np.asarray(shape.decode(parts.bodies.take(pa.array(rows))).is_valid())
    return are_null


def _keys_of(parts: Parts) -> Bytes:
    """Return bytes for each part that tell its owner and its path, and order parts by them."""
    return concat([_owner_bytes(parts.owners), parts.paths])


def _owner_bytes(owners: Positions) -> Bytes:
    return from_matrix(owners.astype(">u8").view(np.uint8).reshape(len(owners), 8))
