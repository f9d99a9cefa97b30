"""Whether two queries mean the same to Spark: their plans are compared, apart from ids.

Promises: the answer does not depend on ids, which each reading of a text has anew. So plans are
compared as they are analyzed: Spark's optimizer orders some parts, as several DISTINCT arguments,
by the hashes of ids.
Does not know: why they are compared.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

# Of columns, of common tables, of recursions, and of values that an expression uses more than once.
_ID = re.compile(r"(#|CTERelation|UnionLoop|CommonExpressionId\()(?:Def |Ref | )?(\d+)")
_ALL_FIELDS = (1 << 31) - 1


def has_same_meaning(left: DataFrame, right: DataFrame) -> bool:
    """Return whether two queries mean the same to Spark; over Spark Connect, whether it says so."""
    return left.sameSemantics(right) or _has_same_plan(left, right)


def _has_same_plan(left: Any, right: Any) -> bool:
    """Return whether two queries have the same plan; False over Spark Connect.

    Plans are equal apart from ids, and their ids are equal where they are numbered in the order in
    which they appear.
    """
    if not hasattr(left, "_jdf"):
        return False
    jvm: Any = left.sparkSession._jvm
    normalize = optimizer_rule(jvm.org.apache.spark.sql.catalyst.plans, "NormalizePlan")
    plans = [_finished(frame, jvm) for frame in (left, right)]
    if _numbered_ids(plans[0]) != _numbered_ids(plans[1]):
        return False
    left_plan, right_plan = (normalize.apply(plan) for plan in plans)
    return bool(left_plan.equals(right_plan))


def _finished(frame: Any, jvm: Any) -> Any:
    """Return the analyzed plan of a query without operators that change no row.

    Those of pipes, of names of inputs, and projections of all columns.
    """
    finish = frame.sparkSession._jsparkSession.sessionState().optimizer().FinishAnalysis()
    no_operators = optimizer_rule(
        jvm.org.apache.spark.sql.catalyst.optimizer, "RemoveNoopOperators"
    )
    return no_operators.apply(finish.apply(frame._jdf.queryExecution().analyzed()))


def _numbered_ids(plan: Any) -> list[int]:
    """Return the ids in the text of a plan, numbered in the order in which they appear.

    Not the text: it has names of functions as they were written, which may be other names of one
    function.
    """
    text = plan.treeString(True, False, _ALL_FIELDS, False, False)
    numbers: dict[tuple[str, ...], int] = {}
    return [numbers.setdefault(match.groups(), len(numbers)) for match in _ID.finditer(text)]


def optimizer_rule(package: Any, name: str) -> Any:
    """Return a rule of Spark's optimizer."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
