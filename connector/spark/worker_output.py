"""What a Python worker of Spark shows of an error that it raises.

Promises: nothing changes in a process that is not such a worker.
Does not know: errors.
"""

from __future__ import annotations

import os


def hide_traceback() -> None:
    """Let this process, if it is a worker of Spark, show the sentence of its next error alone.

    Spark shows the lines from which it was raised before it. The worker ends with the error; in
    another process the variable would be inherited by its children.
    """
    from pyspark import SparkFiles  # only here: the command line starts without Spark

    if SparkFiles._is_running_on_worker:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
