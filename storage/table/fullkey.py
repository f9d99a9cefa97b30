"""The full key of one row in as few steps as there can be, for the usual keys.

The functions are made of source for the key's columns: see codec/compiled.py.

Promises: the bytes are those of `RowEncoding.encode_key`; a key that is not usual is refused.
Does not know: what is wrong with a key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from xxhash import xxh64_intdigest

from relstate.vnode import HASH_SEED, form_packer

from ..codec.compiled import compiled_function
from ..codec.key_field import ESCAPED_ZERO, TERMINATOR, VALUE_TAG, ZERO
from ..schema import types as t
from ..schema.arrow import arrow_type
from ..schema.schema import TableSchema
from ..segment.key import KeyPrefix

KeyEncoder: TypeAlias = Callable[[Sequence[Any]], tuple[int, bytes, int]]
"""Takes the values of a primary key; returns the vnode, the full key and the hash.

The hash is that of the distribution key; as an unsigned number its low bits are the same."""

KeyLocator: TypeAlias = Callable[[bytes], tuple[tuple[Any, ...], int, bytes, int]]
"""Takes the bytes of a primary key; returns its values, and what a `KeyEncoder` returns."""

KeyReader: TypeAlias = Callable[[bytes], tuple[Any, ...]]
"""Takes the bytes of a primary key; returns its values."""

MISFITS = (struct.error, TypeError, ValueError)
"""What these functions raise for a key that is not usual, or bytes that are not one.

Those that take bytes raise IndexError, too."""

# The type's code in a key, as an unsigned number, and how many bits it has.
_INTEGERS: dict[type[t.DataType], tuple[str, int]] = {
    t.TinyInt: ("B", 8),
    t.SmallInt: ("H", 16),
    t.Int: ("I", 32),
    t.BigInt: ("Q", 64),
}


def key_encoder(
    prefix: KeyPrefix, schema: TableSchema, count: int | None = None
) -> KeyEncoder | None:
    """Return the encoder of the usual keys of a table; None if it has no such keys.

    Their columns are whole numbers and texts, none NULL, ascending. ``count``: of keys' first
    columns, the distribution key's among them; the bytes are those that full keys begin with.
    For others the function raises one of `MISFITS`.
    """
    key = _UsualKey.of(prefix, schema, count)
    return None if key is None else key.function("encode", key.encoder_source())


def key_locator(prefix: KeyPrefix, schema: TableSchema) -> KeyLocator | None:
    """Return what `Encoding.locate` does for usual keys; None if a table has no such keys.

    It raises one of `MISFITS`, or IndexError, for NULL and for bytes that are not such a key.
    """
    key = _UsualKey.of(prefix, schema, None)
    return None if key is None else key.function("locate", key.locator_source())


def key_reader(prefix: KeyPrefix, schema: TableSchema) -> KeyReader | None:
    """Return what decodes usual keys; None if a table has no such keys. Errors as `key_locator`."""
    key = _UsualKey.of(prefix, schema, None)
    return None if key is None else key.function("read", key.reader_source())


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a usual key. ``code``, ``bits``: see `_INTEGERS`; empty and 0 for a text."""

    index: int
    code: str
    bits: int

    @property
    def value(self) -> str:
        """The variable with its value."""
        return f"value{self.index}"

    @property
    def form(self) -> str:
        """The variable with what is hashed and stored: of a text its bytes."""
        return self.value if self.code else f"form{self.index}"


