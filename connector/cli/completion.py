"""What a shell offers to complete words with: folders, tables, views, columns.

Promises: the store is only read, and a store that cannot be read completes nothing: a shell has no
place for an error.
Does not know: shells; click writes their scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from relstate.storage import Store, errors

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_folders(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete a folder."""
    return [CompletionItem(incomplete, type="dir")]


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_tables(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the tables and views of the store."""
    return _offered(context, lambda store: (*store.tables(), *store.views()), incomplete)


def complete_views(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the views of the store."""
    return _offered(context, Store.views, incomplete)


def complete_columns(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the columns of the table, after those that are named with commas."""
    complete_names, comma, begun = incomplete.rpartition(",")

    def columns(store: Store) -> Iterable[str]:
        table = store.table(_argument(context, "table", 1))
        return (column.name for column in table.schema.visible_columns)

    offered = _offered(context, columns, begun)
    return [CompletionItem(f"{complete_names}{comma}{item.value}") for item in offered]


def _argument(context: click.Context, name: str, position: int) -> str:
    """Return an argument before the word; empty if there is none.

    After an option that still lacks its value, click has the arguments without their names.
    """
    words = [*context.args[position : position + 1], ""]
    return str(context.params.get(name) or words[0])


def _offered(
    context: click.Context, names: Callable[[Store], Iterable[str]], incomplete: str
) -> list[CompletionItem]:
    begun = incomplete.lower()
    try:
        with Store.open(_argument(context, "path", 0)) as store:
            return [CompletionItem(name) for name in names(store) if name.lower().startswith(begun)]
    except (errors.RelstateError, OSError):
        return []
