"""A store and a dict, doing the same at random, never differ."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from relstate.storage import SegmentRecord, StateTable, Store, Table
from relstate.storage.clock import SystemClock
from relstate.storage.environment import Environment
from relstate.storage.errors import (
    EpochExpiredError,
    SegmentMissingError,
    TableExistsError,
    TableNotFoundError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.maintenance.vacuum import VacuumReport
from relstate.storage.segment import writer
from relstate.storage.table import filteredgets, keylookups, keysearch
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.examples import Seeds
from support.model import Model, changed, in_order, is_between
from support.object_stores import DatedStore
from support.places import FOLDER, MEMORY, path_in
from support.shapes import SHAPES, Key, Row, Shape
from support.stores import batch_of, committed, rows_of, written

Change = tuple[Key, Row | None]


@st.composite
def changes(draw: st.DrawFn, shape: Shape, most: int = 12) -> list[tuple[Row, bool]]:
    """Draw rows, each to be written or deleted."""
    return draw(st.lists(st.tuples(shape.rows, st.booleans()), max_size=most))


def changes_of(shape: Shape, drawn: Sequence[tuple[Row, bool]]) -> list[Change]:
    """Return drawn changes as the model takes them."""
    return [(shape.key_of(row), row if is_put else None) for row, is_put in drawn]


class StoreMachine(RuleBasedStateMachine):
    """One table of one shape, another that stays, a state table held open, and snapshots."""

    shape: Shape
    vnode_count: int
    place = FOLDER

    @initialize()
    def begin(self) -> None:
        """Make an empty store."""
        self.folder = tempfile.TemporaryDirectory()
        # Files are as old as the machine's clock says.
        self.clock = ManualClock(SystemClock().now())
        self.path = path_in(self.place, Path(self.folder.name))
        self.handles = [
            Store.create(
                self.path, vnode_count=self.vnode_count, environment=self.environment(self.path)
            )
        ]
        self.model = Model()
        self.times = {1: self.clock.now()}
        self.state_table: StateTable | None = None
        self.snapshots: list[tuple[int, Table, dict[Key, Row]]] = []
        self.create()

    def environment(self, path: str) -> Environment:
        """Return an environment by the machine's own clock."""
        if self.place == MEMORY:
            return DatedStore(path, f"{self.folder.name}/cache", self.clock, self.clock)
        return LocalEnvironment(path, UnsyncedDisk(self.clock), self.clock)

    @property
    def store(self) -> Store:
        """The handle in use."""
        return self.handles[-1]

    @property
    def rows(self) -> dict[Key, Row]:
        """The rows that the table should hold."""
        return self.model.tables[self.shape.name]

    @property
    def exists(self) -> bool:
        """Whether there is a table."""
        return self.shape.name in self.model.tables

    def teardown(self) -> None:
        """Compare what is left, at every epoch, and check the store."""
        for epoch, tables in self.model.past.items():
            snapshot = self.store.at(epoch)
            assert snapshot.tables() == tuple(sorted(tables))
            for name, rows in tables.items():
                assert rows_of(snapshot.table(name).to_arrow()) == in_order(self.shape, rows)
        assert self.store.check().problems == ()
        for handle in self.handles:
            handle.close()
        self.folder.cleanup()

    # The catalog and the handles

    @precondition(lambda self: not self.exists)
    @rule()
    def create(self) -> None:
        """Create the table, which cannot be done twice."""
        self.shape.create(self.store)
        self.model.create(self.shape.name)
        with pytest.raises(TableExistsError):
            self.shape.create(self.handles[0])

    @precondition(lambda self: self.exists)
    @rule()
    def drop(self) -> None:
        """Drop the table; a state table that has changes for it cannot commit them."""
        table = self.store.table(self.shape.name)
        self.store.drop_table(self.shape.name)
        self.model.drop(self.shape.name)
        self.state_table = None
        with pytest.raises(TableNotFoundError):
            table.count()

    @precondition(lambda self: self.exists)
    @rule()
    def truncate(self) -> None:
        """Empty the table."""
        self.store.truncate(self.shape.name)
        self.model.replace(self.shape.name, [])

    @rule(is_beside=st.booleans())
    def reopen(self, is_beside: bool) -> None:
        """Go on with a new handle, the old ones closed or not."""
        if not is_beside:
            for handle in self.handles:
                handle.close()
            self.handles, self.state_table, self.snapshots = [], None, []
        self.handles.append(Store.open(self.path, environment=self.environment(self.path)))

    @precondition(lambda self: len(self.handles) > 1)
    @rule()
    def change_handles(self) -> None:
        """Go on with the oldest handle."""
        self.handles.append(self.handles.pop(0))

    # Writes

    @precondition(lambda self: self.exists)
    @rule(data=st.data(), is_overwrite=st.booleans())
    def write_as_tasks(self, data: st.DataObject, is_overwrite: bool) -> None:
        """Commit the segments of up to three tasks; of one key the last task's row wins."""
        tasks = data.draw(st.lists(changes(self.shape), min_size=1, max_size=3))
        segments: list[SegmentRecord] = []
        expected: list[Change] = []
        for task in tasks:
            # A task writes its rows before its deletes.
            puts = [row for row, is_put in task if is_put]
            deleted = [row for row, is_put in task if not is_put]
            if puts or deleted:
                segments += written(self.store, self.shape.name, puts, deleted)
            expected += changes_of(self.shape, [(row, True) for row in puts])
            expected += changes_of(self.shape, [(row, False) for row in deleted])
        table_id = self.store.state.table(self.shape.name).definition.table_id
        if is_overwrite:
            committed(self.store, segments, based_tables=(table_id,))
            self.model.replace(self.shape.name, expected)
        elif segments:
            committed(self.store, segments)
            self.model.apply(self.shape.name, expected)

    @precondition(lambda self: self.exists)
    @rule()
    def open_state_table(self) -> None:
        """Hold a state table, which sees what is committed now until its own epoch ends."""
        self.state_table = self.store.state_table(self.shape.name)
        self._begin_epoch()

    @precondition(lambda self: self.state_table is not None)
    @rule(data=st.data())
    def change_rows(self, data: st.DataObject) -> None:
        """Write single rows to the state table."""
        assert self.state_table is not None
        drawn = data.draw(changes(self.shape))
        for row, is_put in drawn:
            if is_put:
                self.state_table.insert(row)
            elif data.draw(st.booleans()):
                self.state_table.delete(row)
            else:
                batch = batch_of(self.store, self.shape.name, [row])
                self.state_table.write(batch, np.ones(1, np.bool_))
        self.pending += changes_of(self.shape, drawn)

    @precondition(lambda self: self.state_table is not None)
    @rule(data=st.data())
    def write_batch(self, data: st.DataObject) -> None:
        """Write a batch of puts and deletes to the state table."""
        assert self.state_table is not None
        drawn = data.draw(changes(self.shape, most=30))
        rows = batch_of(self.store, self.shape.name, [row for row, _ in drawn])
        self.state_table.write(rows, np.array([not is_put for _, is_put in drawn], np.bool_))
        self.pending += changes_of(self.shape, drawn)

    @precondition(lambda self: self.state_table is not None)
    @rule(is_commit=st.booleans())
    def end_epoch(self, is_commit: bool) -> None:
        """Commit the state table's changes, or drop them."""
        assert self.state_table is not None
        if not is_commit:
            self.state_table.clear()
        elif self.pending:
            self.model.apply(self.shape.name, self.pending)
            assert self.state_table.commit() == self.model.epoch
        else:
            assert self.state_table.commit() == self.model.epoch
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.opened: dict[Key, Row] | None = None
        self.pending: list[Change] = []

    @property
    def seen(self) -> dict[Key, Row]:
        """The committed rows that the state table sees: those of its first read or change."""
        if self.opened is None:
            self.opened = dict(self.rows)
        return self.opened

    @invariant()
    def note_what_the_state_table_has_opened(self) -> None:
        """From then on other commits change nothing for it: its reads are compared with this."""
        if self.state_table is not None and self.state_table._opened is not None:
            self.opened = self.seen

    # Upkeep

    @rule(is_whole=st.booleans())
    def compact(self, is_whole: bool) -> None:
        """Merge all files of the table or of all; the second time there is nothing to do."""
        table = self.shape.name if self.exists and not is_whole else None
        epoch = self.store.epoch
        report = self.store.compact(table)
        assert self.store.epoch == report.epoch
        assert report.epoch - epoch == bool(report.files_read)
        assert self.store.compact(table).files_read == 0

    @rule(retention=st.integers(0, 12), is_dry=st.booleans())
    def vacuum(self, retention: int, is_dry: bool) -> None:
        """Let epochs expire that were replaced so many seconds ago, and remove what they need."""
        oldest = self.store.state.oldest_epoch
        start = self.clock.now() - retention * 1_000_000
        expected = max((epoch for epoch, time in self.times.items() if time <= start), default=1)
        report = self.store.vacuum(retention, dry_run=is_dry)
        if is_dry:
            assert self.store.state.oldest_epoch == oldest
            return
        assert report.oldest_epoch == self.store.state.oldest_epoch
        assert oldest <= report.oldest_epoch <= max(expected, oldest)
        self.model.expire(report.oldest_epoch)
        assert self.store.vacuum(retention) == VacuumReport(0, 0, report.oldest_epoch)

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        """Every epoch that is kept reads as it was; the one before them has expired."""
        epoch = data.draw(st.sampled_from(sorted(self.model.past)))
        snapshot = self.store.at(epoch)
        for name, rows in self.model.past[epoch].items():
            scanned = rows_of(snapshot.table(name).to_arrow())
            assert scanned == in_order(self.shape, rows)
        oldest = min(self.model.past)
        if oldest > 1:
            with pytest.raises(EpochExpiredError, match=f"{oldest} is the oldest"):
                self.store.at(oldest - 1)

    # Reads

    @invariant()
    def the_newest_epoch_is_seen(self) -> None:
        """Every handle sees the newest epoch and its tables; maintenance changes no row.

        A second passes.
        """
        newest = self.store.epoch
        for epoch in range(max(self.times) + 1, newest + 1):
            self.times[epoch] = self.clock.now()
        self.clock.advance(1)
        assert newest - self.model.epoch <= 1
        for entry in itertools.islice(self.store.history(), newest - self.model.epoch):
            assert not entry.data_change
        self.model.pass_epochs(newest)
        for handle in self.handles:
            assert handle.epoch == self.model.epoch
            assert handle.tables() == tuple(self.model.tables)

    @precondition(lambda self: self.exists)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        """Single rows, and many at once in the order asked."""
        table = self.store.table(self.shape.name)
        keys = data.draw(st.lists(self.shape.keys, max_size=8))
        for key in keys:
            assert table.get(*key) == self.rows.get(key)
        expected = [self.rows[key] for key in keys if key in self.rows]
        assert rows_of(table.get_rows(keys)) == expected

    @precondition(lambda self: self.exists)
    @rule(data=st.data(), count=st.integers(1, 4))
    def scan(self, data: st.DataObject, count: int) -> None:
        """Whole scans, of some columns, in order, as tasks of a read."""
        names = data.draw(st.permutations(self.shape.column_names))
        names = names[: data.draw(st.integers(1, len(names)))]
        indices = [self.shape.column_names.index(name) for name in names]
        expected = [
            tuple(row[index] for index in indices) for row in in_order(self.shape, self.rows)
        ]
        table = self.store.table(self.shape.name)

        assert rows_of(table.scan(names, ordered=True)) == expected
        assert same_rows(rows_of(table.scan(names)), expected)
        assert table.count() == len(expected)
        plan = pickle.loads(pickle.dumps(self.store.read_plan(self.shape.name, columns=names)))
        parts = [rows_of(plan.read(vnodes)) for vnodes in plan.partitions(count)]
        assert same_rows([row for part in parts for row in part], expected)

    @precondition(lambda self: self.state_table is not None)
    @rule(data=st.data(), is_descending=st.booleans())
    def scan_state_table(self, data: st.DataObject, is_descending: bool) -> None:
        """Ranges and prefixes of committed and uncommitted rows, in order and not."""
        assert self.state_table is not None
        keys = self.shape.keys | st.just(())
        lengths = st.integers(0, len(self.shape.key))
        prefix, start, stop = (data.draw(keys)[: data.draw(lengths)] for _ in range(3))
        rows = changed(self.seen, self.pending)

        def is_inside(key: Key) -> bool:
            between = is_between(self.shape, start, stop)
            return key[: len(prefix)] == prefix and between(key)

        expected = in_order(self.shape, rows, is_inside)
        bounds: dict[str, Any] = {"prefix": prefix, "start": start, "stop": stop}
        scanned = rows_of(self.state_table.scan(**bounds, descending=is_descending))
        assert scanned == (expected[::-1] if is_descending else expected)
        assert same_rows(rows_of(self.state_table.scan(**bounds, ordered=False)), expected)

    @precondition(lambda self: self.state_table is not None)
    @rule(data=st.data())
    def look_up_state_table(self, data: st.DataObject) -> None:
        """Committed and uncommitted rows, one by one and many at once."""
        assert self.state_table is not None
        keys = data.draw(st.lists(self.shape.keys, max_size=8))
        rows = changed(self.seen, self.pending)
        for key in keys:
            assert self.state_table.get_row(*key) == rows.get(key)
        schema = self.store.table(self.shape.name).schema
        columns = [
            pa.array([key[index] for key in keys], schema.arrow_schema.field(column.name).type)
            for index, column in enumerate(schema.key_columns)
        ]
        batch = pa.RecordBatch.from_arrays(columns, [column.name for column in schema.key_columns])
        positions, present = self.state_table.get_rows(batch)
        assert rows_of(present) == [rows[key] for key in keys if key in rows]
        assert positions.tolist() == [index for index, key in enumerate(keys) if key in rows]

    @precondition(lambda self: self.exists)
    @rule()
    def take_snapshot(self) -> None:
        """Hold a table at the epoch of now."""
        table = self.store.at(self.model.epoch).table(self.shape.name)
        self.snapshots.append((self.model.epoch, table, dict(self.rows)))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def read_snapshot(self, data: st.DataObject) -> None:
        """A snapshot shows its own epoch, whatever came since; if that expired, it may say so."""
        epoch, table, rows = data.draw(st.sampled_from(self.snapshots))
        key = data.draw(self.shape.keys)
        is_kept = epoch >= self.store.state.oldest_epoch
        missing = nullcontext() if is_kept else suppress(SegmentMissingError)
        with missing:
            row, all_rows = table.get(*key), rows_of(table.to_arrow())
            assert row == rows.get(key)
            assert all_rows == in_order(self.shape, rows)


