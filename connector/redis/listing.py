"""The keys of a database at one moment, and replies that need them.

Promises: a listing may be read in another thread while commands go on; they do not change it.
Does not know: commands, clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .replies import Reply
from .tables import StoredKeys


@dataclass(frozen=True, slots=True)
class KeyListing:
    """The keys of a database at a moment, in milliseconds since 1970.

    ``stored``: those of its table, None for none. ``changed``: those that are not as the table has
    them, each with whether it is there, and its expiry. ``vnode_of`` returns the vnode of a key.
    """

    stored: StoredKeys | None
    changed: Mapping[bytes, tuple[bool, int | None]]
    vnode_of: Callable[[bytes], int]
    moment: int

    def keys(self, vnode: int | None = None) -> Iterator[bytes]:
        """Yield the keys, or those of one vnode, that have not expired."""
        for key, expiry in self.entries(vnode):
            if expiry is None or expiry > self.moment:
                yield key

    def entries(self, vnode: int | None = None) -> Iterator[tuple[bytes, int | None]]:
        """Yield the keys, or those of one vnode, expired or not, with their expiries."""
        if self.stored is not None:
            for key, expiry in self.stored.read(vnode):
                if key not in self.changed:
                    yield key, expiry
        for key, (is_there, expiry) in self.changed.items():
            if is_there and (vnode is None or self.vnode_of(key) == vnode):
                yield key, expiry


@dataclass(frozen=True, slots=True)
class TableRead:
    """The reply of a command that reads tables, for which other clients do not wait.

    ``read`` may be called in another thread; ``reply`` makes the reply of what it returned, in the
    thread of the commands.
    """

    read: Callable[[], Any]
    reply: Callable[[Any], Reply]
