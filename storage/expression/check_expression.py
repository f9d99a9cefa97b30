"""What a CHECK constraint asks of rows: a condition, or an expression that may fail.

Does not know: tables, or what is done about a row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import UnsupportedExpressionError
from ..predicate.condition import Condition, Flags
from ..predicate.predicate import Predicate
from ..schema import types as t
from ..schema.schema import TableSchema
from .binding import parse_value
from .expression_json import value_from_json, value_to_json
from .value import DESCRIPTIONS, Failure, Value, flags_of


@dataclass(frozen=True, slots=True)
class CheckExpression:
    """The expression of a CHECK constraint: one of a condition, and a value that may fail."""

    condition: Condition | None
    value: Value | None

    @classmethod
    def parse(cls, text: str, schema: TableSchema) -> tuple[CheckExpression, str, tuple[str, ...]]:
        """Return (check, JSON text, columns in the table's order) of SQL; times are in UTC.

        UnsupportedExpressionError for what cannot be evaluated exactly, SchemaMismatchError for an
        unknown column.
        """
        try:
            predicate = Predicate.parse(text, schema)
        except UnsupportedExpressionError as refusal:
            try:
                value = parse_value(text, schema)
            except UnsupportedExpressionError:
                raise refusal from None
            if not isinstance(value.type, t.Boolean):
                raise refusal from None
            names = set(value.columns())
            columns = tuple(column.name for column in schema.columns if column.name in names)
            stored = json.dumps({"expression": value_to_json(value)}, separators=(",", ":"))
            return cls(None, value), stored, columns
        return cls(predicate.condition, None), predicate.json, predicate.columns

    @classmethod
    def from_json(cls, text: str, schema: TableSchema) -> CheckExpression:
        """Return the check of a JSON text that `parse` made for a table with these columns."""
        stored = json.loads(text)
        if isinstance(stored, dict) and "expression" in stored:
            return cls(None, value_from_json(stored["expression"], schema))
        return cls(Predicate.from_json(text, schema).condition, None)

    def violated(self, rows: pa.RecordBatch) -> Flags:
        """Return which rows make it false, or make it fail."""
        if self.value is None:
            assert self.condition is not None
            return self.condition.negated().holds(rows)
        answers, failures = self.value.computed(rows)
        is_true = flags_of(answers)
        is_known: Flags = answers.is_valid().to_numpy(zero_copy_only=False)
        violations: Flags = (failures != 0) | (is_known & ~is_true)
        return violations

    def failure(self, row: pa.RecordBatch) -> str | None:
        """Return what the expression does that fails for one row; None if it does not fail."""
        if self.value is None:
            return None
        number = int(np.max(self.value.failures(row)))
        return DESCRIPTIONS[Failure(number)] if number else None
