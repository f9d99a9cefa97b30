"""The command line: ``python -m benchmarks.peers --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from ..machine import commit, machine
from .environments import NEEDS, NotAvailableError, Place, own_environment, this_environment
from .inputs import Inputs, Size
from .page import page_text, table_text
from .plot import ratio_plot
from .process import PeerProcess
from .results import Results
from .run import Run
from .workloads import PROGRAM

_ROOT = Path(__file__).parents[2]
_RESULTS = Path(__file__).parents[1] / "results"
_START_SECONDS = 300


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or draw; 1 if the systems did not agree."""
    options = _parser().parse_args(arguments)
    if options.draw:
        return _draw(*options.draw)
    started = datetime.now()
    path = options.json or _RESULTS / f"peers-{started:%Y-%m-%dT%H%M%S}.json"
    results = Results(
        {
            "started": started.isoformat(timespec="seconds"),
            "commit": commit(),
            "machine": machine(),
            "rows": options.rows,
            "turns": options.turns,
            "peers": {},
        }
    )
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="relstate-peers-", dir=options.folder) as folder:
        # PostgreSQL's server may have another user.
        os.chmod(folder, 0o755)
        _measure(options, Path(folder), results, path)
    results.about["minutes"] = (time.monotonic() - start) / 60
    _save(results, path)
    print(table_text(results))
    differing = list(results.disagreements())
    for line in differing:
        print(f"not equal: {line}")
    print(f"{results.compared - len(differing)} of {results.compared} answers are equal")
    print(f"written to {path}")
    return 1 if differing else 0


def _measure(options: Any, folder: Path, results: Results, path: Path) -> None:
    inputs = Inputs(folder / "inputs", Size(options.rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = stack.enter_context(path.with_suffix(".log").open("w"))
        peers: dict[str, PeerProcess] = {}
        for name in options.peers or list(NEEDS):
            try:
                place = _place(options, name)
            except NotAvailableError as reason:
                print(f"{name} is left out: {reason}", file=sys.stderr, flush=True)
                results.leave_out("all", name, str(reason))
                continue
            process = stack.enter_context(
                PeerProcess(name, place.python, place.jars, folder / name, log)
            )
            about = process.about(_START_SECONDS)
            if "error" in about:
                results.leave_out("all", name, about["error"])
                print(f"{name} is left out: {about['error']}", file=sys.stderr, flush=True)
                continue
            peers[name] = process
            results.about["peers"][name] = about
        silent = {name: about["silent"] for name, about in results.about["peers"].items()}
        run = Run(peers, inputs, results, turns=options.turns, limit=options.limit, silent=silent)
        wanted = [
            workload
            for workload in PROGRAM
            if not options.only or workload.name in {"load", *options.only}
        ]
        run.measure(lambda: _save(results, path), wanted)


def _place(options: Any, name: str) -> Place:
    return this_environment(name) if options.here else own_environment(options.environments, name)


def _save(results: Results, path: Path) -> None:
    path.write_text(json.dumps(results.to_json(), indent=1, default=str) + "\n")


def _draw(result: Path, page: Path) -> int:
    """Put the table of a result into a page, and its plot into the pictures beside the page."""
    results = Results.from_json(json.loads(result.read_text("utf-8")))
    page.write_text(page_text(page.read_text("utf-8"), results), "utf-8")
    picture = page.parent / "pictures" / "peers.svg"
    picture.write_text(ratio_plot(results), "utf-8")
    print(f"drawn in {page} and {picture}")
    return 0


def _known(name: str) -> str:
    if name not in NEEDS:
        raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(NEEDS)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.peers",
        description="Measure relstate and other systems at the same work, in turns.",
    )
    parser.add_argument(
        "peers", nargs="*", type=_known, metavar="peer", help=f"by default all: {', '.join(NEEDS)}"
    )
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (5,000,000)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measurement (3)")
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds after which an operation is ended (900)"
    )
    parser.add_argument("--only", nargs="+", help="workloads to measure after the load")
    parser.add_argument(
        "--json", type=Path, help="where to write the raw data (benchmarks/results)"
    )
    parser.add_argument("--folder", type=Path, help="where the systems store (a temporary folder)")
    parser.add_argument(
        "--environments",
        type=Path,
        default=_ROOT / ".venv-peers",
        help="the folder of the environments and jars (.venv-peers)",
    )
    parser.add_argument(
        "--here", action="store_true", help="run the peers by this interpreter; install nothing"
    )
    parser.add_argument(
        "--draw",
        nargs=2,
        type=Path,
        metavar=("JSON", "PAGE"),
        help="measure nothing: write table and plot of a result into a page",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
