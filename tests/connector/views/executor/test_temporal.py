"""The temporal filter emits the rows that enter and leave, by changes and as time passes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.next_moments import NextMoments
from relstate.connector.views.executor.temporal import TemporalFilterExecutor
from relstate.connector.views.plan.temporal import ClockBound, ClockStep, TemporalFilter
from relstate.storage import NEVER, MomentRange, types
from support.bench import Bench
from support.changes import Row, Rows, chunk_of, epochs, net_changes, scan, shown, shuffled
from support.examples import Seeds

FIELDS = (
    types.Field("id", types.Int()),
    types.Field("moment", types.BigInt()),
    types.Field("v", types.Double()),
)
IDS = range(14)
BOUND, WAVERING = ClockBound("now", 0), ClockBound("now", 7)
MARGIN = 5

CASES = {
    "low": TemporalFilter(scan(FIELDS, ["id"]), "moment", BOUND, None, 1),
    "high": TemporalFilter(scan(FIELDS, ["id"]), "moment", None, BOUND, 1),
    "both": TemporalFilter(scan(FIELDS, ["id"]), "moment", BOUND, BOUND, 1),
    "low that goes back": TemporalFilter(scan(FIELDS, ["id"]), "moment", WAVERING, None, 1),
    "high that goes back": TemporalFilter(scan(FIELDS, ["id"]), "moment", None, WAVERING, 1),
    "both that go back": TemporalFilter(scan(FIELDS, ["id"]), "moment", WAVERING, WAVERING, 1),
    "the moment in the key": TemporalFilter(
        scan(FIELDS, ["moment", "id"]), "moment", BOUND, BOUND, 1
    ),
}


FLAGGED = {
    "low": TemporalFilter(scan(FIELDS, ["id"]), "moment", BOUND, None, 1, flag="passes"),
    "high": TemporalFilter(scan(FIELDS, ["id"]), "moment", None, BOUND, 1, flag="passes"),
    "both that go back": TemporalFilter(
        scan(FIELDS, ["id"]), "moment", WAVERING, WAVERING, 1, flag="passes"
    ),
}


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row whose moment many others have."""
    moment = chance.choice([None, NEVER, *range(-3, 30, 3)])
    return {"id": key, "moment": moment, "v": chance.choice([None, 0.5, float("nan")])}


class Clock:
    """Bounds that go forward, and back by less than their margin if they may."""

    def __init__(self, node: TemporalFilter, chance: random.Random) -> None:
        self._node, self._chance, self._time = node, chance, 0
        self._wavers = any(bound.margin for bound in node.bounds)
        self.passing = self._range(None)

    def _range(self, before: MomentRange | None) -> MomentRange:
        now = self._time - (self._chance.randrange(MARGIN) if self._wavers else 0)
        low = None if self._node.low is None else now
        high = None if self._node.high is None else now + 6
        first = low if low is not None else high
        assert first is not None
        settled = self._time - MARGIN + (0 if low is not None else 6) if self._wavers else first
        return MomentRange(low, high, settled if before is None else max(before.kept_from, settled))

    def move(self) -> ClockStep:
        """Let some time pass, often none, and return what passes before and after it."""
        self._time += self._chance.choice([0, 0, 1, 2, 9])
        before, self.passing = self.passing, self._range(self.passing)
        return ClockStep(before, self.passing)


