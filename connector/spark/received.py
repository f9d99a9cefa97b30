"""Rows in Arrow as every version of Spark should hand them over.

Promises: values and types are those that Spark has sent.
Does not know: a session, or the JVM: tasks use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from .capabilities import COMPLETE_OFFSETS
from .version import pyspark_version


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of Spark's in which every nested array has its offsets.

    Spark 4.1 leaves them out of arrays without a value inside of others, and the process crashes
    where Arrow counts the bytes of one.
    """
    if COMPLETE_OFFSETS.is_in(pyspark_version()):
        return iter(batches)
    return map(with_offsets, batches)


def with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose arrays without values inside of others have offsets."""
    if not any(pa.types.is_nested(field.type) for field in batch.schema):
        return batch
    columns = [_with_offsets(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_offsets(array: pa.Array) -> pa.Array:
    data_type = array.type
    if not pa.types.is_nested(data_type) or array.offset:
        return array
    if not len(array):
        return pa.array([], data_type)
    if pa.types.is_struct(data_type):
        children = [_with_offsets(array.field(n)) for n in range(data_type.num_fields)]
    elif pa.types.is_map(data_type):
        entries = [_with_offsets(array.keys), _with_offsets(array.items)]
        fields = [data_type.key_field, data_type.item_field]
        children = [pa.StructArray.from_arrays(entries, fields=fields)]
    else:
        children = [_with_offsets(array.values)]
    own = array.buffers()[:1] if pa.types.is_struct(data_type) else array.buffers()[:2]
    return pa.Array.from_buffers(data_type, len(array), own, array.null_count, 0, children)
