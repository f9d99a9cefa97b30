"""What a task needs to read the first rows of a table: a read plan, a number, and an order.

Promises: among the rows of all partitions are the first ones of the plan's rows, in the order, if
there is one; a task that has them reads no further, or sends no more than so many.
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
        batches = self.plan.read(vnodes, environment)
        return sorted_first(batches, self.limit) if self.limit.order else first(batches, self.limit)


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
    """Yield the first rows in the order, after all batches were read."""
    top: tuple[pa.RecordBatch, Bytes] | None = None
    codec = limit.codec()
    for batch in batches if limit.rows else ():
        rows, keys = batch, codec.encode([batch.column(name) for name in limit.columns])
        if top is not None:
            if len(top[1]) == limit.rows:
                is_before = pc.less(keys, top[1][-1])
                rows, keys = rows.filter(is_before), keys.filter(is_before)
            rows = pa.concat_batches([top[0], rows])
            keys = pa.concat_arrays([top[1], keys])
        top = _taken(rows, keys, limit.rows)
    if top is not None and top[0].num_rows:
        yield top[0]


def _taken(rows: pa.RecordBatch, keys: Bytes, count: int) -> tuple[pa.RecordBatch, Bytes]:
    positions: Sequence[int] | np.typing.NDArray[np.int64] = sort_order(keys)[:count]
    taken = pa.array(positions)
    return rows.take(taken), keys.take(taken)