class TemporalBench(Bench):
    """A temporal filter over a state in memory, and the next moments that it found last."""

    def __init__(self, node: TemporalFilter) -> None:
        super().__init__(node, TemporalFilterExecutor)
        ((self.state,),) = self.states
        self.next_moments = NextMoments()

    def passed(self, states: Any, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the executor makes of a chunk."""
        executor = TemporalFilterExecutor(self.node, states[0])
        result = executor.run(chunk)
        assert executor.next_moments is not None
        self.next_moments = executor.next_moments
        return result

    def move(self, step: ClockStep, chunk: pa.RecordBatch) -> None:
        """Run an epoch in which the clock moves, and commit it."""
        self.node = replace(self.node, step=step)
        self.step(chunk)


def is_passing(row: Row, passing: MomentRange) -> bool:
    """Return whether a row passes."""
    moment, low, high = row["moment"], passing.low, passing.high
    return moment is not None and (low is None or moment >= low) and (high is None or moment < high)


@pytest.mark.parametrize("case", CASES)
def test_the_output_is_what_passes(case: str, seeds: Seeds) -> None:
    """The applied chunks are the rows that pass, and the state those whose moments may matter.

    Rows come, go and move to other moments, and are late; the clock stands still, or goes on.
    """
    node = CASES[case]
    for seed in seeds(60):
        chance = random.Random(seed)
        bench, clock = TemporalBench(node), Clock(node, chance)
        for rows, changes in epochs(chance, 10, IDS, row_of):
            bench.move(clock.move(), chunk_of(FIELDS, changes))

            passing = [row for row in rows.values() if is_passing(row, clock.passing)]
            assert bench.mirror.content() == sorted(map(shown, passing))
            stored = [row for row in rows.values() if is_stored(row, clock.passing)]
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, stored))


@pytest.mark.parametrize("case", FLAGGED)
def test_a_flag_is_of_all_rows(case: str, seeds: Seeds) -> None:
    """The applied chunks are all rows, each with whether it passes, NULL without a moment."""
    node = FLAGGED[case]
    for seed in seeds(60):
        chance = random.Random(seed)
        bench, clock = TemporalBench(node), Clock(node, chance)
        for rows, changes in epochs(chance, 10, IDS, row_of):
            bench.move(clock.move(), chunk_of(FIELDS, changes))

            expected = [{**row, "passes": flag_of(row, clock.passing)} for row in rows.values()]
            assert bench.mirror.content() == sorted(map(shown, expected))
            stored = [row for row in rows.values() if is_stored(row, clock.passing)]
            assert sorted(map(shown, bench.state.rows)) == sorted(map(shown, stored))


def flag_of(row: Row, passing: MomentRange) -> bool | None:
    """Return what the flag of a row is."""
    return None if row["moment"] is None else is_passing(row, passing)


def is_stored(row: Row, passing: MomentRange) -> bool:
    """Return whether the state keeps a row."""
    return row["moment"] is not None and passing.kept_from <= row["moment"] < NEVER


@pytest.mark.parametrize("case", CASES)
def test_the_next_moments_are_the_first_of_stored_rows(case: str, seeds: Seeds) -> None:
    """No row that is stored lies between a bound and the moment that is said to be next."""
    node = CASES[case]
    for seed in seeds(30):
        chance = random.Random(seed)
        bench, clock = TemporalBench(node), Clock(node, chance)
        for rows, changes in epochs(chance, 6, IDS, row_of):
            bench.move(clock.move(), chunk_of(FIELDS, shuffled(chance, changes)))
            bench.move(ClockStep(clock.passing, clock.passing), chunk_of(FIELDS, []))

            moments = sorted(r["moment"] for r in rows.values() if is_stored(r, clock.passing))
            starts = clock.passing.kept_from, clock.passing.low, clock.passing.high
            expected = [
                None if start is None else next((m for m in moments if m >= start), None)
                for start in starts
            ]
            assert bench.next_moments.to_json() == expected


def test_only_what_comes_and_goes_is_read() -> None:
    """Of many rows those between two values of a bound are read, and one to find what is next."""
    bench = TemporalBench(CASES["low"])
    rows: Rows = {i: {"id": i, "moment": i, "v": None} for i in range(1000)}
    start = MomentRange(0, None, 0)
    bench.move(ClockStep(start, start), chunk_of(FIELDS, net_changes({}, rows)))
    bench.state.reads = 0

    bench.move(ClockStep(start, MomentRange(10, None, 10)), chunk_of(FIELDS, []))

    assert bench.state.reads == 10 + 2
    assert len(bench.mirror.rows) == 990


def test_two_attempts_give_equal_chunks() -> None:
    """The output does not depend on the order of changes."""
    chance = random.Random(3)
    bench = TemporalBench(CASES["both"])
    rows: Rows = {key: row_of(chance, key) for key in IDS}
    start = MomentRange(0, 6, 0)
    bench.move(ClockStep(start, start), chunk_of(FIELDS, net_changes({}, rows)))
    bench.node = replace(bench.node, step=ClockStep(start, MomentRange(9, 15, 9)))
    changes = net_changes(rows, {key: row_of(chance, key) for key in IDS})

    first = bench.run(chunk_of(FIELDS, changes))
    again = bench.run(chunk_of(FIELDS, shuffled(chance, changes)))

    assert first.num_rows
    assert str(first.to_pylist()) == str(again.to_pylist())


def test_rows_only_come_where_nothing_leaves() -> None:
    """Only an upper bound that never goes back makes a view of an append-only table so."""
    grows = {n: replace(c, child=scan(FIELDS, ["id"], grows_only=True)) for n, c in CASES.items()}
    assert [name for name, node in grows.items() if node.is_append_only] == ["high"]
    assert not CASES["high"].is_append_only
