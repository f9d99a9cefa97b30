"""Changes of single rows, given as Python values one after another, and all of them as columns.

Promises: a change that does not fit the table is refused when it is added, and nothing of it stays.
Changes of one part are applied in the order in which they were added.
Does not know: files, epochs, or what is in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...codec.ragged import Bytes
from ...codec.variant_value import is_null, members_of, with_variants
from ...errors import DataError, NullValueError, SchemaMismatchError
from ...schema.schema import TableSchema
from .change import Action, Change, check_action
from .containers import MapShape, SetShape, StructShape
from .documentencoding import DocumentEncoding
from .target import Null, Target
from .variantshape import VariantShape

Path: TypeAlias = str | Sequence[Any]
"""The name of a column; or a tuple of it and, for each level below, a field's name or a key."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """One change of one row. ``keys``: those of the items on the way, encoded."""

    target: Target
    action: Action
    keys: tuple[bytes, ...]
    body: bytes | None


@dataclass(slots=True)
class _Group:
    """Changes of one kind at one target: rows, and for each of them keys and a value."""

    target: Target
    action: Action
    rows: list[int] = field(default_factory=list)
    keys: list[tuple[bytes, ...]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def change(self) -> Change:
        """Return all of them as one change."""
        target = self.target
        keys = tuple(
            codec.decode(pa.array(column, pa.large_binary()))[0]
            for codec, column in zip(target.key_codecs, zip(*self.keys, strict=True), strict=False)
        )
        values = None
        if self.action is not Action.REMOVE:
            values = target.shape.decode(pa.array(self.bodies, pa.large_binary()))
        return Change(target, self.action, np.array(self.rows), keys, values)


class Edits:
    """Collects changes of rows of one document table. For one thread."""

    def __init__(self, encoding: DocumentEncoding) -> None:
        self._encoding = encoding
        self._row_keys: list[bytes] = []
        self._ttls: list[int | None] = []
        self._groups: dict[tuple[Any, ...], _Group] = {}

    def __len__(self) -> int:
        return len(self._row_keys)

    def patch(self, key: Sequence[Any], values: Mapping[str, Any], ttl: int | None) -> None:
        """Merge values into the columns of these names, as a JSON merge patch does."""
        edits = [
            edit
            for name, value in values.items()
            for edit in self._merged(self._encoding.locate_part([name])[0], (), value)
        ]
        self._add(key, edits, ttl)

    def set(self, key: Sequence[Any], values: Mapping[Path, Any], ttl: int | None) -> None:
        """Replace what is at some paths."""
        edits = []
        for path, value in values.items():
            target, keys = self._locate(path)
            edits.append(self._put(target, keys, value))
        self._add(key, edits, ttl)

    def remove(self, key: Sequence[Any], paths: Sequence[Path]) -> None:
        """Remove what is at some paths."""
        places = map(self._locate, paths)
        edits = [_Edit(target, Action.REMOVE, keys, None) for target, keys in places]
        self._add(key, edits, None)

    def add(
        self, key: Sequence[Any], path: Path, items: Any, ttl: int | None, action: Action
    ) -> None:
        """Add items to what is at a path: by the actions ADD and PREPEND."""
        target, keys = self._locate(path)
        check_action(target, action)
        if items is None:
            raise NullValueError(f"{target.name}: cannot add None; give a collection")
        self._add(key, [_Edit(target, action, keys, self._body(target, items))], ttl)

    def columns(self) -> tuple[Bytes, list[Change], pa.Array]:
        """Return the full keys of the changed rows, the changes, and their TTLs in seconds."""
        row_keys = pa.array(self._row_keys, pa.large_binary())
        changes = [group.change() for group in self._groups.values()]
        return row_keys, changes, pa.array(self._ttls, pa.int64())

    def check_columns(self, schema: TableSchema) -> None:
        """Raise SchemaMismatchError unless a schema has the changed columns, with their types."""
        columns = {column.id: column for column in schema.columns}
        for group in self._groups.values():
            before = group.target.column
            now = columns.get(before.id)
            if now is None or now.type != before.type:
                change = "dropped" if now is None else "given another type"
                raise SchemaMismatchError(
                    f"table {self._encoding.name}: the column {before.name!r} was {change} after "
                    "its values were collected; nothing was committed: make the changes again, "
                    "with a new writer"
                )

    def _add(self, key: Sequence[Any], edits: Sequence[_Edit], ttl: int | None) -> None:
        full_key = self._encoding.encode_key(key)
        for edit in edits:
            edit.target.check_length(edit.keys, has_liveness=edit.action is Action.MERGE)
        row = len(self._row_keys)
        self._row_keys.append(full_key)
        self._ttls.append(ttl)
        for edit in edits:
            target = edit.target
            name = (target.column.id, target.numbers, edit.action)
            group = self._groups.setdefault(name, _Group(target, edit.action))
            group.rows.append(row)
            group.keys.append(edit.keys)
            if edit.body is not None:
                group.bodies.append(edit.body)

    def _locate(self, path: Path) -> tuple[Target, tuple[bytes, ...]]:
        """Return the target at a path, and the keys on the way, encoded."""
        target, keys = self._encoding.locate_part([path] if isinstance(path, str) else path)
        return target, target.encode_path_keys(keys)

    def _merged(self, target: Target, keys: tuple[bytes, ...], value: Any) -> Iterator[_Edit]:
        """Yield what merges a value into what is at a target."""
        items = _items(target, value)
        if value is None or (isinstance(target.shape, VariantShape) and is_null(value)):
            yield _Edit(target, Action.REMOVE, keys, None)
        elif items is not None:
            for step, item in items.items():
                below, item_keys = target.below(step), keys
                if below.numbers[-1] is None:
                    item_keys = (*keys, below.encode_last_key(step))
                yield from self._merged(below, item_keys, item)
            if isinstance(target.shape, VariantShape) and all(map(_removes, items.values())):
                yield _Edit(target, Action.MERGE, keys, self._body(target, {}))
        else:
            yield self._put(target, keys, value)

    def _put(self, target: Target, keys: tuple[bytes, ...], value: Any) -> _Edit:
        check_action(target, Action.PUT)
        if value is None and target.null is Null.NOTHING:
            return _Edit(target, Action.REMOVE, keys, None)
        if value is None and target.null is Null.REFUSED:
            raise NullValueError(f"{target.name} is None, and the map's values are NOT NULL")
        return _Edit(target, Action.PUT, keys, self._body(target, value))

    def _body(self, target: Target, value: Any) -> bytes:
        """Return a value as the body of a part. DataError if it does not fit."""
        if isinstance(target.shape, SetShape) and value is not None:
            value = _elements(target, value)
        try:
            return target.shape.encode_value(with_variants(target.type, value))
        except DataError as error:
            raise type(error)(f"{target.name}: {error}") from None


def _items(target: Target, value: Any) -> Mapping[Any, Any] | None:
    """Return the items of a value that is merged into what is there; None if it replaces it."""
    match target.shape:
        case MapShape() | StructShape() if isinstance(value, Mapping):
            return value
        case VariantShape():
            return members_of(value)
    return None


def _removes(value: Any) -> bool:
    """Return whether a value within a variant that is merged is JSON's null, which removes."""
    return value is None or is_null(value)


def _elements(target: Target, value: Any) -> list[Any]:
    """Return the elements of a set that is given as any collection."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise SchemaMismatchError(
            f"{target.name} is a set: give its elements in a set or a list, not {value!r}"
        )
    elements = list(value)
    if any(element is None for element in elements):
        raise NullValueError(f"an element of the set {target.name} is None; leave it out")
    return elements
