"""Keys of collated strings: strings that are equal, and ordered, by their bytes as those are.

Promises: two strings are equal by a collation if and only if their keys are, and one is before
another by it if and only if its key is.
Does not know: where keys are needed.

The collations of ICU have none: no function of Spark's SQL returns what their equal strings have in
common.
"""

from __future__ import annotations

from relstate.connector.syntax.tree import Tree, cast_text, parse_expression
from relstate.storage import types

_TRIMMED = "_RTRIM"
# Spark compares the lower case of each character. lower() has another sigma (03C2) at
# the end of a word.
_KEYS = {
    "UTF8_BINARY": "({}) COLLATE UTF8_BINARY",
    "UTF8_LCASE": "replace(lower({}) COLLATE UTF8_BINARY, '\u03c2', '\u03c3')",
}


def is_collated(data_type: types.DataType) -> bool:
    """Return whether a type is a string that Spark does not compare by its bytes."""
    return isinstance(data_type, types.String) and data_type.is_collated


def is_keyless(data_type: types.DataType) -> bool:
    """Return whether a type is a string of a collation that has no keys."""
    return is_collated(data_type) and collation_key("", data_type) is None


def with_type(tree: Tree, data_type: types.DataType) -> Tree:
    """Return an expression cast to a type."""
    cast = parse_expression(cast_text("value", data_type))
    cast.set("this", tree)
    return cast


def bytes_text(text: str) -> str:
    """Return a string expression that Spark compares by its bytes, in Spark's SQL."""
    return f"({text}) COLLATE UTF8_BINARY"


def collation_key(text: str, data_type: types.DataType) -> str | None:
    """Return the key of an expression of a type, in Spark's SQL; None if it has none."""
    if not isinstance(data_type, types.String) or not data_type.is_collated:
        return None
    name = data_type.collation.upper()
    key = _KEYS.get(name.removesuffix(_TRIMMED))
    if key is None:
        return None
    key = key.format(text)
    return f"rtrim({key})" if name.endswith(_TRIMMED) else key
