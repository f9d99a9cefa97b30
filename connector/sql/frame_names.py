"""The names of columns and inputs in the text of a frame.

Spark's plan distinguishes columns by numbers. In the text, every column that a SELECT returns has a
name of its own, and every input an alias of its own: so no name hides another, in subqueries too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from relstate.connector.syntax.tokens import quoted
from relstate.storage import syntax

from .frame_plan import Expression, id_of


class FrameNames:
    """The names of one text. ``is_qualified``: columns are written with the alias of their input.

    For one thread.
    """

    def __init__(self, *, is_qualified: bool) -> None:
        self.is_qualified = is_qualified
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._aliases: set[str] = set()
        self._references: dict[int, str] = {}

    def name(self, attribute: Expression, base: str | None = None) -> str:
        """Return the name of a column as a SELECT returns it: its own, numbered if that is taken.

        ``base``: another name to begin with.
        """
        number = id_of(attribute)
        if number not in self._names:
            self._names[number] = _unused(base or attribute.name(), self._taken)
        return self._names[number]

    def share_name(self, column: Expression, attribute: Expression) -> None:
        """Name a column as another of which it is the source, and which is never beside it."""
        self._names.setdefault(id_of(column), self.name(attribute))

    def names(self, attributes: Iterable[Expression]) -> list[str]:
        """Return the names of columns as SELECTs return them."""
        return [self.name(attribute) for attribute in attributes]

    def alias(self, base: str) -> str:
        """Return a new alias of an input."""
        return _unused(base, self._aliases)

    def reference(self, attribute: Expression) -> str:
        """Return the text of a column in the expressions that are being written."""
        return self._references[id_of(attribute)]

    def refer(self, attribute: Expression, text: str) -> None:
        """Write a column as a text from now on."""
        self._references[id_of(attribute)] = text

    def refer_to_input(
        self, attributes: Sequence[Expression], columns: Sequence[str], alias: str
    ) -> None:
        """Write columns as those of an input of FROM from now on."""
        prefix = f"{identifier(alias)}." if self.is_qualified else ""
        for attribute, column in zip(attributes, columns, strict=True):
            self.refer(attribute, prefix + identifier(column))

    def refer_to_result(self, attributes: Iterable[Expression]) -> None:
        """Write columns by the names under which a SELECT returns them from now on."""
        for attribute in attributes:
            self.refer(attribute, identifier(self.name(attribute)))

    def selected(self, attribute: Expression) -> str:
        """Return a column of a SELECT list, under its name."""
        text, name = self.reference(attribute), identifier(self.name(attribute))
        return text if text == name or text.endswith(f".{name}") else f"{text} AS {name}"


def identifier(name: str) -> str:
    """Return a name as SQL has it, in backticks if it needs them."""
    try:
        tokens = syntax.tokenize(name)
    except SqlglotError:
        return quoted(name)
    is_plain = name.isascii() and len(tokens) == 1 and tokens[0].text == name
    return name if is_plain and tokens[0].token_type is TokenType.VAR else quoted(name)


def _unused(base: str, used_names: set[str]) -> str:
    """Return a name, with a number if it is among those in lower case, and add it to them."""
    name, count = base, 1
    while name.lower() in used_names:
        count += 1
        name = f"{base}_{count}"
    used_names.add(name.lower())
    return name
