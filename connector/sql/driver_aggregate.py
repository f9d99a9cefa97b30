"""Aggregates that the driver adds up by itself, in threads, because a job would take longer.

What is read is known when a query is planned. A job of Python tasks takes some tenths of a second
before the first row is read; the driver reads what it may read here in about the same time.

Does not know: how partial rows are added up, or what Spark does with them.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from relstate.connector.parallelism import driver_threads
from relstate.connector.types import passes_as_is
from relstate.storage import AddedUp, AggregatePlan, add_up_in_threads, types

THREAD_BYTES = 192 << 20
"""Stored bytes that a thread of the driver examines at most for a query."""
# Groups that tasks add up, and that the driver does.
_MOST_GROUPS_OF_TASKS = 131_072
_MOST_GROUPS = 3 << 19


class DriverAggregates:
    """What the driver adds up for one query, of all its references together no more than it may."""

    def __init__(self, spark: SparkSession) -> None:
        self._threads = driver_threads(spark)
        self._bytes_left = self._threads * THREAD_BYTES

    def pays(self, plan: AggregatePlan) -> bool:
        """Return whether to add up takes less than to send rows, here or in tasks."""
        groups = plan.estimated_groups
        if groups <= _MOST_GROUPS_OF_TASKS:
            return True
        return groups <= _MOST_GROUPS and self._takes(plan)

    def _takes(self, plan: AggregatePlan, size: int | None = None) -> bool:
        """Return whether the driver may read what a plan examines, by default all of its table."""
        if not all(_passes_as_is(field.type) for field in plan.aggregate.fields):
            return False
        size = plan.plan.stored_bytes if size is None else size
        return size <= self._bytes_left and plan.plan.is_on_this_machine()

    def partials_of(self, plan: AggregatePlan) -> AddedUp | None:
        """Return the partial rows of all rows of a plan; None if tasks have to add them up.

        They have to where there is too much to read, or too many groups, or the files are not
        here. Rows that the log alone knows are not read.
        """
        partials = plan.known()
        if partials is not None:
            return AddedUp(partials)
        size = plan.plan.examined_bytes()
        if not self._takes(plan, size):
            return None
        self._bytes_left -= size
        return add_up_in_threads(plan, self._threads)


def _passes_as_is(data_type: types.DataType) -> bool:
    """Return whether Spark takes partial values of a type unchanged; moments are a struct."""
    if isinstance(data_type, types.Struct):
        return all(passes_as_is(field.type) for field in data_type.fields)
    return passes_as_is(data_type)
