"""The settings of a session of Spark that say how it reads conditions and adds up values.

Promises: a setting is read once, at its first use.
Does not know: what a query needs them for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from relstate.connector.failure import unwrap_errors
from relstate.connector.spark.capabilities import SINGLE_PIPES
from relstate.storage import errors
from relstate.vnode import cached_property

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = "TIMESTAMP_LTZ"


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session that say how it reads conditions.

    Every setting is read once, at its first use; so the class has no slots.
    """

    spark: SparkSession

    @cached_property
    def time_zone(self) -> str:
        """The time zone of its timestamps without one."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    @cached_property
    def is_ansi(self) -> bool:
        """Whether it is in ANSI mode."""
        return self._is("spark.sql.ansi.enabled", "true")

    @cached_property
    def is_adaptive(self) -> bool:
        """Whether Spark chooses the number of partitions after a shuffle by their bytes."""
        return self._is("spark.sql.adaptive.enabled", "true")

    @cached_property
    def reads_conditions(self) -> bool:
        """Whether a condition means the same to the session and to a read.

        It does in ANSI mode, with the literals of Spark's own dialect, and where TIMESTAMP is the
        type with the session's time zone.
        """
        timestamp = self.spark.conf.get("spark.sql.timestampType", _TIMESTAMP)
        return (
            self.is_ansi
            and str(timestamp).upper() == _TIMESTAMP
            and not self._is("spark.sql.parser.escapedStringLiterals", "false")
            and not self._is("spark.sql.ansi.doubleQuotedIdentifiers", "false")
        )

    @cached_property
    def divides_decimals(self) -> bool:
        """Whether quotients of decimals have the digits that they have by default."""
        return self._is("spark.sql.decimalOperations.allowPrecisionLoss", "true")

    @cached_property
    def has_null_deviations(self) -> bool:
        """Whether the deviation of a sample of one value is NULL, as by default."""
        return not self._is("spark.sql.legacy.statisticalAggregate", "false")

    @cached_property
    def has_single_pipes(self) -> bool:
        """Whether ``|`` before the word of an operator is ``|>``, as by default."""
        return SINGLE_PIPES.is_in_session(self.spark) and self._is(
            "spark.sql.parser.singleCharacterPipeOperator.enabled", "true"
        )

    def instant(self, literal: str) -> datetime:
        """Return the instant that a text, a literal of SQL, is as a TIMESTAMP in the session.

        UnsupportedStatementError for a text that is not a time.
        """
        with unwrap_errors():
            query = self.spark.sql(f"SELECT unix_micros(try_cast({literal} AS TIMESTAMP_LTZ))")
            micros = query.collect()[0][0]
        if micros is None:
            raise errors.UnsupportedStatementError(
                f"TIMESTAMP AS OF {literal}: this is not a time; write one such as '2026-03-01', "
                "'2026-03-01 08:30:00' or '2026-03-01T08:30:00+01:00'"
            )
        return _BEGINNING + timedelta(microseconds=micros)

    def _is(self, name: str, default: str) -> bool:
        return str(self.spark.conf.get(name, default)).lower() == "true"
