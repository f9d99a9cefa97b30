"""What not every supported version of Spark can do, by name.

The code asks whether a version has a capability, and never for the number of the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .version import session_version, version_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that Spark can do from a minor version on.

    ``name``: the subject of the sentence that refuses it.
    """

    name: str
    since: tuple[int, int]

    def is_in(self, version: str) -> bool:
        """Return whether a version of Spark has it."""
        return version_numbers(version) >= self.since

    def is_in_session(self, spark: SparkSession) -> bool:
        """Return whether the Spark of a session has it."""
        return self.is_in(session_version(spark))

    def lack(self, version: str) -> str | None:
        """Return the sentence that says what a version lacks; None if it has the capability."""
        if self.is_in(version):
            return None
        major, minor = self.since
        return f"{self.name} needs Spark {major}.{minor} or newer, and this is Spark {version}"


# SQL

QUALIFY = Capability("QUALIFY", (4, 2))
SINGLE_PIPES = Capability("the pipe | in place of |>", (4, 2))
ASOF_JOIN = Capability("ASOF JOIN", (4, 3))
RECURSIVE_VIEWS = Capability("a view with WITH RECURSIVE", (4, 2))
"""Spark tells of two plans with a recursion whether they are the same."""

# Python data sources

MICRO_BATCH_LIMITS = Capability("maxEpochsPerTrigger", (4, 2))
"""A stream is told from where the next micro-batch starts, and how much of it to take."""

# Private names of PySpark and of the JVM, used by `arrow_transfer`, and their rows

ZONED_ARROW_SCHEMA = Capability("a schema of Arrow in a time zone", (4, 2))
COMPLETE_OFFSETS = Capability("an empty array inside of an array of Arrow", (4, 2))
CLOSED_SOCKETS = Capability("the end of a socket by which PySpark collects rows", (4, 2))
CHECKPOINTED_INPUT = Capability("a relation over the checkpoint of an input", (4, 3))
