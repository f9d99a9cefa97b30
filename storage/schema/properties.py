"""The properties of a table: how rows of one key merge, and how long rows live.

Promises: properties that contradict each other or the table's columns are refused.
Does not know: how rows are merged or expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ..errors import SchemaError
from ..instant import MOST_SECONDS

Merge = Literal["overwrite", "ignore", "partial"]
MERGES = ("overwrite", "ignore", "partial")
EncodingName = Literal["row", "document"]
ENCODINGS = ("row", "document")

DEFAULT_TOMBSTONE_RETENTION = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class TableProperties:
    """What a table does with its rows.

    ``merge``: ``overwrite`` (the last row of a key wins), ``ignore`` (the first row wins) or
    ``partial`` (the non-NULL columns of the last row win). ``version_columns``: the ids of the
    columns, compared in order, that decide which of two rows is later; none for the order of the
    commits. ``ttl``: the seconds
    after which a row expires, None for never. ``append_only``: rows are only inserted, under new
    keys; all other writes are refused. ``tombstone_retention``: for how many seconds a delete of a
    table with a version column outlives the row that it deleted. ``encoding``: ``row`` (a row is
    one entry) or ``document`` (parts of a row may be entries of their own, so that they change
    without the row). ``packed``: False to write each part of a document as an entry at once.
    ``sets``: the ids of ARRAY columns of a document table, whose elements are distinct, in order.
    ``divided``: rows are written whole, but were documents: parts of them may be entries still.
    ``transaction_retention``: the seconds after which a writer whose last batch is older is
    forgotten, None for never; a batch that it repeats then is written again.
    """

    merge: Merge = "overwrite"
    version_columns: tuple[int, ...] = ()
    ttl: int | None = None
    append_only: bool = False
    tombstone_retention: int = DEFAULT_TOMBSTONE_RETENTION
    encoding: EncodingName = "row"
    packed: bool = True
    sets: tuple[int, ...] = ()
    divided: bool = False
    transaction_retention: int | None = None

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise SchemaError(
                f"encoding is {self.encoding!r}; it must be one of {', '.join(ENCODINGS)}"
            )
        if type(self.packed) is not bool:
            raise SchemaError(f"packed is True or False, not {self.packed!r}")
        if self.merge not in MERGES:
            raise SchemaError(f"merge is {self.merge!r}; it must be one of {', '.join(MERGES)}")
        if type(self.append_only) is not bool:
            raise SchemaError(f"append_only is True or False, not {self.append_only!r}")
        if self.ttl is not None:
            _check_seconds("ttl", self.ttl, least=1)
        _check_seconds("tombstone_retention", self.tombstone_retention, least=0)
        if self.transaction_retention is not None:
            _check_seconds("transaction_retention", self.transaction_retention, least=1)

    def check(self, key_ids: Sequence[int]) -> None:
        """SchemaError if the properties contradict each other or the key, given by column ids.

        Or if a duration is too long: a store that was created before there was a limit may have it.
        """
        for name in ("ttl", "tombstone_retention", "transaction_retention"):
            seconds = getattr(self, name)
            if seconds is not None and seconds > MOST_SECONDS:
                raise SchemaError(f"{name} is at most {MOST_SECONDS} seconds, not {seconds}")
        if self.ttl is not None and self.merge != "overwrite":
            raise SchemaError(
                f"rows that are merged ({self.merge}) cannot expire: set a ttl or a merge "
                "behaviour, not both"
            )
        if self.merge == "ignore" and self.is_versioned:
            raise SchemaError(
                "merge 'ignore' keeps the first row of a key, so a version column has no effect: "
                "leave the version column out, or take merge 'overwrite' or 'partial'"
            )
        if len(set(self.version_columns)) < len(self.version_columns):
            raise SchemaError("a version column is named twice")
        if len(set(self.sets)) < len(self.sets):
            raise SchemaError("a column is named twice in sets")
        if not set(self.sets).isdisjoint(key_ids):
            raise SchemaError("a set changes by its elements, so it cannot be in the primary key")
        if not set(self.version_columns).isdisjoint(key_ids):
            raise SchemaError(
                "the version column orders the rows of one key, so it cannot be in the primary key"
            )
        if self.divided and self.encoding == "document":
            raise SchemaError("only a table with encoding = 'row' is one that was divided")
        if not self.packed and self.encoding == "row":
            raise SchemaError("packed = False needs encoding = 'document'")
        if self.sets and self.encoding == "row":
            raise SchemaError(
                "sets need encoding = 'document': their elements are parts of the row; for a table "
                "of rows, copy this one with CREATE TABLE … AS SELECT"
            )
        if self.may_have_parts and (self.append_only or not self.is_plain):
            raise SchemaError(
                "a document table has no merge behaviour, version column or append_only, because "
                "its parts are replaced in the order of commits: leave them out, or use encoding "
                "= 'row'"
            )
        if self.append_only and not self.is_plain:
            raise SchemaError(
                "an append-only table never has two rows of one key, so it has neither a merge "
                "behaviour nor a version column: leave them out"
            )

    @property
    def is_plain(self) -> bool:
        """Whether the row of the last commit replaces all earlier ones."""
        return self.merge == "overwrite" and not self.is_versioned

    @property
    def is_versioned(self) -> bool:
        """Whether it has version columns."""
        return bool(self.version_columns)

    @property
    def may_have_parts(self) -> bool:
        """Whether parts of rows may be entries of their own."""
        return self.encoding == "document" or self.divided

    def with_encoding(self, encoding: EncodingName) -> TableProperties:
        """Return the properties of the table with another encoding. SchemaError."""
        if encoding == self.encoding:
            return self
        divided = encoding == "row" and self.may_have_parts
        return replace(self, encoding=encoding, packed=True, divided=divided)

    def to_json(self) -> dict[str, Any]:
        """Return the properties as JSON values. On disk: never change a name."""
        # Only there in tables that are documents, or were.
        encoding = {} if self.encoding == "row" else {"encoding": self.encoding}
        packed = {} if self.packed else {"packed": self.packed}
        sets = {"sets": list(self.sets)} if self.sets else {}
        divided = {"divided": self.divided} if self.divided else {}
        retention = self.transaction_retention
        transactions = {} if retention is None else {"transaction_retention": retention}
        return {
            "merge": self.merge,
            "version_column": _version_json(self.version_columns),
            "ttl": self.ttl,
            "append_only": self.append_only,
            "tombstone_retention": self.tombstone_retention,
            **encoding,
            **packed,
            **sets,
            **divided,
            **transactions,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableProperties:
        """Return the properties that `to_json` described. SchemaError, KeyError."""
        return cls(
            cast(Merge, value["merge"]),
            _versions_from_json(value["version_column"]),
            value["ttl"],
            value["append_only"],
            value["tombstone_retention"],
            value.get("encoding", "row"),
            value.get("packed", True),
            tuple(value.get("sets", ())),
            value.get("divided", False),
            value.get("transaction_retention"),
        )


def _version_json(ids: tuple[int, ...]) -> int | list[int] | None:
    """Return version columns as JSON. On disk: of one column it is not a list."""
    if len(ids) > 1:
        return list(ids)
    return ids[0] if ids else None


def _versions_from_json(value: int | list[int] | None) -> tuple[int, ...]:
    if isinstance(value, list):
        return tuple(value)
    return () if value is None else (value,)


def _check_seconds(name: str, seconds: object, least: int) -> None:
    if type(seconds) is not int or seconds < least:
        raise SchemaError(f"{name} is a whole number of seconds from {least}, not {seconds!r}")


PLAIN = TableProperties()
