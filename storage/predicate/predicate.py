"""The predicate: which rows of a table a read wants.

Promises: it is checked when it is parsed, against the table's columns; it travels to other
processes as it is, and evaluating it there needs no parser.
Does not know: files, epochs, Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from ..schema.schema import KeyRange, TableSchema
from .condition import Condition
from .keyspace import key_ranges
from .zone import zone_of


@dataclass(frozen=True)
class Predicate:
    """A SQL expression over a table's columns. Picklable; safe between threads.

    ``text``: as it was written. ``time_zone``: where timestamps without a zone are local times.
    Not slotted: what is derived from the condition is kept with it.
    """

    text: str
    time_zone: str
    schema: TableSchema
    condition: Condition

    @classmethod
    def parse(cls, text: str, schema: TableSchema, time_zone: str = "UTC") -> Predicate:
        """Return the predicate that a text is, in Spark's dialect and ANSI mode.

        ``time_zone``: as ``spark.sql.session.timeZone`` names one. UnsupportedExpressionError for
        what cannot be evaluated exactly, SchemaMismatchError for a column that is not there,
        OptionError for a time zone that is not known.
        """
        # The parser is loaded by those who parse; lookups and tasks never do.
        from .binder import bind

        return cls(text, time_zone, schema, bind(text, schema, zone_of(time_zone)))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at, in the table's order; there may be none."""
        names = set(self.condition.columns())
        return tuple(column.name for column in self.schema.columns if column.name in names)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row of a batch that has the columns whether it is wanted; never NULL.

        A row for which the expression is unknown is not.
        """
        return pa.array(self.condition.holds(batch))

    def ranges(self) -> tuple[KeyRange, ...] | None:
        """Return ranges of keys in which all wanted rows lie; they may overlap.

        None: the key says nothing. Empty: no row can be wanted. A range whose prefix has all
        columns of the key is one key.
        """
        return self._ranges

    @cached_property
    def _ranges(self) -> tuple[KeyRange, ...] | None:
        return key_ranges(self.condition, self.schema)
