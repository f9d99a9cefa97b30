"""The laws of what relstate needs."""

from __future__ import annotations

import tomllib

import pytest

from relstate.connector.cli.diagnosis.requirement import LEAST_PYTHON, REQUIREMENTS, numbers_of
from support.sources import ROOT

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_doctor_asks_for_what_pip_installs() -> None:
    """The requirements are those of the distribution, to the letter."""
    assert sorted(map(str, REQUIREMENTS)) == sorted(_PROJECT["dependencies"])
    assert numbers_of(_PROJECT["requires-python"].removeprefix(">=")) == LEAST_PYTHON


@pytest.mark.parametrize(
    ("version", "admitted"),
    [("4.2.9", False), ("4.3.0", True), ("4.3.1.dev0", True), ("4.4.0", False), ("", False)],
)
def test_a_version_is_admitted_between_the_bounds(version: str, admitted: bool) -> None:
    """From the least on, and below the first that is too new."""
    (pyspark,) = [one for one in REQUIREMENTS if one.module == "pyspark"]

    assert pyspark.admits(version) == admitted
