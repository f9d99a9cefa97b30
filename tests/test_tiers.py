"""Every test is in one tier, which follows from its fixtures and its recorded duration."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from hypothesis import settings

from support.examples import QUICK, THOROUGH, examples
from support.sources import ROOT
from support.tiers import SLOW, SLOW_WITH_SPARK, markers_of

_REPORT = """
<testsuites><testsuite>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_y[1-b]" time="2.5"/>
<testcase classname="tests.a.test_x.TestZ" file="tests/a/test_x.py" name="runTest" time="0.75"/>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_quick" time="0.01"/>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_s" time="9"><skipped/></testcase>
</testsuite></testsuites>
"""  # noqa: E501


@pytest.fixture
def script() -> ModuleType:
    """The program that records durations."""
    spec = util.spec_from_file_location("durations", ROOT / "scripts" / "durations.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("fixtures", "seconds", "markers"),
    [
        ((), None, ()),
        ((), SLOW, ()),
        ((), SLOW + 0.1, ("slow",)),
        (("store", "spark"), None, ("spark",)),
        (("year",), None, ("slow",)),
        (("spark",), SLOW_WITH_SPARK, ("spark",)),
        (("spark",), SLOW_WITH_SPARK + 0.1, ("spark", "slow")),
    ],
)
def test_markers_follow_from_fixtures_and_durations(
    fixtures: tuple[str, ...], seconds: float | None, markers: tuple[str, ...]
) -> None:
    """A test may take longer with Spark; one that was never measured is not slow."""
    durations = {} if seconds is None else {"tests/test_x.py::test_y": seconds}

    assert markers_of("tests/test_x.py::test_y", fixtures, durations) == markers


@pytest.mark.parametrize(
    ("fixtures", "is_random", "markers"),
    [
        ((), True, ("law",)),
        (("seed",), False, ("law",)),
        (("spark", "seeds"), False, ("spark", "law")),
    ],
)
def test_random_cases_make_a_law(
    fixtures: tuple[str, ...], is_random: bool, markers: tuple[str, ...]
) -> None:
    """Whether hypothesis draws them, or a seed."""
    assert markers_of("tests/test_x.py::test_y", fixtures, {}, is_random=is_random) == markers


def test_a_law_is_tried_on_its_share_of_the_profile_s_examples() -> None:
    """In the fast tiers on a third of what it asks for, in `make test-slow` on three times that."""
    assert settings().max_examples in (QUICK, THOROUGH)
    assert examples(100) == settings().max_examples
    assert examples(1) in (1, THOROUGH // 100)


def test_a_test_that_needs_a_timeout_of_its_own_is_slow() -> None:
    """It takes longer than any other may, whether it was measured or not."""
    assert markers_of("tests/test_x.py::test_y", (), {}, has_timeout=True) == ("slow",)


def test_this_test_is_fast(request: pytest.FixtureRequest) -> None:
    """The markers reach the tests: one that asks for no Spark and takes an instant has none."""
    assert [mark.name for mark in request.node.iter_markers()] == []


def test_the_least_duration_is_recorded(script: ModuleType) -> None:
    """Of several reports; tests in classes have their class in the name, skipped ones are not."""
    report = ElementTree.fromstring(_REPORT)
    pairs = [*script.durations_in(report), ("tests/a/test_x.py::test_y[1-b]", 2.0)]

    assert script.least_durations(pairs) == {
        "tests/a/test_x.py::test_y[1-b]": 2.0,
        "tests/a/test_x.py::TestZ::runTest": 0.75,
    }


def test_the_file_is_written(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the reports named; without one there is nothing to write."""
    monkeypatch.setattr(script, "DURATIONS", tmp_path / "durations.json")
    report = tmp_path / "report.xml"
    report.write_text(_REPORT)

    assert script.main([]) == 2
    assert script.main([str(report)]) == 0
    assert "test_y[1-b]" in (tmp_path / "durations.json").read_text()
