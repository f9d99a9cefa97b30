"""A year of flights, replayed through Spark into relstate.

    python examples/flights.py [--store DIR] [--days N] [--reset]

Every flight that left New York in 2013 appears with its schedule, is updated when it departs and
when it lands, and is deleted if it was cancelled: a million changes. While one streaming query
keeps the table of flights and another the delays of every airline, both can be looked up; then all
is asked of in SQL, at the latest epoch and at an earlier one, and compared with what plain Spark
computes from the source.

Run it again and it goes on where it was: after Ctrl-C, after kill -9, or with more ``--days``.
The exit code is 0 if the tables are what they must be.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import flights_changes
import flights_source
import flights_truth
import pyarrow.parquet as pq

import relstate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from relstate.connector.sql import Database
