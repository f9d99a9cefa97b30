"""A job of a view that leaves out the rows of inputs for which it fails.

The job is tried with all changes. If it fails, the rows for which an expression fails are left out,
which one pass finds (screening); what it has evaluated for the others is not evaluated again. If
the job still fails, halves of the changes are computed until every row that fails by itself is
known; of these, and of rows that fail only together with others, as by a sum that overflows, as
many are left out as are needed: each one that is left out fails with all that are not. Deletes are
never left out: the row is gone.

Promises: changes of which none fails cost nothing. At most `MOST_TRIALS` parts are computed; what
they write is removed.
Does not know: why rows fail, or who commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.connector.source.read import DRIVER_BYTES
from relstate.storage import OP_COLUMN, Environment, errors, ragged
from relstate.vnode import cached_property

from .executor.changes import insert_mask
from .job import JobOutput, ViewJob
from .plan.stateless import Scan
from .quarantine import (
    MOST_QUARANTINED,
    BadRow,
    Keys,
    Quarantine,
    RowSelection,
    key_codec,
    keys_by_table,
)
from .scans import RowsPlan, SourceRead
from .screening import Screening

_Row: TypeAlias = tuple[int, bytes]
"""A row: the id of its table, and its encoded key."""
MOST_TRIALS = 1_000
"""Parts that are computed for one job."""
# Bytes of changes that a search has in memory; it reads more again for each part.
_SEARCHED_BYTES = 64 << 20
_OTHER_ROWS = "the view fails for this row together with others"


class _ExhaustedError(Exception):
    """The search is at its bound."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """What a job wrote without the rows for which it fails, and what is in quarantine after it.

    ``screened``: whether an expression failed for a row, so that the next changes are likely to
    have such rows, too.
    """

    output: JobOutput
    screened: bool


@dataclass(frozen=True)
class Attempts:
    """How jobs are attempted.

    ``run``: runs a job. ``failure``: returns why a job fails, None if it does not, and keeps
    nothing. ``quick_failure``: the same, where a row may fail that a filter would have removed.
    ``is_of_rows``: whether an error may depend on the rows. ``screen``: returns the rows of reads
    for which an expression fails, and what was evaluated. ``describe``: says of an error why a row
    fails.
    """

    run: Callable[[ViewJob], JobOutput]
    failure: Callable[[ViewJob], Exception | None]
    quick_failure: Callable[[ViewJob], Exception | None]
    is_of_rows: Callable[[Exception], bool]
    screen: Callable[[Sequence[SourceRead]], Screening]
    describe: Callable[[Exception], str]
    environment: Environment


def run_isolated(job: ViewJob, attempts: Attempts, *, screens_first: bool) -> Isolated:
    """Run a job of a view that has a quarantine; what changes in that is in the output.

    ``screens_first``: whether rows are likely to fail. The error of the job if it fails without
    all rows that can be left out; ViewFailedError if too many are.
    """
    assert job.quarantine is not None
    search = _Search(job, job.quarantine, attempts)
    output = search.run(screens_first=screens_first)
    return Isolated(output, bool(search.screening.bad_rows))


class _Search:
    """The rows that one job leaves out. Used once."""

    def __init__(self, job: ViewJob, quarantine: Quarantine, attempts: Attempts) -> None:
        self._job = job
        self._quarantine = quarantine
        self._attempts = attempts
        self._environment = attempts.environment
        # What the driver would read in any case is read once.
        self._reads = [self._entering(read, DRIVER_BYTES) for read in job.reads]
        self._bad: dict[_Row, BadRow] = {}
        self._trials = MOST_TRIALS
        self.screening = Screening(())

    def run(self, *, screens_first: bool) -> JobOutput:
        """Return what the job wrote, and what changes in its quarantine."""
        if screens_first:
            self._screen()
        try:
            return self._run(is_screened=screens_first)
        except Exception as error:
            if not self._attempts.is_of_rows(error):
                raise
            return self._run_without_bad_rows(error, is_screened=screens_first)

    def _screen(self) -> None:
        self.screening = self._attempts.screen(self._with({}).reads)
        self._bad |= {(row.table_id, row.key): row for row in self.screening.bad_rows}
        self._check_count()

    def _run_without_bad_rows(self, error: Exception, *, is_screened: bool) -> JobOutput:
        """Return what the job wrote without bad rows; ``error``: what was raised with them."""
        self._reads = [
            entering
            if isinstance(entering.read.plan, RowsPlan)
            else self._entering(entering.read, _SEARCHED_BYTES)
            for entering in self._reads
        ]
        if not is_screened:
            self._screen()
            if self.screening.bad_rows:
                try:
                    return self._run(is_screened=True)
                except Exception as other:
                    if not self._attempts.is_of_rows(other):
                        raise
                    error = other
        try:
            self._search_others()
        except _ExhaustedError:
            raise error from None
        self._check_count()
        return self._run(is_screened=False)

    def _run(self, *, is_screened: bool) -> JobOutput:
        """Run the job without the rows that are known to be bad, and say what is in quarantine.

        ``is_screened``: whether these are the rows that screening has found.
        """
        scans = {scan.table_id: scan for scan in self._job.plan.scans}
        changes = self._quarantine.changes(list(self._bad.values()), self._released, scans)
        if is_screened:
            screening = self.screening
            job = replace(self._job, reads=screening.reads, operator_rows=screening.operator_rows)
        else:
            job = self._with(self._bad)
        output = self._attempts.run(replace(job, quarantine_changes=changes))
        if changes is None:
            return replace(output, quarantined=self._quarantine.rows)
        unwritten = changes if output.quarantine is None else None
        return replace(
            output,
            quarantined=changes.after.rows,
            quarantine=changes.after,
            unwritten=unwritten,
        )

    # Rows that fail by themselves, and together with others

    def _search_others(self) -> None:
        """Find the other bad rows. The error of the job if it fails without all new rows, too."""
        known = dict(self._bad)
        candidates = self._failing_alone(self._new_keys(known))
        if self._fails(known | candidates):
            candidates = self._new_rows(known)
            last = self._failure(known | candidates)
            if last is not None:
                raise last
        left = self._added_back(known, candidates)
        self._bad = known | left

    def _failing_alone(self, keys: Sequence[_Row]) -> dict[_Row, BadRow]:
        """Return the rows that fail without the changes of others."""
        if not keys:
            return {}
        failure = self._tried(self._with(self._bad, keys), self._attempts.quick_failure)
        if failure is None:
            return {}
        if len(keys) == 1:
            ((table_id, key),) = keys
            return {keys[0]: BadRow(table_id, key, self._attempts.describe(failure))}
        half = len(keys) // 2
        return self._failing_alone(keys[:half]) | self._failing_alone(keys[half:])

    def _added_back(
        self,
        known: Mapping[_Row, BadRow],
        candidates: Mapping[_Row, BadRow],
    ) -> dict[_Row, BadRow]:
        """Return those of the candidates that cannot be computed with all other rows."""
        remaining = dict(candidates)

        def add(rows: Sequence[_Row]) -> None:
            added = set(rows)
            without = {row: bad for row, bad in remaining.items() if row not in added}
            failure = self._failure(dict(known) | without)
            if failure is None:
                for row in rows:
                    del remaining[row]
            elif len(rows) == 1:
                bad = remaining[rows[0]]
                if bad.error == _OTHER_ROWS:
                    text = f"{_OTHER_ROWS}: {self._attempts.describe(failure)}"
                    remaining[rows[0]] = replace(bad, error=text)
            else:
                half = len(rows) // 2
                add(rows[:half])
                add(rows[half:])

        if candidates:
            add(list(candidates))
        return remaining

    def _fails(self, bad: Mapping[_Row, BadRow]) -> bool:
        return self._failure(bad) is not None

    def _failure(self, bad: Mapping[_Row, BadRow]) -> Exception | None:
        return self._tried(self._with(bad), self._attempts.failure)

    def _tried(
        self, job: ViewJob, failure_of: Callable[[ViewJob], Exception | None]
    ) -> Exception | None:
        if not self._trials:
            raise _ExhaustedError
        self._trials -= 1
        return failure_of(job)

    # Reads

    def _with(
        self,
        bad: Mapping[_Row, BadRow],
        only: Sequence[_Row] | None = None,
    ) -> ViewJob:
        """Return the job that leaves out rows; ``only``: the rows of which it has changes."""
        bad_keys, only_keys = keys_by_table(bad), None if only is None else keys_by_table(only)
        reads = []
        for entering in self._reads:
            read = entering.read
            if isinstance(read.source, Scan):
                table_id = read.source.table_id
                selection = RowSelection(
                    read.source,
                    entering.absent,
                    bad_keys.get(table_id, ragged.NO_BYTES),
                    None if only_keys is None else only_keys.get(table_id, ragged.NO_BYTES),
                )
                read = read.selected(selection)
            reads.append(read)
        return replace(self._job, reads=tuple(reads))

    def _entering(self, read: SourceRead, most: int) -> _Entering:
        """Return a read, in memory if its changes have at most so many stored bytes."""
        read = _held(read, most, self._environment)
        if read.plan is None or not isinstance(read.source, Scan):
            return _Entering(read)
        absent = self._quarantine.keys.get(read.source.table_id, ragged.NO_BYTES)
        if not isinstance(read.plan, RowsPlan) or not len(absent):
            return _Entering(read, absent)
        keys = read.plan.keys
        are_absent = pc.is_in(keys, absent)
        released = pc.unique(keys.filter(are_absent))
        is_taken = insert_mask(read.plan.rows) | ~np.asarray(are_absent)
        return _Entering(replace(read, plan=read.plan.filtered(is_taken)), released=released)

    def _scan_reads(self) -> Iterator[tuple[Scan, SourceRead]]:
        for entering in self._reads:
            read = entering.read
            if isinstance(read.source, Scan) and read.plan is not None:
                yield read.source, read

    def _new_keys(self, known: Mapping[_Row, BadRow], *, inserted: bool = False) -> list[_Row]:
        """Return the rows that have changed, without known ones; ``inserted``: that exist now."""
        keys: dict[_Row, None] = {}
        for scan, read in self._scan_reads():
            codec = key_codec(scan)
            for chunk in read.chunks(read.vnodes, self._environment):
                if inserted:
                    is_new = np.asarray(chunk.column(OP_COLUMN)) % 2 == 1
                    chunk = chunk.filter(pa.array(is_new))
                encoded = codec.encode(chunk).to_pylist()
                keys |= dict.fromkeys((scan.table_id, key) for key in encoded)
        return [key for key in keys if key not in known]

    def _new_rows(self, known: Mapping[_Row, BadRow]) -> dict[_Row, BadRow]:
        keys = self._new_keys(known, inserted=True)
        return {row: BadRow(*row, _OTHER_ROWS) for row in keys}

    # The quarantine after the job

    def _check_count(self) -> None:
        """ViewFailedError if too many rows would be in quarantine."""
        released = sum(map(len, self._released.values()))
        count = self._quarantine.rows - released + len(self._bad)
        if count > MOST_QUARANTINED:
            raise errors.ViewFailedError(
                f"view {self._job.name!r} could not be computed: {count} rows of its inputs "
                f"would be in quarantine, and {MOST_QUARANTINED} may be; correct the rows, or "
                "create the view again with an expression that does not fail"
            )

    @cached_property
    def _released(self) -> Keys:
        """The rows in quarantine that have changed."""
        released: dict[int, list[pa.Array]] = {}
        for entering in self._reads:
            scan = entering.read.source
            if isinstance(scan, Scan):
                parts = released.setdefault(scan.table_id, [ragged.NO_BYTES])
                parts += [entering.released, *entering.changed_absent(self._environment)]
        return {
            table_id: pc.unique(pa.concat_arrays(parts))
            for table_id, parts in released.items()
            if sum(map(len, parts))
        }


@dataclass(frozen=True, slots=True)
class _Entering:
    """The changes of a source that a view takes in.

    ``absent``: the encoded keys of rows that the view does not have, whose deletes are to be
    dropped; there are none of a read in memory, which is without such deletes. ``released``: those
    of rows in quarantine that have changed, of a read in memory.
    """

    read: SourceRead
    absent: ragged.Bytes = field(default_factory=lambda: ragged.NO_BYTES)
    released: ragged.Bytes = field(default_factory=lambda: ragged.NO_BYTES)

    def changed_absent(self, environment: Environment) -> Iterator[ragged.Bytes]:
        """Yield which of the rows that the view does not have are among the changes."""
        if isinstance(self.read.source, Scan) and self.read.plan is not None and len(self.absent):
            codec = key_codec(self.read.source)
            for chunk in self.read.chunks(self.read.vnodes, environment):
                keys = codec.encode(chunk)
                yield keys.filter(pc.is_in(keys, self.absent))


def _held(read: SourceRead, most: int, environment: Environment) -> SourceRead:
    """Return a read whose changes are in memory, if they have at most so many stored bytes."""
    if read.plan is None or isinstance(read.plan, RowsPlan) or read.stored_bytes > most:
        return read
    if not isinstance(read.source, Scan):
        return read
    chunks = list(read.chunks(read.vnodes, environment))
    if not chunks:
        return replace(read, plan=None)
    plan = RowsPlan(read.source, pa.concat_batches(chunks), read.plan_vnodes)
    return replace(read, plan=plan, vnodes=range(plan.vnode_count))
