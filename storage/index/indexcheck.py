"""The check of indexes: whether their entries are those of the rows of their tables.

Promises: memory does not grow with the table.
Does not know: whether the files are whole (check.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes
from ..environment import Environment
from ..errors import RelstateError
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..problems import problem_of
from ..schema.index import IndexDefinition
from ..segment.block import Block
from ..table.encoding import Encoding, encoding_of
from ..table.header import Headers
from ..table.storagetable import StorageTable
from .layout import IndexLayout


def index_problems(environment: Environment, state: StoreState) -> Iterator[str]:
    """Yield what is wrong with the indexes of the tables in a state. Errors of `problem_of`."""
    now = environment.now()
    for table in state.tables.values():
        definition = table.definition
        for index in definition.indexes:
            name = f"index {index.name} of table {definition.name}"
            if index.table_id not in state.tables:
                yield f"{name}: there is no table with the id {index.table_id}, which it names"
                continue
            try:
                problem = _problem(environment, state, definition, index, now)
            except RelstateError as error:
                yield problem_of(environment, error)
                continue
            except Exception as error:  # code that reads a damaged file may raise anything
                yield f"{name}: it cannot be read: {error!r}"
                continue
            if problem:
                yield f"{name}: {problem}; drop it and create it again"


def _problem(
    environment: Environment,
    state: StoreState,
    definition: TableDefinition,
    index: IndexDefinition,
    now: int,
) -> str | None:
    """Return how an index differs from its table; None if it does not."""

    def open_table(encoding: Encoding) -> StorageTable:
        segments = state.segments_of(encoding.table_id)
        return StorageTable(environment, encoding, segments, lambda: now)

    encoding = encoding_of(definition, state.settings.vnode_count)
    layout = IndexLayout(encoding, index, state.tables[index.table_id].definition)
    entries = open_table(layout.encoding)
    rows = 0
    for block in open_table(encoding).entries():
        is_visible = Headers(block).are_visible(now)
        keys, values = layout.entries(block.take(np.flatnonzero(is_visible)))
        rows += len(keys)
        is_wrong = _is_wrong(entries.get_values(keys), keys, values)
        if is_wrong.any():
            key = keys[int(np.flatnonzero(is_wrong)[0])].as_py()
            return f"it lacks the entry of a row ({layout.encoding.describe(key)})"
    count = entries.count()
    return None if count == rows else f"it has {count} entries for {rows} rows"


def _is_wrong(stored: Block, keys: Bytes, values: Bytes) -> NDArray[np.bool_]:
    """Return for which keys some stored entries do not have these values."""
    positions = pc.index_in(keys, value_set=stored.key_bytes())
    is_same = pc.fill_null(pc.equal(stored.value_bytes().take(positions), values), False)
    return np.asarray(pc.invert(is_same))
