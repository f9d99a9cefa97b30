"""Commands of the program `relstate`, run in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from relstate.connector.cli.program import program


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """The JSON document that is all of the output."""
        return json.loads(self.output)

    @property
    def lines(self) -> list[Any]:
        """The JSON values that are the lines of the output."""
        return [json.loads(line) for line in self.output.splitlines()]


def run(*words: str) -> Ended:
    """Run a command as a shell does."""
    result = CliRunner().invoke(program, words)
    return Ended(result.exit_code, result.stdout, result.stderr)
