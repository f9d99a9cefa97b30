"""The entries in the files of a table, and the rows that they make, as values to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from relstate.storage import SegmentRecord, Store, encoding_of
from relstate.storage.feed.source import EntrySource
from relstate.storage.log.sequenced_segment import sequence_segments
from relstate.storage.segment.key import Kind
from relstate.storage.table.header import NEVER, Headers

from .documents import Path, path_bytes

Stored: TypeAlias = tuple[Any, Path, str, int | None]
"""(key, path, kind, seconds to live or None)"""


def added_entries(store: Store, name: str, paths: Iterable[Path]) -> list[Stored]:
    """Return what the newest epoch added to the files of a table, in order.

    ``paths``: of the parts that may be there. Seconds to live are counted from the clock's time.
    """
    state = store.state
    added = [segment for segment in state.segments.values() if segment.epoch == state.epoch]
    return _entries_of(store, name, paths, [segment.record for segment in added])


def all_entries(store: Store, name: str, paths: Iterable[Path]) -> list[Stored]:
    """Return what all files of a table hold, as `added_entries`."""
    records = [segment.record for segment in store.state.segments.values()]
    return _entries_of(store, name, paths, records)


def _entries_of(
    store: Store, name: str, paths: Iterable[Path], records: Sequence[SegmentRecord]
) -> list[Stored]:
    definition = store.state.table(name).definition
    encoding = encoding_of(definition, store.settings.vnode_count)
    names = {path_bytes(definition.schema, path): path for path in paths if path}
    source = EntrySource(store.environment, definition.table_id, "open")
    bounds = encoding.vnode_bounds(range(store.settings.vnode_count))
    segments = sequence_segments(records, store.epoch, definition.table_id)
    now = store.environment.now()
    entries: list[Stored] = []
    for block in source.read(segments, bounds):
        headers = Headers(block)
        columns = (headers.path_lengths, headers.kinds, headers.expiries)
        for key, length, kind, expiry in zip(block.key_bytes().to_pylist(), *columns, strict=True):
            row, path = key[: len(key) - length], key[len(key) - length :]
            values = tuple(encoding.decode_key(row))
            ttl = None if expiry == NEVER else round((int(expiry) - now) / 1_000_000)
            entries.append((values, names[path] if path else (), Kind(kind).name, ttl))
    return sorted(entries, key=lambda entry: (entry[0], names_of(entry[1])))


def names_of(path: Path) -> tuple[str, ...]:
    """Return the steps of a path as text, to sort by."""
    return tuple(map(str, path))


def seen_rows(store: Store, name: str, epoch: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a table in the order of the key; what is NULL is left out."""
    table = (store if epoch is None else store.at(epoch)).table(name)
    return [
        {column: _plain(value) for column, value in row.items() if value is not None}
        for row in table.to_arrow().to_pylist()
    ]


def _plain(value: Any) -> Any:
    """Return a value as Arrow gives it with its maps as dicts."""
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case [(_, _), *_]:
            return {name: _plain(inner) for name, inner in value}
        case list():
            return [_plain(inner) for inner in value]
    return value
