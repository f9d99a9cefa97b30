"""A daemon for the Python workers of tasks, which imports what these need before it forks them.

    spark.python.daemon.module = relstate.connector.spark.worker_daemon

Spark's own daemon forks workers that have imported next to nothing. So each imports PySpark's
worker, pyarrow, pandas and relstate by itself, when it is first used and again after a minute
without work, which ends workers. And Spark puts PySpark first on their path as an archive without
compiled files: each process that imports a module of it compiles it.

Promises: the workers run the same code as without this module: the archive is left out only for the
PySpark that it is a part of.
Does not know: the processes in which data sources are planned, which Spark forks by its own daemon
whatever the setting says.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import PurePath

import pyarrow as pa

# Where a distribution has the archive of its modules.
_ARCHIVE = PurePath("python", "lib", "pyspark.zip")
# The worker itself, with what it imports in a task; then what reads and writes import.
_NEEDED = (
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "relstate.connector.source.read",
    "relstate.connector.sink.write",
    "relstate.storage.table.tablewriter",
)


def without_archive(path: Sequence[str]) -> list[str]:
    """Return a module search path without the archive of the PySpark that is installed in it."""
    folders = [entry for entry in path if not _is_archive(entry)]
    installed = PathFinder.find_spec("pyspark", folders)
    homes = [] if installed is None else [*(installed.submodule_search_locations or ())]
    archives = {str(PurePath(home) / _ARCHIVE) for home in homes}
    return [entry for entry in path if entry not in archives]


def _is_archive(entry: str) -> bool:
    return PurePath(entry).parts[-len(_ARCHIVE.parts) :] == _ARCHIVE.parts


def import_needed(names: Iterable[str] = _NEEDED) -> None:
    """Import modules, and keep what they made out of garbage collections.

    A collection writes into each object that it visits: the workers would share no memory.
    """
    for name in names:
        import_module(name)
    # At the first conversion pyarrow imports pandas, if it is there.
    pa.array([0])
    gc.collect()
    gc.freeze()


def main() -> None:
    """Run Spark's daemon; Spark starts this module with the name of the worker's as argument."""
    sys.path[:] = without_archive(sys.path)
    import_needed()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
