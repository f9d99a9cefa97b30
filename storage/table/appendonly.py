"""What a task refuses to write to an append-only table, and how it is told.

Promises: a message names the table, and the key where there is one.
Does not know: the rows that are there already (storage/appending.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, equal_neighbours, sort_order
from ..errors import AppendOnlyError
from ..log.entry import TableDefinition
from ..segment.block import Block
from ..segment.kind import Kind
from .encoding import RowEncoding


def check_inserts(definition: TableDefinition, kinds: NDArray[np.uint8] | None) -> None:
    """AppendOnlyError if rows of these kinds delete rows of an append-only table."""
    if definition.properties.append_only and kinds is not None and (kinds == Kind.DELETE).any():
        raise change_refused(definition, "delete")


def check_distinct(encoding: RowEncoding, keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return the entries that they are. AppendOnlyError if two have one key."""
    order = sort_order(keys)
    repeats = np.flatnonzero(equal_neighbours(keys.take(pa.array(order))))
    if len(repeats):
        twice = order[repeats[:1]]
        block = Block.over(keys, values).take(twice)
        raise key_taken(encoding, encoding.decode(block, encoding.schema.key_columns))
    return keys, values


def change_refused(definition: TableDefinition, operation: str) -> AppendOnlyError:
    """Return the error of a write that would change, delete or replace rows."""
    return AppendOnlyError(
        f"{operation}: the table {definition.name!r} is append-only: its rows are not changed, "
        "deleted or replaced; insert rows of new keys, or drop the table"
    )


def key_taken(encoding: RowEncoding, rows: pa.RecordBatch) -> AppendOnlyError:
    """Return the error of a row whose key, that of the first of ``rows``, another row has."""
    key = ", ".join(f"{name} = {rows[name][0].as_py()!r}" for name in encoding.key_names)
    return AppendOnlyError(
        f"the table {encoding.name!r} is append-only, and a row with the key ({key}) is in it "
        "already, or comes twice in what is written; nothing was committed: leave such rows out"
    )
