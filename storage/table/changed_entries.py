"""What has to be written to a table so that it has other rows, in some vnodes.

Promises: a row that is stored already, with the same value, is not written.
Does not know: where the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import NO_BYTES, Bytes, constant
from .header import delete_value
from .table_entries import TableEntries

# So many stored bytes are compared at once.
_COMPARED_BYTES = 64 << 20


def changed_entries(
    stored: TableEntries,
    keys: Bytes,
    values: Bytes,
    key_vnodes: NDArray[np.uint16],
    vnodes: Sequence[range],
) -> Iterator[tuple[Bytes, Bytes]]:
    """Yield (full keys, values), in no order, that make the rows of some vnodes other ones.

    ``keys``: the full keys of these, each once, which are in the vnodes ``key_vnodes``; ``values``:
    their entries. CorruptionError, naming the file, for damage.
    """
    for part in _parts(stored, vnodes):
        is_inside = pa.array((key_vnodes >= part.start) & (key_vnodes < part.stop))
        yield _changed(stored, keys.filter(is_inside), values.filter(is_inside), part)


def _parts(stored: TableEntries, vnodes: Sequence[range]) -> Iterator[range]:
    """Yield vnodes, as many at once as may be compared at once."""
    count = stored.encoding.vnode_count
    step = max(count * _COMPARED_BYTES // max(stored.stored_bytes, 1), 1)
    for run in vnodes:
        for start in range(run.start, run.stop, step):
            yield range(start, min(start + step, run.stop))


def _changed(
    stored: TableEntries, keys: Bytes, values: Bytes, vnodes: range
) -> tuple[Bytes, Bytes]:
    stored_keys, stored_values = _visible(stored, vnodes)
    places = pc.index_in(keys, value_set=stored_keys)
    # NULL where the key is new.
    are_equal = pc.equal(values, stored_values.take(places))
    changed = pa.array(~np.asarray(pc.fill_null(are_equal, False)))
    is_gone = np.ones(len(stored_keys), np.bool_)
    is_gone[np.asarray(places.drop_null())] = False
    gone = stored_keys.filter(pa.array(is_gone))
    deletes = constant(delete_value(stored.encoding.schema.version), len(gone))
    return (
        pa.concat_arrays([keys.filter(changed), gone]),
        pa.concat_arrays([values.filter(changed), deletes]),
    )


def _visible(table: TableEntries, vnodes: range) -> tuple[Bytes, Bytes]:
    """Return the full keys and the values of all rows in some vnodes."""
    keys, values = [NO_BYTES], [NO_BYTES]
    for block in table.visible_entries(vnodes):
        keys.append(block.key_bytes())
        values.append(block.value_bytes())
    return pa.concat_arrays(keys), pa.concat_arrays(values)
