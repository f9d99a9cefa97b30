"""The queries of Nexmark and TPC-H as views: a refresh after few changes, beside a recompute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import relstate
from relstate.connector.sql.database import Database
from relstate.storage import Store
from tests.workloads.corpora import WORKLOADS
from tests.workloads.workload import Change, create_tables, fill_tables, write_changes

from ...figure import Comparison, Figure, Samples
from ...turns import Run, in_turns, seconds
from ...workbench import Workbench

# The share of the rows that change before a refresh.
_SHARE = 0.001
# A recompute takes long, and so it is little that disturbs it.
_TURNS = 2
# So many times faster than a recompute a refresh has to be, for such a share of the views.
_ASKED = {5: 3 / 4, 20: 1 / 2}


def nexmark(bench: Workbench) -> Iterator[Figure]:
    """Measure each view of Nexmark, of a million events at scale 1."""
    yield from _measure(bench, "nexmark")


def tpch(bench: Workbench) -> Iterator[Figure]:
    """Measure each view of TPC-H, with the scale as its scale factor."""
    yield from _measure(bench, "tpch")


def _measure(bench: Workbench, name: str) -> Iterator[Figure]:
    """Yield a figure for each view, and how many views are so many times faster.

    One view is there at a time.
    """
    workload = WORKLOADS[name]()
    figures = []
    with bench.store() as store:
        create_tables(store, workload)
        rows = workload.generate(bench.size.scale)
        fill_tables(store, rows)
        store.compact()
        database = relstate.connect(bench.spark, store.path)
        change = partial(_write_next, store, workload.changes(rows, _SHARE))
        for query, text in workload.kept().items():
            figures.append(_refreshed(bench, database, (name, query, text), change))
            yield figures[-1]
    for factor, share in _ASKED.items():
        faster = sum(figure.compared <= 1 / factor for figure in figures)
        yield Figure(
            workload=f"view-{name}: faster",
            case=f"refreshed {factor} times faster than recomputed",
            unit="views",
            samples=Samples((faster,), (len(figures),)),
            comparison=Comparison.RATE,
            against="all views of the workload",
            asked=share,
        )


def _refreshed(
    bench: Workbench,
    database: Database,
    view: tuple[str, str, str],
    change: Callable[[], object],
) -> Figure:
    name, query, text = view
    database.sql(f"CREATE MATERIALIZED VIEW v AS {text}")

    def recompute() -> None:
        database.sql(text).write.format("noop").mode("overwrite").save()

    ours = _after(change, seconds(lambda: database.refresh("v")))
    samples = in_turns(ours, seconds(recompute), min(bench.size.turns, _TURNS))
    database.sql("DROP MATERIALIZED VIEW v")
    return Figure(
        workload=f"view-{name}",
        case=f"{query}: {_SHARE:.1%} changed at scale {bench.size.scale:g}",
        unit="ms",
        samples=samples.scaled(1e3),
        comparison=Comparison.TIME,
        against="Spark's batch of the view's SELECT over the store's tables, its rows dropped",
        asked=1.0,
    )


def _write_next(store: Store, changes: Iterator[Sequence[Change]]) -> None:
    write_changes(store, next(changes))


def _after(action: Callable[[], object], run: Run) -> Run:
    """Return a run that does something first, which is not measured."""

    def changed() -> float:
        action()
        return run()

    return changed
