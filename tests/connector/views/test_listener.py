"""The laws of what hears of a stream of views."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from relstate.connector.commits import Commit, commits
from relstate.connector.views.listener import Notifier, check_listener
from relstate.connector.views.stream import Trigger, ViewStream
from relstate.storage import Store
from relstate.storage.errors import OptionError
from support.listeners import Recorder

if TYPE_CHECKING:
    from relstate.connector.views.views import Views

# A stream whose end does not come waits for ever.
_PATIENCE = 30


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with a table."""
    store.create_table("t", "k INT", primary_key=["k"])
    return store


def test_every_commit_is_told_once_in_order(filled: Store) -> None:
    """From the first after the start on; the figures are those of the history."""
    recorder = Recorder()
    notifier = Notifier(filled, recorder)
    notifier.commits()
    assert recorder.heard == []

    filled.write("t", [{"k": 1}, {"k": 2}])
    filled.delete("t", [{"k": 1}])
    notifier.commits()
    filled.write("t", [{"k": 3}])
    notifier.refresh({"epoch": 9})
    notifier.commits()
    notifier.end(None)

    newest = list(commits(filled))[:3][::-1]
    assert recorder.heard == [*newest, {"epoch": 9}, ("end", None)]
    assert [commit.rows for commit in newest] == [2, 1, 1]


def test_an_error_of_a_listener_is_logged(filled: Store, caplog: pytest.LogCaptureFixture) -> None:
    """It neither ends the stream nor keeps later calls from the listener."""

    class Broken(Recorder):
        def on_commit(self, commit: Commit) -> None:
            super().on_commit(commit)
            raise ZeroDivisionError("of the listener")

    broken = Broken()
    notifier = Notifier(filled, broken)
    filled.write("t", [{"k": 1}])
    filled.write("t", [{"k": 2}])
    notifier.commits()

    assert len(broken.heard) == 2
    assert "failed in on_commit" in caplog.text
    assert "of the listener" in caplog.text


def test_nobody_may_listen(filled: Store) -> None:
    """What is no listener is refused by the names of its methods."""
    notifier = Notifier(filled, None)
    filled.write("t", [{"k": 1}])
    notifier.refresh({})
    notifier.end(None)
    check_listener(None)
    check_listener(Recorder())
    with pytest.raises(OptionError, match="on_commit, on_refresh, on_failure and on_end"):
        check_listener(print)
    with pytest.raises(OptionError, match="the class Recorder; give an object of it"):
        check_listener(Recorder)


class StoreWithoutViews:
    """What a stream reads of views where there are none."""

    def __init__(self, store: Store) -> None:
        self.store = store


def stream_of(store: Store, listener: Recorder, *, is_once: bool = False) -> ViewStream:
    """Return a stream that is started, over a store without views."""
    views = cast("Views", StoreWithoutViews(store))
    return ViewStream(views, None, Trigger(is_once=is_once), listener=listener).start()


def test_a_method_without_a_name_may_fail(filled: Store, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged by what it is."""

    def fail(_: Commit) -> None:
        raise ZeroDivisionError("of the listener")

    listener = Recorder()
    listener.on_commit = partial(fail)  # type: ignore[method-assign]
    notifier = Notifier(filled, listener)
    filled.write("t", [{"k": 1}])
    notifier.commits()
    assert "failed in functools.partial" in caplog.text


def test_a_listener_may_stop_its_stream(filled: Store) -> None:
    """It does not wait for its own thread."""

    class Stopping(Recorder):
        def on_commit(self, commit: Commit) -> None:
            super().on_commit(commit)
            stream.stop()

    listener = Stopping()
    stream = stream_of(filled, listener)
    filled.write("t", [{"k": 1}])
    assert stream.awaitTermination(_PATIENCE)
    assert stream.exception() is None
    assert len(listener.heard) == 2
    assert listener.heard[-1] == ("end", None)


def test_an_exit_in_a_listener_is_a_failure_of_the_stream(filled: Store) -> None:
    """It ends the stream, is told to the listener, and raised by awaitTermination."""

    class Exiting(Recorder):
        def on_commit(self, commit: Commit) -> None:
            sys.exit("of the listener")

    listener = Exiting()
    stream = stream_of(filled, listener)
    filled.write("t", [{"k": 1}])
    with pytest.raises(SystemExit, match="of the listener"):
        stream.awaitTermination(_PATIENCE)
    assert isinstance(stream.exception(), SystemExit)
    assert listener.heard == [("end", stream.exception())]
    assert stream.status["message"] == "Terminated with exception: of the listener"


def test_an_exit_at_the_end_does_not_hide_it(filled: Store) -> None:
    """Whoever waits for the end is told."""

    class Exiting(Recorder):
        def on_end(self, error: BaseException | None) -> None:
            sys.exit("at the end")

    stream = stream_of(filled, Exiting(), is_once=True)
    with pytest.raises(SystemExit, match="at the end"):
        stream.awaitTermination(_PATIENCE)
    assert not stream.isActive
