"""The rows of inputs for which expressions of a view fail, found in one pass.

The projections and filters directly above a scan are evaluated over all new rows at once, in the
driver's process, by expressions that are NULL where they fail. The rows for which a later operator
fails, as one above a join, are not found here.

Promises: a row that is returned is one for which a job fails, in whatever order Spark evaluates
filters: where that depends on it, the row is not returned.
Does not know: what becomes of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import OP_COLUMN, Environment, types

from .executor.changes import Mask, chunk_schema
from .failing_expression import shown_expression
from .general_reason import Reason
from .local_expressions import LocalEvaluator
from .local_state import GivenUpError
from .plan.generate import Generate
from .plan.node import Expression, Node, walk
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Scan
from .quarantine import BadRow, key_codec
from .scans import SourceRead
from .viewplan import ViewPlan

# What may keep Spark from evaluating a part of an expression.
_CONDITIONAL = re.compile(r"\b(AND|OR|CASE|IF|IFF|COALESCE|NVL2?|IFNULL|TRY_\w+)\b", re.IGNORECASE)
_NAME = re.compile(r"`((?:[^`]|``)+)`|\b(\w+)\b")
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
# Rows that are evaluated at once.
_ROWS = 1 << 16


def find_bad_rows(
    plan: ViewPlan,
    query: str,
    reads: Iterable[SourceRead],
    evaluator: LocalEvaluator,
    environment: Environment,
) -> list[BadRow]:
    """Return the new rows that sources give for which an expression fails, each once.

    ``query``: of the view, in whose words expressions are named.
    """
    tops, evaluation = _tops(plan), _Evaluation(evaluator)
    bad_rows: dict[tuple[int, bytes], BadRow] = {}
    for read in reads:
        chains = tops.get(id(read.source), ())
        if read.plan is None or not chains or not isinstance(read.source, Scan):
            continue
        for rows in _new_rows(read, environment):
            for top in chains:
                for row, expression in _failures(top, rows, evaluation).items():
                    key = key_codec(read.source).encode(rows.slice(row, 1))[0].as_py()
                    error = evaluation.error_of(expression, query)
                    bad = BadRow(read.source.table_id, key, error)
                    bad_rows.setdefault((bad.table_id, bad.key), bad)
    return list(bad_rows.values())


def _new_rows(read: SourceRead, environment: Environment) -> Iterator[pa.RecordBatch]:
    for chunk in read.chunks(read.vnodes, environment):
        inserts = chunk.filter(pa.array(np.asarray(chunk.column(OP_COLUMN)) % 2 == 1))
        for start in range(0, inserts.num_rows, _ROWS):
            yield inserts.slice(start, _ROWS)


def _tops(plan: ViewPlan) -> dict[int, list[Node]]:
    """Return the last operators that are evaluated row by row over each scan, by its identity."""
    parents: dict[int, list[Node]] = {}
    for node in walk(plan.root):
        for child in node.children:
            parents.setdefault(id(child), []).append(node)
    tops: dict[int, list[Node]] = {}
    for node in walk(plan.root):
        scan = _scan_below(node)
        is_top = any(_scan_below(parent) is None for parent in parents.get(id(node), []))
        if scan is not None and is_top and node is not scan:
            tops.setdefault(id(scan), []).append(node)
    return tops


def _scan_below(node: Node) -> Scan | None:
    """Return the scan whose rows an operator evaluates one by one; None for other operators."""
    match node:
        case Scan():
            return node
        case Project() | Filter() | Shared():
            return _scan_below(node.child)
        case Generate() if not isinstance(node.child, Generate):
            return _scan_below(node.child)
    return None


class _Evaluation:
    """The evaluation of expressions over rows, and why those of them fail that do."""

    def __init__(self, evaluator: LocalEvaluator) -> None:
        self._evaluator = evaluator
        # By the texts of expressions: in a plan each field has a name of its own.
        self._reasons: dict[str, Reason] = {}

    def attempted(
        self, state: _Rows, child: Node, expressions: tuple[Expression, ...]
    ) -> list[tuple[pa.Array, Mask]]:
        """Return the values of each expression, NULL where it fails, and for which rows it does."""
        if not expressions:
            return []
        if not state.chunk.num_rows:
            nothing = np.zeros(0, np.bool_)
            return [(pa.nulls(0, chunk_type), nothing) for chunk_type in _arrow_types(expressions)]
        attempts = self._evaluator.attempt(state.chunk, child.fields, expressions)
        for expression, (_, fails) in zip(expressions, attempts, strict=True):
            if expression.text not in self._reasons and fails.any():
                row = state.chunk.slice(int(np.argmax(fails)), 1)
                reason = self._evaluator.reason(row, child.fields, expression)
                self._reasons[expression.text] = reason
        return attempts

    def error_of(self, expression: str, query: str) -> str:
        """Return why a row is left out for which an expression fails, in the words of a query."""
        reason = self._reasons.get(expression, Reason())
        return f"{shown_expression(expression, query)!r} fails for this row{reason}"


def _failures(top: Node, rows: pa.RecordBatch, evaluation: _Evaluation) -> dict[int, str]:
    """Return the rows for which a chain of operators fails, and the expressions that do."""
    try:
        state = _evaluated(top, rows, evaluation)
    except GivenUpError:
        return {}
    failures = dict(state.failures)
    for failed, expression in state.failed.values():
        for row in state.numbers[failed & ~state.doubtful].tolist():
            failures.setdefault(row, expression)
    return failures


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that pass an operator, and what has failed for them.

    ``numbers``: of the rows among those of the scan. ``failed``: for fields that are computed, for
    which rows that fails, and their expressions. ``failures``: of rows that fail in any case.
    ``doubtful``: rows of which it depends on Spark's order of evaluation.
    """

    chunk: pa.RecordBatch
    numbers: NDArray[np.int64]
    failed: dict[str, tuple[Mask, str]]
    failures: dict[int, str]
    doubtful: Mask


