"""Random conditions on the columns of `where_rows`."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from .where_rows import POOLS


def quote_text(text: str) -> str:
    """Return a text as a literal of Spark."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spell_literal(name: str, value: Any) -> str:
    """Return a value of a column's pool as a literal of the column's type, or of a near one."""
    match value:
        case bool():
            return str(value).lower()
        case int() if name == "l" and abs(value) < 2**62:
            return f"{value}L"
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if name == 'f' else 'DOUBLE'})"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return quote_text(value)
        case datetime():
            return f"{'TIMESTAMP_NTZ' if name == 'z' else 'TIMESTAMP'} '{_spell_moment(value)}'"
        case date():
            return f"DATE '{value.year:04}-{value.month:02}-{value.day:02}'"
    return str(value)


def _spell_moment(moment: datetime) -> str:
    return f"{moment.year:04}-" + moment.strftime("%m-%d %H:%M:%S.%f")


EXACT_NUMBERS = ("ti", "si", "i", "j", "l", "n")


def literals(name: str) -> SearchStrategy[str]:
    """Return literals that compare with a column."""
    own = st.sampled_from(POOLS[name]).map(lambda value: spell_literal(name, value))
    families = {**dict.fromkeys(EXACT_NUMBERS, ("i", "l", "n")), "f": ("i", "l", "d", "n")}
    families["d"] = families["f"]
    numbers = [
        spell_literal(column, value) for column in families.get(name, ()) for value in POOLS[column]
    ]
    return own | st.sampled_from(numbers) if numbers else own


COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")
COMPARABLE = [("i", "j"), ("s", "u"), ("d", "st.deep.v"), ("i", "st.x"), ("l", "l")]
names = st.sampled_from(sorted(POOLS))


@st.composite
def atoms(draw: st.DrawFn) -> str:
    """Return a condition on one column, or on two."""
    name = draw(names)
    match draw(st.integers(0, 7)):
        case 0 | 1 | 2:
            return f"{name} {draw(st.sampled_from(COMPARED))} {draw(literals(name))}"
        case 3:
            values = draw(st.lists(literals(name), min_size=1, max_size=5))
            nulls = ["NULL"] if draw(st.integers(0, 3)) == 0 else []
            negated = draw(st.sampled_from(["", "NOT "]))
            return f"{name} {negated}IN ({', '.join(values + nulls)})"
        case 4:
            low, high = draw(literals(name)), draw(literals(name))
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {low} AND {high}"
        case 5:
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case 6:
            pattern = "".join(
                draw(st.lists(st.sampled_from(["a", "c", "%", "_", "é"]), max_size=4))
            )
            return f"s {draw(st.sampled_from(['', 'NOT ']))}LIKE '{pattern}'"
    left, right = draw(st.sampled_from(COMPARABLE))
    return f"{left} {draw(st.sampled_from(COMPARED))} {right}"


def _join(parts: list[str], word: str) -> str:
    return "(" + f" {word} ".join(parts) + ")"


conditions = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.builds(_join, st.lists(inner, min_size=2, max_size=4), st.sampled_from(["AND", "OR"])),
        inner.map("(({}) IS NULL)".format),
        st.builds("(({}) IS {}TRUE)".format, inner, st.sampled_from(["", "NOT "])),
    ),
    max_leaves=8,
)
