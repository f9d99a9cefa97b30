"""Tables with different keys and values, of which random stores are made."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from hypothesis import strategies as st

from relstate.storage import Store

Key = tuple[Any, ...]
Row = tuple[Any, ...]


@total_ordering
class _Reversed:
    """Sorts the other way around."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other._value < self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(other._value == self._value)


@dataclass(frozen=True)
class Shape:
    """A table's definition and how to draw its rows.

    ``key`` are the places of the key's columns in a row, in the key's order; ``rows`` draws whole
    rows, from so few keys that they meet.
    """

    name: str
    columns: str
    primary_key: tuple[str, ...]
    key: tuple[int, ...]
    rows: st.SearchStrategy[Row]
    distribution_key: tuple[str, ...] | None = None

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return [part.split()[0] for part in self.columns.split(", ")]

    @property
    def keys(self) -> st.SearchStrategy[Key]:
        """Draw keys."""
        return self.rows.map(self.key_of)

    def create(self, store: Store) -> None:
        """Create the table."""
        store.create_table(
            self.name,
            self.columns,
            primary_key=self.primary_key,
            distribution_key=self.distribution_key,
        )

    def key_of(self, row: Sequence[Any]) -> Key:
        """Return the primary key of a row."""
        return tuple(row[index] for index in self.key)

    def order_of(self, key: Sequence[Any]) -> tuple[Any, ...]:
        """Return a value that sorts as a key, or its first values, in the table."""
        return tuple(
            _Reversed(_sortable(value)) if " desc" in part else _sortable(value)
            for part, value in zip(self.primary_key, key, strict=False)
        )


def _sortable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


_SMALL = st.integers(-3, 3)
_LARGE = st.sampled_from([-(1 << 63), -256, 255, (1 << 63) - 1])
_WORDS = st.sampled_from(["", "a", "ab", "b", "a\0", "a\0b", "\u20ac"])
_BYTES = st.sampled_from([b"", b"\0", b"\0\0", b"\0\1", b"\1", b"\xff", b"a\0b", b"a"])
# Around LMDB's 511 bytes, which long keys share: a prefix of 6, a tag, a text and its end.
_LENGTHS = st.sampled_from([0, 1, 470, 496, 498, 499, 500, 501, 502, 503, 504, 511, 520, 700])
_LONG = st.tuples(st.sampled_from("pq"), _LENGTHS, st.sampled_from(["", "a", "b", "\0"])).map(
    lambda part: part[0] * part[1] + part[2]
)
_AMOUNTS = st.none() | st.integers(-999, 999).map(lambda cents: decimal.Decimal(cents).scaleb(-2))
_TIMES = st.none() | st.integers(0, 10**15).map(
    lambda microseconds: (
        datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        + datetime.timedelta(microseconds=microseconds)
    )
)
_TEXT = st.none() | st.text(max_size=3) | st.just("long " * 600)

NUMBERS = Shape(
    name="numbers",
    columns="id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP",
    primary_key=("id",),
    key=(0,),
    rows=st.tuples(_SMALL | _LARGE, _TEXT, _AMOUNTS, _TIMES),
)
WORDS = Shape(
    name="words",
    columns="note STRING, n INT, tag STRING, flag BOOLEAN NOT NULL",
    primary_key=("tag desc", "n"),
    key=(2, 1),
    rows=st.tuples(_TEXT, _SMALL, _WORDS, st.booleans()),
    distribution_key=("tag",),
)
LONG = Shape(
    name="long",
    columns="k STRING, n SMALLINT, v BINARY",
    primary_key=("k", "n desc"),
    key=(0, 1),
    rows=st.tuples(_LONG, st.integers(-1, 1), st.none() | _BYTES),
)
BINARY = Shape(
    name="bytes",
    columns="v ARRAY<INT>, b BINARY",
    primary_key=("b desc nulls first",),
    key=(1,),
    rows=st.tuples(st.none() | st.lists(st.none() | _SMALL, max_size=3), _BYTES),
)
KEYS_ONLY = Shape(
    name="keys_only",
    columns="a INT, d DATE",
    primary_key=("d", "a"),
    key=(1, 0),
    rows=st.tuples(_SMALL, st.integers(1, 3).map(lambda day: datetime.date(2013, 1, day))),
    distribution_key=("a",),
)
SHAPES = (NUMBERS, WORDS, LONG, BINARY, KEYS_ONLY)
