"""The command line of the benchmarks: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from .figure import Figure
from .machine import commit, machine
from .report import print_table, write_json
from .workbench import Size, Workbench
from .workloads import WORKLOADS

_RESULTS = Path(__file__).parent / "results"
_WHOLE = Size(rows=5_000_000, turns=5, batches=30, scale=1.0)
# One per segment.
_LEAST_ROWS = 8
_QUICK = Size(rows=500_000, turns=3, batches=10, scale=0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run workloads and report; 1 if ``--strict`` was given and a figure is missed."""
    options = _parser().parse_args(arguments)
    started = datetime.now()
    default = _QUICK if options.quick else _WHOLE
    size = Size(
        rows=max(options.rows or default.rows, _LEAST_ROWS),
        turns=options.turns or default.turns,
        batches=options.batches or default.batches,
        scale=options.scale or default.scale,
    )
    about = {
        "started": started.isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "rows": size.rows,
        "scale": size.scale,
        "turns": size.turns,
    }
    path = options.json or _RESULTS / f"{started:%Y-%m-%dT%H%M%S}.json"
    figures: list[Figure] = []
    for measured in _measure(options.workloads or list(WORKLOADS), size):
        figures += measured
        # A later workload that fails must not lose the figures of an hour.
        write_json(path, about, figures)
    print_table(figures)
    print(f"written to {path}")
    missed = any(figure.met is False for figure in figures)
    return 1 if options.strict and missed else 0


def _measure(names: Sequence[str], size: Size) -> Iterator[list[Figure]]:
    """Yield the figures of one workload after the other."""
    with Workbench(size) as bench:
        for name in names:
            start = time.monotonic()
            print(f"measuring {name}", file=sys.stderr, flush=True)
            figures = list(WORKLOADS[name](bench))
            print(
                f"measured {name} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True
            )
            yield figures


def _known(name: str) -> str:
    if name not in WORKLOADS:
        raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(WORKLOADS)}")
    return name


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description="Measure relstate beside baselines that bound how fast it can be.",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        type=_known,
        metavar="workload",
        help=f"by default all: {', '.join(WORKLOADS)}",
    )
    parser.add_argument("--rows", type=_count, help="rows of the large tables (5,000,000)")
    parser.add_argument("--turns", type=_count, help="turns of each measurement (5)")
    parser.add_argument("--batches", type=_count, help="micro-batches of a turn (30)")
    parser.add_argument("--scale", type=float, help="of Nexmark and TPC-H (1)")
    parser.add_argument(
        "--quick", action="store_true", help="500,000 rows, scale 0.1 and fewer turns"
    )
    parser.add_argument("--json", type=Path, help="where to write the result (benchmarks/results)")
    parser.add_argument("--strict", action="store_true", help="fail if a figure is missed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
