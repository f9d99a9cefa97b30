"""The check of a store: reports every broken invariant.

Promises: it reads the log and every segment that a readable epoch names, or a part of these, trusts
nothing, changes nothing, and continues after a problem to find the others. A segment is in the same
part of as many whenever a store is checked.
Does not know: how to repair.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .codec.ragged import NO_BYTES, Bytes, equal_neighbours, parts_of, sort_order
from .environment import Environment
from .errors import CorruptionError, OptionError, RelstateError
from .index.indexcheck import index_problems
from .log.entry import Entry
from .log.history import EntryCache
from .log.log import Log
from .log.manifest_files import ManifestCache
from .log.segment_record import SegmentRecord
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .maintenance.components import is_internal
from .paths import SEGMENTS, checkpoint_path, entry_path, parse_segment_file, segment_path
from .problems import problem_of
from .segment.block import Block
from .segment.key import Kind, table_ids_at
from .segment.keyfilter import KeyMarks, key_hashes
from .segment.longkey import unpack
from .segment.registry import registry
from .segment.segment import SegmentFile
from .segment.writer import statistics
from .table.document.documentencoding import DocumentEncoding
from .table.encoding import Encoding, encoding_of
from .table.header import Headers
from .table.scan import Limits, cut

_LEAVES_PER_BLOCK = 512
_SHOWN_BYTES = 32
_AT_ONCE = Limits(rows=1 << 20, size=256 << 20)
# So many segments are checked at once at most: each takes some hundred megabytes.
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """The ``number``-th of ``count`` parts of a store's segments, from 1."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        """Raise OptionError if there is no such part."""
        if not 1 <= self.number <= self.count:
            raise OptionError(
                f"part {self.number} of {self.count} of the files does not exist: give a part from "
                "1 on, and at least as many parts"
            )

    def has(self, segment: str) -> bool:
        """Return whether a segment is in it, by its name."""
        return zlib.crc32(segment.encode()) % self.count == self.number - 1


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    ``segments``, ``entries``: those that were read. ``orphans``: segments that no commit names;
    they are not a problem.
    """

    epoch: int
    segments: int
    entries: int
    orphans: int
    problems: tuple[str, ...]

    @classmethod
    def of_unreadable(cls, environment: Environment, error: Exception) -> Report:
        """Return the report of a store whose newest state cannot be read. See `problem_of`."""
        return cls(0, 0, 0, 0, (problem_of(environment, error),))

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def check(
    environment: Environment,
    state: StoreState,
    progress: Callable[[int, int], None] | None = None,
    expect_epoch: int | None = None,
    part: Part = Part(),
) -> Report:
    """Return a report of the problems of a store whose newest state is ``state``.

    It checks that the log replays to that state; views have their tables and inputs; every segment
    has its size and hash, is sorted, matches its statistics and decodes; every key is canonical and
    in its vnode; every index has exactly the entries of its table's rows; the newest epoch is
    ``expect_epoch`` or a later one. Rows of a table that no readable epoch has are not decoded.
    Up to four segments are checked at once, by threads.
    ``part``: of the segments those that are read; indexes are compared with their tables in the
    first part.
    ``progress`` is called before each segment and at the end, with the number of segments done and
    their total. Problems never raise; FilesystemError if the store is on a server that does not
    answer, FormatVersionError if this version cannot read it.
    """
    history = _History(state)
    # With new caches: what this process read before must be read from the files again.
    problems = [
        *history.problems,
        *history.replay(Log(environment, EntryCache(), ManifestCache())),
        *_view_problems(state),
    ]
    if expect_epoch is not None and state.epoch < expect_epoch:
        problems.append(_lost_end_problem(environment, state, expect_epoch))
    entries = 0
    records = [record for name, record in history.records.items() if part.has(name)]
    with ThreadPoolExecutor(min(pa.cpu_count(), _MOST_THREADS), "relstate-check") as pool:
        results = [
            pool.submit(_checked_segment, environment, state, record, history.definitions)
            for record in records
        ]
        try:
            for checked_count, result in enumerate(results):
                if progress is not None:
                    progress(checked_count, len(records))
                segment_problems, count = result.result()
                problems += segment_problems
                entries += count
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if part.number == 1:
        try:
            problems += index_problems(environment, state)
        except CorruptionError as error:  # of a manifest
            problems.append(str(error))
    if progress is not None:
        progress(len(records), len(records))
    try:
        orphans = _orphans(environment, history.records)
    except (RelstateError, FileNotFoundError) as error:
        orphans = 0
        problem = problem_of(environment, error)
        problems.append(f"{environment.location(SEGMENTS)}: it cannot be listed: {problem}")
    return Report(state.epoch, len(records), entries, orphans, tuple(dict.fromkeys(problems)))


def _checked_segment(
    environment: Environment,
    state: StoreState,
    record: SegmentRecord,
    definitions: Mapping[int, TableDefinition],
) -> tuple[list[str], int]:
    """Return (problems, number of entries) of one segment; each problem names its file."""
    location = environment.location(segment_path(record.name))
    try:
        problems, count = _segment_problems(environment, state, record, definitions)
    except RelstateError as error:
        return [problem_of(environment, error)], 0
    except Exception as error:  # code that reads a damaged file may raise anything
        return [f"{location}: it cannot be read: {error!r}"], 0
    return [f"{location}: {problem}" for problem in problems], count


def _lost_end_problem(environment: Environment, state: StoreState, expected: int) -> str:
    path = environment.location(entry_path(state.epoch + 1))
    return (
        f"{path}: epoch {state.epoch} is the newest, but epoch {expected} was expected: the end of "
        "the log is missing; restore it from a backup"
    )


class _History:
    """The segments that readable epochs name, and the tables whose rows are in them."""

    def __init__(self, state: StoreState) -> None:
        """``state``: the newest one."""
        self._newest = state
        self.records: dict[str, SegmentRecord] = {}
        self.definitions: dict[int, TableDefinition] = {}
        self.problems = list(self._add(state))

    def _add(self, state: StoreState) -> Iterator[str]:
        """Add the segments and tables of a state; yield a problem for each unreadable record."""
        for segment in state.segments.readable():
            try:
                if isinstance(segment, CorruptionError):
                    raise segment
                self.records[segment.name] = segment.record
            except CorruptionError as error:
                yield str(error)
        for table_id, table in state.tables.items():
            self.definitions.setdefault(table_id, table.definition)

    def replay(self, log: Log) -> Iterator[str]:
        """Yield the problems of the log from the oldest readable epoch."""
        newest = self._newest
        try:
            state = log.history.state_at(newest, newest.oldest_epoch)
            yield from self._add(state)
            checkpoints = set(log.files.checkpoint_epochs())
            for entry in log.history.entries(newest, state.epoch + 1, newest.epoch):
                state = state.apply(entry)
                self._add_entry(entry)
                if entry.epoch in checkpoints:
                    yield from _checkpoint_problems(log, state)
            is_same = state == newest
        except (RelstateError, FileNotFoundError) as error:
            yield problem_of(log.environment, error)
            return
        if not is_same:
            location = log.environment.location("")
            yield f"{location}: the log does not replay to the state its checkpoints say"

    def _add_entry(self, entry: Entry) -> None:
        self.records |= {record.name: record for record in entry.added}
        for definition in (*entry.created_tables, *entry.altered_tables):
            newest = self.definitions.setdefault(definition.table_id, definition)
            if newest.schema.version < definition.schema.version:
                self.definitions[definition.table_id] = definition


def _view_problems(state: StoreState) -> Iterator[str]:
    """Yield the problems of the views of a state."""
    for view_id, view in state.views.items():
        definition, progress = view.definition, view.progress
        input_ids = [table.table_id for table in definition.inputs]
        for table_id in sorted({*definition.table_ids, *input_ids} - state.tables.keys()):
            yield f"view {view_id}: there is no table with the id {table_id}, which it names"
        if sorted(table_id for table_id, _ in progress.inputs) != sorted(input_ids):
            yield f"view {view_id}: its progress is not that of its inputs"
        newest = max((progress.reflects, *(epoch for _, epoch in progress.inputs)))
        if newest > state.epoch:
            yield f"view {view_id}: it reflects epoch {newest}, but {state.epoch} is the newest"
    for table_id, table in state.tables.items():
        is_owned = state.owner_of(table_id) or state.indexed_table(table_id)
        if is_internal(table.definition) and not is_owned:
            yield f"table {table.definition.name}: it holds state, but no view or index keeps it"


def _checkpoint_problems(log: Log, state: StoreState) -> Iterator[str]:
    """Yield the problems of the checkpoint of a state."""
    try:
        checkpoint = log.files.checkpoint(state.epoch)
    except RelstateError as error:
        yield problem_of(log.environment, error)
        return
    if checkpoint != state:
        location = log.environment.location(checkpoint_path(state.epoch))
        yield f"{location}: the log does not replay to what this checkpoint says"


def _segment_problems(
    environment: Environment,
    state: StoreState,
    record: SegmentRecord,
    definitions: Mapping[int, TableDefinition],
) -> tuple[list[str], int]:
    """Return (problems, number of entries) of one segment."""
    registry.verify(environment, record)
    file = registry.open(environment, record)
    stored = list(file.blocks(None, None, _LEAVES_PER_BLOCK))
    if not stored:
        return ["it is empty"], 0
    blocks = list(map(unpack, stored))
    keys = pa.concat_arrays([block.key_bytes() for block in blocks])
    values = pa.concat_arrays([block.value_bytes() for block in blocks])
    problems = [*_order_problems(keys), *_filter_problems(file, stored)]
    settings = state.settings
    rows = np.arange(len(keys), dtype=np.int64)
    statistics_by_table = statistics(keys, values, rows, settings.vnode_count, settings.shards)
    if statistics_by_table != record.tables:
        problems.append(f"its statistics are {statistics_by_table}, the log says {record.tables}")
    for table_id, start, stop in _tables(keys):
        definition = definitions.get(table_id)
        if definition is None:
            # Nothing can read the rows of a table that was dropped before all readable epochs.
            if not 0 < table_id < state.next_table_id:
                problems.append(f"it holds rows of a table {table_id}, which there never was")
            continue
        encoding = encoding_of(definition, settings.vnode_count)
        part = Block.over(keys.slice(start, stop - start), values.slice(start, stop - start))
        # All entries of a document are read together.
        cuts = [part] if encoding.has_parts else cut(part, _AT_ONCE)
        problems += (problem for block in cuts for problem in _row_problems(encoding, block))
    return problems, len(keys)


def _order_problems(keys: Bytes) -> Iterator[str]:
    if (sort_order(keys) != np.arange(len(keys))).any():
        yield "its keys are not in order"
    elif equal_neighbours(keys).any():
        yield "it holds a key twice"


def _filter_problems(file: SegmentFile, stored: Sequence[Block]) -> Iterator[str]:
    """Yield the problems of the filters of a file's keys. ``stored``: all of its entries."""
    if not file.key_filters:
        return
    keys = pa.concat_arrays([block.key_bytes() for block in stored])
    keys_by_table = {
        table_id: keys.slice(start, stop - start) for table_id, start, stop in _tables(keys)
    }
    for table_id, key_filter in file.key_filters.items():
        table_keys = keys_by_table.get(table_id, NO_BYTES)
        missing = np.flatnonzero(~key_filter.may_hold(KeyMarks.of(key_hashes(table_keys))))
        if len(missing):
            yield (
                f"its filter leaves out {len(missing)} of {len(table_keys)} keys of table "
                f"{table_id}, the first is {table_keys[int(missing[0])].as_py().hex()}: lookups do "
                "not find them, scans do; a full compaction of the table writes a new filter"
            )


