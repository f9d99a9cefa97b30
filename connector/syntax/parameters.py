"""Parameters of a statement: ``?`` and ``:name`` in its text, with values of Python.

Promises: a value is written as one literal of Spark's SQL with the type that Spark gives the value
of a parameter; whatever is in a text, it stays inside its quotes.
Does not know: statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, TypeAlias

from sqlglot import Token, TokenType

from relstate.storage import errors

from .tokens import tokens_of

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]

# What follows a name or a closing bracket is a path into its value, or a type: v:field, a: INT.
_ENDS_OF_VALUES = (
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.STRING,
)
_OF_STATEMENT = ("EXPLAIN",)
_MOST_INT, _MOST_LONG = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True)
class _Marker:
    """A parameter at ``[start, stop)`` in a text; ``name`` is None for ``?``."""

    start: int
    stop: int
    name: str | None


def bind_arguments(text: str, args: Arguments) -> str:
    """Return a statement with its parameters replaced by literals.

    ``args``: a dict for ``:name``, a list for ``?``. OptionError for a parameter without a value, a
    value without a parameter, or one that has no literal.
    """
    markers = _markers(text)
    if isinstance(args, Mapping):
        values = _named_values(markers, args)
    elif isinstance(args, list | tuple):
        values = _positional_values(markers, args)
    else:
        raise errors.OptionError(
            f"args is a dict for parameters :name, or a list for parameters ?, not {args!r:.80}"
        )
    parts, end = [], 0
    for marker, value in zip(markers, values, strict=True):
        parts += [text[end : marker.start], literal(value)]
        end = marker.stop
    return "".join([*parts, text[end:]])


def _markers(text: str, start: int = 0) -> list[_Marker]:
    """Return the parameters in a text from ``start`` on; of none in quotes or comments."""
    tokens = tokens_of(text[start:])
    if tokens[0].text.upper() in _OF_STATEMENT and not start:
        # The tokenizer makes one string of what follows.
        return _markers(text, tokens[0].end + 1)
    markers = [
        _Marker(start + token.start, start + token.end + 1, None)
        for token in tokens
        if token.token_type is TokenType.PLACEHOLDER and token.text == "?"
    ]
    for before, (colon, name) in zip([None, *tokens], pairwise(tokens), strict=False):
        if colon.token_type is TokenType.COLON and _is_named(before, colon, name):
            markers.append(_Marker(start + colon.start, start + name.end + 1, name.text))
    return sorted(markers, key=lambda marker: marker.start)


def _is_named(before: Token | None, colon: Token, name: Token) -> bool:
    follows_value = before is not None and before.token_type in _ENDS_OF_VALUES
    return not follows_value and name.start == colon.end + 1 and name.text.isidentifier()


def _named_values(markers: Sequence[_Marker], args: Mapping[str, Any]) -> list[Any]:
    if any(marker.name is None for marker in markers):
        raise errors.OptionError("args is a dict, and the statement has parameters ?: give a list")
    names = {str(marker.name) for marker in markers}
    missing, unused = sorted(names - args.keys()), sorted(map(str, args.keys() - names))
    if missing:
        raise errors.OptionError(f"the parameter :{missing[0]} has no value in args")
    if unused:
        parameter_names = ", ".join(f":{name}" for name in sorted(names)) or "none"
        raise errors.OptionError(
            f"the statement has no parameter :{unused[0]}; its parameters are: {parameter_names}"
        )
    return [args[str(marker.name)] for marker in markers]


def _positional_values(markers: Sequence[_Marker], args: Sequence[Any]) -> list[Any]:
    first_name = next((marker.name for marker in markers if marker.name is not None), None)
    if first_name is not None:
        raise errors.OptionError(
            f"args is a list, and the statement has the parameter :{first_name}: give a dict"
        )
    if len(args) != len(markers):
        raise errors.OptionError(
            f"the statement has {len(markers)} parameters ?, and args has {len(args)} values"
        )
    return list(args)


def literal(value: Any) -> str:
    """Return a value as a literal of Spark's SQL. OptionError for one that has none."""
    if value is None:
        return "NULL"
    # In the order of the types: a bool is an int, and a datetime a date.
    for kind, write in _LITERALS:
        if isinstance(value, kind):
            return write(value)
    raise errors.OptionError(
        f"the value {value!r:.80} of a parameter is a {type(value).__name__}; it can be None, a "
        "bool, int, float, Decimal, str, bytes, date or datetime"
    )


def _integer(value: int) -> str:
    if not -_MOST_LONG <= value < _MOST_LONG:
        raise errors.OptionError(f"the value {value} of a parameter does not fit a BIGINT")
    suffix = "" if -_MOST_INT <= value < _MOST_INT else "L"
    return _signed(f"{value}{suffix}")


def _double(value: float) -> str:
    return _signed(f"{value!r}D") if isfinite(value) else f"CAST('{value}' AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise errors.OptionError(f"the value {value} of a parameter is not a number")
    return _signed(f"{value:f}BD")


def _signed(text: str) -> str:
    # Two minus signs begin a comment.
    return f"({text})" if text.startswith("-") else text


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _timestamp(value: datetime) -> str:
    # Without a zone it is a local time of the session.
    if value.tzinfo is None:
        return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
    return f"TIMESTAMP'{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"


_LITERALS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _integer),
    (float, _double),
    (Decimal, _decimal),
    (str, _string),
    (bytes, lambda value: f"X'{value.hex()}'"),
    (datetime, _timestamp),
    (date, lambda value: f"DATE'{value.isoformat()}'"),
)
