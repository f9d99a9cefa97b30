"""The options of the example: what makes no sense is refused before anything is written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("option", "value"),
    [("--days", "0"), ("--days", "-3"), ("--days", "few"), ("--since", "2015-01-01")],
)
def test_a_wrong_number_of_days_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
) -> None:
    """``--days`` must be a whole number of at least one, ``--since`` a day of the year."""
    import flights

    monkeypatch.setattr(sys, "argv", ["flights.py", "--store", f"{tmp_path}/s", option, value])
    with pytest.raises(SystemExit) as refused:
        flights.main()

    assert refused.value.code == 2
    assert option in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
