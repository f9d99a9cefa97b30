"""The stream of a table's changes, as micro-batches.

Promises: every change is emitted once and in the order of the epochs, however often the query is
stopped, killed and restarted: the content of a micro-batch follows from its offsets alone, and
tasks read the epochs that were pinned when it was planned. A query without a start begins with the
whole table, every row an insert.
Does not know: how changes are found.

After a crash in the first micro-batch Spark asks for the first offset again, and more may have been
committed by then. So every offset also has the epoch where the stream began, and the end of the
first micro-batch decides where it starts.

Spark 4.1 asks for the end of a micro-batch without its start, which this process does not know
before its own first one. That end has the beginning that a new query would have, and a mark: it
counts only if Spark then asks for the first offset, which it does for a new query alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from relstate.connector import catalog_table
from relstate.connector.failure import strip_traceback
from relstate.connector.options import FeedOptions, feed_stream_options
from relstate.connector.spark.capabilities import MICRO_BATCH_LIMITS
from relstate.connector.spark.streams import SupportsTriggerAvailableNow, limit_of, most_commits
from relstate.connector.spark.version import pyspark_version
from relstate.connector.types import arrow_schema_of
from relstate.storage import FeedPlan, FeedSnapshot, Store, TableDefinition, errors

from .read import (
    ChangePlan,
    batches_of,
    checked_names,
    default_partitions,
    feed_plan,
    first_epoch,
    in_format,
)

if TYPE_CHECKING:
    from relstate.connector.spark.streams import ReadLimit


@dataclass(frozen=True, slots=True)
class FeedOffset:
    """All changes of a table up to ``epoch``, since the stream ``began``, are emitted.

    ``began``: the epoch after which changes are emitted; with ``snapshot`` all rows of that epoch
    are emitted first, and ``is_whole`` says that they are not emitted yet. ``table_id``
    distinguishes this table from a later one of its name. ``is_unplaced``: it was made without the
    start of its micro-batch, so ``began`` and ``snapshot`` hold if the query was new.

    Promises: `FeedOffset.from_json(offset.to_json()) == offset`; one offset has one JSON text.
    """

    table_id: int
    began: int
    snapshot: bool
    epoch: int
    is_whole: bool = False
    is_unplaced: bool = False

    @classmethod
    def whole(cls, table_id: int, epoch: int) -> FeedOffset:
        """Return the beginning of a stream that emits all rows of an epoch first."""
        return cls(table_id, epoch, True, epoch, True)

    @classmethod
    def after(cls, table_id: int, epoch: int) -> FeedOffset:
        """Return the beginning of a stream that emits the changes after an epoch."""
        return cls(table_id, epoch, False, epoch)

    def beginning(self) -> FeedOffset:
        """Return where the stream that came to this offset began."""
        begin = FeedOffset.whole if self.snapshot else FeedOffset.after
        return begin(self.table_id, self.began)

    def after_snapshot(self) -> FeedOffset:
        """Return the offset at which all rows are emitted."""
        return replace(self, is_whole=False)

    def at(self, epoch: int) -> FeedOffset:
        """Return the offset of the same stream at an epoch."""
        return replace(self, epoch=epoch, is_unplaced=False)

    def unplaced_at(self, epoch: int) -> FeedOffset:
        """Return the end, at an epoch, of a micro-batch that starts here if the query is new."""
        return replace(self, epoch=epoch, is_whole=False, is_unplaced=True)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON values. In checkpoints: never change a name, nor the order."""
        value = {
            "table": self.table_id,
            "began": self.began,
            "snapshot": self.snapshot,
            "epoch": self.epoch,
            "whole": self.is_whole,
        }
        return value | {"unplaced": True} if self.is_unplaced else value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeedOffset:
        """Return the offset that `to_json` described. OptionError if it is not one."""
        try:
            return cls(
                value["table"],
                value["began"],
                value["snapshot"],
                value["epoch"],
                value["whole"],
                value.get("unplaced", False),
            )
        except (AttributeError, KeyError, TypeError):
            raise errors.OptionError(
                f"{value!r} in the query's checkpoint is not an offset of a change feed: the "
                "checkpoint belongs to another query"
            ) from None


@dataclass(frozen=True)
class PlannedPartition(InputPartition):
    """The part of a micro-batch that one task reads: some vnodes of a plan."""

    plan: ChangePlan
    vnodes: tuple[range, ...]


