"""What each page shows: the figures of a store, their charts, and the template that renders them.

Promises: every text is escaped by the templates, whatever a table is named or a row holds; the
part of a page that cannot be read says why, and the rest is shown.
Does not know: how a page reaches its reader (report, application).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from textwrap import dedent
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from relstate.connector.figures.activity import Activity
from relstate.connector.figures.quarantine import quarantined_rows, table_quarantine
from relstate.connector.figures.row_counts import with_counts
from relstate.connector.figures.rows import Rows, changed_rows, find_row, scan_rows
from relstate.connector.figures.store import StorePage, store_page
from relstate.connector.figures.tables import ColumnDescription, table_page, vnodes_of
from relstate.connector.figures.views import ViewFigures, ViewPage, view_page
from relstate.connector.quantities import count, elapsed, size
from relstate.connector.row_json import json_rows, text_of
from relstate.storage import (
    RESERVED_PREFIX,
    Store,
    StoreState,
    duration_text,
    errors,
    figures,
    moment_of,
    types,
)
from relstate.vnode import VnodeMapping

from .charts import BarChart, Cell, Graph, Node, bar_chart, graph, heat_strip, owner_strip

SAMPLE_ROWS = 20
CHANGES = 50
MOST_CELLS = 128
"""A strip has a cell for each vnode, or for a few neighbours if there are more than these."""
MOST_NODES = 150
"""A graph of more tables and views than these is not drawn: nobody could read it."""
_LONGEST_CELL = 300

Link = Callable[[str, str], str]
"""Takes what a page is about (``table`` or ``view``) and its name; returns where the page is."""


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of shown rows; numbers are aligned right."""

    name: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows as text, or the problem that kept them from being read. ``has_more``: there are more."""

    columns: tuple[ShownColumn, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    has_more: bool = False
    problem: str | None = None


def shown_rows(read: Callable[[], Rows], limit: int) -> ShownRows:
    """Return the first rows of a read as text; an error is their problem."""
    try:
        rows = read().limited(limit + 1)
        values = [
            tuple(_cell(text_of(value)) for value in row.values())
            for batch in rows.batches
            for row in json_rows(batch, rows.types)
        ]
    except (errors.RelstateError, OSError) as error:
        return ShownRows(problem=str(error))
    columns = tuple(
        ShownColumn(name, isinstance(data_type, types.NUMBERS))
        for name, data_type in zip(rows.names, rows.types, strict=True)
    )
    return ShownRows(columns, tuple(values[:limit]), len(values) > limit)


def _cell(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What the reader of a table's page asks for.

    ``epoch``: the one whose rows are shown, None for the latest; ``key``: the values of a key to
    look up, empty for none; ``first`` and ``last``: the epochs whose changes are shown, if any.
    """

    epoch: int | None = None
    key: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None


LATEST = TableQuery()


class Pages:
    """Renders the pages of one store."""

    def __init__(self, store: Store, link: Link) -> None:
        self._store = store
        self._templates = _templates(link)

    def store(self, state: StoreState) -> str:
        """Return the page of the store."""
        page = store_page(self._store, state)
        return self.render("store_page.html", **store_context(page, state))

    def table(self, state: StoreState, name: str, query: TableQuery = LATEST) -> str:
        """Return the page of a table. TableNotFoundError."""
        context = table_context(self._store, state, name, query)
        return self.render("table_page.html", **context)

    def view(self, state: StoreState, name: str, units: int | None = None) -> str:
        """Return the page of a view; with ``units``, also the mapping to so many units.

        ViewNotFoundError.
        """
        page = view_page(self._store, state, name)
        return self.render("view_page.html", **view_context(self._store, page, state, units))

    def tables(self, state: StoreState) -> str:
        """Return the page with all tables, sorted by their names."""
        sizes = with_counts(self._store, state, figures.table_sizes(state))
        sizes = tuple(table for table in sizes if table.kind == "table")
        return self.render("tables_page.html", tables=sizes)

    def problem(self, title: str, message: str) -> str:
        """Return a page that says why there is no other."""
        return self.render("problem_page.html", title=title, message=message)

    def text(self, name: str) -> str:
        """Return a file beside the templates as it is."""
        return self._templates.get_template(name).render()

    def render(self, template: str, **context: Any) -> str:
        """Return what a template makes of its context."""
        return self._templates.get_template(template).render(path=self._store.path, **context)


