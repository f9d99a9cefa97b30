"""Degrees: how many matches each row of a kept side has, and the output that depends on it.

    LEFT, RIGHT, FULL   a row of degree 0 is padded with NULLs; pairs pass
    SEMI                a left row of a degree above 0
    ANTI                a left row of degree 0

Promises: a row is emitted only if it changed, or gained its first match, or lost its last one. Only
degrees above 0 are stored. ConsistencyError if a degree contradicts the changes.
Does not know: conditions; it counts the pairs that pass them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import types

from ..plan.broadcast_join import BroadcastJoin
from ..plan.join import Join, JoinKind, JoinNode
from ..plan.node import Names, Node, Order, free_name
from .changes import (
    Changes,
    Mask,
    chunk_schema,
    empty_chunk,
    insert_mask,
    make_chunk,
    replacement_chunk,
)
from .executor import (
    LEFT_MATCHES,
    LEFT_ROW,
    MATCHES_COLUMN,
    PAIR,
    PART_COLUMN,
    RIGHT_MATCHES,
    RIGHT_ROW,
    Executor,
    StateTableSpec,
    state_mismatch_error,
)
from .join import key_fields, null_keys, row_keys, row_order
from .rowkeys import RowKeys, Rows, first_row_per_code, mark_codes, number_keys
from .state import State


class DegreeExecutor(Executor[Join]):
    """The rows of a join of any kind but INNER, from its candidates."""

    label = "degree"

    def __init__(self, node: Join, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._schema = chunk_schema(node.fields)

    @classmethod
    def maintains(cls, node: Join) -> bool:
        """Return whether a node is a join whose rows depend on how many matches they have."""
        return node.kind is not JoinKind.INNER

    @classmethod
    def tables(cls, node: Join) -> tuple[StateTableSpec, ...]:
        """The degrees above 0 of the rows of each kept side."""
        return tuple(
            _table(role, row_keys(node, side), row_order(node, side), node.input_distribution)
            for role, side, _ in _kept_sides(node)
        )

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of the join's rows that the candidates make."""
        node = self.node
        pairs = _part(chunk, PAIR)
        chunks = [empty_chunk(self._schema)]
        if node.kind.gives_pairs:
            chunks.append(make_chunk(self._schema, pairs, insert_mask(pairs)))
        for (role, side, part), state in zip(_kept_sides(node), self.states, strict=True):
            changed = _part(chunk, part)
            names = [field.name for field in (*key_fields(node), *side.fields)]
            rows, inserts = changed.select(names), insert_mask(changed)
            has_null_key = null_keys(rows, node.keys)
            kept_side = _KeptSide(node.kind, row_keys(node, side), names, state, role)
            can_match = pa.array(~has_null_key)
            chunks.append(
                kept_side.run(rows.filter(can_match), inserts[~has_null_key], pairs, self._schema)
            )
            if node.kind is not JoinKind.SEMI:
                unmatched = rows.filter(pa.array(has_null_key))
                chunks.append(make_chunk(self._schema, unmatched, inserts[has_null_key]))
        return pa.concat_batches(chunks)


