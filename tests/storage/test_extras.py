"""The law of the command that installs an extra: it names what there is, not an index."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import pytest

from relstate.storage import install_command


class _Distribution:
    """Stands for the installed package, with the record of where it came from."""

    def __init__(self, origin: dict[str, Any] | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        """Return the record, as pip leaves it."""
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///src/rel%20state", "dir_info": {"editable": True}},
         'pip install -e "/src/rel state[ui]"'),
        ({"url": "file:///src", "dir_info": {}}, 'pip install "/src[ui]"'),
        ({"url": "file:///dist/relstate-0.1-py3-none-any.whl", "archive_info": {}},
         'pip install "/dist/relstate-0.1-py3-none-any.whl[ui]"'),
        ({"url": "https://example.com/x.whl", "archive_info": {}}, 'pip install ".[ui]" in a'),
        (None, 'pip install ".[ui]" in a checkout, or "FILE.whl[ui]" with the wheel'),
    ],
)  # fmt: skip
def test_a_command_names_what_was_installed(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, command: str
) -> None:
    """A checkout, a folder, a wheel; else both are named."""
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: _Distribution(origin))
    assert install_command("ui").startswith(command)


def test_without_an_extra_nothing_is_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options of pip come first; a package without a record is installed from a checkout."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command(None, "--force-reinstall").startswith(
        'pip install --force-reinstall "." in a checkout'
    )
