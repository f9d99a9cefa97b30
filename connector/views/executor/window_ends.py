"""Where functions that run stop: the end of each changed span, before the epoch and after it.

Does not know: how far rows are read, or how a function is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import types

from .changes import Mask, equal_rows
from .rowkeys import Codes, Rows
from .window_sequence import ChangedSpans, RowSequence


@dataclass(frozen=True, slots=True)
class SpanEnds:
    """For each span the row before the next one.

    ``rows``: the stored rows and then those of the sequence, with the columns from which the values
    of the next row follow. ``old``, ``new``: the row at each end before the epoch, and now; -1 at
    the start of a partition. ``is_at_end``: whether the partition ends there.
    """

    rows: pa.RecordBatch
    old: Rows
    new: Rows
    is_at_end: Mask

    @classmethod
    def of(
        cls,
        sequence: RowSequence,
        spans: ChangedSpans,
        values: Mapping[str, pa.Array],
        carried: Sequence[types.Field],
    ) -> SpanEnds:
        """Return the ends; ``values``: the columns of the rows of the sequence."""
        stored = sequence.islands.rows
        rows = pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([stored.column(field.name), values[field.name]])
                for field in carried
            ],
            names=[field.name for field in carried],
        )
        new = np.where(spans.stops > spans.starts, stored.num_rows + spans.stops - 1, spans.before)
        return cls(rows, spans.old_ends, new, sequence.islands.is_at_end)

    def differ(self, fields: Sequence[types.Field]) -> Mask:
        """Return after which spans the next row follows from other values than before."""
        differs: Mask = (self.new != self.old) & ~self.is_at_end
        if not fields:
            return np.zeros(len(differs), np.bool_)
        in_both = np.flatnonzero(differs & (self.new >= 0) & (self.old >= 0))
        differs[in_both] = ~equal_rows(
            fields, self.rows, self.old[in_both], self.rows, self.new[in_both]
        )
        return differs

    def remain(self, field: types.Field, groups: Codes) -> Mask:
        """Return for each span whether the changes of a number in its group do not cancel out.

        Approximately: numbers are added as doubles.
        """
        column = pc.fill_null(self.rows.column(field.name).cast(pa.float64(), safe=False), 0.0)
        numbers = np.append(np.asarray(column), 0.0)
        with np.errstate(invalid="ignore"):
            growth = np.where(self.is_at_end, 0.0, numbers[self.new] - numbers[self.old])
            total = np.bincount(groups, weights=growth)
        remains: Mask = total[groups] != 0
        return remains
