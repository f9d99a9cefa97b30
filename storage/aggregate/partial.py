"""A partial aggregate: what is added up of the rows of a table, by which columns.

A partial row has the values of the group and one value per measure. There may be several
of one group: their reader adds them up again.

Promises: it is a value without code, as JSON too; what comes as JSON is checked against the table.
Does not know: SQL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from relstate.vnode import cached_property

from ..errors import OptionError, RelstateError, SchemaError
from ..expression.column import ColumnValue
from ..expression.expression_json import value_from_json, value_to_json
from ..expression.value import Value
from ..predicate.condition import Condition
from ..predicate.condition_json import condition_from_json, condition_to_json
from ..schema import types as t
from ..schema.schema import TableSchema
from .measure import Function, Measure

_PREFIX = "__relstate_"
_GROUPED = (
    t.Boolean, t.TinyInt, t.SmallInt, t.Int, t.BigInt, t.Float, t.Double, t.Decimal, t.String,
    t.Binary, t.Date, t.Timestamp, t.TimestampNtz,
)  # fmt: skip


@dataclass(frozen=True)
class PartialAggregate:
    """Measures over the rows of each group of equal values. Picklable.

    ``group``: columns of the table and other values, perhaps none. Not slotted: its fields are
    cached with it.
    """

    schema: TableSchema
    group: tuple[Value, ...]
    measures: tuple[Measure, ...]

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        group: Sequence[str | Value],
        measures: Sequence[tuple[Function, str | Value]],
        conditions: Sequence[Condition | None] = (),
    ) -> PartialAggregate:
        """Return the aggregate of columns, by name, or values; that of `Function.ROWS` is ignored.

        A value of the group that fails is NULL: let a measure `Function.FAILURE` tell of it.

        ``conditions``: one per measure, or none: of which rows it is.
        SchemaError for an unknown column, for a table with a column named as measures are, or if
        there is neither a group nor a measure;
        UnsupportedTypeError for a column of another type.
        """
        if not group and not measures:
            # Partial rows without columns could not say how many they are.
            raise SchemaError("a partial aggregate needs a column to group by, or a measure")
        for column in schema.columns:
            if column.name.lower().startswith(_PREFIX):
                raise SchemaError(
                    f"the column {column.name!r} has a name that is reserved by relstate; rename it"
                )
        measure_list = []
        wheres = conditions or [None] * len(measures)
        for (function, value), where in zip(measures, wheres, strict=True):
            if function is Function.ROWS:
                measure_list.append(Measure(function, where=where))
                continue
            measure_list.append(Measure(function, _value_of(value, schema), where))
        values = tuple(_value_of(value, schema) for value in group)
        aggregate = cls(schema, values, tuple(measure_list))
        # The types are checked here.
        aggregate.fields  # noqa: B018
        return aggregate

    @cached_property
    def fields(self) -> tuple[t.Field, ...]:
        """The fields of the partial rows: the group's values, then the measures."""
        fields = [self._group_field(index) for index in range(len(self.group))]
        for field in fields:
            if not can_group(field.type):
                raise SchemaError(f"rows are not grouped by {field.name!r}, a {field.type}")
        return (
            *fields,
            *(
                t.Field(measure_name(index), measure.result_type)
                for index, measure in enumerate(self.measures)
            ),
        )

    def _group_field(self, index: int) -> t.Field:
        value = self.group[index]
        if isinstance(value, ColumnValue):
            return self.schema.column(value.name).field
        return t.Field(group_name(index), value.type, value.nullable or value.may_fail)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, each once; there may be none."""
        names = [name for value in self.group for name in value.columns()]
        for measure in self.measures:
            names += () if measure.value is None else measure.value.columns()
        for measure in self.measures:
            names += () if measure.where is None else measure.where.columns()
        return tuple(dict.fromkeys(names))

    @cached_property
    def json(self) -> str:
        """The aggregate as JSON text; `from_json` reads it."""
        measures = [
            [
                str(measure.function),
                "" if measure.value is None else value_to_json(measure.value),
                None if measure.where is None else condition_to_json(measure.where),
            ]
            for measure in self.measures
        ]
        group = [value_to_json(value) for value in self.group]
        return json.dumps({"group": group, "measures": measures}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, schema: TableSchema) -> PartialAggregate:
        """Return the aggregate that `json` is. OptionError if the text is not one of the table."""
        try:
            value = json.loads(text)
            measures = [
                (Function(function), "" if of == "" else value_from_json(of, schema))
                for function, of, _ in value["measures"]
            ]
            conditions = [
                None if where is None else condition_from_json(where, schema)
                for _, _, where in value["measures"]
            ]
            group = [value_from_json(key, schema) for key in value["group"]]
            return cls.of(schema, group, measures, conditions)
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            IndexError,
            ArithmeticError,
            RecursionError,
            RelstateError,
        ) as error:
            raise OptionError(
                f"the partial aggregate is not one over the columns of this table ({error}); "
                "aggregate what the read returns"
            ) from None


def _value_of(value: str | Value, schema: TableSchema) -> Value:
    return ColumnValue.named(value, schema) if isinstance(value, str) else value


def measure_name(index: int) -> str:
    """Return the name of a measure's field."""
    return f"{_PREFIX}measure_{index}"


def group_name(index: int) -> str:
    """Return the name of the field of a value by which rows are grouped; a column has its own."""
    return f"{_PREFIX}group_{index}"


def can_group(data_type: t.DataType) -> bool:
    """Return whether rows can be grouped by the bytes of values of a type."""
    is_collated = isinstance(data_type, t.String) and data_type.is_collated
    return isinstance(data_type, _GROUPED) and not is_collated
