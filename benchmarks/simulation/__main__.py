"""Prints the tables of docs/scaling.md that are named; without names all of them."""

import sys

from .tables import checkpoints, reads, sizes, writers, year

PARTS = {
    "sizes": sizes,
    "reads": reads,
    "checkpoints": checkpoints,
    "writers": writers,
    "year": year,
}

for part in sys.argv[1:] or PARTS:
    PARTS[part]()
