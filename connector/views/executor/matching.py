"""The pairs of rows of two sides for which comparisons are true, and the ranges that they bound.

Values are compared as the bytes of their keys, which have Spark's order: NaN is greater than every
number, -0 equals 0. To be compared, they are numbered among all values of both sides.

One side, the *build* side, is sorted by its order field. What a row of the other side, the *probe*
side, is compared with is a run of it: from a start to a stop. The other comparisons are tested for
each pair of the run.

Promises: every pair once; only the pairs of a slice are in memory. Rows hold no NULL in a field
that is compared.
Does not know: states, changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import ragged
from relstate.vnode import cached_property

from ..plan.broadcast_join import BroadcastJoin, Comparator, Comparison
from ..plan.node import Order
from .rowkeys import Codes, Matches, RowKeys, Rows, number_keys

PAIRS_AT_ONCE = 262_144
# So many build rows are skipped at once if none of them can pass a test.
_BLOCK_ROWS = 128

Mask: TypeAlias = NDArray[np.bool_]
Compared: TypeAlias = tuple[Comparator, Codes, Codes]
"""A comparison ``build comparator probe``, and the codes of the build and of the probe rows."""

_TESTS: dict[Comparator, Callable[[Codes, Codes], Mask]] = {
    Comparator.LESS: np.less,
    Comparator.AT_MOST: np.less_equal,
    Comparator.GREATER: np.greater,
    Comparator.AT_LEAST: np.greater_equal,
    Comparator.EQUAL: np.equal,
}
# Where the run of a probe row begins and ends in the sorted build side, for ``build ? probe``.
_STARTS: dict[Comparator, Literal["left", "right"]] = {
    Comparator.GREATER: "right",
    Comparator.AT_LEAST: "left",
    Comparator.EQUAL: "left",
}
_STOPS: dict[Comparator, Literal["left", "right"]] = {
    Comparator.LESS: "left",
    Comparator.AT_MOST: "right",
    Comparator.EQUAL: "right",
}


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Rows of one side, and of each comparison their values as keys."""

    rows: pa.RecordBatch
    values: tuple[ragged.Bytes, ...]

    def take(self, positions: Rows) -> ComparedRows:
        """Return some of the rows."""
        chosen = pa.array(positions)
        # Several comparisons may have the same values: these are taken once.
        by_id = {id(values): values.take(chosen) for values in self.values}
        return ComparedRows(self.rows.take(chosen), tuple(by_id[id(v)] for v in self.values))


