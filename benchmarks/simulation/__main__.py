"""Prints the tables of docs/scaling.md that are named; without names all of them."""

import sys
from collections.abc import Callable

from .tables import checkpoints, reads, sizes, writers, year

PARTS: dict[str, Callable[[], None]] = {
    "sizes": sizes,
    "reads": reads,
    "checkpoints": checkpoints,
    "writers": writers,
    "year": year,
}

for part in sys.argv[1:] or PARTS:
    PARTS[part]()
