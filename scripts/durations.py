"""Record how long tests take: write tests/durations.json from JUnit reports of pytest.

usage: durations.py REPORT...

A test has the least of its durations in the reports, since a busy machine only adds to them. The
reports have to be of pytest's family `xunit1`, which names files, with durations of calls, which
leave out the start of a Spark that many tests share. `make durations` does all of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

DURATIONS = Path(__file__).parents[1] / "tests" / "durations.json"
# Seconds; what is shorter is not recorded.
LEAST = 0.5


def durations_in(report: ElementTree.Element) -> Iterator[tuple[str, float]]:
    """Yield the node id of each test in a report, and its seconds."""
    for case in report.iter("testcase"):
        file = case.get("file")
        if file is None or case.find("skipped") is not None:
            continue
        module = file.removesuffix(".py").replace("/", ".")
        classes = case.attrib["classname"].removeprefix(module).strip(".").split(".")
        parts = [file, *filter(None, classes), case.attrib["name"]]
        yield "::".join(parts), float(case.attrib["time"])


def least_durations(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the least duration of each test, of those that take longer than an instant."""
    least: dict[str, float] = {}
    for node_id, seconds in pairs:
        least[node_id] = min(seconds, least.get(node_id, seconds))
    return {node_id: seconds for node_id, seconds in sorted(least.items()) if seconds >= LEAST}


def main(reports: list[str]) -> int:
    """Write the file; return the exit code."""
    if not reports:
        print("usage: durations.py REPORT...", file=sys.stderr)
        return 2
    parsed = (ElementTree.parse(report).getroot() for report in reports)
    durations = least_durations(pair for report in parsed for pair in durations_in(report))
    DURATIONS.write_text(json.dumps(durations, indent=0, ensure_ascii=True) + "\n", "utf-8")
    print(f"{len(durations)} tests of {LEAST} s or more in {DURATIONS}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
