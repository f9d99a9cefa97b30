"""The commands ``load`` and ``export``: rows from files, and rows as a file.

Does not know: formats (connector/files).
"""

from __future__ import annotations

import click

from relstate.connector.figures.rows import scan_rows
from relstate.connector.files.file_format import FileFormat, format_of
from relstate.connector.files.loading import Loaded, RowFile, create_from_files, load_files
from relstate.connector.files.row_file import STANDARD, open_output
from relstate.connector.files.writing import write_rows
from relstate.connector.quantities import count
from relstate.storage import Store, errors, figures

from .completion import complete_files
from .terminal import (
    Heading,
    Unit,
    chosen_epoch,
    columns_option,
    epoch_options,
    json_option,
    names_of,
    progress,
    show_document,
    show_message,
    show_table,
    store_argument,
    table_argument,
)

_FORMATS = click.Choice([file_format.value for file_format in FileFormat])


@click.command(short_help="Load rows from files.")
@store_argument
@table_argument
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_files)
@click.option("--format", "format_name", type=_FORMATS, help="Where names do not say it.")
@click.option(
    "--delimiter", metavar="C", default=",", help="Between the cells of CSV; ',' by default."
)
@click.option("--overwrite", is_flag=True, help="Replace all rows, instead of those of equal keys.")
@click.option("--create", is_flag=True, help="Create TABLE with the columns of the first file.")
@click.option(
    "--primary-key", metavar="A,B", callback=names_of, help="The key of the table to create."
)
@json_option
def load(
    path: str,
    table: str,
    paths: tuple[str, ...],
    format_name: str | None,
    delimiter: str,
    overwrite: bool,
    create: bool,
    primary_key: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    """Write the rows of FILEs to TABLE in STORE, as one epoch: all of them or none.

    CSV with a header, JSON (a line or array element for each object), Parquet and Arrow, known by
    their names: .csv, .json, .jsonl, .parquet, .arrow, also .csv.gz and .json.zst. - is standard
    input. Values are fitted to the table's types; rows that do not fit are named, and nothing is
    written.
    """
    if primary_key is not None and not create:
        raise click.UsageError("--primary-key is only for a new table: add --create.")
    if create and overwrite:
        raise click.UsageError("--create and --overwrite exclude each other: remove one of them.")
    if len(delimiter) != 1:
        raise click.UsageError(f"--delimiter is {delimiter!r}; it must be one character.")
    files = [_row_file(file, format_name, delimiter) for file in paths]
    with Store.open(path) as store, progress(f"Loading {table}", Unit.BYTES) as report:
        if create:
            loaded = create_from_files(store, table, files, report, primary_key)
        else:
            loaded = load_files(store, table, files, report, overwrite=overwrite)
    _show(loaded, as_json=as_json)


def _row_file(path: str, format_name: str | None, delimiter: str) -> RowFile:
    return RowFile(path, _format_of(path, format_name), delimiter)


def _format_of(path: str, format_name: str | None) -> FileFormat:
    if format_name is not None:
        return FileFormat(format_name)
    if path == STANDARD:
        raise click.UsageError("--format is missing: standard input or output has no file name.")
    return format_of(path)


def _show(loaded: Loaded, *, as_json: bool) -> None:
    if as_json:
        show_document(loaded)
        return
    facts = [("epoch", loaded.epoch), ("rows", loaded.rows), ("files", loaded.files)]
    headings = [Heading("what"), Heading("loaded", counted=True)]
    show_table(headings, [(name, count(value)) for name, value in facts])


@click.command(short_help="Export rows to a file.")
@store_argument
@table_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    shell_complete=complete_files,
    help="Where to write them; - for stdout.",
)
@click.option("--format", "format_name", type=_FORMATS, help="Where the name does not say it.")
@click.option("--where", metavar="EXPR", help="A SQL expression in Spark's dialect.")
@columns_option
@epoch_options
def export(
    path: str,
    table: str,
    output: str,
    format_name: str | None,
    where: str | None,
    columns: tuple[str, ...] | None,
    epoch: int | None,
    moment: str | None,
) -> None:
    """Write the rows of TABLE in STORE, in the order of the primary key, to a file.

    The formats are those of `load`, which reads the file back. The file appears when it is
    complete.
    """
    file_format = _format_of(output, format_name)
    if output == STANDARD and file_format is FileFormat.PARQUET:
        raise errors.OptionError("Parquet cannot be written to standard output: name a file")
    with Store.open(path) as store, progress(f"Exporting {table}", Unit.ROWS) as report:
        epoch = chosen_epoch(store, epoch, moment)
        rows = scan_rows(store, table, columns=columns, where=where, epoch=epoch)
        estimate = figures.table_size(store.state, table).rows
        with open_output(output) as stream:
            written = write_rows(
                rows,
                stream,
                file_format,
                lambda row_count: report(row_count, max(row_count, estimate)),
            )
    target = "standard output" if output == STANDARD else output
    show_message(f"{count(written)} rows of {table} are in {target}")
