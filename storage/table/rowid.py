"""Row ids: the hidden primary key of the rows of a table without a primary key.

    time        7 bytes   microseconds since 1970, when the writer began
    random      5 bytes   the writer's own
    number      4 bytes   of the row among those of the writer, from 0

Each part is a number in base 255, its highest digit first, and each byte is a digit plus one: a
byte of zero would be escaped in the key.

Promises: no two rows get one row id, whoever writes them, and nothing is read for that. The ids of
a writer ascend, and those of a later writer are greater as far as clocks agree.
Does not know: which rows are inserted, or who writes them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..environment import Environment
from ..errors import UsageError
from ..schema.schema import TableSchema

_BASE = 255
_TIME_BYTES, _RANDOM_BYTES, _NUMBER_BYTES = 7, 5, 4
_PREFIX_BYTES = _TIME_BYTES + _RANDOM_BYTES
_ID_BYTES = _PREFIX_BYTES + _NUMBER_BYTES
_MOST_ROWS = _BASE**_NUMBER_BYTES


class RowIds:
    """Makes the row ids of one writer. For one thread."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._prefix = b""
        # No prefix yet: also no rows get one.
        self._next = _MOST_ROWS + 1

    def take(self, count: int) -> pa.Array:
        """Return as many new row ids, ascending, as a binary array."""
        if self._next + count > _MOST_ROWS:
            self._prefix, self._next = _new_prefix(self._environment), 0
        numbers = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        high = numbers // _BASE**2
        ids = np.empty((count, _ID_BYTES), np.uint8)
        ids[:, :_PREFIX_BYTES] = np.frombuffer(self._prefix, np.uint8)
        pairs = ids.view(np.uint16)
        pairs[:, -2] = _digit_pairs()[high]
        pairs[:, -1] = _digit_pairs()[numbers - high * _BASE**2]
        return _binary_array(ids)

    def identify(self, schema: TableSchema, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of a table without a primary key as rows with row ids.

        A row has its row id already if the batch has the hidden column and it is not NULL there.
        The errors of `TableSchema.conform` for rows without the column.
        """
        column = schema.row_id
        assert column is not None
        if column.name not in batch.schema.names:
            rows = schema.conform_input(batch)
            ids = self.take(rows.num_rows)
            return pa.RecordBatch.from_arrays([ids, *rows.columns], schema=schema.arrow_schema)
        index = batch.schema.get_field_index(column.name)
        ids = batch.column(index)
        if not ids.null_count:
            return batch
        new_ids = self.take(ids.null_count).cast(ids.type)
        ids = pc.replace_with_mask(ids, ids.is_null(), new_ids)
        return batch.set_column(index, column.name, ids)


def no_key_error(table: str, action: str) -> UsageError:
    """Return the error of a call that names rows by their key in a table without a primary key.

    ``action``: what cannot be done, and what to do instead.
    """
    return UsageError(f"the table {table!r} has no primary key, so {action}")


def _new_prefix(environment: Environment) -> bytes:
    random = int(environment.random_id(), 16) % _BASE**_RANDOM_BYTES
    return _digits(max(environment.now(), 0), _TIME_BYTES) + _digits(random, _RANDOM_BYTES)


def _digits(number: int, count: int) -> bytes:
    """Return a number in base 255, each of ``count`` digits plus one."""
    return bytes(number // _BASE**place % _BASE + 1 for place in reversed(range(count)))


@cache
def _digit_pairs() -> NDArray[np.uint16]:
    """Return the two bytes of every number of two digits, as they are in memory."""
    numbers = np.arange(_BASE**2)
    digits = np.stack([numbers // _BASE, numbers % _BASE], axis=1) + 1
    return digits.astype(np.uint8).view(np.uint16).ravel()


def _binary_array(rows: NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a matrix of bytes as a binary array."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
