"""Parts of rows as they are written: read, and encoded again.

Promises: the value of each part, from its header to its body, is made anew from what is read of it.
One that differs was not written by relstate, or is damaged.
Does not know: whole rows, or whether a part counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from ...codec.path import NUMBER_BYTES, load_numbers
from ...codec.ragged import Bytes, Positions, concat, constant, gather, parts_of
from ...log.table_definition import TableDefinition
from ...segment.block import Block
from ..header import BY_COLUMNS, Headers, encode_part_headers
from .part import Parts
from .shape import Shape
from .target import column_shape


def canonical_parts(block: Block, shapes_of: Callable[[int], Mapping[int, Shape]]) -> Bytes:
    """Return the values of divided entries, read and encoded again.

    ``shapes_of``: returns the shapes of the columns of a schema version, by their ids. ValueError
    or IndexError if the bytes are not such entries.
    """
    versions = Headers(block).schema_versions
    numbers = [np.flatnonzero(versions == version) for version in np.unique(versions)]
    values = [
        _canonical_alike(block.take(rows), shapes_of(int(versions[rows[0]]))) for rows in numbers
    ]
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *numbers]), kind="stable")
    return pa.concat_arrays(values).take(pa.array(order)) if values else constant(b"", 0)


def _canonical_alike(block: Block, shapes: Mapping[int, Shape]) -> Bytes:
    """Return the values of entries that are encoded under one schema."""
    headers = Headers(block)
    encoded_headers = encode_part_headers(
        headers.kinds,
        int(headers.schema_versions[0]),
        headers.path_lengths,
        headers.depths,
        headers.expiries,
        headers.flags & np.uint8(BY_COLUMNS),
    )
    path_lengths = headers.path_lengths
    path_starts = block.key_starts + block.key_lengths - path_lengths
    parts = Parts(
        np.arange(len(block)),
        gather(block.keys, path_starts, path_lengths),
        headers.depths,
        headers.kinds,
        gather(block.values, headers.body_starts, headers.body_lengths),
    )
    return concat([encoded_headers, _canonical_bodies(parts, shapes)])


def _canonical_bodies(parts: Parts, shapes: Mapping[int, Shape]) -> Bytes:
    """Return the bodies of parts: of a PUT its value, of others nothing.

    Those of a column that the schema does not have, because it was dropped, are as they are.
    """
    below = np.flatnonzero(parts.depths)
    data, offsets = parts_of(parts.paths)
    ids = load_numbers(data, offsets[:-1][below])
    bodies, rows = [constant(b"", 1)], [np.empty(0, np.int64)]
    for column_id in np.unique(ids).tolist():
        members = below[ids == column_id]
        if column_id not in shapes:
            bodies.append(parts.bodies.take(pa.array(members)))
            rows.append(members)
            continue
        starts = np.full(len(members), NUMBER_BYTES)
        for branch in shapes[column_id].puts(parts, members, starts):
            values = branch.shape.decode(parts.bodies.take(pa.array(branch.rows)))
            bodies.append(branch.shape.encode(values))
            rows.append(branch.rows)
    indices = np.zeros(len(parts), np.int64)
    placed: Positions = np.concatenate(rows)
    indices[placed] = 1 + np.arange(len(placed))
    return pa.concat_arrays(bodies).take(pa.array(indices))


def shapes_of_version(definition: TableDefinition, version: int) -> dict[int, Shape]:
    """Return the shapes of the columns of a schema version, by their ids.

    ValueError for a version that the table never had.
    """
    for schema in (definition.schema, *definition.older_schemas):
        if schema.version == version:
            return {
                column.id: column_shape(definition.properties, column)
                for column in schema.value_columns
            }
    raise ValueError(f"a part is encoded under the unknown schema version {version}")
