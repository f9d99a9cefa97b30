"""Expressions of SQL, bound to a table's columns. Loads the parser when it is asked.

Does not know: what an expression is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import RelstateError, SchemaMismatchError, UnsupportedExpressionError
from ..instant import Zone
from ..predicate.condition import Condition
from ..predicate.extension import install
from ..schema.schema import TableSchema
from .computed import Computed, computed
from .expression_json import value_from_json, value_to_json
from .value import Value

if TYPE_CHECKING:
    from ..syntax import Tree


def bind_value(tree: Tree, schema: TableSchema, time_zone: str) -> Value:
    """Return the value of an expression that is parsed; errors as of `parse_value`."""
    from .reader import read_value

    return read_value(tree, schema, time_zone)


def parse_value(text: str, schema: TableSchema, time_zone: str = "UTC") -> Value:
    """Return the value of a SQL expression in Spark's dialect and ANSI mode.

    ``time_zone``: that of the session. UnsupportedExpressionError for what is not known to be
    computed exactly, SchemaMismatchError for a column that the table does not have.
    """
    from ..syntax import excerpt, parse_condition

    tree = parse_condition(text)
    try:
        return bind_value(tree, schema, time_zone)
    except UnsupportedExpressionError as error:
        raise UnsupportedExpressionError(f"in {excerpt(text)}: {error}") from None
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"in {excerpt(text)}: {error}") from None


class ComputedConditions:
    """Conditions on computed values, as an `Extension` of those on columns."""

    def read(self, node: Tree, schema: TableSchema, zone: Zone) -> Condition | None:
        """Return the condition of an expression; None if it is on columns as they are."""
        from .reader import is_computed, read_condition

        return read_condition(node, schema, zone.name) if is_computed(node) else None

    def to_json(self, condition: Condition) -> Any:
        """Return a condition as JSON values."""
        assert isinstance(condition, Computed)
        return {"value": value_to_json(condition.value), "expected": condition.expected}

    def from_json(self, value: Any, schema: TableSchema) -> Condition:
        """Return the condition that `to_json` made JSON of; ValueError for anything else."""
        if not isinstance(value["expected"], bool):
            raise TypeError("a flag must be true or false")
        try:
            computed_value = value_from_json(value["value"], schema)
            return computed(computed_value, expected=value["expected"])
        except (RelstateError, ArithmeticError) as error:
            raise ValueError(str(error)) from None


install(ComputedConditions())