def _tables(keys: Bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (table id, first row, last row + 1) of every table in sorted full keys."""
    data, offsets = parts_of(keys)
    table_ids = table_ids_at(data, offsets[:-1])
    bounds = [0, *(np.flatnonzero(np.diff(table_ids)) + 1).tolist(), len(keys)]
    for start, stop in itertools.pairwise(bounds):
        yield int(table_ids[start]), start, stop


def _row_problems(encoding: Encoding, block: Block) -> Iterator[str]:
    """Yield the problems of the rows of one table."""
    try:
        entries = block
        if isinstance(encoding, DocumentEncoding):
            encoding.check_columns(block)
            # What is at no path of the table, or under another row's key, fails here or below.
            block = encoding.resolve([block])
        kinds = Headers(block).kinds
        rows = np.flatnonzero(kinds != Kind.DELETE)
        if not np.isin(kinds, (encoding.upsert, Kind.PUT, Kind.DELETE)).all():
            yield f"table {encoding.name}: a value is of a kind that the table has not"
            return
        canonical_values = encoding.canonical_values(entries)
        # Conforming checks that there are no NULLs in columns that are NOT NULL.
        keys = encoding.conform_keys(encoding.decode(block, encoding.schema.key_columns))
        canonical_keys = encoding.encode_keys(keys)
        encoding.schema.conform(encoding.decode(block.take(rows), encoding.schema.columns))
    except (ValueError, IndexError, RelstateError) as error:
        yield f"table {encoding.name}: a row does not decode: {error}"
        return
    wrong = np.flatnonzero(np.asarray(pc.not_equal(canonical_values, entries.value_bytes())))
    if len(wrong):
        row = int(wrong[0])
        row_key = encoding.row_keys(entries.take(wrong[:1]))[0].as_py()
        yield (
            f"{encoding.describe(row_key)}: its value is not as this row is written: "
            f"{_shown(entries.value_bytes()[row])}, should be {_shown(canonical_values[row])}"
        )
    wrong = np.flatnonzero(np.asarray(pc.not_equal(canonical_keys, block.key_bytes())))
    if len(wrong):
        row = int(wrong[0])
        yield (
            f"{encoding.describe(block.key(row))}: its key {block.key(row).hex()} should be "
            f"{canonical_keys[row].as_py().hex()}: another vnode, or not the one encoding"
        )


def _shown(value: pa.Scalar) -> str:
    """Return the first bytes of a value, and how many there are."""
    content: bytes = value.as_py()
    text = content[:_SHOWN_BYTES].hex()
    return f"{text}… ({len(content)} bytes)" if len(content) > _SHOWN_BYTES else text


def _orphans(environment: Environment, records: Mapping[str, SegmentRecord]) -> int:
    names = map(parse_segment_file, environment.list(SEGMENTS))
    return sum(name is not None and name not in records for name in names)
