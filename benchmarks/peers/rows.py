"""The rows that every system stores: six columns that are computed from an index and a version.

Sums of the doubles are exact in any order, so that answers can be compared for equality.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("i", pa.int32()),
        pa.field("d", pa.float64()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("s", pa.string()),
        pa.field("m", pa.decimal128(12, 2)),
    ]
)
SQL_COLUMNS = "k BIGINT, i INT, d DOUBLE, ts TIMESTAMP, s STRING, m DECIMAL(12,2)"
FIRST_TIME = 1_700_000_000_000_000
GROUPS = 1000
_KEY_STEP = 7
_TEXTS = 100_000


def keys_of(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the keys of rows; they ascend with the indices, with gaps."""
    keys: NDArray[np.int64] = indices * _KEY_STEP
    return keys


def table_of(indices: NDArray[np.int64], version: int = 0) -> pa.Table:
    """Return the rows with these indices as of a version; every version has other numbers."""
    texts = pc.binary_join_element_wise(
        "customer ", pa.array(indices * 2_654_435_761 % _TEXTS).cast(pa.string()), ""
    )
    cents = pa.array((indices * 97 + version * 13) % 1_000_000).cast(pa.decimal128(19, 0))
    amounts = pc.divide(cents.cast(pa.decimal128(21, 2)), pa.scalar(100, pa.decimal128(3, 0)))
    columns = [
        pa.array(keys_of(indices)),
        pa.array(((indices * 7919 + version) % GROUPS).astype(np.int32)),
        pa.array((indices * 31 + version) % 4096 * 0.25),
        pa.array(FIRST_TIME + indices * 1000 + version).cast(SCHEMA.field("ts").type),
        texts,
        amounts.cast(SCHEMA.field("m").type),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
