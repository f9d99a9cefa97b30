"""The commands that keep a store fast, small and correct.

Compact, vacuum, restore, check, repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from relstate.connector.quantities import count, size
from relstate.storage import Report, Store, environment_of, errors

from .completion import complete_tables, complete_views
from .doctor import judge_java
from .surroundings import quiet_programs, surroundings
from .terminal import (
    Heading,
    chosen_epoch,
    duration_option,
    epoch_options,
    json_option,
    progress,
    show_document,
    show_table,
    store_argument,
    table_argument,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql.check_views import ViewReport


@click.command(short_help="Merge small files.")
@store_argument
@click.argument("table", metavar="[TABLE]", required=False, shell_complete=complete_tables)
@json_option
def compact(path: str, table: str | None, as_json: bool) -> None:
    """Merge the files of TABLE in STORE, of all tables by default, to one file per shard.

    Readers and writers may go on meanwhile. The merged files stay on disk until vacuum.
    """
    with Store.open(path) as store, progress("Compacting shards") as report:
        result = store.compact(table, progress=report)
    if as_json:
        show_document(result)
        return
    _show_facts(
        [
            ("epoch", count(result.epoch)),
            ("files read", f"{count(result.files_read)} ({size(result.bytes_read)})"),
            ("files written", f"{count(result.files_written)} ({size(result.bytes_written)})"),
        ]
    )


@click.command(short_help="Remove files that are no longer needed.")
@store_argument
@duration_option(
    "--retention",
    "How long epochs stay readable: seconds, or '1 day'; as the store was created by default.",
)
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@json_option
def vacuum(path: str, retention: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove the files of STORE that no epoch within its retention needs.

    Epochs before the oldest that is kept can no longer be read.
    """
    with Store.open(path) as store, progress("Vacuuming"):
        result = store.vacuum(retention, dry_run=dry_run)
    if as_json:
        show_document(result)
        return
    removed = "files that would be removed" if dry_run else "files removed"
    _show_facts(
        [
            (removed, f"{count(result.files)} ({size(result.bytes)})"),
            ("oldest epoch that can be read", count(result.oldest_epoch)),
        ]
    )


@click.command(short_help="Bring back the rows of an earlier epoch.")
@store_argument
@table_argument
@epoch_options
@json_option
def restore(path: str, table: str, epoch: int | None, moment: str | None, as_json: bool) -> None:
    """Replace the rows of TABLE in STORE by those of an earlier epoch, as one new epoch.

    Columns that came later are NULL. It can be undone by restoring the epoch before.
    """
    with Store.open(path) as store, progress("Restoring"):
        chosen = chosen_epoch(store, epoch, moment)
        if chosen is None:
            raise click.UsageError(
                "The epoch to restore is missing: give --version or --timestamp."
            )
        restored = Restored(table, chosen, store.restore(table, chosen))
    if as_json:
        show_document(restored)
        return
    _show_facts([("epoch", count(restored.epoch)), ("rows are of epoch", count(restored.of_epoch))])


@dataclass(frozen=True, slots=True)
class Restored:
    """The epoch of which the rows of a table are, and the new one in which they are so again."""

    table: str
    of_epoch: int
    epoch: int


@click.command(short_help="Verify every byte.")
@store_argument
@click.argument("names", metavar="[VIEW]...", nargs=-1, shell_complete=complete_views)
@click.option(
    "--views",
    "with_views",
    is_flag=True,
    help="Compare views with their SELECTs and their state with their inputs, by a local Spark.",
)
@click.option(
    "--expect-epoch",
    metavar="EPOCH",
    type=int,
    help="Report a problem if the newest epoch is an older one than this.",
)
@click.option(
    "--part",
    metavar="N/M",
    default="1/1",
    help="Read the N-th of M parts of the files, as 3/30: on each of 30 days another one.",
)
@json_option
@click.pass_context
def check(
    context: click.Context,
    path: str,
    names: tuple[str, ...],
    with_views: bool,
    expect_epoch: int | None,
    part: str,
    as_json: bool,
) -> None:
    """Read STORE and verify it; end with 1 if there is a problem. Changes nothing.

    With --views, each VIEW is checked, too; by default all are.
    """
    if names and not with_views:
        raise click.UsageError(f"{names[0]!r} is checked as a view with --views only.")
    views_checked = names if with_views else None
    report, views = _check_store(path, views_checked, expect_epoch, _part_of(part))
    if as_json:
        show_document(CheckedStore(report, views) if with_views else report)
    else:
        _show_report(report, views)
    context.exit(int(not (report.ok and all(view.ok for view in views))))


