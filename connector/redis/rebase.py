"""Changes that are not committed, put over what another writer committed meanwhile.

Promises: a part (field, member, item) that only one of the two changed is as that one left it; a
part that both changed, and a key that was written or removed as a whole, is as the server has it.
Does not know: where values are held.
"""

from __future__ import annotations

from collections.abc import Callable

from .batches import DatabaseChanges
from .values import KINDS, Parts, Value


def rebase_changes(
    changes: DatabaseChanges, read: Callable[[bytes], Value | None]
) -> dict[bytes, Value | None]:
    """Change a batch to fit the committed values; return the values after it, by key.

    Only keys of which the batch changes parts or the expiry are read and returned. If there is no
    value of the type any more, the parts are written as a new value. The expiry of a key that was
    removed is not changed. If a read fails, the batch is as it was.
    """
    expiries = dict(changes.expiries)
    parts_of = {key: (kind, parts) for kind, rows in changes.parts.items() for key, parts in rows}
    current_values = {key: read(key) for key in parts_of.keys() | expiries.keys()}
    changes.expiries, changes.parts = [], {}
    values: dict[bytes, Value | None] = {}
    for key, current in current_values.items():
        kind, parts = parts_of.get(key, (None, []))
        value = current if kind is None else merge_parts(current, kind, parts)
        values[key] = value
        if value is None:
            if current is not None:
                changes.deleted.append(key)
            continue
        if key in expiries:
            value.take_expiry(expiries[key])
        if kind is not None and value.is_whole:
            changes.values.append((key, value.kind, value.expiry, value.content()))
            value.written()
            continue
        if key in expiries:
            changes.expiries.append((key, value.expiry))
        if kind is not None:
            changes.parts.setdefault(kind, []).append((key, parts))
    return values


def rebase_value(value: Value, current: Value | None) -> Value | None:
    """Return a value whose parts or expiry were changed, over the value that is there now.

    It has the changes that are to be written. None if nothing is left.
    """
    parts = value.changed_parts()
    merged = merge_parts(current, value.kind, parts) if parts else current
    if merged is None:
        return None
    merged.changed = set(value.changed)
    if value.expiry_changed:
        merged.take_expiry(value.expiry)
        merged.expiry_changed = True
    return merged


def merge_parts(current: Value | None, kind: str, parts: Parts) -> Value | None:
    """Return a value with some parts changed; None if no part is left.

    If the value is of another type, or there is none, a new one with these parts, which is whole.
    """
    is_new = current is None or current.kind != kind
    items = {} if current is None or is_new else dict(current.content())
    for name, item in parts:
        if item is None:
            items.pop(name, None)
        else:
            items[name] = item
    if not items:
        return None
    value = KINDS[kind].of_parts(items)
    if current is not None and not is_new:
        value.take_expiry(current.expiry)
    value.is_whole |= is_new
    return value
