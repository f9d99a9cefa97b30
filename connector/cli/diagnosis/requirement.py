"""Which versions of which modules relstate needs; pyproject.toml says the same to pip."""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A module, the least version of it that is needed, and the first that is too new."""

    module: str
    least: tuple[int, ...]
    below: tuple[int, ...] | None = None

    def admits(self, version: str) -> bool:
        """Return whether a version is one that is needed."""
        found = numbers_of(version)
        return self.least <= found and (self.below is None or found < self.below)

    def __str__(self) -> str:
        upper = "" if self.below is None else f",<{_dotted(self.below)}"
        return f"{self.module}>={_dotted(self.least)}{upper}"


REQUIREMENTS = (
    Requirement("pyspark", (4, 3), (4, 4)),
    Requirement("pyarrow", (18,)),
    Requirement("numpy", (2,)),
    Requirement("lmdb", (3,), (4,)),
    Requirement("xxhash", (3, 4), (5,)),
    Requirement("sqlglot", (30,), (31,)),
)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (4, 3, 0) of ``4.3.0.dev1``."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
