"""The writer of Spark's SQL: sqlglot's, which writes a tree as its text was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from .node import MAX_LEVEL, SUFFIX, Tree


def _variant_path_sql(generator: SparkGenerator, tree: Tree) -> str:
    return f"{generator.sql(tree, 'this')}:{generator.sql(tree, 'expression')}"


class Generator(SparkGenerator):
    """Spark's, which writes a query as it was read."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[Tree]]] = set()
    SUPPORTS_TEMPORAL_PRECISION = True
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        kind: name for kind, name in SparkGenerator.TYPE_MAPPING.items() if kind != exp.DType.TIME
    }
    TRANSFORMS: ClassVar[dict[type[Tree], Callable[..., str]]] = {
        kind: write
        for kind, write in SparkGenerator.TRANSFORMS.items()
        if kind not in (exp.Select, exp.From, exp.Pivot)
    } | {exp.Slice: _variant_path_sql}

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """Return the text of a cast; a number with a suffix is what Spark takes for a literal."""
        suffix = expression.meta.get(SUFFIX)
        return f"{expression.name}{suffix}" if suffix else super().cast_sql(expression, safe_prefix)

    def cte_sql(self, expression: exp.CTE) -> str:
        """Return the text of a common table, with its MAX RECURSION LEVEL."""
        level = expression.meta.get(MAX_LEVEL)
        if level is None:
            return super().cte_sql(expression)
        alias = self.sql(expression, "alias")
        return f"{alias} MAX RECURSION LEVEL {level} AS {self.wrap(expression)}"

    def select_sql(self, expression: exp.Select) -> str:
        """Return the text of a SELECT; one that gives columns other values has them after |>."""
        values = _values_of_star(expression)
        if not values:
            return super().select_sql(expression)
        all_columns = expression.copy()
        all_columns.set("expressions", [exp.Star()])
        assignments = (f"{self.sql(v, 'alias')} = {self.sql(v, 'this')}" for v in values)
        return f"{super().select_sql(all_columns)} |> SET {', '.join(assignments)}"

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """Return the text of a join, ASOF after its side and its kind."""
        if expression.method == "ASOF":
            words = expression.side, expression.kind, "ASOF JOIN"
            join_op = " ".join(filter(None, words))
        return super().join_sql(expression, join_op)


def _values_of_star(select: exp.Select) -> list[Tree]:
    """Return the values after REPLACE of a SELECT of one star; empty for any other SELECT."""
    columns = select.expressions
    is_star = len(columns) == 1 and isinstance(columns[0], exp.Star)
    return list(columns[0].args.get("replace") or ()) if is_star else []