@dataclass(frozen=True, slots=True)
class Moves:
    """Probe rows that were replaced, by the positions of the rows before and after.

    Their values differ only in comparisons with the order field of the build side.
    """

    before: Rows
    after: Rows


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of the order field, ascending and disjoint; NULL is no bound."""

    lows: pa.Array
    highs: pa.Array


class Comparisons:
    """The comparisons of a join, and the field by which each side is ordered."""

    def __init__(self, node: BroadcastJoin) -> None:
        self._comparisons = node.comparisons
        self._orders = tuple(node.order_of(side) for side in range(2))
        names = [{comparison.sides[side] for comparison in node.comparisons} for side in range(2)]
        self._keys = [
            {name: RowKeys(node.children[side].fields, [Order(name)]) for name in names[side]}
            for side in range(2)
        ]

    def names(self, side: int) -> list[str]:
        """Return the fields of a side that are compared."""
        return list(self._keys[side])

    def encode(self, rows: pa.RecordBatch, side: int) -> ComparedRows:
        """Return rows of a side with their values as keys."""
        keys = {name: key.encode(rows) for name, key in self._keys[side].items()}
        return ComparedRows(rows, tuple(keys[c.sides[side]] for c in self._comparisons))

    def pairs(self, left: ComparedRows, right: ComparedRows) -> Iterator[tuple[Rows, Rows]]:
        """Yield the positions (left rows, right rows) of matching rows, in slices."""
        if not left.rows.num_rows or not right.rows.num_rows:
            return
        codes = self._number(left, right)
        # The side whose runs are shorter in all is the probe side.
        searches = [self._search(codes, probe, (left, right)) for probe in range(2)]
        probe = int(np.argmin([search.runs.total for search in searches]))
        for probe_rows, build_rows in searches[probe].slices():
            pair = (probe_rows, build_rows) if probe == 0 else (build_rows, probe_rows)
            yield pair

    def moved_pairs(
        self, probe: int, rows: ComparedRows, moves: Moves, build: ComparedRows
    ) -> Iterator[tuple[Rows, Rows, Mask]]:
        """Yield (probe rows, build rows, inserts): the pairs that moved rows lose and gain."""
        if not len(moves.before) or not build.rows.num_rows:
            return
        sides = (rows, build) if probe == 0 else (build, rows)
        search = self._search(self._number(*sides), probe, sides)
        yield from search.moved_slices(moves)

    def ranges(
        self, probe: int, rows: ComparedRows, plain: Rows, moves: Moves, key_type: pa.DataType
    ) -> Ranges:
        """Return the ranges of the build side's order field that pairs of probe rows can be in.

        ``plain``: the rows whose pairs are all needed; of moved rows only what they lose and gain.
        ``key_type``: of the build side's first key column.
        """
        bounds = self._bounds(probe, rows)
        if bounds is None:
            count = min(len(plain), 1)
            return Ranges(pa.nulls(count, key_type), pa.nulls(count, key_type))
        lows, highs = bounds.ranges(plain, moves)
        return Ranges(bounds.values_at(lows), bounds.values_at(highs))

    def _number(self, left: ComparedRows, right: ComparedRows) -> list[tuple[Codes, Codes]]:
        """Return for each comparison the codes of the left and of the right values."""
        pairs = []
        for left_values, right_values in zip(left.values, right.values, strict=True):
            (left_codes, right_codes), _ = number_keys([left_values, right_values])
            pairs.append((left_codes, right_codes))
        return pairs

    def _search(
        self,
        codes: Sequence[tuple[Codes, Codes]],
        probe: int,
        sides: tuple[ComparedRows, ComparedRows],
    ) -> _Search:
        build = 1 - probe
        bounds: list[Compared] = []
        tests: list[Compared] = []
        for comparison, pair in zip(self._comparisons, codes, strict=True):
            # As ``build comparator probe``.
            comparator = comparison.comparator
            comparator = comparator if probe == 1 else comparator.mirrored
            is_bound = comparison.sides[build] == self._orders[build]
            (bounds if is_bound else tests).append((comparator, pair[build], pair[probe]))
        counts = sides[probe].rows.num_rows, sides[build].rows.num_rows
        return _Search(*counts, tuple(bounds), tuple(tests))

    def _bounds(self, probe: int, rows: ComparedRows) -> _Bounds | None:
        """Return the bounds of each probe row on the build side's order; None without an order."""
        build = 1 - probe
        own: list[tuple[Comparison, ragged.Bytes]] = [
            (comparison, values)
            for comparison, values in zip(self._comparisons, rows.values, strict=True)
            if comparison.sides[build] == self._orders[build]
        ]
        if not own:
            return None
        columns = [rows.rows.column(comparison.sides[probe]) for comparison, _ in own]
        codes, count = number_keys([values for _, values in own])
        lows = np.full(rows.rows.num_rows, -1)
        highs = np.full(rows.rows.num_rows, count)
        for (comparison, _), own_codes in zip(own, codes, strict=True):
            comparator = comparison.comparator
            comparator = comparator if probe == 1 else comparator.mirrored
            if comparator in _STARTS:
                lows = np.maximum(lows, own_codes)
            if comparator in _STOPS:
                highs = np.minimum(highs, own_codes)
        return _Bounds(lows, highs, count, np.concatenate(codes), pa.concat_arrays(columns))


