"""The command that shows and clears this machine's cache of segments in object stores."""

from __future__ import annotations

from dataclasses import dataclass

import click

from relstate.connector.quantities import count, size
from relstate.storage import cache_of

from .terminal import Heading, json_option, show_document, show_message, show_table


@dataclass(frozen=True, slots=True)
class CachedStore:
    """A store's part of the cache."""

    location: str
    files: int
    bytes: int


@click.command(short_help="Show or clear the cache of object stores.")
@click.option("--folder", help="Its folder; by default that of RELSTATE_CACHE_FOLDER.")
@click.option("--clear", is_flag=True, help="Remove all files that no process has open.")
@json_option
def cache(folder: str | None, clear: bool, as_json: bool) -> None:
    """Show what the cache of this machine holds of stores in object stores."""
    segments = cache_of({"cache_folder": folder} if folder else {})
    if clear:
        files, removed = segments.clear()
        show_message(f"{segments.folder}: {count(files)} files removed, {size(removed)}")
    sizes = {store: [0, 0] for store in segments.stores()}
    for file in segments.files():
        part = sizes.setdefault(file.path.rsplit("/", 2)[0], [0, 0])
        part[0], part[1] = part[0] + 1, part[1] + file.size
    locations = segments.stores()
    stores = [CachedStore(locations.get(path, path), *part) for path, part in sizes.items()]
    if as_json:
        show_document(stores)
        return
    show_table(
        [Heading("store"), Heading("files"), Heading("size")],
        [(store.location, count(store.files), size(store.bytes)) for store in stores],
    )
