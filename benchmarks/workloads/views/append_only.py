"""Counts and sums over a table that only grows, beside Spark's own streaming aggregation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import relstate
from relstate.connector.sql.database import Database
from relstate.storage import Store

from ... import flights
from ...figure import Comparison, Figure
from ...session import CORES
from ...turns import in_turns, seconds
from ...workbench import Workbench

_FILES = 10
_KEYS = 100_000
_SELECT = "SELECT key, count(*) AS count, sum(amount) AS total FROM events GROUP BY key"
_RESULT = "key BIGINT, count BIGINT, total BIGINT"
_SCHEMA = "id BIGINT, key BIGINT, amount BIGINT"


def append_only(bench: Workbench) -> Iterator[Figure]:
    """Measure rows a second from files, one a micro-batch, to the groups of them all.

    Ours: into a table that only grows, which a view follows, both at once. Beside it the view
    alone, over a table that has them.
    """
