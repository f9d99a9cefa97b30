"""The predicate of a read: the rows for which it is true are read.

Promises: it is checked against the table's columns when it is bound; it travels to other processes
as it is, and evaluating it there needs no parser.
Does not know: files, epochs, Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from relstate.vnode import cached_property

from ..errors import OptionError, SchemaMismatchError, UnsupportedExpressionError
from ..instant import zone_of
from ..schema.schema import KeyRange, TableSchema
from .condition import Condition, Member, all_of
from .condition_json import condition_from_json, condition_to_json
from .domain import domain_of
from .keyspace import key_ranges

if TYPE_CHECKING:
    from ..syntax import Tree


@dataclass(frozen=True)
class Predicate:
    """A condition over a table's columns. Picklable; safe between threads.

    Not slotted: what is derived from the condition is cached with it.
    """

    schema: TableSchema
    condition: Condition

    @classmethod
    def parse(cls, text: str, schema: TableSchema, time_zone: str = "UTC") -> Predicate:
        """Return the predicate of a SQL expression in Spark's dialect and ANSI mode.

        ``time_zone``: where timestamps without a zone are local times, as
        ``spark.sql.session.timeZone`` names it. UnsupportedExpressionError for what cannot be
        evaluated exactly, SchemaMismatchError for a column that the table does not have,
        OptionError for an unknown time zone.
        """
        # sqlglot is loaded where a text is parsed; lookups and tasks never do.
        from ..syntax import excerpt, parse_condition

        if not isinstance(text, str):
            raise UnsupportedExpressionError(f"a condition is SQL text, not {text!r:.100}")
        tree = parse_condition(text)
        try:
            return cls.bind(tree, schema, time_zone)
        except UnsupportedExpressionError as error:
            raise UnsupportedExpressionError(f"in {excerpt(text)}: {error}") from None
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"in {excerpt(text)}: {error}") from None

    @classmethod
    def bind(cls, tree: Tree, schema: TableSchema, time_zone: str) -> Predicate:
        """Return the predicate of an expression that is parsed. Errors as of `parse`."""
        from .binder import bind

        return cls(schema, bind(tree, schema, zone_of(time_zone)))

    @classmethod
    def from_json(cls, text: str, schema: TableSchema) -> Predicate:
        """Return the predicate that `json` is. OptionError if the text is not one of the table."""
        try:
            return cls(schema, condition_from_json(json.loads(text), schema))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            raise OptionError(
                f"the bound condition is not one over the columns of this table ({error}); write "
                "conditions as SQL, in the option 'where'"
            ) from None

    @classmethod
    def all_of(cls, predicates: Sequence[Predicate]) -> Predicate:
        """Return the predicate that is true where all of several are; there must be one."""
        conditions = [predicate.condition for predicate in predicates]
        return cls(predicates[0].schema, all_of(conditions))

    @classmethod
    def of_values(cls, values: Mapping[str, pa.Array], schema: TableSchema) -> Predicate | None:
        """Return the predicate that is true where each of some columns has one of its values.

        ``values``: by the names of at least one column, of the column's own type; NULL is none of
        them. None if no order of the values of a column is known, as of texts with a collation.
        """
        members = []
        for name, array in values.items():
            column = schema.column(name)
            domain = domain_of(column.type)
            if domain is None:
                return None
            members.append(Member((column.name,), column.type, domain.set_of_array(array)))
        return cls(schema, all_of(members))

    @cached_property
    def json(self) -> str:
        """The condition as JSON text, all values exact; `from_json` reads it."""
        return json.dumps(condition_to_json(self.condition), separators=(",", ":"))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition reads, in the table's order; there may be none."""
        names = set(self.condition.columns())
        return tuple(column.name for column in self.schema.columns if column.name in names)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row of a batch with the columns whether the condition is true.

        Never NULL: it is false where the condition is unknown.
        """
        return pa.array(self.condition.holds(batch))

    def ranges(self) -> tuple[KeyRange, ...] | None:
        """Return ranges of keys that hold all rows for which it is true; they may overlap.

        None: it does not limit the key. Empty: it is true for no row. A range whose prefix has all
        columns of the key is one key.
        """
        return self._ranges

    @cached_property
    def _ranges(self) -> tuple[KeyRange, ...] | None:
        return key_ranges(self.condition, self.schema)
