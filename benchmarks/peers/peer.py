"""What a system has to do: the operations that the harness asks for, by name.

A method prepares what is not measured and returns `Work`. An operation that a system does not have
raises `MissingError` with the reason, which the report shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

Answer = Callable[[], Any]
"""Returns what JSON can hold; it must be equal for all systems."""


class MissingError(Exception):
    """A system does not have an operation; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Work:
    """``action`` is measured. ``answer`` is called after it, with what the action returned.

    ``per``: how many equal things the action does; the time is divided by it.
    """

    action: Callable[[], Any]
    answer: Callable[[Any], Any] = lambda result: None
    per: int = 1


class Peer:
    """A system in a process of its own, with one table. The base has no operation."""

    name: ClassVar[str]
    settings: ClassVar[Sequence[str]] = ()
    """What was set and differs from the defaults, with the reason; for the report."""

    silent: ClassVar[Mapping[str, str]] = {}
    """Changes that the system makes by other means, whose time would compare with nothing."""

    def __init__(self, folder: Path) -> None:
        """``folder``: empty, for all that the system stores."""
        self.folder = folder

    def versions(self) -> dict[str, str]:
        """Return the versions of what is measured."""
        return {}

    def close(self) -> None:
        """End what was started."""

    def load(self, files: str) -> Work:
        """Make the table anew with the rows of a folder of Parquet files."""
        raise MissingError("no bulk load")

    def sums(self) -> Work:
        """Add up every column; the answer is the number of rows and the six sums."""
        raise MissingError("it is not asked for aggregates")

    def groups(self) -> Work:
        """Count the rows and add up ``m`` by ``i``; the answer is a checksum of the groups."""
        raise MissingError("it is not asked for aggregates")

    def counted_groups(self, groups: int, condition: str | None = None) -> Work:
        """Count the rows and add up ``m`` by ``k % groups``; the answer adds the groups up again.

        They are not sent: sending many would take longer than all else. ``condition``: in SQL,
        which rows are taken; by default all.
        """
        raise MissingError("it is not asked for aggregates")

    def key_range(self, low: int, high: int) -> Work:
        """Read all columns of a range of keys; the answer is count and sum of ``i``."""
        raise MissingError("no ranges")

    def lookup(self, keys: str) -> Work:
        """Read one row after the other by key and SQL; the answer is the sum of ``i``."""
        raise MissingError("no SQL")

    def get(self, keys: str) -> Work:
        """Get one row after the other by key, in the process; the answer is the sum of ``i``."""
        raise MissingError("no lookups without Spark")

    def get_many(self, keys: str) -> Work:
        """Get the rows of many keys in one call; the answer is the sum of ``i``."""
        raise MissingError("no lookups without Spark")

    def upsert(self, rows: str) -> Work:
        """Insert or replace the rows of a Parquet file."""
        raise MissingError("no upsert")

    def merge(self, rows: str) -> Work:
        """Insert or replace the rows of a Parquet file by the statement MERGE."""
        raise MissingError("no MERGE")

    def delete(self, keys: str) -> Work:
        """Delete the keys of a Parquet file by the statement DELETE."""
        raise MissingError("no DELETE")

    def stream(self, files: str) -> Work:
        """Upsert a folder of files, each as one micro-batch."""
        raise MissingError("no streams")

    def mark(self) -> Work:
        """Remember the version of the table, from which `feed` begins."""
        return Work(lambda: None)

    def feed(self) -> Work:
        """Read what has changed since `mark`; the answer is count and sum of ``i`` of new rows."""
        raise MissingError("no change feed")

    def create_view(self) -> Work:
        """Keep count and sum of ``m`` by ``i`` as a table or view."""
        raise MissingError("no view")

    def refresh(self) -> Work:
        """Bring the view up to date; the answer is the checksum of `groups`."""
        raise MissingError("no view")

    def compact(self) -> Work:
        """Merge all files as far as the system can."""
        raise MissingError("no compaction")

    def stored(self) -> Work:
        """Find the stored bytes; what the action returns is the measurement, in MB."""
        return Work(lambda: folder_bytes(self.folder) / 1e6)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, and 0 if it is not there."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def counted_groups_query(table: str, groups: int, condition: str | None) -> str:
    """Return the query of `Peer.counted_groups`, which all dialects have."""
    where = f" WHERE {condition}" if condition else ""
    return (
        "SELECT count(*), max(n), sum(n), sum(m) FROM "
        f"(SELECT k % {groups} AS g, count(*) AS n, sum(m) AS m FROM {table}{where} "
        f"GROUP BY k % {groups}) AS q"
    )


def checksum(groups: Sequence[tuple[Any, Any, Any]]) -> list[str]:
    """Return the number of groups, and numbers that depend on which group has which values.

    ``groups``: ``i``, the count, and the sum of ``m`` as a decimal or as its text.
    """
    from decimal import Decimal

    weighted = sum(
        (int(group) + 1) * (int(count) + Decimal(total)) for group, count, total in groups
    )
    return [str(len(groups)), f"{Decimal(weighted):.2f}"]
