"""A figure: a measurement, its baseline, and the bound that is asked of it.

Does not know: how anything was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any


class Comparison(Enum):
    """How ours and the baseline are compared, and whether more or less is better."""

    RATE = "of its rate"
    TIME = "times its time"
    EXTRA = "more"
    ALONE = "by itself"
    RATE_ALONE = "by itself, at least"

    def of(self, ours: float, baseline: float) -> float:
        """Return the number that is compared with the bound."""
        if self is Comparison.EXTRA:
            return ours - baseline
        return ours if self.is_alone else ours / baseline

    @property
    def is_alone(self) -> bool:
        """Whether there is no baseline."""
        return self in (Comparison.ALONE, Comparison.RATE_ALONE)

    @property
    def is_of_rates(self) -> bool:
        """Whether more is better."""
        return self in (Comparison.RATE, Comparison.RATE_ALONE)

    def is_met(self, compared: float, asked: float) -> bool:
        """Return whether the number compared is at least as good as the number asked."""
        return compared >= asked if self.is_of_rates else compared <= asked


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing, by their median and their extremes."""

    middle: float
    least: float
    most: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(median(values), min(values), max(values))

    def to_json(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return {"median": self.middle, "least": self.least, "most": self.most}


@dataclass(frozen=True, slots=True)
class Samples:
    """What was measured of ours and of the baseline, in turns: ``baseline[i]`` beside ``ours[i]``.

    A figure without a baseline has none.
    """

    ours: tuple[float, ...]
    baseline: tuple[float, ...] = ()

    def scaled(self, factor: float) -> Samples:
        """Return the measurements in another unit."""
        return Samples(
            tuple(value * factor for value in self.ours),
            tuple(value * factor for value in self.baseline),
        )

    def rates(self, count: float) -> Samples:
        """Return how many of ``count`` things were done in a unit of what was measured."""
        return Samples(
            tuple(count / value for value in self.ours),
            tuple(count / value for value in self.baseline),
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result.

    ``case`` says what of the workload was measured, ``against`` what the baseline did. ``asked``
    is a bound of the comparison, None where there is none.
    """

    workload: str
    case: str
    unit: str
    samples: Samples
    comparison: Comparison
    against: str
    asked: float | None = None

    @property
    def ours(self) -> Spread:
        """What was measured of ours."""
        return Spread.over(self.samples.ours)

    @property
    def baseline(self) -> Spread | None:
        """What was measured of the baseline, if there is one."""
        return Spread.over(self.samples.baseline) if self.samples.baseline else None

    @property
    def compared(self) -> float:
        """The medians of both sides, compared."""
        return self.comparison.of(self.ours.middle, self.baseline.middle if self.baseline else 0.0)

    @property
    def spread(self) -> Spread:
        """The comparisons of the single turns."""
        baseline = self.samples.baseline or (0.0,) * len(self.samples.ours)
        return Spread.over(
            [self.comparison.of(*pair) for pair in zip(self.samples.ours, baseline, strict=True)]
        )

    @property
    def met(self) -> bool | None:
        """Whether the figure is as asked; None if nothing is."""
        return None if self.asked is None else self.comparison.is_met(self.compared, self.asked)

    def to_json(self) -> dict[str, Any]:
        """Return all of the figure, single measurements included."""
        return {
            "workload": self.workload,
            "case": self.case,
            "unit": self.unit,
            "ours": self.ours.to_json() | {"runs": self.samples.ours},
            "baseline": self.baseline
            and self.baseline.to_json() | {"runs": self.samples.baseline, "is": self.against},
            "comparison": self.comparison.value,
            "found": self.compared,
            "spread": self.spread.to_json(),
            "asked": self.asked,
            "met": self.met,
        }
