"""The public interface is that of the last release, but for what the changelog names."""

from __future__ import annotations

import re
import subprocess
import sys

from support.sources import ROOT

RECORDED = ROOT / "tests" / "public_interface.txt"


def unreleased() -> str:
    """Return what the changelog says of the next release; nothing right after one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("\n## Unreleased\n")[2].split("\n## ")[0]


def name_of(line: str) -> str:
    """Return the name that a line of the interface is about, without its parameters."""
    names = re.findall(r"[\w-]*\w", line.partition("(")[0])
    return str(names[-1])


def test_what_is_public_changes_only_with_a_word_in_the_changelog() -> None:
    """Write what changes for callers below *Unreleased*; the record is renewed at a release."""
    script = ROOT / "scripts" / "public_interface.py"
    run = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    now, recorded = set(run.stdout.splitlines()), set(RECORDED.read_text().splitlines())
    text = unreleased()

    unnamed = [
        line
        for line in sorted(now ^ recorded)
        if not re.search(rf"(?<![\w-]){re.escape(name_of(line))}(?![\w-])", text)
    ]

    assert unnamed == []
    assert len(now) > 500
