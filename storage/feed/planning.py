"""How the changes of a range of epochs are found in the log.

Promises: a range that cannot be read whole is refused: epochs that are no longer kept, a table that
was dropped within it, a repair of the clock where rows expire.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import EpochExpiredError, EpochNotFoundError, OptionError, TableNotFoundError
from ..log.entry import Entry
from ..log.log import Log
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..read_plan import ReadPlan
from ..table.encoding import encoding_of
from .columns import DEDUPLICATIONS, feed_fields, stored_columns
from .expiries import Expiries
from .feed_plan import FeedPlan, FeedSnapshot
from .feed_reader import FeedShape
from .source import FeedStep, every_step_of, steps_of


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """The arguments of a feed; ``last`` is None for the latest epoch, ``columns`` for all.

    ``pending``: a commit that is about to follow the latest epoch and whose changes are part of the
    feed, which then ends at the latest epoch. ``shows_expiry``: as in `FeedShape`. ``times``: the
    rows before the feed are those that had not expired by the first time, and the rows after it
    those that have not by the second, both in microseconds since 1970, whatever the times of the
    epochs; for net changes.
    """

    table: str
    first: int
    last: int | None = None
    deduplication: str = "dropCarryovers"
    update_images: bool = True
    columns: Sequence[str] | None = None
    pending: Entry | None = None
    shows_expiry: bool = False
    times: tuple[int, int] | None = None


def plan_feed(log: Log, newest: StoreState, request: FeedRequest, expiries: Expiries) -> FeedPlan:
    """Return the plan of a feed; ``newest``: the newest state of the store.

    A range that ends right before it begins has no changes, unless it has times. EpochExpiredError,
    EpochNotFoundError, TableNotFoundError also if the table was dropped and created again within
    the range, OptionError for a range that ends before it begins, and, unless the feed shows
    expiries, for a repair of the clock within the range of a table whose rows expire; the errors of
    `feed_fields`.
    """
    last = newest.epoch if request.last is None else request.last
    _check_range(newest, request.first, last)
    state = log.history.state_at(newest, min(last, newest.epoch))
    definition = state.table(request.table).definition
    return _plan(log, newest, definition, request, last, expiries)


def _plan(
    log: Log,
    newest: StoreState,
    definition: TableDefinition,
    request: FeedRequest,
    last: int,
    expiries: Expiries,
) -> FeedPlan:
    fields = feed_fields(definition.schema, request.columns)
    _check_same_table(log, newest, definition, request.first)
    entries = list(log.history.entries(newest, request.first, last))
    if request.pending is not None:
        entries.append(request.pending)
    steps = tuple(steps_of(entries, definition.table_id))
    follows_expiry = not request.shows_expiry and _expires(
        log, newest, definition, request.first, steps
    )
    if follows_expiry and request.times is not None:
        steps = tuple(_steps_at(request.times[1], request.first, steps))
    elif follows_expiry:
        existing = (entry for entry in entries if entry.epoch >= definition.created_epoch)
        steps = tuple(every_step_of(existing, definition.table_id))
        _check_times_ascend(newest, definition, steps)
    merges_expired = follows_expiry and not definition.properties.is_plain
    if merges_expired or _may_forget(log, newest, definition, steps):
        steps = tuple(_with_bases(log, newest, definition.table_id, entries, steps))
    before = _before(log, newest, definition, steps)
    expiring = before.expiring_segments
    if follows_expiry and request.times is not None:
        before = replace(before, time=request.times[0])
        encoding = encoding_of(definition, before.vnode_count)
        expiring = expiries.expiring(encoding, expiring, *request.times)
        if not expiring and not any(step.segments or step.is_based for step in steps):
            steps = ()
    is_net = _is_net(request.deduplication)
    names = tuple(field.name for field in fields)
    shape = FeedShape(is_net, request.update_images, names, request.shows_expiry, follows_expiry)
    return FeedPlan(before, request.first, last, steps, shape, expiring)


def _steps_at(time: int, first: int, steps: Sequence[FeedStep]) -> Iterator[FeedStep]:
    """Yield steps with one time, from the first epoch on: by then rows may have expired."""
    if not steps or steps[0].epoch > first:
        yield FeedStep(first, time, (), is_based=False)
    yield from (replace(step, time=time) for step in steps)


def _expires(
    log: Log,
    newest: StoreState,
    definition: TableDefinition,
    first: int,
    steps: Sequence[FeedStep],
) -> bool:
    """Return whether rows expire that were there before an epoch, or that some steps wrote."""
    table_id = definition.table_id
    written = (segment for step in steps for segment in step.segments)
    if any(segment.record.expiring(table_id) for segment in written):
        return True
    is_new = first <= definition.created_epoch
    return not is_new and log.history.state_at(newest, first - 1).expiring_rows(table_id) > 0


def _before(
    log: Log, newest: StoreState, definition: TableDefinition, steps: Sequence[FeedStep]
) -> ReadPlan:
    """Return the table as it was before the first of some steps; empty if it was not there."""
    path, vnode_count = log.environment.location(""), newest.settings.vnode_count
    if not steps or steps[0].epoch <= definition.created_epoch:
        return ReadPlan(path, definition, vnode_count, definition.created_epoch, (), 0)
    state = log.history.state_at(newest, steps[0].epoch - 1)
    segments = state.segments_of(definition.table_id)
    return ReadPlan(path, definition, vnode_count, state.epoch, segments, state.time)


def _may_forget(
    log: Log, newest: StoreState, definition: TableDefinition, steps: Sequence[FeedStep]
) -> bool:
    """Return whether maintenance may have dropped a delete that outdates later rows."""
    properties = definition.properties
    if not properties.is_versioned or not steps:
        return False
    (created,) = log.history.entries(newest, definition.created_epoch, definition.created_epoch)
    return steps[-1].time - created.time >= properties.tombstone_retention * 1_000_000


def _with_bases(
    log: Log,
    newest: StoreState,
    table_id: int,
    entries: Sequence[Entry],
    steps: Sequence[FeedStep],
) -> Iterator[FeedStep]:
    """Yield steps, those right after maintenance with their basis."""
    maintenance = [entry.epoch for entry in entries if entry.removed]
    yield steps[0]
    for before, step in pairwise(steps):
        if step.is_based or not any(before.epoch <= epoch < step.epoch for epoch in maintenance):
            yield step
        else:
            state = log.history.state_at(newest, step.epoch - 1)
            yield replace(step, basis=state.segments_of(table_id))


def _check_times_ascend(
    newest: StoreState, definition: TableDefinition, steps: Sequence[FeedStep]
) -> None:
    """OptionError if the clock was repaired by one of some steps: rows may be visible again."""
    repairs = {step.epoch for step in steps}.intersection(newest.clock_repairs)
    repair = max(repairs, default=None)
    if repair is not None:
        raise OptionError(
            f"table {definition.name}: its rows expire, and the clock was repaired at epoch "
            f"{repair}, so rows that had expired by the wrong clock may be visible again, which a "
            f"feed does not show: begin at epoch {repair + 1} with the whole table as of epoch "
            f"{repair}, a stream from a new checkpoint"
        )


def data_epochs(
    log: Log, newest: StoreState, table_id: int, after: int, last: int
) -> Iterator[int]:
    """Yield the epochs after ``after``, up to ``last``, that may have changed a table's rows."""
    table = newest.tables.get(table_id)
    if table is not None:
        last = min(last, table.data_epoch)
    return (step.epoch for step in steps_of(log.history.entries(newest, after + 1, last), table_id))


