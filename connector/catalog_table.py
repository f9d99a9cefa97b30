"""Tables of Spark's catalog: how they store the path of their rows.

Spark 4.3 passes the options of ``CREATE TABLE … USING relstate OPTIONS (…)`` to the source once,
when it asks for the schema, and never again. So the schema has them in the metadata of its first
field, which the catalog stores and passes to every read of the table.

A write must not use them. For ``INSERT INTO b SELECT * FROM a`` between two such tables, Spark
passes the metadata of ``a``, so the rows would be written to the table they came from. Writes name
path and table themselves, and are refused otherwise.

Does not know: which options there are, except which may be credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from pyspark.sql.types import StructField, StructType

from relstate.connector.storage_options import is_secret_option
from relstate.storage import errors

METADATA_KEY = "relstate"
_OPTION_PREFIX = "option."


def is_definition(options: Mapping[str, str]) -> bool:
    """Return whether these are the properties of a CREATE TABLE, not the options of a read."""
    return "provider" in options


def definition_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options among the properties of a CREATE TABLE, which Spark mixes."""
    options = {
        key[len(_OPTION_PREFIX) :]: value
        for key, value in properties.items()
        if key.startswith(_OPTION_PREFIX)
    }
    if "path" in properties:
        options["path"] = properties["path"]
    return options


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return ``schema`` with options that `stored_options` returns.

    OptionError for credentials: the catalog shows the schema, and files that Spark writes have it.
    """
    secrets = [name for name in options if is_secret_option(name)]
    if secrets:
        raise errors.OptionError(
            f"a table of Spark's catalog keeps its options where others can read them: leave out "
            f"{', '.join(map(repr, secrets))}, and give credentials by roles of the machines or by "
            "the environment's variables"
        )
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), METADATA_KEY: dict(options)}
    carrier = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([carrier, *rest])


def stored_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read; they replace those that the catalog has for the table.

    OptionError if there is neither a path nor a table.
    """
    merged = {**_options_of(schema), **options}
    if _lacks_path_and_table(merged):
        raise errors.OptionError(
            "options 'path' and 'table' are missing. A table of Spark's catalog has them in the "
            "columns that relstate returns, so create it without a list of columns: "
            "CREATE TABLE t USING relstate OPTIONS (path '…', `table` '…')"
        )
    return merged


def check_destination(options: Mapping[str, str]) -> None:
    """OptionError if a write names no path, as one to a table of the catalog, old or new."""
    if "path" not in options:
        raise errors.OptionError(
            "option 'path' is missing, nothing was written: write with .format('relstate')"
            ".option('table', …).mode('append').save(path). saveAsTable, writeTo(…).create() and "
            "CREATE TABLE … AS SELECT cannot create a table of Spark's catalog over relstate; for "
            "one that is there Spark does not pass its path on: INSERT INTO t WITH (path = '…', "
            "`table` = '…') …"
        )


def refuse_creation() -> NoReturn:
    """Raise the OptionError of a write that would create a table of Spark's catalog."""
    raise errors.OptionError(
        "saveAsTable, writeTo(…).create() and CREATE TABLE … AS SELECT cannot create a table of "
        "Spark's catalog over relstate, because Spark does not keep its path and nobody could read "
        "it; nothing was written. Write with .format('relstate').option('table', …)"
        ".mode('append').save(path), then CREATE TABLE t USING relstate OPTIONS (path '…', `table` "
        "'…')"
    )


def _lacks_path_and_table(options: Mapping[str, str]) -> bool:
    return "path" not in options and "table" not in options


def _options_of(schema: StructType) -> dict[str, str]:
    for field in schema.fields:
        options = (field.metadata or {}).get(METADATA_KEY)
        if isinstance(options, dict):
            return options
    return {}
