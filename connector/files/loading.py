"""The commit of the rows of files: all of them are one epoch, or none is written.

Does not know: how files are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import NewTable, Proposal, Store, errors, new_table, types

from .file_format import FileFormat
from .reading import infer_fields, read_rows
from .row_file import STANDARD, open_input


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded: the epoch of the commit, and how many rows of how many files."""

    epoch: int
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file to be loaded: where it is, and how it is written; CSV has the delimiter."""

    path: str
    file_format: FileFormat
    delimiter: str = ","


Progress = Callable[[int, int], None]
"""Takes the bytes that are read, and those of all files."""


def load_files(
    store: Store,
    table: str,
    files: Sequence[RowFile],
    progress: Progress,
    *,
    overwrite: bool = False,
) -> Loaded:
    """Upsert the rows of files in a table; with ``overwrite`` they replace all others.

    The errors of `read_rows` and of `Store.write`, OSError.
    """
    try:
        schema = store.table(table).schema
        versions = store.state.table(table).definition.version_names
    except errors.TableNotFoundError as error:
        raise errors.TableNotFoundError(
            f"{error}. To create it from the files, add --create"
        ) from None
    fields = [column.field for column in schema.visible_columns]
    key = [column.name for column in schema.key_columns if not column.hidden]
    counted = _Counted(_batches(files, fields, key, progress, versions))
    epoch = store.write(table, counted, overwrite=overwrite)
    return Loaded(epoch, counted.rows, len(files))


def create_from_files(
    store: Store,
    table: str,
    files: Sequence[RowFile],
    progress: Progress,
    primary_key: Sequence[str] | None,
) -> Loaded:
    """Create a table with the columns of the first of some files and the rows of all, as one epoch.

    TableExistsError, the errors of `infer_fields` and those of `load_files`; OptionError for
    standard input, which cannot be read twice.
    """
    if table.lower() in store.state.table_ids:
        raise errors.TableExistsError(
            f"there is a table or view {table!r} already: leave out --create to upsert its rows"
        )
    if any(file.path == STANDARD for file in files):
        raise errors.OptionError(
            "standard input cannot be read twice, as --create needs it: load a file, or create the "
            "table first"
        )
    with open_input(files[0].path) as file:
        fields = infer_fields(file, files[0].file_format, files[0].delimiter)
    if not fields:
        raise errors.DataError(
            f"{files[0].path} is empty, so it does not show the columns of a new table: name a "
            "file with rows first, or create the table by SQL and load without --create"
        )
    columns = ", ".join(f"{types.quoted(field.name)} {field.type}" for field in fields)
    counted = _Counted(_batches(files, fields, primary_key or (), progress))
    epoch = _create(store, new_table(table, columns, primary_key=primary_key), counted)
    return Loaded(epoch, counted.rows, len(files))


def _create(store: Store, table: NewTable, batches: Iterator[pa.RecordBatch]) -> int:
    started = store.environment.now()
    target = store.jobs.new_target(table)
    with target.open(store.environment) as writer:
        for batch in batches:
            writer.write(batch)
        segments = writer.finish()
    proposal = Proposal(
        operation="create table",
        started=started,
        segments=segments,
        created_tables=(table,),
        first_table_id=target.definition.table_id,
    )
    with store.jobs.discarding(segments):
        return store.jobs.commit(proposal).epoch


class _Counted(Iterator[pa.RecordBatch]):
    """Batches, and how many rows of them were taken."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self.rows += batch.num_rows
        return batch


def _batches(
    files: Sequence[RowFile],
    fields: Sequence[types.Field],
    key: Sequence[str],
    progress: Progress,
    versions: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    total = sum(_size_of(file) for file in files)
    bytes_read = 0
    for row_file in files:
        # The header of CSV is a row of the file.
        first = 2 if row_file.file_format is FileFormat.CSV else 1
        with open_input(row_file.path) as file:
            for batch in read_rows(
                file, row_file.file_format, fields, row_file.delimiter, versions
            ):
                _check_keys(batch, key, row_file.path, first)
                first += batch.num_rows
                yield batch
                if file.size is not None:
                    progress(min(bytes_read + file.position, total), total)
            bytes_read += file.size or 0


def _check_keys(batch: pa.RecordBatch, key: Sequence[str], path: str, first: int) -> None:
    """NullKeyError for a NULL in a column of the key; ``first``: the number of the first row.

    A part of the key is a column's name, or ``"name desc"``.
    """
    names = {part.split()[0].lower() for part in key}
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if not columns and batch.num_rows:  # objects without names
        columns = {name: pa.nulls(batch.num_rows) for name in key}
    for name, column in columns.items():
        if name.lower() in names and column.null_count:
            row = first + pc.index(column.is_null(), True).as_py()
            raise errors.NullKeyError(
                f"{path}, row {row}: the primary key column {name!r} is NULL; every row needs a "
                "whole key. Nothing was written"
            )


def _size_of(file: RowFile) -> int:
    """Return the bytes of a file; 0 of standard input. OSError."""
    with open_input(file.path) as opened:
        return opened.size or 0
