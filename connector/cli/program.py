"""The program: its commands, and how it ends.

Promises: an error is one line on stderr, ``relstate: <ErrorName>: message``, and exit code 2,
never a traceback; a command that finds no row, or a problem, ends with 1; a closed pipe ends
it without a message; Ctrl-C ends it with 130 and a word on stderr.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from relstate.connector.failure import describe_error
from relstate.storage import errors

from .cache import cache
from .doctor import doctor
from .erasure import erase
from .files import export, load
from .listings import history, quarantine, views
from .maintenance import check, compact, repair, restore, vacuum
from .pages import metrics, report, ui
from .redis import redis
from .rows import changes, get, scan
from .statements import sql
from .tables import create, describe, tables

_ERROR = 2
INTERRUPTED = 130


class Failure(click.ClickException):
    """An error that ends the program."""

    exit_code = _ERROR

    def __init__(self, name: str, message: str) -> None:
        super().__init__(" ".join(message.split()))
        self.name = name

    def show(self, file: Any = None) -> None:
        """Write the one line."""
        click.echo(f"relstate: {self.name}: {self.message}", file=file, err=file is None)


class Program(click.Group):
    """A group of commands whose exceptions become exit codes and one line, as promised above."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments of the program itself."""
        with _ending():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _ending():
            result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe fails here, not at the end of the process
            return result


@contextmanager
def _ending() -> Iterator[None]:
    """Turn an exception into the exit of the program."""
    try:
        yield
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, Failure):
        raise
    except (KeyboardInterrupt, click.Abort):
        click.echo("relstate: interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except click.ClickException as error:
        raise Failure(errors.UsageError.__name__, _usage(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # click lets go of stdout and ends
        raise Failure(type(error).__name__, str(error)) from error
    except errors.RelstateError as error:
        raise Failure(type(error).__name__, str(error)) from error
    except Exception as error:
        name, _, message = describe_error(error).partition(": ")
        raise Failure(name, message or "no message") from error


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message} See '{error.ctx.command_path} --help'."
    return message


def _version() -> str:
    try:
        return version("relstate")
    except PackageNotFoundError:
        return "0+not-installed"


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="relstate")
def program() -> None:
    """Inspect and maintain stores of relstate."""


_EXAMPLES = {
    create: "create /data/shop --retention '7 days'",
    tables: "tables /data/shop --count",
    views: "views /data/shop --json",
    describe: "describe /data/shop orders",
    history: "history /data/shop --limit 10",
    quarantine: "quarantine /data/shop orders --limit 10",
    get: "get /data/shop orders 42",
    scan: "scan /data/shop orders --where 'amount > 100' --columns customer,amount --limit 10",
    changes: "changes /data/shop orders --from 3 --where \"_change_type = 'delete'\"",
    load: "load /data/shop orders orders.csv more.csv.gz",
    export: "export /data/shop orders -o orders.parquet --timestamp '2026-03-01 08:30'",
    sql: "sql /data/shop 'SELECT customer, sum(amount) FROM orders GROUP BY customer'",
    compact: "compact /data/shop orders",
    vacuum: "vacuum /data/shop --retention '1 day' --dry-run",
    erase: "erase /data/shop customers --key id=42",
    restore: "restore /data/shop orders --version 41",
    check: "check /data/shop --views daily_sales",
    repair: "repair /data/shop --clock",
    cache: "cache --clear",
    ui: "ui /data/shop --port 8787",
    report: "report /data/shop -o shop.html",
    metrics: "metrics /data/shop --listen 9090",
    redis: "redis /data/shop --port 6379",
    doctor: "doctor /data/shop",
}
"""Every command, and what its help shows of it."""

for _command, _example in _EXAMPLES.items():
    _command.epilog = f"Example: relstate {_example}"
    program.add_command(_command)
