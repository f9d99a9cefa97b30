"""A chunk: an Arrow record batch of changes, an op column and the row's columns.

The op codes are RisingWave's. Promises nothing about order beyond the rows' own.
Does not know: tables.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UnknownOperationError
from ..segment.key import Kind

OP_COLUMN = "_op"


class Op(IntEnum):
    """What a row of a chunk does. An update is its old row and, right after it, its new row."""

    INSERT = 1
    DELETE = 2
    UPDATE_INSERT = 3
    UPDATE_DELETE = 4


_KINDS = np.array([0, Kind.PUT, Kind.DELETE, Kind.PUT, Kind.DELETE], np.uint8)


def chunk_of(rows: pa.RecordBatch, ops: NDArray[np.int8]) -> pa.RecordBatch:
    """Return the chunk of some rows and the op (int8) of each."""
    field = pa.field(OP_COLUMN, pa.int8(), nullable=False)
    return pa.RecordBatch.from_arrays(
        [pa.array(ops, pa.int8()), *rows.columns], schema=pa.schema([field, *rows.schema])
    )


def split(chunk: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.uint8]]:
    """Return (rows, kinds): the rows without their op and the `Kind` of each, uint8.

    UnknownOperationError if the op column is missing, holds NULL or an unknown code.
    """
    index = chunk.schema.get_field_index(OP_COLUMN)
    if index < 0:
        raise UnknownOperationError(
            f"a chunk needs a column {OP_COLUMN}; this one has {', '.join(chunk.schema.names)}"
        )
    ops = chunk.column(index)
    if not pa.types.is_integer(ops.type):
        raise UnknownOperationError(f"the column {OP_COLUMN} of a chunk holds {ops.type}, not ops")
    codes = np.asarray(ops.fill_null(0))
    wrong = (codes < Op.INSERT) | (codes > Op.UPDATE_DELETE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise UnknownOperationError(
            f"row {row} of the chunk has op {ops[row].as_py()}; "
            f"ops are {', '.join(f'{op.value} {op.name}' for op in Op)}"
        )
    return chunk.remove_column(index), _KINDS[codes]
