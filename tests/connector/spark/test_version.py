"""The laws of the versions of Spark that relstate works with."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.connector.source import RelstateDataSource
from relstate.connector.spark import version
from relstate.connector.spark.version import check_version, pyspark_version, session_version
from relstate.storage import Store, errors
from support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_REFUSAL = r"this is Spark {}, and relstate works with Spark 4\.1 to 4\.3: pip install '{}'"


@pytest.mark.parametrize("name", ["4.1.0", "4.1.4", "4.2.1", "4.3.0.dev1", "4.3.0-SNAPSHOT"])
def test_a_version_in_the_range_is_taken(name: str) -> None:
    """Whatever a vendor appends to it."""
    check_version(name)


@pytest.mark.parametrize("name", ["3.5.6", "4.0.3", "4.4.0", "5.0.0", "unknown"])
def test_a_version_out_of_the_range_is_refused(name: str) -> None:
    """In one sentence, with what to install: what pip installs with relstate."""
    (range_of_pip,) = [text for text in _PROJECT["dependencies"] if text.startswith("pyspark")]

    with pytest.raises(errors.SessionError, match=_REFUSAL.format(name, range_of_pip)):
        check_version(name)


def test_nothing_runs_in_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what needs Spark's modules is imported, nor a data source made."""
    monkeypatch.setattr(version, "pyspark_version", lambda: "4.0.1")
    monkeypatch.delitem(vars(relstate), "connect", raising=False)
    monkeypatch.delitem(sys.modules, "relstate.connector.sql", raising=False)

    for use in (lambda: relstate.connect, lambda: RelstateDataSource({})):
        with pytest.raises(errors.SessionError, match=r"this is Spark 4\.0\.1"):
            use()
    assert "relstate.connector.sql" not in sys.modules


def test_the_thin_client_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks modules; the sentence says what to install, which works over Spark Connect, too."""
    monkeypatch.setattr(version, "find_spec", lambda _: None)
    monkeypatch.delitem(vars(relstate), "connect", raising=False)

    with pytest.raises(
        errors.SessionError, match=r"pyspark-client .* 'pyspark\[connect\]>=4\.1,<4\.4'"
    ):
        _ = relstate.connect


def test_a_session_of_another_version_is_refused(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of Spark Connect may have another version than PySpark."""
    assert session_version(spark) == pyspark_version()

    monkeypatch.setitem(version._versions, spark, "4.4.0")
    with pytest.raises(errors.SessionError, match=r"this is Spark 4\.4\.0"):
        relstate.connect(spark, store.path)
