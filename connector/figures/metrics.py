"""Metrics of a store, and their text in the format of Prometheus.

Promises: a name and its labels mean the same in every version; the number of samples grows with
the tables and views, never with the rows or the epochs.
Does not know: who asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from relstate.storage import Store, StoreState, figures

from .views import ViewFigures, view_figures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A number, and the labels that tell it from others of its metric."""

    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: what its samples count. All are gauges: what is true now."""

    name: str
    help: str
    samples: tuple[Sample, ...]


def store_metrics(store: Store) -> tuple[Metric, ...]:
    """Return the metrics of a store now. Errors are those of reading its log."""
    return tuple(_metrics(store))


def metric_values(metrics: tuple[Metric, ...]) -> Mapping[str, float]:
    """Return the values of metrics by name and labels, as they are written in the text."""
    return {
        f"{metric.name}{_labels(sample)}": sample.value
        for metric in metrics
        for sample in metric.samples
    }


def metric_text(metrics: tuple[Metric, ...]) -> str:
    """Return metrics as Prometheus reads them."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
        lines += [
            f"{metric.name}{_labels(sample)} {_number(sample.value)}" for sample in metric.samples
        ]
    return "\n".join(lines) + "\n"


def _metrics(store: Store) -> Iterator[Metric]:
    state = store.state
    now = max(store.environment.now(), state.time)
    yield _one("relstate_epoch", "The latest committed epoch.", state.epoch)
    yield _one("relstate_oldest_epoch", "The oldest epoch that can be read.", state.oldest_epoch)
    idle = (now - state.time) / _SECOND
    yield _one("relstate_last_commit_age_seconds", "Seconds since the latest commit.", idle)
    use = figures.disk_use(store.environment, state)
    files = (("live", use.live_files), ("other", use.other_files))
    sizes = (("live", use.live_bytes), ("other", use.other_bytes))
    text = "that the latest epoch names (live), and all others."
    yield Metric("relstate_segment_files", f"Segment files {text}", _by_state(files))
    yield Metric("relstate_segment_bytes", f"Bytes of segment files {text}", _by_state(sizes))
    forecast = figures.forecast_compaction(state)
    text = "Bytes of files that compaction of all tables would read."
    yield _one("relstate_compaction_due_bytes", text, forecast.bytes_read)
    sizes_of_tables = figures.table_sizes(state)
    yield from _table_metrics(sizes_of_tables)
    yield _quarantine_metric(state, sizes_of_tables)
    yield _violations_metric(state)
    yield from _view_metrics(view_figures(store, state))


def _table_metrics(sizes: tuple[figures.TableSize, ...]) -> Iterator[Metric]:
    texts = {
        "rows": "Rows of a table, estimated from statistics.",
        "stored_bytes": "Stored bytes of the keys and values of a table.",
        "files": "Live files with rows of a table.",
        "data_epoch": "The epoch of the last change of a table.",
    }
    for name, text in texts.items():
        samples = (
            Sample((("table", size.name), ("kind", size.kind)), getattr(size, name))
            for size in sizes
        )
        yield Metric(f"relstate_table_{name}", text, tuple(samples))


def _quarantine_metric(state: StoreState, sizes: tuple[figures.TableSize, ...]) -> Metric:
    rows = {size.table_id: size.rows for size in sizes}
    quarantines = [
        (name, state.quarantine_of(state.table(name).definition.table_id))
        for name in state.table_names()
    ]
    samples = (
        Sample((("table", name),), rows[quarantine.table_id])
        for name, quarantine in quarantines
        if quarantine is not None
    )
    text = "Rows of a table in quarantine, estimated from statistics."
    return Metric("relstate_quarantine_rows", text, tuple(samples))


def _violations_metric(state: StoreState) -> Metric:
    samples = (
        Sample((("table", table.definition.name), ("expectation", name)), rows)
        for table in state.tables.values()
        for name, rows in table.violations
    )
    text = "Written or dropped rows that violated an expectation, since it was added."
    return Metric("relstate_expectation_violations", text, tuple(samples))


def _view_metrics(views: tuple[ViewFigures, ...]) -> Iterator[Metric]:
    values: Mapping[str, tuple[str, Callable[[ViewFigures], float]]] = {
        "reflects_epoch": ("The epoch of tables that a view shows.", lambda view: view.reflects),
        "behind": (
            "Whether a view has changes to take in.",
            lambda view: int(view.is_behind),
        ),
        "failed": (
            "Whether the last refresh of a view failed because of its query or a row.",
            lambda view: int(view.failure is not None),
        ),
        "quarantined_rows": (
            "Rows of its inputs that a view leaves out, because it cannot be computed for them.",
            lambda view: view.quarantined,
        ),
        "lag_epochs": ("Epochs of its tables that a view lacks.", lambda view: view.lag.epochs),
        "lag_rows": ("Changes of its tables that a view lacks.", lambda view: view.lag.rows),
        "lag_seconds": (
            "Seconds since the first change that a view lacks.",
            lambda view: view.lag.seconds,
        ),
        "parallelism": ("Parallel units of a view.", lambda view: view.parallelism),
        "state_bytes": ("Stored bytes of the state of a view.", lambda view: view.state_bytes),
    }
    for name, (text, value_of) in values.items():
        samples = (Sample((("view", view.name),), value_of(view)) for view in views)
        yield Metric(f"relstate_view_{name}", text, tuple(samples))
    refreshed = [(view.name, view.last_refresh) for view in views]
    for phase in ("planning", "running"):
        samples = (
            Sample((("view", name),), getattr(record, phase) / _SECOND)
            for name, record in refreshed
            if record is not None
        )
        text = f"Seconds of {phase} in the last refresh of a view."
        yield Metric(f"relstate_view_last_refresh_{phase}_seconds", text, tuple(samples))


def _by_state(values: Iterable[tuple[str, float]]) -> tuple[Sample, ...]:
    return tuple(Sample((("state", state),), value) for state, value in values)


def _one(name: str, text: str, value: float) -> Metric:
    return Metric(name, text, (Sample((), value),))


def _labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in sample.labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(value)
