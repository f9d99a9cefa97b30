"""The command ``redis``: a server for Redis clients. It needs the extra ``relstate[redis]``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import click

from relstate.storage import Store, errors, install_command

from .terminal import show_message, store_argument


class _WithoutPandas(MetaPathFinder):
    """Finds no module, and hides pandas from those that find it."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise that there is no pandas; return None for all else."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used by relstate redis", name=fullname)


@contextmanager
def _hidden_pandas() -> Iterator[None]:
    """Hide pandas from Arrow, which would import it to recognize objects that no client sends.

    That takes 24 MiB, and holds up all clients at the first commit.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@click.command(short_help="Serve Redis clients.")
@store_argument
@click.option("--port", metavar="N", type=click.IntRange(0, 65_535), default=6379)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Where to listen.")
@click.option(
    "--appendfsync",
    type=click.Choice(["always", "everysec"]),
    default="always",
    help="Reply after the commit, or commit once a second.",
)
@click.option("--requirepass", metavar="PASSWORD", help="What clients have to send with AUTH.")
@click.option("--maxclients", metavar="N", type=click.IntRange(1), default=10_000)
@click.option(
    "--maxmemory",
    metavar="BYTES",
    type=click.IntRange(1 << 20),
    default=256 << 20,
    help="How much of the values is held in memory.",
)
def redis(
    path: str,
    port: int,
    host: str,
    appendfsync: str,
    requirepass: str | None,
    maxclients: int,
    maxmemory: int,
) -> None:
    """Serve Redis clients until Ctrl-C: the keys of database N are rows of the table redis_N.

    Without a password only this machine is answered, whatever --host is. --port is 6379 by default,
    0 any free one.
    """
    try:
        from relstate.connector.redis.server import serve
        from relstate.connector.redis.settings import Settings
    except ModuleNotFoundError as error:
        if error.name not in ("hiredis", "lupa"):
            raise
        raise errors.OptionError(f"{error.name} is missing: {install_command('redis')}") from None
    settings = Settings(
        host=host,
        port=port,
        appendfsync="always" if appendfsync == "always" else "everysec",
        requirepass=None if requirepass is None else requirepass.encode(),
        maxclients=maxclients,
        maxmemory=maxmemory,
    )
    with _hidden_pandas(), Store.open(path) as store:
        serve(
            store,
            settings,
            lambda host, port: show_message(f"{path}: redis://{host}:{port}/ (Ctrl-C ends)"),
        )
