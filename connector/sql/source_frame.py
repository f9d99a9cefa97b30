"""What is handed over as the DataFrame of a call, checked before Spark's own errors would come.

Does not know: what the rows are for.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from relstate.storage import errors


def check_frame(frame: Any, call: str, advice: str = "") -> None:
    """UsageError if something is not a DataFrame of Spark; ``call``: what takes it."""
    if not isinstance(frame, DataFrame):
        raise errors.UsageError(
            f"{call} takes a DataFrame of Spark, not {_class_name(frame)}: make one of other "
            f"rows by spark.createDataFrame(rows){advice}"
        )


def _class_name(value: Any) -> str:
    """Return the class of a value with its library: ``pandas.DataFrame``."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
