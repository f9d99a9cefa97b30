"""The row for which a view cannot be computed, found by halving what its job takes in.

Parts of the changes are computed, and what that writes is removed. Where a part fails as the whole
did, the row is in it. A failure of several rows together, as a sum that overflows, may be in no
part: then no row is named.

Promises: the search is bounded: the parts have, together, about twice the rows of the whole, and
there are at most `MOST_TRIALS`. It changes nothing.
Does not know: why rows fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from relstate.storage import Environment

from .job import ViewJob
from .plan.stateless import Scan
from .scans import RowsPlan, SourceRead

MOST_TRIALS = 40
"""Parts that are computed for one failure."""
_HELD_ROWS = 1 << 17
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class FailingRow:
    """A row of a table: the columns of its key, and their values."""

    table: str
    key: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value!r:.{_SHOWN}}" for name, value in self.key)
        return f"the row with {values} of table {self.table!r}"


class _ExhaustedError(Exception):
    """The search is at its bound."""


class _Trials:
    """The trials of one search, which are counted. Used once."""

    def __init__(self, fails: Callable[[Sequence[SourceRead]], bool]) -> None:
        self._fails = fails
        self._left = MOST_TRIALS

    def fail(self, reads: Sequence[SourceRead]) -> bool:
        """Return whether a job of these reads fails as the whole did. _ExhaustedError."""
        if not self._left:
            raise _ExhaustedError
        self._left -= 1
        return self._fails(reads)


def find_failing_row(
    job: ViewJob,
    fails: Callable[[Sequence[SourceRead]], bool],
    environment: Environment,
    known: FailingRow | None = None,
) -> FailingRow | None:
    """Return the row for which a job fails; None if none is found.

    ``fails``: whether the job fails in the same way with other reads. ``known``: the row for which
    the view failed before, which is tried first.
    """
    trials = _Trials(fails)
    reads = list(job.reads)
    numbers = [n for n, read in enumerate(reads) if read.plan and isinstance(read.source, Scan)]
    try:
        for number in numbers:
            without = [*reads[:number], replace(reads[number], plan=None), *reads[number + 1 :]]
            if len(numbers) > 1 and trials.fail(without):
                reads = without
                continue
            return _narrowed(trials, reads, number, environment, known)
    except _ExhaustedError:
        return None
    return None


def _narrowed(
    trials: _Trials,
    reads: list[SourceRead],
    number: int,
    environment: Environment,
    known: FailingRow | None,
) -> FailingRow | None:
    """Return the row of a source for which a job fails; None if no row fails alone."""

    def fails(read: SourceRead) -> bool:
        return trials.fail([*reads[:number], read, *reads[number + 1 :]])

    read = reads[number]
    while read.rows > _HELD_ROWS and len(read.vnodes) > 1:
        first = read.part(0, 2)
        read = first if fails(first) else read.part(1, 2)
    if read.rows > _HELD_ROWS:
        return None
    chunks = list(read.chunks(read.vnodes, environment))
    if not chunks:
        return None
    rows = pa.concat_batches(chunks)
    if known is not None:
        same = _rows_with_key(read.source, rows, known)
        if same.num_rows and fails(_read_of(read, same)):
            return known
    while rows.num_rows > 1:
        half = rows.num_rows // 2
        first_rows = rows.slice(0, half)
        # That the second half fails if the first does not is seen in the end.
        rows = first_rows if fails(_read_of(read, first_rows)) else rows.slice(half)
    if not rows.num_rows or not fails(_read_of(read, rows)):
        return None
    return _row_of(read.source, rows)


def _read_of(read: SourceRead, rows: pa.RecordBatch) -> SourceRead:
    assert isinstance(read.source, Scan)
    plan = RowsPlan(read.source, rows, read.plan_vnodes)
    return replace(read, plan=plan, vnodes=range(plan.vnode_count))


def _rows_with_key(source: object, rows: pa.RecordBatch, known: FailingRow) -> pa.RecordBatch:
    """Return the changes of a row of a table; none if the source is another table."""
    assert isinstance(source, Scan)
    fields = {column.column: column.field.name for column in source.columns}
    names = [fields.get(name) for name, _ in known.key]
    if source.table != known.table or None in names:
        return rows.slice(0, 0)
    keys = rows.select([name for name in names if name is not None]).to_pylist()
    values = [value for _, value in known.key]
    return rows.filter(pa.array([list(key.values()) == values for key in keys], pa.bool_()))


def _row_of(source: object, rows: pa.RecordBatch) -> FailingRow:
    assert isinstance(source, Scan)
    columns = {column.field.name: column.column for column in source.columns}
    key = tuple((columns[name], rows.column(name)[0].as_py()) for name in source.primary_key)
    return FailingRow(source.table, key)
