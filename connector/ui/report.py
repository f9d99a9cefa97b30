"""The report: all pages of a store in one file, which loads nothing.

Promises: a store of any size gives a file that a browser opens: only so many tables and views have
a section of their own, the largest first.
Does not know: where the text goes.
"""

from __future__ import annotations

from relstate.connector.figures.store import store_page
from relstate.connector.figures.views import view_pages
from relstate.storage import Store, errors

from .pages import LATEST, Pages, store_context, table_context, view_context

SECTIONS = 20
"""How many tables, and how many views, have a section."""


def report(store: Store) -> str:
    """Return the report of a store as HTML. Errors are those of reading its newest epoch."""
    state = store.state
    page = store_page(store, state)
    largest = sorted(page.tables, key=lambda size: (-size.stored_bytes, size.name))[:SECTIONS]
    names = [size.name for size in largest]
    views = [view.name for view in page.views[:SECTIONS]]
    anchors = {("table", name): f"#table-{number}" for number, name in enumerate(names)}
    anchors |= {("view", name): f"#view-{number}" for number, name in enumerate(views)}
    pages = Pages(store, lambda kind, name: anchors.get((kind, name), ""))
    tables, problems = [], []
    for name in names:
        try:
            context = table_context(store, state, name, LATEST)
            tables.append((anchors["table", name][1:], context))
        except errors.RelstateError as error:
            problems.append(f"{name}: {error}")
    return pages.render(
        "report.html",
        **store_context(page, state),
        tables=tables,
        views=[
            (anchors["view", view.summary.name][1:], view_context(store, view, state, None))
            for view in view_pages(store, state, views)
        ],
        problems=problems,
        omitted=len(page.tables) - len(names) + len(page.views) - len(views),
    )