def _part_of(text: str) -> tuple[int, int]:
    """Return (number, count) of a part such as 3/30."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a part of the files, as 3/30.")
    return int(match[1]), int(match[2])


def _check_store(
    path: str, views: tuple[str, ...] | None, expect_epoch: int | None, part: tuple[int, int]
) -> tuple[Report, tuple[ViewReport, ...]]:
    """Check a store and, if it is whole, views: all for no names, none for None."""
    environment = environment_of(path)
    try:
        store = Store.open(path, environment=environment)
    except errors.StorageError as error:
        return Report.of_unreadable(environment, error), ()
    with store:
        for name in views or ():
            store.view(name)
        with progress("Checking segments") as show_progress:
            number, count = part
            report = store.check(show_progress, expect_epoch=expect_epoch, part=number, parts=count)
        return report, () if views is None or not report.ok else _check_views(store, views)


@click.command(short_help="Repair a store after a commit by a wrong clock.")
@store_argument
@click.option(
    "--clock",
    "with_clock",
    is_flag=True,
    help="Set the store's time back to this machine's, which must be right.",
)
@json_option
def repair(path: str, with_clock: bool, as_json: bool) -> None:
    """Repair STORE after a commit by a clock that was ahead.

    Until then writers with right clocks are refused. The epochs since the wrong clock count as
    committed now.
    """
    if not with_clock:
        raise click.UsageError("The part to repair is missing: give --clock.")
    with Store.open(path) as store:
        before = store.epoch
        epoch = store.repair_clock()
    if as_json:
        show_document(ClockRepair(epoch, epoch > before))
        return
    _show_facts([("epoch", count(epoch)), ("repaired", "yes" if epoch > before else "not needed")])


@dataclass(frozen=True, slots=True)
class ClockRepair:
    """The newest epoch, and whether it is a repair that was made now."""

    epoch: int
    repaired: bool


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """The report of a store and, if it has no problems, those of its views."""

    store: Report
    views: tuple[ViewReport, ...]


def _check_views(store: Store, names: tuple[str, ...]) -> tuple[ViewReport, ...]:
    from relstate.connector.sql.check_views import check_views

    with local_spark() as spark, progress("Checking views") as report:
        return check_views(spark, store, names or None, report)


def _show_report(report: Report, views: tuple[ViewReport, ...]) -> None:
    problems = (*report.problems, *(problem for view in views for problem in view.problems))
    checked = [("views", count(len(views)))] if views else []
    _show_facts(
        [
            ("epoch", count(report.epoch)),
            ("segments", count(report.segments)),
            ("entries", count(report.entries)),
            ("orphans (files that no commit names; vacuum removes them)", count(report.orphans)),
            *checked,
            ("problems", count(len(problems))),
        ]
    )
    if problems:
        show_table([Heading("problem")], [(problem,) for problem in problems])


def _show_facts(facts: list[tuple[str, str]]) -> None:
    show_table([Heading("what"), Heading("found", counted=True)], facts)


_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """Yield a session; stop it afterwards, unless the process had one before."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from relstate.connector.source.interpreter import use_this_python

    use_this_python()
    before = SparkSession.getActiveSession()
    builder = SparkSession.builder.master("local[*]").appName("relstate")
    try:
        with quiet_programs():
            session = builder.config(map=dict(_SETTINGS)).getOrCreate()
    except PySparkRuntimeError:
        java = judge_java(surroundings())
        if java.status != "problem":
            raise
        raise errors.SessionError(f"Spark needs Java, and {java.found}: {java.advice}") from None
    try:
        yield session
    finally:
        if before is None:
            session.stop()