def _evaluated(node: Node, rows: pa.RecordBatch, evaluation: _Evaluation) -> _Rows:
    if isinstance(node, Scan):
        return _Rows(rows, np.arange(rows.num_rows), {}, {}, np.zeros(rows.num_rows, np.bool_))
    (child,) = node.children
    state = _evaluated(child, rows, evaluation)
    match node:
        case Project():
            return _projected(node, state, evaluation)
        case Filter():
            return _filtered(node, state, evaluation)
        case Generate():
            return _with_arguments(node, state, evaluation)
    return state


def _projected(node: Project, state: _Rows, evaluation: _Evaluation) -> _Rows:
    values = iter(evaluation.attempted(state, node.child, node.expressions))
    columns, failed, doubtful = [], {}, state.doubtful
    for output in node.outputs:
        if output.source is not None:
            columns.append(state.chunk.column(output.source))
            if output.source in state.failed:
                failed[output.field.name] = state.failed[output.source]
            continue
        column, fails = next(values)
        columns.append(column)
        below, expression, is_conditional = _inherited(state, output.expression)
        if is_conditional:
            doubtful = doubtful | below
        if fails.any() or below.any():
            text = output.expression if fails.any() else expression
            failed[output.field.name] = (fails | below, text)
    schema = chunk_schema(node.fields)
    chunk = pa.RecordBatch.from_arrays([state.chunk.column(0), *columns], schema=schema)
    return _Rows(chunk, state.numbers, failed, state.failures, doubtful)


def _filtered(node: Filter, state: _Rows, evaluation: _Evaluation) -> _Rows:
    condition = Expression(node.condition, types.Boolean())
    ((values, fails),) = evaluation.attempted(state, node.child, (condition,))
    below, expression, is_conditional = _inherited(state, node.condition)
    doubtful = state.doubtful | below if is_conditional else state.doubtful
    failures = dict(state.failures)
    for mask, text in ((fails & ~below, node.condition), (below, expression)):
        for row in state.numbers[mask & ~doubtful].tolist():
            failures.setdefault(row, text)
    passes = np.asarray(values.fill_null(False)) | (below & doubtful)
    return _Rows(
        state.chunk.filter(pa.array(passes)),
        state.numbers[passes],
        {name: (mask[passes], text) for name, (mask, text) in state.failed.items()},
        failures,
        doubtful[passes],
    )


def _with_arguments(node: Generate, state: _Rows, evaluation: _Evaluation) -> _Rows:
    """Return the rows with the arguments of a function, which is not evaluated itself."""
    values = evaluation.attempted(state, node.child, node.arguments)
    failed, doubtful = dict(state.failed), state.doubtful
    for number, ((_, fails), argument) in enumerate(zip(values, node.arguments, strict=True)):
        below, expression, is_conditional = _inherited(state, argument.text)
        if is_conditional:
            doubtful = doubtful | below
        text = argument.text if fails.any() else expression
        failed[f"{number} of {node.function}"] = (fails | below, text)
    return replace(state, failed=failed, doubtful=doubtful)


def _arrow_types(expressions: tuple[Expression, ...]) -> Iterator[pa.DataType]:
    fields = [types.Field(f"c{n}", value.type) for n, value in enumerate(expressions)]
    return (field.type for field in list(chunk_schema(fields))[1:])


def _inherited(state: _Rows, text: str) -> tuple[Mask, str, bool]:
    """Return for which rows a field fails that an expression reads, and that field's expression.

    Also whether Spark may not need the field: then it is not known whether the expression fails.
    """
    mask, expression = np.zeros(len(state.numbers), np.bool_), ""
    words = _NAME.findall(_TEXT.sub("", text))
    names = {quoted.replace("``", "`") or plain for quoted, plain in words}
    for name, (failed, of) in state.failed.items():
        if name in names and failed.any():
            mask, expression = mask | failed, of
    return mask, expression, bool(_CONDITIONAL.search(_TEXT.sub("", text)))
