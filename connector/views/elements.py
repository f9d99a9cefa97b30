"""The rows that a generator makes of arrays, in the driver's process.

Does not know: how the arrays are evaluated.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import types

from .executor.changes import chunk_schema
from .plan.generate import Generate, Generator


def makes_elements(node: Generate) -> bool:
    """Return whether a generator makes the elements of an array, not of a map or of JSON."""
    is_array = isinstance(node.arguments[0].type, types.Array)
    return node.function is Generator.ELEMENTS and is_array


def element_count(node: Generate, arrays: pa.ListArray) -> int:
    """Return how many rows a generator makes of some arrays."""
    return int(_row_counts(node, _lengths(arrays)).sum())


def element_bytes(node: Generate, chunk: pa.RecordBatch, arrays: pa.ListArray) -> int:
    """Return at most how many bytes the elements and the columns that they repeat take."""
    counts = _row_counts(node, _lengths(arrays))
    size: int = arrays.nbytes
    for name in (chunk.schema.names[0], *node.passed):
        column = chunk.column(name)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            size += int((np.asarray(pc.fill_null(pc.binary_length(column), 0)) * counts).sum())
        elif pa.types.is_nested(column.type):
            size += column.nbytes * int(counts.max(initial=0))
        else:
            size += 16 * int(counts.sum())  # the widest of the others are decimals
    return size


def element_rows(node: Generate, chunk: pa.RecordBatch, arrays: pa.ListArray) -> pa.RecordBatch:
    """Return the chunk of the elements of ``arrays``, one for each row of a chunk of the child."""
    lengths = _lengths(arrays)
    counts = _row_counts(node, lengths)
    rows = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    is_empty = (lengths == 0)[rows]
    indices = (np.cumsum(lengths) - lengths)[rows] + positions
    outputs = [
        pa.array(positions, pa.int32(), mask=is_empty),
        arrays.flatten().take(pa.array(indices, mask=is_empty)),
    ]
    passed = chunk.select([chunk.schema.names[0], *node.passed]).take(pa.array(rows))
    return pa.RecordBatch.from_arrays([*passed.columns, *outputs], schema=chunk_schema(node.fields))


def _lengths(arrays: pa.ListArray) -> NDArray[np.int64]:
    """Return the length of each array; 0 for NULL."""
    return np.asarray(pc.fill_null(pc.list_value_length(arrays), 0)).astype(np.int64)


def _row_counts(node: Generate, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(lengths, 1) if node.keeps_empty else lengths
