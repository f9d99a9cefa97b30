"""The rows of operators directly above a scan, evaluated so that a failing expression is NULL.

Promises: a row of which is said that it fails is one for which a job fails, in whatever order
Spark evaluates filters: where that depends on it, the row is doubtful. If no row is, the rows that
do not fail are those that the operator returns.
Does not know: what becomes of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import types

from .executor.changes import Mask, chunk_schema
from .failing_expression import shown_expression
from .general_reason import Reason
from .local_expressions import LocalEvaluator
from .plan.generate import Generate
from .plan.node import Expression, Node
from .plan.stateless import Filter, Project, Scan

# What may keep Spark from evaluating a part of an expression.
_CONDITIONAL = re.compile(r"\b(AND|OR|CASE|IF|IFF|COALESCE|NVL2?|IFNULL|TRY_\w+)\b", re.IGNORECASE)
_NAME = re.compile(r"`((?:[^`]|``)+)`|\b(\w+)\b")
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AttemptedRows:
    """The rows that pass an operator, and what has failed for them.

    ``numbers``: of the rows among those of the scan. ``failed``: for fields that are computed, for
    which rows that fails, and their expressions. ``failures``: rows that fail in any case, by their
    numbers, and the expression. ``doubtful``: rows of which it depends on Spark's order of
    evaluation. ``is_exact``: whether no row has been doubtful.
    """

    chunk: pa.RecordBatch
    numbers: NDArray[np.int64]
    failed: dict[str, tuple[Mask, str]]
    failures: dict[int, str]
    doubtful: Mask
    is_exact: bool = True

    def failing_rows(self) -> dict[int, str]:
        """Return the numbers of all rows that fail, each with an expression that does."""
        failures = dict(self.failures)
        for failed, expression in self.failed.values():
            for row in self.numbers[failed & ~self.doubtful].tolist():
                failures.setdefault(row, expression)
        return failures


class RowAttempts:
    """The evaluation of expressions over rows, and why those of them fail that do."""

    def __init__(self, evaluator: LocalEvaluator) -> None:
        self._evaluator = evaluator
        # By the texts of expressions: in a plan each field has a name of its own.
        self._reasons: dict[str, Reason] = {}

    def rows_of(
        self, node: Node, rows: pa.RecordBatch, attempted: dict[int, AttemptedRows]
    ) -> AttemptedRows:
        """Return what an operator makes of rows of the scan below it.

        ``attempted``: what operators have made of these rows before, by identities; it is extended.
        Of a function that makes rows only the arguments are evaluated. GivenUpError if Spark cannot
        evaluate an expression without a job.
        """
        if id(node) not in attempted:
            attempted[id(node)] = self._rows_of(node, rows, attempted)
        return attempted[id(node)]

    def _rows_of(
        self, node: Node, rows: pa.RecordBatch, attempted: dict[int, AttemptedRows]
    ) -> AttemptedRows:
        if isinstance(node, Scan):
            nothing = np.zeros(rows.num_rows, np.bool_)
            return AttemptedRows(rows, np.arange(rows.num_rows), {}, {}, nothing)
        (child,) = node.children
        input_rows = self.rows_of(child, rows, attempted)
        match node:
            case Project():
                return self._projected(node, input_rows)
            case Filter():
                return self._filtered(node, input_rows)
            case Generate():
                return self._with_arguments(node, input_rows)
        return input_rows

    def error_of(self, expression: str, query: str) -> str:
        """Return why a row is left out for which an expression fails, in the words of a query."""
        reason = self._reasons.get(expression, Reason())
        return f"{_shown(expression, query)!r} fails for this row{reason}"

    def _projected(self, node: Project, rows: AttemptedRows) -> AttemptedRows:
        values = iter(self._values(rows, node.child, node.expressions))
        columns, failed, doubtful = [], {}, rows.doubtful
        for output in node.outputs:
            if output.source is not None:
                columns.append(rows.chunk.column(output.source))
                if output.source in rows.failed:
                    failed[output.field.name] = rows.failed[output.source]
                continue
            column, fails = next(values)
            columns.append(column)
            below, expression, is_conditional = _inherited(rows, output.expression)
            if is_conditional:
                doubtful = doubtful | below
            if fails.any() or below.any():
                text = output.expression if fails.any() else expression
                failed[output.field.name] = (fails | below, text)
        schema = chunk_schema(node.fields)
        chunk = pa.RecordBatch.from_arrays([rows.chunk.column(0), *columns], schema=schema)
        is_exact = rows.is_exact and not doubtful.any()
        return AttemptedRows(chunk, rows.numbers, failed, rows.failures, doubtful, is_exact)

    def _filtered(self, node: Filter, rows: AttemptedRows) -> AttemptedRows:
        condition = Expression(node.condition, types.Boolean())
        ((values, fails),) = self._values(rows, node.child, (condition,))
        below, expression, is_conditional = _inherited(rows, node.condition)
        doubtful = rows.doubtful | below if is_conditional else rows.doubtful
        failures = dict(rows.failures)
        for mask, text in ((fails & ~below, node.condition), (below, expression)):
            for row in rows.numbers[mask & ~doubtful].tolist():
                failures.setdefault(row, text)
        passes = np.asarray(values.fill_null(False)) | (below & doubtful)
        return AttemptedRows(
            rows.chunk.filter(pa.array(passes)),
            rows.numbers[passes],
            {name: (mask[passes], text) for name, (mask, text) in rows.failed.items()},
            failures,
            doubtful[passes],
            rows.is_exact and not doubtful.any(),
        )

    def _with_arguments(self, node: Generate, rows: AttemptedRows) -> AttemptedRows:
        """Return the rows with the arguments of a function, which is not evaluated itself."""
        values = self._values(rows, node.child, node.arguments)
        failed, doubtful = dict(rows.failed), rows.doubtful
        for number, ((_, fails), argument) in enumerate(zip(values, node.arguments, strict=True)):
            below, expression, is_conditional = _inherited(rows, argument.text)
            if is_conditional:
                doubtful = doubtful | below
            text = argument.text if fails.any() else expression
            failed[f"{number} of {node.function}"] = (fails | below, text)
        return replace(rows, failed=failed, doubtful=doubtful, is_exact=False)

    def _values(
        self, rows: AttemptedRows, child: Node, expressions: tuple[Expression, ...]
    ) -> list[tuple[pa.Array, Mask]]:
        """Return the values of each expression, NULL where it fails, and for which rows it does."""
        if not expressions:
            return []
        if not rows.chunk.num_rows:
            nothing = np.zeros(0, np.bool_)
            return [(pa.nulls(0, chunk_type), nothing) for chunk_type in _arrow_types(expressions)]
        attempts = self._evaluator.attempt(rows.chunk, child.fields, expressions)
        for expression, (_, fails) in zip(expressions, attempts, strict=True):
            if expression.text not in self._reasons and fails.any():
                row = rows.chunk.slice(int(np.argmax(fails)), 1)
                reason = self._evaluator.reason(row, child.fields, expression)
                self._reasons[expression.text] = reason
        return attempts


@lru_cache(1000)
def _shown(expression: str, query: str) -> str:
    """Return an expression in the words of a query, which takes longer than to evaluate a row."""
    return shown_expression(expression, query)


def _arrow_types(expressions: tuple[Expression, ...]) -> Iterator[pa.DataType]:
    fields = [types.Field(f"c{n}", value.type) for n, value in enumerate(expressions)]
    return (field.type for field in list(chunk_schema(fields))[1:])


def _inherited(rows: AttemptedRows, text: str) -> tuple[Mask, str, bool]:
    """Return for which rows a field fails that an expression reads, and that field's expression.

    Also whether Spark may not need the field: then it is not known whether the expression fails.
    """
    mask, expression = np.zeros(len(rows.numbers), np.bool_), ""
    words = _NAME.findall(_TEXT.sub("", text))
    names = {quoted.replace("``", "`") or plain for quoted, plain in words}
    for name, (failed, of) in rows.failed.items():
        if name in names and failed.any():
            mask, expression = mask | failed, of
    return mask, expression, bool(_CONDITIONAL.search(_TEXT.sub("", text)))
