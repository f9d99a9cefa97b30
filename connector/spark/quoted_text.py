"""What the errors of a classic session quote of a query that Spark has as another text.

Spark keeps of each expression its place in the text that was parsed, and quotes that text where the
expression fails: when a frame is used, in any frame made of it, and in tasks. It can map places to
those of another text, as it does where it puts values in the place of parameters.

Promises: what is parsed inside of the block is quoted as it was written; nothing else is. The line
and the column that Spark names are those of the text that it has.
Does not know: why a text was rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from relstate.connector.syntax.parsed_query import Edit
from relstate.vnode import cached_property

_PARSER = "org.apache.spark.sql.catalyst.parser"
_TREES = "org.apache.spark.sql.catalyst.trees"
# The fields of an origin before its mapper.
_PLACES = 9


class TextQuotes:
    """Makes Spark quote the written text of queries, in one classic session."""

    def __init__(self, session: SparkSession) -> None:
        own: Any = session
        self._gateway = own._sc._gateway

    @contextmanager
    def of(self, written: str, rewritten: str, changes: Sequence[Edit]) -> Iterator[None]:
        """Quote ``written`` for what this thread parses of ``rewritten``.

        ``changes``: those that make it of ``written``, in order.
        """
        # Otherwise calls of one thread are made by any threads of the JVM.
        if not isinstance(self._gateway, ClientServer):
            yield
            return
        current = self._current_origin
        current.set(self._origin(written, rewritten, changes))
        try:
            yield
        finally:
            current.reset()

    def _origin(self, written: str, rewritten: str, changes: Sequence[Edit]) -> Any:
        substitutions = self._nil
        for change in reversed(changes):
            place = self._location(change.start, change.end)
            substitutions = substitutions.prepended(self._substitution(place, change.text))
        mapper = self._some(self._mapper(written, rewritten, substitutions))
        return self._make_origin(*[self._none] * _PLACES, mapper)

    # Each name that is looked up in the JVM is a call.

    def _class(self, name: str) -> Any:
        return JavaClass(name, self._gateway._gateway_client)

    def _object(self, name: str) -> Any:
        return getattr(self._class(f"{name}$"), "MODULE$")

    @cached_property
    def _current_origin(self) -> Any:
        return self._object(f"{_TREES}.CurrentOrigin")

    @cached_property
    def _make_origin(self) -> Any:
        return self._class(f"{_TREES}.Origin")

    @cached_property
    def _mapper(self) -> Any:
        return self._class(f"{_PARSER}.PositionMapper")

    @cached_property
    def _substitution(self) -> Any:
        return self._class(f"{_PARSER}.Substitution")

    @cached_property
    def _location(self) -> Any:
        return self._class(f"{_PARSER}.ParameterLocation")

    @cached_property
    def _nil(self) -> Any:
        return self._object("scala.collection.immutable.Nil")

    @cached_property
    def _none(self) -> Any:
        return self._object("scala.None")

    @cached_property
    def _some(self) -> Any:
        return self._class("scala.Some")