@strip_traceback
def plan_stream(texts: Mapping[str, str], schema: StructType) -> ChangeStreamReader:
    """Return the stream of the columns of ``schema``.

    OptionError for options that do not fit, MissingError where there is no such table,
    SchemaMismatchError for columns that its feed does not have.
    """
    options = feed_stream_options(catalog_table.stored_options(schema, texts))
    lack = MICRO_BATCH_LIMITS.lack(pyspark_version())
    if lack is not None and options.epochs_per_trigger is not None:
        raise errors.OptionError(lack)
    return ChangeStreamReader(options, schema)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that cannot be: whatever Spark asks of it first raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Any:
        """Raise the error."""
        raise self._error


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table. Pickled to the tasks, without the store."""

    def __init__(self, options: FeedOptions, schema: StructType) -> None:
        self._options = options
        self._spark_schema = schema
        self._schema: pa.Schema = arrow_schema_of(schema)
        self._store: Store | None = None
        self._first: FeedOffset | None = None
        self._target: int | None = None
        # The epoch of the last offset that the query had.
        self._reached: int | None = None
        # Without starts: whether the query is new, and the end of the last micro-batch.
        self._is_new = False
        self._end: FeedOffset | None = None
        # Columns that cannot be read fail here, when the query starts.
        checked_names(self._definition().schema, options, schema)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_store": None}

    # Offsets

    @strip_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins; the same in all of a run."""
        self._is_new = True
        return self._first_offset().to_json()

    @strip_traceback
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the micro-batch after ``start``; ``start`` if nothing changed.

        Without a ``start`` that is the end of the last micro-batch.
        """
        if start is None:
            start = self._unplaced_end() if self._end is None else self._end.to_json()
        end = self._end_after(start, most_commits(limit))
        self._end = FeedOffset.from_json(end)
        return end

    def _end_after(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offset = FeedOffset.from_json(start)
        self._reached = offset.epoch
        if offset.is_whole:
            return offset.after_snapshot().to_json()
        epoch = self._next_epoch(offset, most)
        return start if epoch is None else offset.at(epoch).to_json()

    @strip_traceback
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the last epoch that changed the table, for the query's progress."""
        table_id, newest = self._definition().table_id, self._open().epoch
        after = newest if self._reached is None else self._reached
        return {"epoch": self._newest_epoch(table_id, after)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many commits a micro-batch takes; Spark's limit counts them as files."""
        return limit_of(self._options.epochs_per_trigger)

    @strip_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember the latest epoch: this run of the query ends with it."""
        self._target = self._open().epoch

    # Micro-batches

    @strip_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the parts of the micro-batch between two offsets."""
        first, last = FeedOffset.from_json(start), FeedOffset.from_json(end)
        self._end = last
        is_new = self._is_new and first == self._first
        if is_new if last.is_unplaced else first.began != last.began:
            first = last.beginning()
        self._check_table(last.table_id, first.table_id)
        if first.epoch == last.epoch and first.is_whole == last.is_whole:
            return []
        plan = in_format(self._plan(first, last), self._options)
        count = self._options.partitions or default_partitions(plan)
        return [PlannedPartition(plan, vnodes) for vnodes in plan.partitions(count)]

    def read(self, partition: InputPartition) -> Any:
        """Yield the changes of a part."""
        assert isinstance(partition, PlannedPartition)
        return batches_of(partition.plan, partition.vnodes, self._schema)

    def stop(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    # The table

    def _beginning(self) -> FeedOffset:
        store, options, table_id = self._open(), self._options, self._definition().table_id
        if options.from_latest:
            return FeedOffset.after(table_id, store.epoch)
        if options.has_start:
            epoch = first_epoch(store, options.start)
            schema = self._definition().schema
            names = checked_names(schema, options, self._spark_schema)
            feed_plan(store, options, epoch, store.epoch, names)
            return FeedOffset.after(table_id, epoch - 1)
        return FeedOffset.whole(table_id, store.epoch)

    def _first_offset(self) -> FeedOffset:
        """Return where a new query begins; the same in all of a run."""
        if self._first is None:
            self._first = self._beginning()
        return self._first

    def _unplaced_end(self) -> dict[str, Any]:
        """Return the newest epoch as the end of a micro-batch whose start is unknown."""
        epoch = self._open().epoch
        try:
            first = self._first_offset()
        except errors.RelstateError:
            # Spark asks a new query for its first offset next, which raises it.
            first = FeedOffset.after(self._definition().table_id, epoch)
        return first.unplaced_at(max(epoch, first.epoch)).to_json()

    def _next_epoch(self, offset: FeedOffset, most: int | None) -> int | None:
        """Return the last epoch of the next micro-batch; None if nothing changed."""
        newest = self._newest_epoch(offset.table_id, offset.epoch)
        if newest <= offset.epoch:
            return None
        last = newest if self._target is None else min(newest, self._target)
        if last == newest and most is None:
            return newest
        epochs = iter(self._open().jobs.feed_epochs(offset.table_id, offset.epoch, last))
        if most is not None:
            epochs = islice(epochs, most)
        return max(epochs, default=None)

    def _plan(self, first: FeedOffset, last: FeedOffset) -> FeedPlan | FeedSnapshot:
        store, options = self._open(), self._options
        definition = store.read_plan(options.table, epoch=last.epoch).definition
        self._check_table(definition.table_id, last.table_id)
        names = checked_names(definition.schema, options, self._spark_schema)
        if first.is_whole:
            return store.jobs.feed_snapshot(options.table, last.epoch, columns=names)
        # Epochs before the first change of the table may have expired.
        epochs = store.jobs.feed_epochs(last.table_id, first.epoch, last.epoch)
        changed = next(iter(epochs), last.epoch)
        return feed_plan(store, options, changed, last.epoch, names)

    def _newest_epoch(self, table_id: int, after: int) -> int:
        """Return the newest epoch that may have changes, as known after an epoch."""
        store = self._open()
        if table_id not in store.state.tables:
            raise errors.TableNotFoundError(
                f"the table {self._options.table!r} was dropped, so the stream of its changes "
                "ends; follow a new table of that name from a new checkpoint"
            )
        return store.jobs.newest_feed_epoch(table_id, after)

    def _check_table(self, table_id: int, expected: int) -> None:
        if table_id != expected:
            raise errors.TableNotFoundError(
                f"the table {self._options.table!r} was dropped and created again, and the "
                "stream followed the one before: start with a new checkpoint"
            )

    def _definition(self) -> TableDefinition:
        return self._open().read_plan(self._options.table).definition

    def _open(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._options.path)
        return self._store