def feed_epochs(
    log: Log, newest: StoreState, table_id: int, after: int, last: int
) -> Iterable[int]:
    """Return the epochs after ``after``, up to ``last``, of which the feed may have changes.

    Those that may have changed the table's rows; of a table whose rows expire, all from the first
    by which a row may have expired. They may have expired themselves: then changes are lost.
    """
    if _expiring_rows(log, newest, table_id, after):
        return range(after + 1, last + 1)
    epochs = data_epochs(log, newest, table_id, after, last)
    if newest.expiring_rows(table_id):
        # No row expires before the first one is written.
        return range(next(epochs, last + 1), last + 1)
    return epochs


def newest_feed_epoch(log: Log, newest: StoreState, table_id: int, after: int) -> int:
    """Return the newest epoch that `feed_epochs` may return."""
    # Maintenance may have removed rows since then, because they had expired.
    if newest.expiring_rows(table_id) or _expiring_rows(log, newest, table_id, after):
        return newest.epoch
    return newest.tables[table_id].data_epoch


def _expiring_rows(log: Log, newest: StoreState, table_id: int, epoch: int) -> int:
    """Return an upper bound of the rows of a table that expire, as of an epoch, even expired."""
    if not 1 <= epoch <= newest.epoch:
        return 0
    return log.history.past_state(newest, epoch).expiring_rows(table_id)


def _check_range(newest: StoreState, first: int, last: int) -> None:
    if first == last + 1:
        newest.check_epoch(last)
        return
    if first > newest.epoch or first < 1:
        raise EpochNotFoundError(
            f"there are no changes of epoch {first}: the store is at epoch {newest.epoch}"
        )
    if last < first:
        raise OptionError(f"a change feed cannot end at epoch {last} when it begins at {first}")
    newest.check_epoch(last)
    # The rows before the first epoch are needed too.
    if newest.oldest_epoch > max(first - 1, 1):
        raise EpochExpiredError(
            f"the changes of epoch {first} were removed by vacuum: epoch {newest.oldest_epoch} is "
            f"the oldest that can be read, so changes begin at {newest.oldest_epoch + 1} "
            f"(retention is {newest.settings.retention} s): begin there, and read the table as of "
            f"epoch {newest.oldest_epoch} for the rows before"
        )


def _check_same_table(
    log: Log, newest: StoreState, definition: TableDefinition, first: int
) -> None:
    """TableNotFoundError if an earlier table had the same name within the range."""
    created, name = definition.created_epoch, definition.name.lower()
    if first >= created:
        return
    earlier = first > 1 and name in log.history.state_at(newest, first - 1).table_ids
    created_again = (
        table.name.lower() == name
        for entry in log.history.entries(newest, first, created - 1)
        for table in entry.created_tables
    )
    if earlier or any(created_again):
        raise TableNotFoundError(
            f"the table {definition.name!r} was dropped and created again at epoch {created}, so "
            f"it has no changes since epoch {first}: begin at epoch {created}, or end before it"
        )


def _is_net(deduplication: str) -> bool:
    if deduplication not in DEDUPLICATIONS:
        raise OptionError(
            f"deduplication is {deduplication!r}; it must be one of {', '.join(DEDUPLICATIONS)}"
        )
    return deduplication == "netChanges"


def snapshot_of(plan: ReadPlan, time: int, columns: Sequence[str] | None = None) -> FeedSnapshot:
    """Return the rows of a plan as a feed; ``columns``: of the feed, by default all.

    Errors as of `feed_fields`.
    """
    schema = plan.definition.schema
    names = tuple(field.name for field in feed_fields(schema, columns))
    stored = tuple(column.name for column in stored_columns(schema, names))
    return FeedSnapshot(replace(plan, columns=stored), time, names)
