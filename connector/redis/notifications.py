"""Messages of changes of keys, as CONFIG's ``notify-keyspace-events`` asks for them.

Promises: the messages of a command come when it runs, in Redis's order, before its commit.
Does not know: who is subscribed, what commands do.
"""

from __future__ import annotations

from collections.abc import Callable

ALL = "g$lshzxetd"
"""The classes that ``A`` stands for, in the order in which CONFIG GET shows them."""
_OTHERS = "nKEm"
_CLASSES = {
    "string": "$",
    "hash": "h",
    "set": "s",
    "zset": "z",
    "list": "l",
    "timeseries": "d",
}


def parse_flags(text: bytes) -> frozenset[str] | None:
    """Return the classes of messages that a setting asks for; None if it has unknown letters."""
    flags: set[str] = set()
    for letter in text.decode("latin-1"):
        if letter not in ALL + _OTHERS + "A":
            return None
        flags.update(ALL if letter == "A" else letter)
    return frozenset(flags)


def show_flags(flags: frozenset[str]) -> bytes:
    """Return classes of messages as CONFIG GET shows them."""
    is_all = flags.issuperset(ALL)
    # Redis shows the class of new keys only if it shows no A.
    letters = "A" + _OTHERS[1:] if is_all else ALL + _OTHERS
    return "".join(letter for letter in letters if letter in flags or letter == "A").encode()


class Notifications:
    """Sends the messages that are asked for.

    ``flags``: the letters of the setting; ``publish``: sends a message to a channel.
    """

    def __init__(self) -> None:
        self.flags: frozenset[str] = frozenset()
        self.publish: Callable[[bytes, bytes], object] = lambda channel, message: None

    def send(self, letter: str, event: bytes, number: int, key: bytes) -> None:
        """Tell what happened to a key of a database; ``letter``: the class of the event."""
        if letter not in self.flags:
            return
        if "K" in self.flags:
            self.publish(b"__keyspace@%d__:%b" % (number, key), event)
        if "E" in self.flags:
            self.publish(b"__keyevent@%d__:%b" % (number, event), key)


def class_of(kind: str) -> str:
    """Return the class of events of values of a type."""
    return _CLASSES[kind]
