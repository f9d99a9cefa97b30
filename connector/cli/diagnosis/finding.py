"""A finding: what one look showed, whether it is well, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` was looked at and this ``found``; ``advice`` is empty where all is well.

    A ``problem`` keeps relstate from working in Spark, a ``warning`` may.
    """

    subject: str
    status: Status
    found: str
    advice: str = ""


def well(subject: str, found: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(subject, "ok", found)


def warning(subject: str, found: str, advice: str) -> Finding:
    """Return a finding of what may go wrong."""
    return Finding(subject, "warning", found, advice)


def problem(subject: str, found: str, advice: str) -> Finding:
    """Return a finding of what is wrong."""
    return Finding(subject, "problem", found, advice)