@dataclass(frozen=True)
class _Search:
    """Probe rows in a build side; ``bounds`` are the comparisons with its order field."""

    probes: int
    builds: int
    bounds: tuple[Compared, ...]
    tests: tuple[Compared, ...]

    @cached_property
    def order(self) -> Rows:
        """The build rows, sorted by the order field."""
        if not self.bounds:
            return np.arange(self.builds)
        _, codes, _ = self.bounds[0]
        return np.argsort(codes, kind="stable")

    @cached_property
    def runs(self) -> _Runs:
        """The run of each probe row."""
        starts = np.zeros(self.probes, np.int64)
        stops = np.full(self.probes, self.builds)
        for comparator, build_codes, probe_codes in self.bounds:
            ordered = build_codes[self.order]
            if comparator in _STARTS:
                positions = np.searchsorted(ordered, probe_codes, _STARTS[comparator])
                starts = np.maximum(starts, positions)
            if comparator in _STOPS:
                positions = np.searchsorted(ordered, probe_codes, _STOPS[comparator])
                stops = np.minimum(stops, positions)
        return _Runs.of(np.arange(self.probes), starts, np.maximum(stops, starts))

    def slices(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield all pairs (probe rows, build rows)."""
        for runs, numbers, build_rows in self._pairs(self.runs):
            yield runs.rows[numbers], build_rows

    def moved_slices(self, moves: Moves) -> Iterator[tuple[Rows, Rows, Mask]]:
        """Yield (probe rows, build rows, inserts) that moved rows lose and gain."""
        changed, inserts = _changed_runs(self.runs, moves)
        for runs, numbers, build_rows in self._pairs(changed):
            yield runs.rows[numbers], build_rows, inserts[runs.origins[numbers]]

    def _pairs(self, all_runs: _Runs) -> Iterator[tuple[_Runs, Rows, Rows]]:
        """Yield (runs, numbers of runs, build rows) of the pairs that pass all tests."""
        for runs in self._possible_runs(all_runs):
            matches = runs.matches(self.order)
            for start in range(0, matches.total, PAIRS_AT_ONCE):
                stop = min(start + PAIRS_AT_ONCE, matches.total)
                numbers, build_rows = matches.pairs(start, stop)
                for comparator, build_codes, probe_codes in self.tests:
                    probe_rows = runs.rows[numbers]
                    passes = _TESTS[comparator](build_codes[build_rows], probe_codes[probe_rows])
                    numbers, build_rows = numbers[passes], build_rows[passes]
                if len(build_rows):
                    yield runs, numbers, build_rows

    def _possible_runs(self, runs: _Runs) -> Iterator[_Runs]:
        """Yield the parts of runs in those blocks of the build side that can pass all tests.

        Of intervals in the order of their begins few end after a value: it need not meet all that
        begin before it.
        """
        if not self.tests or runs.total <= PAIRS_AT_ONCE:
            yield runs
            return
        firsts = np.arange(0, self.builds, _BLOCK_ROWS)
        blocks = _Runs.of(runs.rows, runs.starts // _BLOCK_ROWS, -(-runs.stops // _BLOCK_ROWS))
        matches = blocks.matches(np.arange(len(firsts)))
        for start in range(0, matches.total, PAIRS_AT_ONCE):
            numbers, met = matches.pairs(start, min(start + PAIRS_AT_ONCE, matches.total))
            for comparator, build_codes, probe_codes in self.tests:
                ordered, probes = build_codes[self.order], probe_codes[runs.rows[numbers]]
                lowest = np.minimum.reduceat(ordered, firsts)[met]
                highest = np.maximum.reduceat(ordered, firsts)[met]
                passes = np.ones(len(met), np.bool_)
                if comparator in _STOPS:
                    passes &= _TESTS[Comparator.AT_MOST](lowest, probes)
                if comparator in _STARTS:
                    passes &= _TESTS[Comparator.AT_LEAST](highest, probes)
                numbers, met = numbers[passes], met[passes]
            yield _Runs(
                runs.rows[numbers],
                np.maximum(runs.starts[numbers], met * _BLOCK_ROWS),
                np.minimum(runs.stops[numbers], (met + 1) * _BLOCK_ROWS),
                runs.origins[numbers],
            )


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of the sorted build side, each of one probe row; start <= stop.

    ``origins``: the number of the run that each is a part of.
    """

    rows: Rows
    starts: Rows
    stops: Rows
    origins: Rows

    @classmethod
    def of(cls, rows: Rows, starts: Rows, stops: Rows) -> _Runs:
        """Return whole runs."""
        return cls(rows, starts, stops, np.arange(len(rows)))

    @property
    def total(self) -> int:
        """The number of pairs."""
        return int((self.stops - self.starts).sum())

    def matches(self, order: Rows) -> Matches:
        """Return the pairs of the runs' numbers and build rows."""
        before = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(self.stops - self.starts, out=before[1:])
        return Matches(np.arange(len(self.rows)), order, self.starts, before)


def _changed_runs(runs: _Runs, moves: Moves) -> tuple[_Runs, Mask]:
    """Return the runs that moved rows lose and gain, and which of them are gained."""
    starts, stops = runs.starts, runs.stops
    old, new = (
        (starts[moves.before], stops[moves.before]),
        (starts[moves.after], stops[moves.after]),
    )
    parts = [
        # What the old run has before and after the new one is lost, and the other way round.
        (moves.before, old[0], np.minimum(old[1], new[0]), False),
        (moves.before, np.maximum(old[0], new[1]), old[1], False),
        (moves.after, new[0], np.minimum(new[1], old[0]), True),
        (moves.after, np.maximum(new[0], old[1]), new[1], True),
    ]
    rows = np.concatenate([part[0] for part in parts])
    first = np.concatenate([part[1] for part in parts])
    last = np.maximum(np.concatenate([part[2] for part in parts]), first)
    inserts = np.repeat([part[3] for part in parts], len(moves.before))
    return _Runs.of(rows, first, last), inserts


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The range of each probe row in codes: from ``lows``, -1 for none, to ``highs``, ``count``.

    ``codes``: of ``values``, the values that bound.
    """

    lows: Codes
    highs: Codes
    count: int
    codes: Codes
    values: pa.Array

    def ranges(self, plain: Rows, moves: Moves) -> tuple[Codes, Codes]:
        """Return (lows, highs) of disjoint ranges that cover what is needed, ascending."""
        old_low, old_high = self.lows[moves.before], self.highs[moves.before]
        new_low, new_high = self.lows[moves.after], self.highs[moves.after]
        is_shifted = np.maximum(old_low, new_low) <= np.minimum(old_high, new_high)
        at_low, at_high = is_shifted & (old_low != new_low), is_shifted & (old_high != new_high)
        lows = [
            self.lows[plain],
            np.minimum(old_low, new_low)[at_low],
            np.minimum(old_high, new_high)[at_high],
            old_low[~is_shifted],
            new_low[~is_shifted],
        ]
        highs = [
            self.highs[plain],
            np.maximum(old_low, new_low)[at_low],
            np.maximum(old_high, new_high)[at_high],
            old_high[~is_shifted],
            new_high[~is_shifted],
        ]
        return _disjoint(np.concatenate(lows), np.concatenate(highs))

    def values_at(self, codes: Codes) -> pa.Array:
        """Return the values of some codes; NULL for the code of no bound."""
        examples = np.zeros(self.count, np.int64)
        examples[self.codes] = np.arange(len(self.codes))
        has_value = (codes >= 0) & (codes < self.count)
        positions = np.where(has_value, examples[np.clip(codes, 0, self.count - 1)], 0)
        return self.values.take(pa.array(positions, mask=~has_value))


def _disjoint(lows: Codes, highs: Codes) -> tuple[Codes, Codes]:
    """Return ranges, both ends included, that overlap as one, ascending; without empty ones."""
    is_filled = lows <= highs
    lows, highs = lows[is_filled], highs[is_filled]
    order = np.argsort(lows, kind="stable")
    lows, reached = lows[order], np.maximum.accumulate(highs[order])
    is_first = np.append(np.ones(min(len(lows), 1), np.bool_), lows[1:] > reached[:-1])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(lows)) - 1
    return lows[firsts], reached[lasts[: len(firsts)]]