def same_rows(actual: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Return whether two lists hold the same rows in any order."""
    rest = list(expected)
    for row in actual:
        if row not in rest:
            return False
        rest.remove(row)
    return not rest


@pytest.mark.parametrize("vnode_count", [1, 7, 256])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_store_is_a_dict_of_every_epoch(shape: Shape, vnode_count: int, seeds: Seeds) -> None:
    """Random writes, reads, reopenings and snapshots agree with a dict, and check passes."""
    machine = type("Machine", (StoreMachine,), {"shape": shape, "vnode_count": vnode_count})
    effort = settings(max_examples=len(seeds(16)), stateful_step_count=25)
    run_state_machine_as_test(machine, settings=effort)


@pytest.mark.parametrize("vnode_count", [1, 300, 32768])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_store_with_filters_in_all_files_is_a_dict_of_every_epoch(
    shape: Shape, vnode_count: int, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few keys a file has, and with filters that are asked one by one or together."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    monkeypatch.setattr(filteredgets, "_LEAST_TOGETHER", 2)
    monkeypatch.setattr(filteredgets, "_ASKED_PER_WORD", 2)
    monkeypatch.setattr(keylookups, "_MOST_ROWS", 3)
    monkeypatch.setattr(keysearch, "_FEW_KEYS", 2)
    monkeypatch.setattr(keysearch, "_FEW_OF_A_FILE", 1)
    machine = type("Machine", (StoreMachine,), {"shape": shape, "vnode_count": vnode_count})
    effort = settings(max_examples=len(seeds(16)), stateful_step_count=25)
    run_state_machine_as_test(machine, settings=effort)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_store_in_a_bucket_is_a_dict_of_every_epoch(shape: Shape, seeds: Seeds) -> None:
    """The same operations over objects, and a cache of segments."""
    attributes = {"shape": shape, "vnode_count": 7, "place": MEMORY}
    machine = type("Machine", (StoreMachine,), attributes)
    effort = settings(max_examples=len(seeds(8)), stateful_step_count=25)
    run_state_machine_as_test(machine, settings=effort)
