"""The settings of a session of Spark on which the rows of a view depend: they are stored with it.

All that the user has changed are stored but those that say how Spark works, and not what a query
gives, as Spark stores them for its own views (`CapturesConfig` in Spark).

Promises: a setting that is not stored changes no row of a view.
Does not know: views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error
from relstate.storage import errors

ANSI = "spark.sql.ansi.enabled"
CASE_SENSITIVE = "spark.sql.caseSensitive"
# They are always stored.
_DEFAULTS = {"spark.sql.session.timeZone": "UTC", ANSI: "true"}
_SQL = "spark.sql."


def _names(text: str) -> list[str]:
    return [f"{_SQL}{name}" for name in text.split()]


# The beginnings of the names of settings that are not stored: first those of Spark's own list, then
# of files, sources and tables that no view reads, of displays, and of joins and caches. A view
# always has the type TIME.
_DENIED = tuple(
    _names("""
        view.maxNestedViewDepth optimizer. codegen. execution. shuffle. adaptive. hive.
        additionalRemoteRepositories maven. analyzer.singlePassResolver.
        catalog defaultCatalog defaultPath extensions files. orc. parquet. sources. streaming.
        pipelines. warehouse. artifact. connect. classic. pyspark. planner. metadataCache
        cli. debug. error. event ui. repl. redaction. stackTraces maxPlanStringLength
        maxMetadataStringLength queryExecutionListeners thriftserver. thriftServer.
        autoBroadcastJoinThreshold broadcast cache. cbo. defaultCacheStorageLevel
        inMemoryColumnarStorage. join. leafNodeDefaultParallelism session.localRelation statistics.
        timeType.enabled
    """)
)
READING = frozenset(
    _names("""
        caseSensitive groupByAliases groupByOrdinal orderByOrdinal
        lateralColumnAlias.enableImplicitResolution legacy.ctePrecedencePolicy
        legacy.duplicateBetweenInput legacy.groupingIdWithAppendedUserGroupBy
        legacy.integerGroupingId legacy.parser.havingWithoutGroupByAsWhere
        legacy.setopsPrecedence.enabled parser.quotedRegexColumnNames timestampType
    """)
)
"""The settings that say what the names, positions and clauses in the text of a query mean.

relstate reads a query as by default, and refuses one that means something else under them.
"""
_ENTRY_SEPARATOR, _VALUE_SEPARATOR = "\x01", " -> "


def stored_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session that a view created in it keeps."""
    changed = {
        name: value
        for name, value in _changed_settings(spark).items()
        if is_stored(name) and spark.conf.isModifiable(name)
    }
    always = {name: str(spark.conf.get(name, default)) for name, default in _DEFAULTS.items()}
    return changed | always


def is_stored(name: str) -> bool:
    """Return whether a view keeps a setting if the user has changed it."""
    return name.startswith(_SQL) and not name.startswith(_DENIED)


def is_complete(settings: Mapping[str, str]) -> bool:
    """Return whether settings are such as `stored_settings` returns."""
    has_names = settings.keys() >= _DEFAULTS.keys() and all(map(is_stored, settings))
    return has_names and all(isinstance(value, str) for value in settings.values())


def apply_settings(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Give a session settings, and all others that a view could keep their defaults.

    SessionError if this Spark does not take one of them.
    """
    for name in stored_settings(session).keys() - settings.keys():
        session.conf.unset(name)
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            raise errors.SessionError(
                f"a view was created under the setting {name} = {value!r}, which this Spark does "
                f"not take ({describe_error(error)}): use the version of Spark that created the "
                "view, or create the view again"
            ) from None


def without_reading(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings without those that say what the text of a query means."""
    return {name: value for name, value in settings.items() if name not in READING}


def differing_settings(
    left: Mapping[str, str], right: Mapping[str, str], spark: SparkSession
) -> Iterator[tuple[str, str, str]]:
    """Yield the settings, each with both values, in which two sessions of one Spark differ.

    ``spark``: any session of it; what one of them has not changed is as by default.
    """
    defaults: dict[str, str] = {}
    if unequal := sorted(
        name for name in left.keys() | right.keys() if left.get(name) != right.get(name)
    ):
        session = spark.newSession()
        for name in unequal:
            session.conf.unset(name)
            defaults[name] = _default_of(session, name)
    for name in unequal:
        values = left.get(name, defaults[name]), right.get(name, defaults[name])
        if values[0] != values[1]:
            yield name, *values


def _default_of(session: SparkSession, name: str) -> str:
    # Spark takes the word for a value of the setting, and refuses it where a number is expected.
    try:
        return str(session.conf.get(name))
    except PySparkException:
        return "unset"


def _changed_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings that were given a value, in this session or when Spark was started."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        return dict(spark.conf.getAll)
    # In one call: RuntimeConfig.getAll makes one for each setting, 100 ms in all.
    text = str(session.sessionState().conf().getAllConfs().mkString(_ENTRY_SEPARATOR))
    pairs = (entry.partition(_VALUE_SEPARATOR) for entry in text.split(_ENTRY_SEPARATOR))
    return {name: value for name, separator, value in pairs if separator}
