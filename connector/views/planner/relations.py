"""A query of Spark over frames that it names, instead of tables.

Does not know: where the rows of the frames are from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from relstate.connector.syntax.parsed_query import ParsedQuery


def query_over(session: SparkSession, query: str, relations: Mapping[str, DataFrame]) -> DataFrame:
    """Return a query over relations with names."""
    parsed = ParsedQuery.parse(query)
    names = {name.lower(): name for name in relations}
    references = parsed.table_references(lambda name, as_of: name.lower() in names)
    if not references:
        # Without relations the text is not a template: Spark leaves its braces as they are.
        return session.sql(query)
    fields = {name: f"relation_{position}" for position, name in enumerate(names)}
    template = parsed.replaced(references, [fields[own.name.lower()] for own in references])
    frames: dict[str, Any] = {fields[name]: relations[names[name]] for name in names}
    return session.sql(template, **frames)
