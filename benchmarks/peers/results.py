"""What a run found: measurements, answers that differ, and what was left out.

Knows nothing of systems and processes: it is made from, and written as, JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..figure import Spread


@dataclass(slots=True)
class Results:
    """The raw data of a run.

    ``about``: machine, size, versions. ``titles``: of the workloads that were begun, with their
    units. ``runs[workload][peer]``: what was measured, turn by turn. ``answers``: what the peers
    answered, by workload and turn. ``left_out[peer][workload]``: why there is nothing.
    """

    about: dict[str, Any]
    titles: dict[str, list[str]] = field(default_factory=dict)
    runs: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    answers: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)

    def begin(self, workload: str, title: str, unit: str) -> None:
        """Note a workload before its first measurement."""
        self.titles[workload] = [title, unit]
        self.runs.setdefault(workload, {})

    def measured(self, workload: str, peer: str, value: float) -> None:
        """Note a measurement."""
        self.runs[workload].setdefault(peer, []).append(value)

    def answered(self, workload: str, turn: int, peer: str, answer: Any) -> None:
        """Note an answer; None is none."""
        if answer is not None:
            turns = self.answers.setdefault(workload, {})
            turns.setdefault(str(turn), {})[peer] = answer

    def leave_out(self, workload: str, peer: str, reason: str) -> None:
        """Note why a peer has no measurement; the first reason counts."""
        self.left_out.setdefault(peer, {}).setdefault(workload, reason)

    def spreads(self, workload: str) -> dict[str, Spread]:
        """Return median and extremes by peer."""
        return {peer: Spread.over(runs) for peer, runs in self.runs[workload].items() if runs}

    def disagreements(self) -> Iterator[str]:
        """Yield a line for each turn in which not all answers were equal."""
        for workload, turns in self.answers.items():
            for turn, answers in turns.items():
                if any(answer != next(iter(answers.values())) for answer in answers.values()):
                    told = ", ".join(f"{peer} {answer}" for peer, answer in answers.items())
                    yield f"{workload}, turn {turn}: {told}"

    @property
    def compared(self) -> int:
        """The number of turns in which at least two systems answered."""
        turns = [answers for turns in self.answers.values() for answers in turns.values()]
        return sum(len(answers) > 1 for answers in turns)

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "about": self.about,
            "titles": self.titles,
            "runs": self.runs,
            "answers": self.answers,
            "left_out": self.left_out,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Results:
        """Return what `to_json` made."""
        return cls(**content)