class BroadcastDegreeExecutor(Executor[BroadcastJoin]):
    """The rows of a broadcast join of any kind but INNER, from its candidates."""

    label = "degree"

    def __init__(self, node: BroadcastJoin, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._schema = chunk_schema(node.fields)

    @classmethod
    def maintains(cls, node: BroadcastJoin) -> bool:
        """Return whether a node is a join whose rows depend on how many matches they have."""
        return node.kind is not JoinKind.INNER

    @classmethod
    def tables(cls, node: BroadcastJoin) -> tuple[StateTableSpec, ...]:
        """The degrees above 0 of the rows of each kept side."""
        return tuple(
            _table(role, _side_keys(side), tuple(map(Order, side.key)), side.key)
            for role, side, _ in _kept_sides(node)
        )

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of the join's rows that the candidates make."""
        node = self.node
        chunks = [empty_chunk(self._schema)]
        if node.kind.gives_pairs:
            pairs = _part(chunk, PAIR)
            chunks.append(make_chunk(self._schema, pairs, insert_mask(pairs)))
        for (role, side, part), state in zip(_kept_sides(node), self.states, strict=True):
            changed, matches = _part(chunk, part), _part(chunk, counting_part(node, part))
            visible = node.visible[0 if part == LEFT_ROW else 1]
            names = [field.name for field in visible]
            kept_side = _KeptSide(node.kind, _side_keys(side), names, state, role)
            rows = changed.select(names)
            chunks.append(kept_side.run(rows, insert_mask(changed), matches, self._schema))
        return pa.concat_batches(chunks)


def counting_part(node: BroadcastJoin, row_part: int) -> int:
    """Return the kind of the candidates that count for rows of a kept side, given by their kind."""
    if not node.kind.gives_pairs:
        return LEFT_MATCHES
    return RIGHT_MATCHES if node.kind is JoinKind.FULL and row_part == RIGHT_ROW else PAIR


@dataclass(frozen=True, slots=True)
class _AffectedRows:
    """The rows of a side that an epoch changes, or whose pairs it changes; one per code.

    ``before``, ``after``: for each code the row's position in ``rows``; -1 if it does not exist.
    ``changed``: whether the row itself changed. ``delta``: the change of its degree.
    """

    rows: pa.RecordBatch
    before: Rows
    after: Rows
    changed: Mask
    delta: NDArray[np.int64]

    @property
    def latest(self) -> Rows:
        """For each code the row after the epoch, or before it if it was deleted."""
        return np.where(self.after >= 0, self.after, self.before)


class _KeptSide:
    """One kept side: maintains the degrees of its rows, and returns the output they decide."""

    def __init__(
        self, kind: JoinKind, keys: RowKeys, names: Sequence[str], state: State, role: str
    ) -> None:
        """``names``: the columns of the side's rows."""
        self._kind = kind
        self._keys = keys
        self._names = list(names)
        self._state = state
        self._role = role
        self._degree = _degree_name(keys.names)

    def run(
        self, rows: pa.RecordBatch, inserts: Mask, pairs: pa.RecordBatch, schema: pa.Schema
    ) -> pa.RecordBatch:
        """Return the changes of the output that depends on degrees.

        ``rows``: the changed ones; ``pairs``: rows that count matches.
        """
        own = Changes.of(rows, inserts, self._keys, self._role)
        affected = self._find_affected(own, pairs)
        old = self._read_degrees(affected)
        new = old + affected.delta
        self._check(affected, new)
        self._write(affected, old, new)
        return self._output(affected, self._is_output(old), self._is_output(new), schema)

    def _find_affected(self, own: Changes, pairs: pa.RecordBatch) -> _AffectedRows:
        pair_rows = pairs.select(self._names)
        (own_codes, pair_codes), count = number_keys([own.keys, self._keys.encode(pair_rows)])
        delta = np.zeros(count, np.int64)
        np.add.at(delta, pair_codes, _match_counts(pairs))
        changed = mark_codes(own_codes, count)
        example_pairs = first_row_per_code(pair_codes, np.arange(len(pair_codes)), count)
        # A row that did not change itself is read from any of its pairs.
        unchanged = np.flatnonzero(~changed)
        unchanged_rows = pair_rows.take(pa.array(example_pairs[unchanged]))
        positions = np.arange(len(own))
        before = first_row_per_code(own_codes[~own.inserts], positions[~own.inserts], count)
        after = first_row_per_code(own_codes[own.inserts], positions[own.inserts], count)
        before[unchanged] = after[unchanged] = len(own) + np.arange(len(unchanged))
        return _AffectedRows(
            pa.concat_batches([own.rows, unchanged_rows]),
            before,
            after,
            changed,
            delta,
        )

    def _read_degrees(self, affected: _AffectedRows) -> NDArray[np.int64]:
        """Return the degrees before the epoch, 0 for rows that did not exist."""
        degrees = np.zeros(len(affected.before), np.int64)
        existing = np.flatnonzero(affected.before >= 0)
        if len(existing) and not self._state.is_empty:
            positions = pa.array(affected.before[existing])
            keys = affected.rows.select(self._keys.names).take(positions)
            indices, rows = self._state.get_rows(keys, [self._degree])
            degrees[existing[indices]] = np.asarray(rows.column(self._degree))
        return degrees

    def _check(self, affected: _AffectedRows, degrees: NDArray[np.int64]) -> None:
        is_invalid = (degrees < 0) | ((affected.after < 0) & (degrees != 0))
        if is_invalid.any():
            code = int(np.flatnonzero(is_invalid)[0])
            row = int(affected.latest[code])
            state = "exists" if affected.after[code] >= 0 else "is deleted"
            raise state_mismatch_error(
                f"{self._role}: the row with {self._keys.describe(affected.rows, row)} {state} "
                f"and has {degrees[code]} matches"
            )

    def _write(
        self, affected: _AffectedRows, old: NDArray[np.int64], new: NDArray[np.int64]
    ) -> None:
        changed = np.flatnonzero(old != new)
        if not len(changed):
            return
        rows = affected.rows.select(self._keys.names)
        rows = rows.take(pa.array(affected.latest[changed]))
        rows = rows.append_column(self._degree, pa.array(new[changed]))
        self._state.write(rows, new[changed] == 0)

    def _is_output(self, degrees: NDArray[np.int64]) -> Mask:
        return degrees > 0 if self._kind is JoinKind.SEMI else degrees == 0

    def _output(
        self, affected: _AffectedRows, was_output: Mask, is_output: Mask, schema: pa.Schema
    ) -> pa.RecordBatch:
        before, after = was_output & (affected.before >= 0), is_output & (affected.after >= 0)
        deletes = affected.before[before & (~after | affected.changed)]
        inserts = affected.after[after & (~before | affected.changed)]
        return replacement_chunk(schema, affected.rows, deletes, inserts)


def _part(chunk: pa.RecordBatch, part: int) -> pa.RecordBatch:
    return chunk.filter(pa.array(np.asarray(chunk.column(PART_COLUMN)) == part))


def _match_counts(pairs: pa.RecordBatch) -> NDArray[np.int64]:
    """Return for each row by how much it changes the degree."""
    signs = np.where(insert_mask(pairs), 1, -1)
    if MATCHES_COLUMN not in pairs.schema.names:
        return signs
    counts: NDArray[np.int64] = signs * np.asarray(pairs.column(MATCHES_COLUMN))
    return counts


def _kept_sides(node: JoinNode) -> list[tuple[str, Node, int]]:
    """Return for each kept side the role of its degrees, its node and its part."""
    left, right = ("left degree", node.left, LEFT_ROW), ("right degree", node.right, RIGHT_ROW)
    return [*([left] if node.kind.keeps_left else []), *([right] if node.kind.keeps_right else [])]


def _side_keys(side: Node) -> RowKeys:
    return RowKeys(side.fields, [Order(name) for name in side.key])


def _table(
    role: str, keys: RowKeys, order: tuple[Order, ...], distribution: Names
) -> StateTableSpec:
    degree = types.Field(_degree_name(keys.names), types.BigInt())
    return StateTableSpec(role, (*keys.fields, degree), order, distribution)


def _degree_name(key: Sequence[str]) -> str:
    """Return a name for the degree's column that differs from those of the key."""
    return free_name("degree", {name.lower() for name in key})
