"""Whether two queries mean the same to Spark: their plans are compared, apart from ids.

Does not know: why they are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

_COMMON_TABLE = re.compile(r"(CTERelation(?:Def|Ref)) (\d+)")
_EXISTENCE_ID = re.compile(r"ExistenceJoin\(exists#\d+\)")
_ALL_FIELDS = (1 << 31) - 1
_READINGS = 10


def has_same_meaning(original: DataFrame, read: Callable[[], DataFrame]) -> bool:
    """Return whether a query and a text, which ``read`` reads, mean the same to Spark.

    Spark orders some parts of a plan, as several DISTINCT arguments, by the hashes of ids that
    each reading of a text has anew: two readings of one text may differ. Then it is read again.
    """
    readings = (read() for _ in range(_READINGS))
    return any(
        original.sameSemantics(frame) or _has_same_plan(original, frame) for frame in readings
    )


def _has_same_plan(left: Any, right: Any) -> bool:
    """Return whether two queries have the same plan; False over Spark Connect.

    A common table has an id of its own, and a subquery under OR or in SELECT becomes a join whose
    result is an attribute with one, which Spark does not take out before it compares plans. So the
    plans have to be equal apart from ids, and so has their text, in which each column is a
    position: as they were analyzed, or after optimization.
    """
    if not hasattr(left, "_jdf"):
        return False
    jvm: Any = left.sparkSession._jvm
    normalize = optimizer_rule(jvm.org.apache.spark.sql.catalyst.plans, "NormalizePlan")
    executions = [frame._jdf.queryExecution() for frame in (left, right)]
    return _is_same_plan(normalize, *(execution.analyzed() for execution in executions)) or (
        _is_same_plan(normalize, *(execution.optimizedPlan() for execution in executions))
    )


def _is_same_plan(normalize: Any, left: Any, right: Any) -> bool:
    """Return whether two plans are equal apart from ids; ``normalize``: Spark's rule for these."""
    if left.sameResult(right):
        return True
    is_same_text = _text_of_plan(left) == _text_of_plan(right)
    return is_same_text and bool(normalize.apply(left).equals(normalize.apply(right)))


def _text_of_plan(plan: Any) -> str:
    """Return the whole text of a plan in canonical form, without ids of its own.

    Existence joins have none, and common tables are numbered as they come.
    """
    text = plan.canonicalized().treeString(True, False, _ALL_FIELDS, False, False)
    numbers: dict[str, int] = {}
    text = _COMMON_TABLE.sub(
        lambda match: f"{match[1]} {numbers.setdefault(match[2], len(numbers))}", text
    )
    return _EXISTENCE_ID.sub("ExistenceJoin(exists)", text)


def optimizer_rule(package: Any, name: str) -> Any:
    """Return a rule of Spark's optimizer."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
