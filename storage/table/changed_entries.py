"""What has to be written to a table so that it has the rows of another one.

Promises: a row that both have, with the same value, is not written.
Does not know: where the rows of the other table come from.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.ragged import NO_BYTES, Bytes, constant
from .header import delete_value
from .table_entries import TableEntries


def changed_entries(
    stored: TableEntries, wanted: TableEntries, vnodes: range
) -> tuple[Bytes, Bytes]:
    """Return (full keys, values), in no order, that give ``stored`` the rows of ``wanted``.

    Of some vnodes, all of whose rows are in memory meanwhile. Both tables have one definition, and
    each row in one entry. CorruptionError, naming the file, for damage.
    """
    keys, values = _visible(stored, vnodes)
    wanted_keys, wanted_values = _visible(wanted, vnodes)
    places = pc.index_in(wanted_keys, value_set=keys)
    # NULL where the key is new.
    are_equal = pc.equal(wanted_values, values.take(places))
    changed = pa.array(~np.asarray(pc.fill_null(are_equal, False)))
    is_gone = np.ones(len(keys), np.bool_)
    is_gone[np.asarray(places.drop_null())] = False
    gone = keys.filter(pa.array(is_gone))
    deletes = constant(delete_value(stored.encoding.schema.version), len(gone))
    return (
        pa.concat_arrays([wanted_keys.filter(changed), gone]),
        pa.concat_arrays([wanted_values.filter(changed), deletes]),
    )


def _visible(table: TableEntries, vnodes: range) -> tuple[Bytes, Bytes]:
    """Return the full keys and the values of all rows in some vnodes."""
    keys, values = [NO_BYTES], [NO_BYTES]
    for block in table.visible_entries(vnodes):
        keys.append(block.key_bytes())
        values.append(block.value_bytes())
    return pa.concat_arrays(keys), pa.concat_arrays(values)
