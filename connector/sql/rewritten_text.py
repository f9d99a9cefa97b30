"""The frame of a query whose tables are frames, and of which Spark quotes the text as written.

Promises: nothing is left in the session. Over Spark Connect the text that errors quote has names
that PySpark gives the frames, because the server alone knows what it parses.
Does not know: what the frames read, or what is changed in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from relstate.connector.spark.quoted_text import TextQuotes
from relstate.connector.syntax.parsed_query import Edit, ParsedQuery, TableReference
from relstate.connector.views.sessions import is_classic

# `next` of it is atomic: sessions may be used by several threads.
_NUMBERS = count()


class RewrittenTexts:
    """Makes the frames of queries in one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._quotes = TextQuotes(spark) if is_classic(spark) else None

    def frame_of(
        self,
        query: ParsedQuery,
        relations: Sequence[tuple[TableReference, DataFrame]],
        edits: Sequence[Edit],
    ) -> DataFrame:
        """Return the rows of a query.

        ``relations``: its references, ascending, and what each of them reads; ``edits``: other
        changes of its text. Errors are Spark's.
        """
        references = [reference for reference, _ in relations]
        frames = [frame for _, frame in relations]
        if self._quotes is None:
            fields: dict[str, Any] = {
                f"relation_{number}": frame for number, frame in enumerate(frames)
            }
            return self._spark.sql(query.replaced(references, list(fields), edits), **fields)
        with self._views(frames) as names:
            changes = query.changes(references, names, edits)
            text = changed_text(query.text, changes)
            with self._quotes.of(query.text, text, changes):
                return self._spark.sql(text)

    @contextmanager
    def _views(self, frames: Sequence[DataFrame]) -> Iterator[list[str]]:
        """Yield the names of temporary views of some frames."""
        names: list[str] = []
        try:
            for frame in frames:
                name = f"_relstate_{next(_NUMBERS):x}"
                frame.createOrReplaceTempView(name)
                names.append(name)
            yield names
        finally:
            for name in names:
                self._spark.catalog.dropTempView(name)


def changed_text(text: str, changes: Sequence[Edit]) -> str:
    """Return a text with some changes, in order."""
    parts: list[str] = []
    end = 0
    for change in changes:
        parts += [text[end : change.start], change.text]
        end = change.end
    return "".join([*parts, text[end:]])
