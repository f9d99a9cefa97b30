"""Drivers of Spark, each a process with a folder of its own, that call functions for a test."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from .processes import end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Driver:
    """A process with a session of Spark. Used as a context.

    The functions that it calls take the session first. They are those of modules, which the process
    imports by their names.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        remote: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``settings``: of the session; ``remote``: the address of a server of Spark Connect.

        ``variables``: of the process's environment, beside a cache of its own.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**(variables or {}), "RELSTATE_CACHE_FOLDER": str(folder / "cache")}
        self._pool = ProcessPoolExecutor(
            1, get_context("spawn"), _begin, (str(folder), environment, dict(settings), remote)
        )
        self._process = self._pool.submit(os.getpid)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # it may have been killed
            self.run(_end)
        self._pool.shutdown()

    def run(
        self,
        function: Callable[Concatenate[SparkSession, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Return what a function returns for the session and arguments.

        AssertionError with the text of what it raises; BrokenProcessPool if the driver is killed.
        """
        return self.start(function, *args, **kwargs).result()

    def start(
        self,
        function: Callable[Concatenate[SparkSession, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Begin to call a function, and return what will have its result."""
        return self._pool.submit(_call, function, args, kwargs)

    def kill(self) -> None:
        """Kill the process and its JVM, without a chance to do anything more."""
        end(self._process.result(), signal.SIGKILL)


_session: list[SparkSession] = []


def _begin(
    folder: str, environment: dict[str, str], settings: dict[str, str], remote: str | None
) -> None:
    # The JVM writes what it logs to this process's output; the tests show it only where one fails.
    os.chdir(folder)
    os.environ.update(environment)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder if remote is None else SparkSession.builder.remote(remote)
    _session.append(builder.config(map={**settings}).getOrCreate())


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return function(_session[0], *args, **kwargs)
    except Exception:
        # Those of Spark cannot be sent to another process.
        raise AssertionError(traceback.format_exc()) from None


def _end(spark: SparkSession) -> None:
    spark.stop()