def _templates(link: Link) -> Environment:
    environment = Environment(
        loader=PackageLoader("relstate.connector.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "rows_text": rows_text,
        "size": size,
        "elapsed": elapsed,
        "duration": duration_text,
        "moment": moment_text,
        "tables_text": tables_text,
    }
    environment.globals["link"] = link
    return environment


def rows_text(sized: figures.TableSize | ViewFigures) -> str:
    """Return the number of rows of a table or view; an estimate has a ``~``."""
    return ("~" if sized.rows_estimated else "") + count(sized.rows)


def moment_text(time: int) -> str:
    """Return a time in microseconds since 1970 as a person reads it, in UTC."""
    return f"{moment_of(time):%Y-%m-%d %H:%M:%S} UTC"


def tables_text(names: Sequence[str]) -> str:
    """Return the names of the tables of a commit; internal ones are only counted."""
    shown = [name for name in names if not name.startswith(RESERVED_PREFIX)]
    internal = len(names) - len(shown)
    if internal:
        shown.append(f"{count(internal)} internal {'table' if internal == 1 else 'tables'}")
    return ", ".join(shown)


# The store


def store_context(page: StorePage, state: StoreState) -> Mapping[str, Any]:
    """Return what the template of a store's page shows."""
    return {
        "page": page,
        "activity": None if page.activity is None else activity_charts(page.activity),
        "shards": shard_chart(page.shards),
        "shard_files": shard_files_text(page.shards),
        "graph": view_graph(page.views, page.sizes, state),
    }


def activity_charts(activity: Activity) -> tuple[BarChart, BarChart]:
    """Return two charts of what was committed a minute.

    Commits: writes, refreshes and others; rows: those of tables, and of views.
    """
    commits, rows, titles, labels = [], [], [], []
    for interval in activity.intervals:
        start = moment_of(interval.start)
        counts = (interval.writes, interval.refreshes, interval.others)
        commits.append([number / activity.minutes for number in counts])
        rows.append([interval.rows / activity.minutes, interval.view_rows / activity.minutes])
        titles.append(
            f"{start:%Y-%m-%d %H:%M:%S} UTC, {elapsed(activity.width / 1_000_000)}: "
            f"{count(interval.writes)} writes of {count(interval.rows)} rows, "
            f"{count(interval.refreshes)} refreshes of {count(interval.view_rows)} rows, "
            f"{count(interval.others)} other commits"
        )
        labels.append(_axis_text(start, activity.width))
    return bar_chart(commits, titles, labels, height=120), bar_chart(rows, titles, labels)


def _axis_text(start: datetime, width: int) -> str:
    seconds = width / 1_000_000
    if seconds >= 86_400:
        return f"{start:%Y-%m-%d}"
    return f"{start:%m-%d %H:%M}" if seconds >= 600 else f"{start:%H:%M:%S}"


def shard_chart(shards: Sequence[figures.ShardFiles]) -> BarChart:
    """Return the chart of the bytes of each shard."""
    return bar_chart(
        [[shard.stored_bytes] for shard in shards],
        [
            f"shard {shard.shard}, vnodes {shard.first_vnode} to {shard.last_vnode}: "
            f"{size(shard.stored_bytes)} stored, in {_files_text(shard.files)}"
            for shard in shards
        ],
        [str(shard.shard) for shard in shards],
        height=120,
    )


def shard_files_text(shards: Sequence[figures.ShardFiles]) -> str:
    """Return in how many files a shard has rows."""
    files = [shard.files for shard in shards]
    least, most = min(files, default=0), max(files, default=0)
    return _files_text(most) if least == most else f"{count(least)} to {_files_text(most)}"


def _files_text(files: int) -> str:
    return f"{count(files)} {'file' if files == 1 else 'files'}"


def view_graph(
    views: Sequence[ViewFigures], sizes: Sequence[figures.TableSize], state: StoreState
) -> Graph | None:
    """Return the graph of views, what they read, and the indexes of these tables.

    None if there are no views, or too many nodes to draw.
    """
    tables = {table.name: table for table in sizes if table.kind == "table"}
    read = dict.fromkeys(name for view in views for name in view.inputs if name in tables)
    nodes = [
        Node(
            name,
            "table",
            "",
            (f"{rows_text(tables[name])} rows, {size(tables[name].stored_bytes)}",),
        )
        for name in read
    ]
    for name in read:
        for index in state.table(name).definition.indexes:
            label = f"{name}.{index.name}"
            nodes.append(Node(label, "index", "", ("index",), (name,)))
    nodes += [_view_node(view) for view in views]
    return graph(nodes) if views and len(nodes) <= MOST_NODES else None


def _view_node(view: ViewFigures) -> Node:
    return Node(view.name, "view", view.status, (lag_text(view),), view.inputs)


def lag_text(view: ViewFigures) -> str:
    """Return in a few words how far a view is behind."""
    failed = "" if view.failure is None else "failed, "
    if not view.is_populated:
        share = "" if view.backfill is None else f" {view.backfill:.0%}"
        return f"{failed}being populated{share}"
    lag = view.lag
    if not lag.epochs:
        return view.status
    least = "≥ " if lag.is_bounded else ""
    return f"{failed}{least}{count(lag.rows)} rows, {elapsed(lag.seconds)} behind"


# A table


def table_context(
    store: Store, state: StoreState, name: str, query: TableQuery
) -> Mapping[str, Any]:
    """Return what the template of a table's page shows. TableNotFoundError."""
    page = table_page(store, state, name)
    name = page.description.name
    epoch = state.epoch if query.epoch is None else query.epoch
    keys = [column.name for column in page.description.columns if column.primary_key_place]
    return {
        "table": page,
        "settings": state.settings,
        "epoch": state.epoch,
        "oldest_epoch": state.oldest_epoch,
        "query": query,
        "key_columns": sorted(keys, key=lambda key: _place_in_key(page.description.columns, key)),
        "vnodes": vnode_strips(store, state, name),
        "quarantine": table_quarantine(store, state, name),
        "sample": shown_rows(
            lambda: scan_rows(store, name, epoch=epoch, ordered=False), SAMPLE_ROWS
        ),
        "row": shown_rows(lambda: find_row(store, name, query.key, epoch), 1)
        if query.key
        else None,
        "changes": shown_rows(
            lambda: changed_rows(store, name, query.first or 0, query.last), CHANGES
        )
        if query.first is not None
        else None,
    }


def _place_in_key(columns: Sequence[ColumnDescription], name: str) -> int:
    return next(column.primary_key_place or 0 for column in columns if column.name == name)


@dataclass(frozen=True, slots=True)
class VnodeStrips:
    """The rows and the bytes of a table by vnode, or the problem that kept them from being read.

    ``skew``: how many times the average the fullest vnode has.
    """

    rows: tuple[Cell, ...] = ()
    stored_bytes: tuple[Cell, ...] = ()
    skew: float = 0.0
    problem: str | None = None


def vnode_strips(store: Store, state: StoreState, name: str) -> VnodeStrips:
    """Return how a table is spread over its vnodes."""
    try:
        sizes = vnodes_of(store, state, name)
    except (errors.RelstateError, OSError) as error:
        return VnodeStrips(problem=str(error))
    if sizes is None:
        return VnodeStrips(problem="The table is too large to read all of its keys for this page.")
    step = -(-len(sizes.rows) // MOST_CELLS)
    groups = [
        range(start, min(start + step, len(sizes.rows)))
        for start in range(0, len(sizes.rows), step)
    ]
    rows = [sum(sizes.rows[group.start : group.stop]) for group in groups]
    stored = [sum(sizes.stored_bytes[group.start : group.stop]) for group in groups]
    titles = [
        f"{_vnodes_text(group)}: {count(group_rows)} rows, {size(group_bytes)}"
        for group, group_rows, group_bytes in zip(groups, rows, stored, strict=True)
    ]
    return VnodeStrips(
        heat_strip(groups, rows, titles), heat_strip(groups, stored, titles), sizes.skew
    )


def _vnodes_text(vnodes: range) -> str:
    if len(vnodes) == 1:
        return f"vnode {vnodes.start}"
    return f"vnodes {vnodes.start} to {vnodes.stop - 1}"


# A view


def view_context(
    store: Store, page: ViewPage, state: StoreState, units: int | None
) -> Mapping[str, Any]:
    """Return what the template of a view's page shows.

    ``units``: also the mapping after a rescale to so many, if that is possible.
    """
    mapping, views = page.mapping, state.view_names()
    name = page.summary.name
    quarantine = state.quarantine_of(state.view(name).view_id)
    rescaled = None
    if units is not None and 1 <= units <= mapping.vnode_count:
        rescaled = mapping.rescale(units)
    return {
        "view": page,
        "lag": lag_text(page.summary),
        "query": query_text(page.summary.query),
        "inputs": [("view" if name in views else "table", name) for name in page.summary.inputs],
        "mapping": mapping_strip(mapping),
        "rescaled": None if rescaled is None else mapping_strip(rescaled),
        "vnode_count": mapping.vnode_count,
        "rescaled_units": units,
        "moved": None if rescaled is None else _moved(mapping, rescaled),
        "refreshes": refresh_chart(page),
        "quarantine": None
        if quarantine is None
        else shown_rows(lambda: quarantined_rows(store, state, name, None), SAMPLE_ROWS),
    }


def query_text(query: str) -> str:
    """Return a query without the indentation that it had where it was written."""
    first, separator, others = query.partition("\n")
    return first + separator + dedent(others)


def mapping_strip(mapping: VnodeMapping) -> tuple[Cell, ...]:
    """Return a cell for each run of vnodes of one unit, coloured by the unit."""
    runs = sorted(
        ((vnodes, unit) for unit in range(mapping.units) for vnodes in mapping.ranges_of(unit)),
        key=lambda run: run[0].start,
    )
    titles = [f"{_vnodes_text(vnodes)}: unit {unit}" for vnodes, unit in runs]
    return owner_strip([vnodes for vnodes, _ in runs], [unit for _, unit in runs], titles)


def _moved(before: VnodeMapping, after: VnodeMapping) -> int:
    pairs = zip(before.owners, after.owners, strict=True)
    return sum(owner != other_owner for owner, other_owner in pairs)


def refresh_chart(page: ViewPage) -> BarChart | None:
    """Return the chart of the last refreshes, the oldest first: milliseconds of each phase."""
    refreshes = list(islice(page.refreshes, None))[::-1]
    if not refreshes:
        return None
    return bar_chart(
        [
            [part / 1000 for part in (r.figures.planning, r.figures.running, r.rest)]
            for r in refreshes
        ],
        [
            f"epoch {r.epoch}: {count(r.figures.rows_in)} changes in {elapsed(r.total / 1_000_000)}"
            for r in refreshes
        ],
        [str(r.epoch) for r in refreshes],
        height=140,
    )
