"""What is measured, in which order, and how often.

All systems see the same operations in the same order, so that their tables are always equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .inputs import BATCHES, Inputs, Size

Arguments = Callable[[Inputs, int], list[Any]]
# `d` is below 1,024, and not the same in the rows of a group, so that hardly a group is lost.
_HALF = "d < 512"


def _none(inputs: Inputs, turn: int) -> list[Any]:
    return []


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of the peers, with what it takes in a turn."""

    operation: str
    arguments: Arguments = _none


@dataclass(frozen=True, slots=True)
class Workload:
    """An operation that is measured in turns.

    ``title`` may name sizes in braces. ``before``: changes before each measurement, not measured.
    ``once``: steps before the first turn. ``warm``: the first turn does not count. ``few``: it
    takes long and has half as many turns. A system that lacks or fails a ``change`` has other rows
    from then on, and takes no part in what follows.
    """

    name: str
    title: str
    step: Step
    unit: str = "s"
    before: Sequence[Step] = ()
    once: Sequence[Step] = ()
    warm: bool = True
    few: bool = False
    change: bool = False

    def turns(self, wanted: int) -> Iterator[tuple[int, bool]]:
        """Yield the numbers of the turns, and whether they count."""
        counted = (wanted + 1) // 2 if self.few else wanted
        for turn in range(counted + self.warm):
            yield turn, turn >= self.warm

    def titled(self, size: Size) -> str:
        """Return the title with sizes."""
        return self.title.format(
            upserted=size.upserted,
            small=size.small,
            batch=size.batch,
            batches=BATCHES,
            groups=size.groups,
        )


def in_order(peers: Sequence[str], turn: int) -> list[str]:
    """Return the peers in the order of a turn: each turn another one begins."""
    start = turn % len(peers) if peers else 0
    return [*peers[start:], *peers[:start]]


def _load(inputs: Inputs, turn: int) -> list[Any]:
    return [inputs.load()]


def _changes(name: str) -> Arguments:
    return lambda inputs, turn: [inputs.changes(name, turn, inputs.size.upserted)]


def _small_changes(name: str) -> Arguments:
    return lambda inputs, turn: [inputs.changes(name, turn, inputs.size.small)]


def _keys(name: str, count: Callable[[Size], int]) -> Arguments:
    return lambda inputs, turn: [inputs.kept_keys(name, turn, count(inputs.size))]


def _gone(inputs: Inputs, turn: int) -> list[Any]:
    return [inputs.deleted_keys("gone", turn, inputs.size.small)]


def _groups(
    state: str, text: str, groups: int | None = None, condition: str | None = None
) -> Workload:
    """Return a workload of groups, by default of a number that grows with the rows."""
    name = ["groups", str(groups) if groups else "", "filtered" if condition else "", state]
    number = "{groups:,}" if groups is None else f"{groups:,}"
    label = f"{number} group{'s' * (groups != 1)}{' of half the rows' * bool(condition)}"
    return Workload(
        "-".join(filter(None, name)),
        f"group by, {label}, {text}",
        Step("counted_groups", lambda inputs, turn: [groups or inputs.size.groups, condition]),
    )


def _more_groups(state: str, text: str) -> list[Workload]:
    """Return the workloads of groups that `_reads` does not have."""
    return [
        _groups(state, text, groups, condition)
        for groups in (1, 10, 1000, None)
        for condition in (None, _HALF)
        if groups or condition
    ]


def _reads(state: str, text: str) -> list[Workload]:
    return [
        Workload(f"sum-{state}", f"sum of every column, {text}", Step("sums")),
        Workload(f"group-{state}", f"group by, two columns, {text}", Step("groups")),
        _groups(state, text),
        Workload(
            f"range-{state}",
            f"1% key range, {text}",
            Step("key_range", lambda inputs, turn: inputs.key_range(turn)),
        ),
        Workload(
            f"lookup-{state}",
            f"look up one row by SQL, {text}",
            Step("lookup", _keys("looked-up", lambda size: 3)),
        ),
    ]


def _gets(state: str, text: str) -> list[Workload]:
    return [
        Workload(
            f"get-{state}",
            f"one get, {text}",
            Step("get", _keys("got", lambda size: size.gets)),
            unit="us",
        ),
        Workload(
            f"get-many-{state}",
            f"{{upserted:,}} gets at once, {text}",
            Step("get_many", _keys("got-at-once", lambda size: size.upserted)),
        ),
    ]


PROGRAM: tuple[Workload, ...] = (
    Workload("load", "bulk load", Step("load", _load), few=True, change=True),
    Workload("stored-fresh", "stored, fresh", Step("stored"), unit="MB", warm=False, few=True),
    *_reads("fresh", "fresh"),
    *_gets("fresh", "fresh"),
    Workload(
        "feed",
        "change feed of {small:,}",
        Step("feed"),
        before=[Step("mark"), Step("upsert", _small_changes("fed"))],
    ),
    Workload(
        "upsert",
        "upsert {upserted:,} rows",
        Step("upsert", _changes("upserted")),
        change=True,
    ),
    *_reads("upserted", "after upserts"),
    *_more_groups("upserted", "after upserts"),
    *_gets("upserted", "after upserts"),
    Workload("merge", "MERGE of {upserted:,} rows", Step("merge", _changes("merged")), change=True),
    Workload("delete", "DELETE of {small:,} keys", Step("delete", _gone), change=True),
    Workload(
        "stream",
        "{batches} micro-batches of {batch:,} upserts",
        Step("stream", lambda inputs, turn: [inputs.batches(turn)]),
        warm=False,
        few=True,
        change=True,
    ),
    Workload("stored-changed", "stored, after streams", Step("stored"), "MB", warm=False, few=True),
    Workload(
        "refresh",
        "a view's refresh after {small:,} upserts",
        Step("refresh"),
        before=[Step("upsert", _small_changes("refreshed"))],
        once=[Step("create_view")],
    ),
    Workload(
        "compact",
        "full compaction",
        Step("compact"),
        before=[Step("upsert", _changes("compacted"))],
        warm=False,
        few=True,
    ),
    *_reads("compacted", "compacted"),
    *_gets("compacted", "compacted"),
)
