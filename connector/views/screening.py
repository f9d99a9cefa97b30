"""The rows of inputs for which expressions of a view fail, found in one pass.

The projections and filters directly above a scan are evaluated over all changes at once, in the
driver's process (attempted_rows). The rows for which a later operator fails, as one above a join,
are not found here. What the operators return for the other rows is returned, too, so that the job
does not evaluate them again.

Does not know: what becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import OP_COLUMN, Environment, ragged

from .attempted_rows import AttemptedRows, RowAttempts
from .bounds import GivenUpError
from .executor.changes import Mask, insert_mask
from .local_expressions import LocalEvaluator
from .plan.generate import Generate
from .plan.node import Node, walk
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Scan
from .quarantine import BadRow, Keys, RowSelection, key_codec, keys_by_table
from .scans import RowsPlan, SourceRead
from .viewplan import ViewPlan

# Rows that are evaluated at once.
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Screening:
    """The rows for which a view fails, each once, and what its operators return for the others.

    ``reads``: those that were screened, without these rows. ``operator_rows``: what operators over
    scans return for them, as chunks, by the identities of the operators; only of reads that are in
    memory.
    """

    reads: tuple[SourceRead, ...]
    bad_rows: tuple[BadRow, ...] = ()
    operator_rows: Mapping[int, pa.RecordBatch] = field(default_factory=dict)


def screen_rows(
    plan: ViewPlan,
    query: str,
    reads: Sequence[SourceRead],
    evaluator: LocalEvaluator,
    environment: Environment,
) -> Screening:
    """Return the new rows that sources give for which an expression fails.

    ``query``: of the view, in whose words expressions are named. ``reads``: without the deletes of
    rows that the view does not have.
    """
    tops, attempts = _tops(plan), RowAttempts(evaluator)
    screened = {
        id(read.source): _ScreenedRead(
            read.source, read, tops[id(read.source)], attempts, environment
        )
        for read in reads
        if read.plan is not None and isinstance(read.source, Scan) and id(read.source) in tops
    }
    bad_rows: dict[tuple[int, bytes], BadRow] = {}
    for screened_read in screened.values():
        for key, expression in screened_read.failures.items():
            table_id = screened_read.scan.table_id
            row = BadRow(table_id, key, attempts.error_of(expression, query))
            bad_rows.setdefault((row.table_id, row.key), row)
    keys = keys_by_table(bad_rows)
    operator_rows: dict[int, pa.RecordBatch] = {}
    remaining = []
    for read in reads:
        rest, is_taken = _without(read, keys)
        remaining.append(rest)
        if is_taken is not None and id(read.source) in screened:
            operator_rows |= screened[id(read.source)].rows_of(is_taken)
    return Screening(tuple(remaining), tuple(bad_rows.values()), operator_rows)


def _without(read: SourceRead, keys: Keys) -> tuple[SourceRead, Mask | None]:
    """Return a read without the rows with some keys, and which of its changes are in it.

    None for changes that are not in memory.
    """
    if not isinstance(read.source, Scan):
        return read, None
    left_out = keys.get(read.source.table_id, ragged.NO_BYTES)
    selection = replace(read.selection or RowSelection(read.source), left_out=left_out)
    if not isinstance(read.plan, RowsPlan):
        return read.selected(selection), None
    is_taken = selection.takes(read.plan.rows, read.plan.keys)
    return replace(read, plan=read.plan.filtered(is_taken)), is_taken


def _tops(plan: ViewPlan) -> dict[int, list[Node]]:
    """Return the last operators that are evaluated row by row over each scan, by its identity.

    Also the functions that make rows of theirs.
    """
    parents: dict[int, list[Node]] = {}
    for node in walk(plan.root):
        for child in node.children:
            parents.setdefault(id(child), []).append(node)
    tops: dict[int, list[Node]] = {}
    for node in walk(plan.root):
        scan = _scan_below(node.child if isinstance(node, Generate) else node)
        is_last = any(_scan_below(parent) is None for parent in parents.get(id(node), []))
        if scan is not None and is_last and node is not scan:
            tops.setdefault(id(scan), []).append(node)
    return tops


def _scan_below(node: Node) -> Scan | None:
    """Return the scan whose rows an operator evaluates one by one; None for other operators."""
    match node:
        case Scan():
            return node
        case Project() | Filter() | Shared():
            return _scan_below(node.child)
    return None


class _ScreenedRead:
    """The changes of a scan, and what the operators above it make of them.

    ``failures``: the encoded keys of the new rows for which an expression fails, and the expression
    of each.
    """

    def __init__(
        self,
        scan: Scan,
        read: SourceRead,
        tops: list[Node],
        attempts: RowAttempts,
        environment: Environment,
    ) -> None:
        self.scan = scan
        self.failures: dict[bytes, str] = {}
        self._changes = read.plan if isinstance(read.plan, RowsPlan) else None
        # By the identities of operators: what they return, and the numbers of its rows.
        self._parts: dict[int, list[tuple[pa.RecordBatch, NDArray[np.int64]]]] = {
            id(top): [] for top in tops
        }
        start = 0
        for rows in self._slices(read, environment):
            attempted: dict[int, AttemptedRows] = {}
            for top in tops:
                self._attempt(top, rows, start, attempts, attempted)
            start += rows.num_rows

    def _slices(self, read: SourceRead, environment: Environment) -> Iterator[pa.RecordBatch]:
        for chunk in read.chunks(read.vnodes, environment):
            if self._changes is None:
                chunk = chunk.filter(pa.array(insert_mask(chunk)))
            for start in range(0, chunk.num_rows, _ROWS):
                yield chunk.slice(start, _ROWS)

    def _attempt(
        self,
        top: Node,
        rows: pa.RecordBatch,
        start: int,
        attempts: RowAttempts,
        attempted: dict[int, AttemptedRows],
    ) -> None:
        try:
            result = attempts.rows_of(top, rows, attempted)
        except GivenUpError:
            self._parts.pop(id(top), None)
            return
        failing_rows = result.failing_rows()
        inserts = np.asarray(rows.column(OP_COLUMN)) % 2 == 1
        for row, expression in failing_rows.items():
            if inserts[row]:
                if self._changes is not None:
                    key = self._changes.keys[start + row].as_py()
                else:
                    key = key_codec(self.scan).encode(rows.slice(row, 1))[0].as_py()
                self.failures.setdefault(key, expression)
        if not result.is_exact or not inserts[list(failing_rows)].all():
            # A row that is deleted cannot be left out: the job has to fail.
            self._parts.pop(id(top), None)
        elif id(top) in self._parts:
            self._parts[id(top)].append((result.chunk, result.numbers + start))

    def rows_of(self, is_taken: Mask) -> dict[int, pa.RecordBatch]:
        """Return what operators return for some of the changes, which are in memory."""
        if not len(is_taken):
            return {}
        return {
            operator: pa.concat_batches(
                [chunk.filter(pa.array(is_taken[numbers])) for chunk, numbers in parts]
            )
            for operator, parts in self._parts.items()
        }
