"""A listener of a stream of views that remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relstate.connector.commits import Commit
from relstate.connector.views.listener import ViewStreamListener


class Recorder(ViewStreamListener):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_commit(self, commit: Commit) -> None:
        self.heard.append(commit)

    def on_refresh(self, progress: Mapping[str, Any]) -> None:
        self.heard.append(dict(progress))

    def on_failure(self, view: str, error: Exception) -> None:
        self.heard.append(("failure", view, str(error)))

    def on_end(self, error: BaseException | None) -> None:
        self.heard.append(("end", error))
