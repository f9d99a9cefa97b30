"""The scan of a table in one process."""

from __future__ import annotations

from collections.abc import Iterator

from ..bare import count_by_cursor
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench


def table_scan(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.scan`, all columns decoded, in rows a second."""
    yield _scan(bench, "one", "1 segment")
    yield _scan(bench, "eight", "8 segments")


def _scan(bench: Workbench, name: str, case: str) -> Figure:
    table = bench.filled.table(name)
    count = table.count()
    with bench.bare(name) as segments:
        samples = in_turns(
            seconds(lambda: sum(batch.num_rows for batch in table.scan())),
            seconds(lambda: count_by_cursor(segments)),
            bench.size.turns,
        )
    return Figure(
        workload="table-scan",
        case=f"{count:,} rows in {case}",
        unit="M rows/s",
        samples=samples.rates(count / 1e6),
        comparison=Comparison.RATE,
        against="a bare LMDB cursor that iterates over copies of the same segments, in turn",
        asked=0.5,
    )
