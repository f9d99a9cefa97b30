"""All that is looked at, in one order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..surroundings import Surroundings
from .discovery import judge_discovery
from .finding import Finding
from .interpreter import assign_roles, judge_roles
from .spark import judge_java, judge_spark_home, spark_libraries
from .store import judge_store


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings; ``ok`` says that none of them is a problem."""

    ok: bool
    findings: tuple[Finding, ...]


def diagnose(surroundings: Surroundings, path: str | None) -> Diagnosis:
    """Return what is found around a process, and, with a ``path``, of the store there."""
    findings = tuple(_findings(surroundings, path))
    return Diagnosis(all(one.status != "problem" for one in findings), findings)


def _findings(surroundings: Surroundings, path: str | None) -> Iterator[Finding]:
    libraries = spark_libraries(surroundings)
    driver, source, worker = assign_roles(surroundings, libraries)
    yield from judge_roles(driver, source, worker)
    yield from judge_discovery(surroundings, source, libraries)
    yield judge_spark_home(surroundings, driver)
    yield judge_java(surroundings)
    if path is not None:
        yield from judge_store(surroundings, path)
