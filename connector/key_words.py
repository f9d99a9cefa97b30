"""Values of a primary key, read from the words of a command line.

Promises: the form in which `row_json.json_values` writes a value is read back as that value; an
array or a struct is read from its JSON. A word that is not a value of the key's type is a
ValueRangeError with an example.
Does not know: tables, files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relstate.storage import errors, types

from .value_json import example_of, parse_text


def parse_key(words: Sequence[str], key: Sequence[types.Field]) -> tuple[Any, ...]:
    """Return the values of a key whose columns are ``key`` from one word for each.

    SchemaMismatchError for another number of words, ValueRangeError for a word that is not a value.
    """
    if len(words) != len(key):
        names = ", ".join(map(str, key))
        option = next((word for word in words if word.startswith("--")), None)
        advice = "" if option is None else f"; {option!r} is not an option"
        raise errors.SchemaMismatchError(
            f"the primary key is ({names}): it takes {len(key)} values, not {len(words)}{advice}"
        )
    return tuple(_parse_word(*pair) for pair in zip(words, key, strict=True))


def _parse_word(word: str, column: types.Field) -> Any:
    try:
        return parse_text(word, column.type)
    except ValueError as error:
        example = example_of(column.type)
        raise errors.ValueRangeError(
            f"{word!r} is not a {column.type}, the type of the key's column {column.name!r}"
            + (f"; write it as {example}" if example else "")
        ) from error
