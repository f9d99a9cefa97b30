"""What a task needs to read the first rows of a table: a read plan, a number, and an order.

Promises: among the rows of all partitions are the first ones of the plan's rows, in the order, if
there is one; a task that has them reads no further, or sends no more than so many, unless these are
large. Memory is bounded by some hundred thousand rows and some hundred MiB.
Does not know: what is done with the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .codec.memcomparable import KeyCodec
from .codec.ragged import Bytes, sort_order
from .environment import Environment
from .errors import OptionError, RelstateError
from .read_plan import ReadPlan
from .schema.schema import TableSchema

MOST_SORTED_ROWS = 10_000
# How many rows gather before the first of them are taken, or how many bytes, and how many bytes the
# first ones may have.
_MOST_CANDIDATES = 65_536
_MOST_BYTES = 64 << 20
_MOST_TOP_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column to sort by."""

    name: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class RowLimit:
    """The first ``rows`` in an order; without one, any. Picklable."""

    schema: TableSchema
    rows: int
    order: tuple[SortColumn, ...] = ()

    def codec(self) -> KeyCodec:
        """Return what makes bytes of values that compare as the order says.

        SchemaError for a column that does not exist, or whose values have no order.
        """
        types = [self.schema.column(column.name).type for column in self.order]
        return KeyCodec(types, self.order)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the order."""
        return tuple(column.name for column in self.order)

    @property
    def key_direction(self) -> bool | None:
        """Whether the order is that of the primary key backwards; None if it is not that order.

        An order of the first columns of the key is that of the key; what follows the last one does
        not matter.
        """
        keys = self.schema.primary_key
        columns = self.schema.key_columns
        turns = set()
        for key, column, order in zip(keys, columns, self.order, strict=False):
            if order.name != column.name:
                return None
            turns.add(key.descending != order.descending)
            if column.nullable:
                turns.add(key.nulls_first != order.nulls_first)
        return turns.pop() if len(turns) == 1 else None

    @property
    def json(self) -> str:
        """The limit as JSON text; `from_json` reads it."""
        return json.dumps({"rows": self.rows, "order": [asdict(column) for column in self.order]})

    @classmethod
    def from_json(cls, text: str, schema: TableSchema) -> RowLimit:
        """Return the limit that `json` is. OptionError if the text is not one of the table."""
        try:
            value = json.loads(text)
            order = tuple(SortColumn(**column) for column in value["order"])
            limit = cls(schema, int(value["rows"]), order)
            # Its columns are checked here.
            limit.codec()
        except (ValueError, TypeError, KeyError, AttributeError, RelstateError) as error:
            raise OptionError(
                f"the row limit is not one over the columns of this table ({error}); limit what "
                "the read returns"
            ) from None
        return limit


@dataclass(frozen=True, slots=True)
class LimitedPlan:
    """The first rows of a plan, whose columns include those of the order. Picklable."""

    plan: ReadPlan
    limit: RowLimit

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units; see `ReadPlan.partitions`."""
        return self.plan.partitions(count)

    def read(
        self, vnodes: tuple[range, ...], environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the first rows of some vnodes, in no order."""
        # With a condition the driver has tried it in vain.
        rows = self.first_by_key(vnodes, environment) if self.plan.where is None else None
        if rows is not None:
            yield rows
            return
        batches = self.plan.read(vnodes, environment)
        yield from (sorted_first if self.limit.order else first)(batches, self.limit)

    def first_by_key(
        self, vnodes: tuple[range, ...], environment: Environment | None = None
    ) -> pa.RecordBatch | None:
        """Return the first rows of some vnodes, if the order is that of the primary key.

        None if it is not, or too many rows have to be read to find them.
        """
        descending = self.limit.key_direction
        if descending is None or not self.limit.rows or self.plan.shows_expiry:
            return None
        return self.plan.open(environment).first_in_order(
            self.limit.rows,
            self.plan.columns,
            vnodes=vnodes,
            descending=descending,
            where=self.plan.where,
        )


def first(batches: Iterable[pa.RecordBatch], limit: RowLimit) -> Iterator[pa.RecordBatch]:
    """Yield the first rows that come."""
    missing = limit.rows
    if not missing:
        return
    for batch in batches:
        yield batch.slice(0, missing)
        missing -= batch.num_rows
        if missing <= 0:
            return


def sorted_first(batches: Iterable[pa.RecordBatch], limit: RowLimit) -> Iterator[pa.RecordBatch]:
    """Yield the first rows in the order, after all batches were read.

    If they take too many bytes, rows are passed on as they come, more than the first ones.
    """
    top = _Top(limit)
    for batch in batches if limit.rows else ():
        yield from top.add(batch)
    yield from top.rest()


class _Top:
    """The rows that may be among the first ones. For one thread."""

    def __init__(self, limit: RowLimit) -> None:
        self._limit = limit
        self._codec = limit.codec()
        self._candidates: list[tuple[pa.RecordBatch, Bytes]] = []
        self._count = self._bytes = 0
        # The key of the last of the first rows, once there are so many.
        self._last: pa.Scalar | None = None

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield rows that are not kept."""
        keys = self._codec.encode([rows.column(name) for name in self._limit.columns])
        if self._last is not None:
            is_before = pc.less(keys, self._last)
            rows, keys = rows.filter(is_before), keys.filter(is_before)
        if not rows.num_rows:
            return
        self._keep(rows, keys)
        if self._count > _MOST_CANDIDATES + self._limit.rows or self._bytes > _MOST_BYTES:
            self._take()
            if self._bytes > _MOST_TOP_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are kept, without those that are not among the first."""
        self._take()
        yield from (rows for rows, _ in self._candidates)
        self._forget()

    def _take(self) -> None:
        """Keep the first of the rows only."""
        if not self._candidates:
            return
        rows = pa.concat_batches([rows for rows, _ in self._candidates])
        keys = pa.concat_arrays([keys for _, keys in self._candidates])
        self._forget()
        self._keep(*_taken(rows, keys, self._limit.rows))
        (_, keys) = self._candidates[0]
        if len(keys) == self._limit.rows:
            self._last = keys[-1]

    def _keep(self, rows: pa.RecordBatch, keys: Bytes) -> None:
        self._candidates.append((rows, keys))
        self._count += rows.num_rows
        self._bytes += rows.get_total_buffer_size() + keys.get_total_buffer_size()

    def _forget(self) -> None:
        self._candidates = []
        self._count = self._bytes = 0


def _taken(rows: pa.RecordBatch, keys: Bytes, count: int) -> tuple[pa.RecordBatch, Bytes]:
    positions: Sequence[int] | np.typing.NDArray[np.int64] = sort_order(keys)[:count]
    indices = pa.array(positions)
    return rows.take(indices), keys.take(indices)