@dataclass(frozen=True)
class _UsualKey:
    """The columns of a usual key, and those of them, by index, that are hashed to the vnode."""

    prefix: KeyPrefix
    columns: Sequence[_Column]
    hashed: Sequence[int]
    types: Sequence[t.DataType]

    @classmethod
    def of(cls, prefix: KeyPrefix, schema: TableSchema, count: int | None) -> _UsualKey | None:
        """Return the first columns of a table's key, by default all; None if one is not usual."""
        keys = schema.primary_key[:count]
        types = [column.type for column in schema.key_columns[:count]]
        columns = [
            _Column(index, *_INTEGERS.get(type(data_type), ("", 0)))
            for index, data_type in enumerate(types)
        ]
        ids = [key.column_id for key in keys]
        hashed_ids = [column.id for column in schema.distribution_columns]
        is_usual = all(
            column.code or type(data_type) is t.String
            for column, data_type in zip(columns, types, strict=True)
        )
        if (
            not is_usual
            or any(key.descending for key in keys)
            or not hashed_ids
            or not set(hashed_ids) <= set(ids)
        ):
            return None
        return cls(prefix, columns, [ids.index(column_id) for column_id in hashed_ids], types)

    def function(self, name: str, source: Sequence[str]) -> Any:
        """Return the function of some lines of source that has a name."""
        namespace: dict[str, Any] = {
            "table": self.prefix.id_bytes,
            "intdigest": xxh64_intdigest,
            "tag": VALUE_TAG,
            "zero": ZERO,
            "escaped": ESCAPED_ZERO,
            "terminator": TERMINATOR,
            "place": struct.Struct(self._prefix_format).pack,
        }
        for number, layout in enumerate(self._layouts()):
            namespace[f"pack{number}"] = layout.pack
        for number, group in enumerate(self._groups()):
            layout = struct.Struct(">" + "".join(f"B{column.code}" for column in group))
            namespace[f"unpack{number}"] = layout.unpack_from
        for index in self.hashed:
            namespace[f"hashed{index}"] = form_packer(arrow_type(self.types[index]))
        return compiled_function(name, source, namespace)

    @property
    def _prefix_format(self) -> str:
        """How ``struct`` packs the bytes of the table's id and a vnode."""
        vnode = "B" if self.prefix.vnode_bytes == 1 else "H"
        return f">{len(self.prefix.id_bytes)}s{vnode}"

    def _groups(self) -> list[list[_Column]]:
        """Return the columns in runs of numbers, and each text alone."""
        groups = groupby(self.columns, lambda column: -1 if column.code else column.index)
        return [list(group) for _, group in groups]

    def _layouts(self) -> list[struct.Struct]:
        """Return the formats of what the pieces of a key begin with: see `_pieces`."""
        return [
            struct.Struct((">" if number else self._prefix_format) + codes)
            for number, (codes, _, _) in enumerate(self._pieces())
        ]

    def _pieces(self) -> list[tuple[str, list[str], str]]:
        """Return (codes, slots, text): a key is packed pieces, each with a text after it or none.

        The tag of a text is packed with the numbers before it.
        """
        pieces: list[tuple[str, list[str], str]] = []
        codes, slots = "", [] if not self.columns else ["table", "vnode"]
        for column in self.columns:
            slots.append("tag")
            codes += "B"
            if column.code:
                codes += column.code
                slots.append(f"{column.value} + {1 << (column.bits - 1)}")
            else:
                pieces.append((codes, slots, f"{column.form}.replace(zero, escaped) + terminator"))
                codes, slots = "", []
        return [*pieces, (codes, slots, "")] if slots else pieces

    def encoder_source(self) -> list[str]:
        """Return the lines of a `KeyEncoder`."""
        checks = [
            f"type({column.value}) is not {'int' if column.code else 'str'}"
            for column in self.columns
        ]
        parts = []
        for number, (_, slots, text) in enumerate(self._pieces()):
            parts.append(f"pack{number}({', '.join(slots)})")
            parts += [text] if text else []
        return [
            "def encode(values):",
            f"    {self._values}, = values",
            f"    if {' or '.join(checks)}:",
            "        raise TypeError('not the values of a usual key')",
            *(
                f"    {column.form} = {column.value}.encode()"
                for column in self.columns
                if not column.code
            ),
            *self._vnode_lines(),
            f"    return vnode, {' + '.join(parts)}, digest",
        ]

    def _vnode_lines(self) -> list[str]:
        """Return the lines that make the vnode of the forms."""
        lines, seed = [], f"{HASH_SEED}"
        for index in self.hashed:
            column = self.columns[index]
            packed = f"hashed{index}({column.form})" if column.code else column.form
            lines.append(f"    digest = intdigest({packed}, {seed})")
            seed = "digest"
        count = self.prefix.vnode_count
        if (1 << 64) % count:
            # The hash is a signed number. Where the count is a power of two the sign is irrelevant.
            lines.append(f"    digest = digest - {1 << 64} if digest >= {1 << 63} else digest")
        return [*lines, f"    vnode = digest % {count}"]

    def locator_source(self) -> list[str]:
        """Return the lines of a `KeyLocator`."""
        return [
            "def locate(key):",
            *self._reading_lines(),
            *self._vnode_lines(),
            f"    return ({self._values},), vnode, place(table, vnode) + key, digest",
        ]

    def reader_source(self) -> list[str]:
        """Return the lines of a `KeyReader`."""
        return ["def read(key):", *self._reading_lines(), f"    return ({self._values},)"]

    @property
    def _values(self) -> str:
        return ", ".join(column.value for column in self.columns)

    def _reading_lines(self) -> list[str]:
        """Return the lines that read the values of a key, and the bytes of its texts."""
        lines: list[str] = []
        offset, base = 0, ""
        tags: list[str] = []
        for number, group in enumerate(self._groups()):
            start = f"{base}{offset}"
            if group[0].code:
                slots = [slot for c in group for slot in (f"tag{c.index}", f"slot{c.index}")]
                lines.append(f"    {', '.join(slots)} = unpack{number}(key, {start})")
                lines += [f"    {c.value} = slot{c.index} - {1 << (c.bits - 1)}" for c in group]
                tags += [f"tag{c.index}" for c in group]
                offset += sum(1 + column.bits // 8 for column in group)
                continue
            (column,) = group
            stop = f"stop{column.index}"
            lines += [
                f"    {stop} = key.index(terminator, {base}{offset + 1})",
                f"    {column.form} = key[{base}{offset + 1}:{stop}].replace(escaped, zero)",
                f"    {column.value} = {column.form}.decode()",
            ]
            tags.append(f"key[{start}]")
            offset, base = len(TERMINATOR), f"{stop} + "
        wrong = [f"{tag} != tag" for tag in tags] + [f"len(key) != {base}{offset}"]
        return [
            *lines,
            f"    if {' or '.join(wrong)}:",
            "        raise ValueError('not a usual key')",
        ]
