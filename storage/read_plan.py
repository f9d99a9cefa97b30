"""What a task needs to read a table: a value that travels to it.

Promises: a plan names its epoch, its segments and its schema, so that all tasks of a read see the
same rows, whatever is committed meanwhile, and none reads the log.
Does not know: who sends it where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from relstate.vnode import VnodeMapping

from .environment import Environment
from .environment_choice import environment_of
from .index.tableindex import IndexSource, TableIndex
from .log.segment_record import TableStatistics
from .log.sequenced_segment import SequencedSegment
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .log.table_segments import after_newer, select, statistics_in
from .notebook import html_table
from .paths import segment_path
from .schema.arrow import arrow_schema
from .schema.schema import name_list
from .table.encoding import Encoding, encoding_of
from .table.expiry_columns import ExpiryColumn, with_expiry_columns
from .table.keyspan import KeySpan, disjoint_groups
from .table.pruning import Pruning, describe_pruning, matching_vnodes
from .table.secondary import IndexMatches
from .table.storagetable import StorageTable

if TYPE_CHECKING:
    from .predicate.predicate import Predicate

# Opening a file costs a little, and more before it is first read.
_MOST_ESTIMATED = 4 << 30


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One table at one epoch. Picklable.

    ``segments``: those with rows of the table, the newest first; many are `DividedSegments`, which
    each task reads in part. ``time``: microseconds since
    1970; rows that had expired by then are not seen. ``columns``: None for the visible ones.
    ``indexes``: where the entries of the table's indexes are, in the order of its definition.
    ``shows_expiry``: reads return the column `EXPIRY`, too, as the last. ``expiry_columns``: hidden
    columns of the definition that are not stored: see `showing_expiries`.
    """

    path: str
    definition: TableDefinition
    vnode_count: int
    epoch: int
    segments: Sequence[SequencedSegment]
    time: int
    columns: tuple[str, ...] | None = None
    verify: str = "hash"
    where: Predicate | None = None
    indexes: tuple[IndexSource, ...] = ()
    shows_expiry: bool = False
    expiry_columns: tuple[ExpiryColumn, ...] = ()

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        return (
            f"ReadPlan({self.definition.name!r} of {self.path!r} at epoch {self.epoch}: {columns}, "
            f"{len(self.segments)} files)"
        )

    def _repr_html_(self) -> str:
        """Return what is read, as notebooks show it."""
        names = (column.name for column in self.definition.schema.visible_columns)
        rows: list[tuple[str, object]] = [
            ("epoch", self.epoch),
            ("columns", ", ".join(names if self.columns is None else self.columns)),
            ("condition on", "none" if self.where is None else ", ".join(self.where.columns)),
            ("files", len(self.segments)),
            ("stored bytes", self.stored_bytes),
        ]
        return html_table(f"read of {self.definition.name}", ("what", "value"), rows)

    @classmethod
    def of(
        cls,
        path: str,
        state: StoreState,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        time: int | None = None,
    ) -> ReadPlan:
        """Return the plan of reading a table of a store, at ``path``, in one of its states.

        ``time``: that of the state by default. TableNotFoundError, SchemaError for a column that
        is not there.
        """
        definition = state.table(name).definition
        schema = definition.schema
        names = None
        if columns is not None:
            names = tuple(schema.column(column).name for column in name_list("columns", columns))
        return cls(
            path,
            definition,
            state.settings.vnode_count,
            state.epoch,
            state.segments_of(definition.table_id),
            state.time if time is None else time,
            names,
            indexes=IndexSource.all_of(state, definition),
        )

    def after(self, newer: Sequence[SequencedSegment]) -> ReadPlan:
        """Return the plan of the rows that newer segments and those of this plan hold."""
        return replace(self, segments=after_newer(newer, self.segments))

    def filtered(self, where: str, time_zone: str = "UTC") -> ReadPlan:
        """Return the plan of the rows for which a SQL expression in Spark's dialect is true.

        ``time_zone``: where timestamps without a zone are local times. It is checked here: errors
        as of `Predicate.parse`.
        """
        from .predicate.predicate import Predicate

        return replace(self, where=Predicate.parse(where, self.definition.schema, time_zone))

    def showing_expiries(self, paths: Sequence[tuple[Any, ...]]) -> ReadPlan:
        """Return the plan with a hidden column for each path: when what is there expires.

        They are in ``expiry_columns``, in the order of the paths; see expiry_columns.py. A plan
        that names its columns reads them, too. A condition on the rows has to be bound to the
        definition of the new plan. SchemaMismatchError for a path that the table does not have,
        ValueRangeError for a key that does not fit, OptionError for a part of a column where rows
        expire whole.
        """
        assert not self.expiry_columns
        definition, expiry_columns = with_expiry_columns(self.definition, paths)
        columns = self.columns
        if columns is not None:
            columns = (*columns, *(expiry.column.name for expiry in expiry_columns))
        plan = replace(self, definition=definition, columns=columns, expiry_columns=expiry_columns)
        plan._encoding()
        return plan

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the table's rows, of older versions too."""
        return sum(table.stored_bytes for table in self._statistics())

    @property
    def stored_rows(self) -> int:
        """How many entries of the table's rows are stored, older versions and deletes too."""
        return sum(table.rows for table in self._statistics())

    @property
    def expiring_segments(self) -> tuple[SequencedSegment, ...]:
        """The segments with rows that expire."""
        return select(self.segments, self.definition.table_id, attrgetter("expiring"))

    @property
    def may_expire(self) -> bool:
        """Whether some stored rows expire."""
        return any(table.expiring for table in self._statistics())

    def _statistics(self) -> Iterable[TableStatistics]:
        return statistics_in(self.segments, self.definition.table_id)

    def rows_by_log(self) -> int | None:
        """Return how many rows there are, from the log alone; None if files have to be read.

        The log knows it where no file has a key of another one, nor deletes or what expires.
        """
        is_plain = not any(
            table.deletes or table.expiring or table.parts for table in self._statistics()
        )
        if self.where is not None or self._encoding().has_parts or not is_plain:
            return None
        table_id = self.definition.table_id
        statistics = [segment.statistics_of(table_id) for segment in self.segments]
        groups = disjoint_groups(
            [KeySpan.around([table]) for table in statistics],
            [(table.first_key, table.last_key) for table in statistics],
        )
        overlap = len(groups) < len(statistics)
        return None if overlap else sum(table.rows for table in statistics)

    def examined_bytes(self) -> int:
        """Return about how many stored bytes a read of the plan examines.

        Of a filtered plan by a look at the files, which are checked only for their sizes; of very
        many files all bytes, as without a condition.
        """
        stored = self.stored_bytes
        if self.where is None or stored > _MOST_ESTIMATED:
            return stored
        return min(replace(self, verify="size").open().examined_bytes(self.where), stored)

    def is_on_this_machine(self, environment: Environment | None = None) -> bool:
        """Return whether no large file of the table would have to be fetched from a server."""
        environment = environment or environment_of(self.path)
        if not environment.is_remote:
            return True
        records = (segment.record for segment in self.segments)
        return all(
            environment.parts(segment_path(record.name), record.size, record.hash) is None
            for record in records
        )

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one per vnode).

        A filtered plan has only vnodes that can hold matching rows, and only units with such
        vnodes, but at least one unit, which may be empty.
        """
        mapping = VnodeMapping.balanced(self.vnode_count, min(count, self.vnode_count))
        units = tuple(mapping.ranges_of(unit) for unit in range(mapping.units))
        matches = self._index_matches()
        ranges = None if self.where is None else self.where.ranges()
        if matches is not None:
            vnodes: set[int] | None = set(matches.prefix.vnodes_in(matches.keys).tolist())
        elif ranges is None:
            return units
        else:
            vnodes = matching_vnodes(self._encoding(), ranges)
        if vnodes is None:
            return units
        limited = (_limited(unit, vnodes) for unit in units)
        return tuple(filter(None, limited)) or ((),)

    def pruning(self) -> Pruning:
        """Return what a read of the plan examines, for EXPLAIN."""
        schema = self.definition.schema
        names = self.columns
        if names is None:
            names = tuple(column.name for column in schema.visible_columns)
        if self.where is None:
            return describe_pruning(self._encoding(), None, names)
        extra = tuple(name for name in self.where.columns if name not in names)
        matches = self._index_matches()
        if matches is not None:
            points = len(matches.keys)
            return Pruning(
                matches.vnodes, self.vnode_count, points, 0, names + extra, matches.index
            )
        return describe_pruning(self._encoding(), self.where.ranges(), names + extra)

    def _index_matches(self) -> IndexMatches | None:
        """Return what an index leaves to read, by a look at the index; None if none is used."""
        if self.where is None or not self.indexes:
            return None
        return self.open().index_matches(self.where)

    def open(
        self, environment: Environment | None = None, time: Callable[[], int] | None = None
    ) -> StorageTable:
        """Return the table, ready to be read in this process; ``time``: by the plan's if None."""
        environment = environment or environment_of(self.path)
        time = time or (lambda: self.time)
        encoding = self._encoding()
        return StorageTable(
            environment,
            encoding,
            self.segments,
            time,
            verify=self.verify,
            epoch=self.epoch,
            indexes=[
                TableIndex(environment, encoding, source, time, self.verify, self.epoch)
                for source in self.indexes
            ],
        )

    def read(
        self, vnodes: tuple[range, ...], environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of some vnodes as batches of the plan's columns.

        ``environment``: of the store; by default a new one of its path.
        """
        return self.open(environment).scan(
            self.columns, vnodes=vnodes, where=self.where, shows_expiry=self.shows_expiry
        )

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        schema = self.definition.schema
        columns = schema.visible_columns
        if self.columns is not None:
            columns = tuple(map(schema.column, self.columns))
        return arrow_schema(column.field for column in columns)

    def _encoding(self) -> Encoding:
        return encoding_of(self.definition, self.vnode_count, self.expiry_columns)


def _limited(groups: tuple[range, ...], vnodes: set[int]) -> tuple[range, ...]:
    """Return the vnodes of some ranges that are in ``vnodes``, as ranges."""
    ranges: list[range] = []
    for vnode in (vnode for group in groups for vnode in group if vnode in vnodes):
        if ranges and ranges[-1].stop == vnode:
            ranges[-1] = range(ranges[-1].start, vnode + 1)
        else:
            ranges.append(range(vnode, vnode + 1))
    return tuple(ranges)
