"""The laws of which Python Spark is told to start."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from relstate.connector.source import interpreter
from relstate.connector.source.interpreter import use_driver_python


class _FakeSession:
    """A session as far as its context, which counts registrations."""

    def __init__(self, master: str = "local[2]", python: str = "python3") -> None:
        self._sc = SimpleNamespace(master=master, pythonExec=python)
        self.registered = 0


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> type[_FakeSession]:
    """Sessions of a process without PYSPARK_PYTHON, on whose PATH there is no Python."""

    def register(session: Any) -> None:
        session.registered += 1

    monkeypatch.setattr(interpreter, "_register", register)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return _FakeSession


def test_a_local_spark_runs_the_drivers_python(sessions: Any) -> None:
    """In an environment that is not activated, for functions and, once, for the data source."""
    session = sessions()

    use_driver_python(session)
    use_driver_python(session)

    assert session._sc.pythonExec == sys.executable
    assert session.registered == 1


@pytest.mark.parametrize(
    ("master", "python"),
    [("spark://host:7077", "python3"), ("local-cluster[2,1,1024]", "python3"), ("local", "/a/py")],
)
def test_a_python_that_may_be_meant_is_kept(sessions: Any, master: str, python: str) -> None:
    """One that the user named, and that of machines where the driver's may not be."""
    session = sessions(master, python)

    use_driver_python(session)

    assert (session._sc.pythonExec, session.registered) == (python, 0)


def test_an_activated_environment_is_left_alone(
    sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark finds its Python by itself."""
    monkeypatch.setenv("PATH", sys.executable.rpartition("/")[0])
    session = sessions()

    use_driver_python(session)

    assert (session._sc.pythonExec, session.registered) == ("python3", 0)
