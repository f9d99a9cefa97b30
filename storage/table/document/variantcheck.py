"""The check of variants that are written: bytes that are none would fail the reads of their rows.

Does not know: rows, or how values are stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...codec.ragged import from_binary
from ...codec.variant import check
from ...errors import SchemaMismatchError
from ...schema.arrow import is_variant

# Their nodes take more memory than their bytes.
_CHECKED_BYTES = 4 << 20


def holds_variants(data_type: pa.DataType) -> bool:
    """Return whether values of an Arrow type are variants, or may have variants in them."""
    if pa.types.is_struct(data_type):
        return is_variant(data_type) or any(holds_variants(field.type) for field in data_type)
    if pa.types.is_map(data_type):
        return holds_variants(data_type.item_type)
    return pa.types.is_list(data_type) and holds_variants(data_type.value_type)


def check_variants(name: str, values: pa.Array) -> None:
    """SchemaMismatchError, which names the values, if what is a variant by its type is not one."""
    for variants in _variants_in(values):
        rows = max(1, len(variants) * _CHECKED_BYTES // max(variants.nbytes, 1))
        for start in range(0, len(variants), rows):
            value, metadata = variants.slice(start, rows).flatten()
            try:
                check(from_binary(value), from_binary(metadata))
            except ValueError as error:
                raise SchemaMismatchError(
                    f"{name}: the bytes of a value are not a variant: {error}; give what "
                    "parse_json or a reader of variants returns"
                ) from None


def _variants_in(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the variants in some values, none of them NULL."""
    if not holds_variants(values.type):
        return
    present = values.drop_null()
    if pa.types.is_map(values.type):
        first, last = present.offsets[0].as_py(), present.offsets[-1].as_py()
        yield from _variants_in(present.items.slice(first, last - first))
    elif pa.types.is_list(values.type):
        yield from _variants_in(present.flatten())
    elif is_variant(values.type):
        yield present
    else:
        for field in present.flatten():
            yield from _variants_in(field)
