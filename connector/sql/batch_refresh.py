"""The refresh of a view after each micro-batch of a stream.

Promises: all micro-batches of a stream use one store and one session of Spark.
Does not know: what the micro-batches write.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from relstate.connector.views.views import Views
from relstate.storage import Store


class BatchRefresh:
    """Refreshes one view. Pickled, as Spark Connect needs, it opens the store at its first call."""

    def __init__(self, path: str, name: str, views: Views | None = None) -> None:
        """``path``: the store; ``views``: its views, if this process has them."""
        self._path = path
        self._name = name
        self._views = views

    def __call__(self, session: SparkSession) -> None:
        """Refresh the view; ``session``: that of the stream."""
        if self._views is None:
            self._views = Views(session, Store.open(self._path))
        self._views.refresh([self._name])

    def __reduce__(self) -> tuple[type[BatchRefresh], tuple[Any, ...]]:
        """Leave out what belongs to a process."""
        return BatchRefresh, (self._path, self._name)
