"""Changes of parts of rows, column by column, and the parts that say so.

    PUT      the value replaces what is there
    MERGE    as a JSON merge patch (RFC 7396): NULL removes, structs and maps are merged, all else
             is replaced
    REMOVE   nothing is there any more
    ADD      entries to a map, elements to a set, elements to the end of an array
    PREPEND  elements to the beginning of an array

Promises: no change needs what is there. Values are cast exactly; one that does not fit is refused.
Does not know: keys of rows, or entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...codec.ragged import Bytes, Positions
from ...errors import NullValueError, SchemaMismatchError
from ...schema.arrow import arrow_type
from ...schema.batch import BatchShape
from .containers import ListShape, MapShape, SetShape
from .ends import Ends
from .part import Parts
from .patch import patch_type
from .shape import Items, PutParts
from .target import Null, Target
from .variantcheck import check_variants


class Action(Enum):
    """What a change does; see above."""

    PUT = "put"
    MERGE = "merge"
    REMOVE = "remove"
    ADD = "add"
    PREPEND = "prepend"


@dataclass(frozen=True, slots=True)
class Change:
    """What is done at one target in each of some rows.

    ``rows``: their numbers, int64, ascending. ``keys``: of the items on the way, as `Target.paths`
    takes them; ``values``: one for each row, None to remove.
    """

    target: Target
    action: Action
    rows: Positions
    keys: tuple[pa.Array, ...] = ()
    values: pa.Array | None = None

    @classmethod
    def of(
        cls,
        target: Target,
        action: Action,
        rows: Positions,
        keys: Sequence[pa.Array] = (),
        values: pa.Array | None = None,
    ) -> Change:
        """Return a change of values and keys of any type, cast exactly.

        SchemaMismatchError for what the target does not take, ValueRangeError for a value that does
        not fit, NullValueError for a NULL inside of a value whose type allows none.
        """
        check_action(target, action)
        key_arrays = tuple(
            _cast(target, array, arrow_type(key))
            for array, key in zip(keys, target.keys, strict=True)
        )
        if values is not None:
            is_patch = action is Action.MERGE
            stored_type = arrow_type(target.type)
            if is_patch:
                stored_type = patch_type([target.name], target.type, values.type)
            values = _cast(target, values, stored_type)
            check_variants(target.name, values)
        return cls(target, action, rows, key_arrays, values)

    def parts(self, put: PutParts, ends: Ends) -> Parts:
        """Return the parts that the change writes, owned by its rows.

        ``put``: how values are written; ``ends``: where elements of arrays are added. NullKeyError,
        NullValueError for a NULL where none may be.
        """
        paths = self.target.paths(self.keys, len(self.rows))
        return self._parts(paths, put, ends).owned_by(self.rows)

    def _parts(self, paths: Bytes, put: PutParts, ends: Ends) -> Parts:
        shape = self.target.shape
        if self.action is Action.REMOVE:
            return shape.deletes(paths)
        assert self.values is not None
        if self.action is Action.MERGE:
            return shape.patch(self.values, paths, put)
        if self.action is Action.PUT:
            return self._put(self.values, paths, put)
        present = np.flatnonzero(np.asarray(self.values.is_valid()))
        rows = pa.array(present)
        added = self._items(self.values.take(rows), paths.take(rows), ends)
        return put(added.shape, added.values, added.paths).owned_by(present[added.owners])

    def _put(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return parts for all values; NULL removes where it is the same as nothing."""
        shape, null = self.target.shape, self.target.null
        if null is Null.VALUE or not values.null_count:
            return put(shape, values, paths)
        if null is Null.REFUSED:
            raise NullValueError(f"{self.target.name} is NULL, and the map's values are NOT NULL")
        valid = np.asarray(values.is_valid())
        pieces = []
        for rows, is_there in ((np.flatnonzero(valid), True), (np.flatnonzero(~valid), False)):
            chosen = pa.array(rows)
            own = paths.take(chosen)
            parts = put(shape, values.take(chosen), own) if is_there else shape.deletes(own)
            pieces.append(parts.owned_by(rows))
        return Parts.joined(pieces)

    def _items(self, values: pa.Array, paths: Bytes, ends: Ends) -> Items:
        """Return what is added; values, none of them NULL, are its containers."""
        shape = self.target.shape
        if isinstance(shape, ListShape):
            counts = np.asarray(pc.list_value_length(values)).astype(np.int64)
            owners = np.repeat(np.arange(len(values)), counts)
            make_places = ends.after if self.action is Action.ADD else ends.before
            return shape.items_at(values, paths, owners, make_places(owners))
        assert isinstance(shape, MapShape | SetShape)
        (items,) = shape.items(values, paths)
        return items


def check_action(target: Target, action: Action) -> None:
    """SchemaMismatchError for a change that values of the target's type do not take."""
    if action is Action.REMOVE:
        return
    if target.is_element:
        raise SchemaMismatchError(
            f"{target.name} is an element of a set, which has no value: add it, or remove it"
        )
    if action is Action.PREPEND and not isinstance(target.shape, ListShape):
        raise SchemaMismatchError(
            f"{target.name} is {_kind(target)}, and only an array has a beginning to add to"
        )
    if action is Action.ADD and not isinstance(target.shape, ListShape | MapShape | SetShape):
        raise SchemaMismatchError(
            f"{target.name} is {_kind(target)}, and only maps, sets and arrays are added to"
        )


def _kind(target: Target) -> str:
    return "a set" if isinstance(target.shape, SetShape) else str(target.type)


def _cast(target: Target, values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values cast exactly; errors as of `BatchShape.conform`, with the target's name."""
    shape = BatchShape(pa.schema([pa.field(target.name, data_type)]), [])
    batch = pa.RecordBatch.from_arrays([values], names=[target.name])
    return shape.conform(batch).column(0)
