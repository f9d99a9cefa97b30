"""The quarantine of a table: another table, with rows that a write set aside and why.

It is an ordinary table named `quarantine_name`, which anybody may read, change and drop. It is
created by the first write that may need it, and is renamed and dropped with its table.

Promises: there is none without its table.
Does not know: how a row becomes text.
"""

from __future__ import annotations

from .catalog_commit import ATTEMPTS, contested_error, propose
from .epochs import Epochs
from .errors import ConflictError, OptionError, SchemaMismatchError, TableExistsError
from .log.names import is_quarantine_name, quarantine_name
from .log.proposal import NewTable
from .log.table_definition import TableDefinition
from .schema.ddl import parse_columns
from .schema.schema import TableSchema
from .table.writetarget import WriteTarget
from .user_tables import user_table
from .writing import write_target

QUARANTINE_COLUMNS = """
    id STRING NOT NULL COMMENT 'the write, the batch, the task and the row in it',
    row_json STRING NOT NULL COMMENT 'the row as it was written',
    rule STRING NOT NULL COMMENT 'the column or the constraint',
    reason STRING NOT NULL COMMENT 'why the table did not take the row',
    write_options STRING COMMENT 'what the write said of its rows',
    written_at TIMESTAMP NOT NULL COMMENT 'when the write was planned'
"""
"""The columns of a quarantine, of which ``id`` is the key."""

_COMMENT = "rows that {} did not take; ALTER TABLE … RECOVER QUARANTINE writes them again"


def quarantine_target(epochs: Epochs, table: str) -> WriteTarget:
    """Return what tasks need to write to the quarantine of a table, which is created if need be.

    TableNotFoundError, InternalTableError, OptionError for the quarantine itself,
    SchemaMismatchError if it was altered so that it does not take its rows.
    """
    for _ in range(ATTEMPTS):
        state = epochs.look_up()
        definition = user_table(state, table, "written")
        if is_quarantine_name(definition.name):
            raise OptionError(
                f"{definition.name!r} is a quarantine, and has none: leave out option 'badRows'"
            )
        quarantine = state.quarantine_of(definition.table_id)
        if quarantine is not None:
            _check_columns(quarantine)
            return write_target(epochs, quarantine.name)
        try:
            propose(
                epochs,
                "create quarantine",
                data_change=False,
                created_tables=(_new_quarantine(definition.name),),
                requires=(definition,),
            )
        except (ConflictError, TableExistsError):
            continue
    raise contested_error(table)


def _new_quarantine(table: str) -> NewTable:
    schema = TableSchema.build(parse_columns(QUARANTINE_COLUMNS), ["id"])
    return NewTable(quarantine_name(table), schema, comment=_COMMENT.format(table))


def _check_columns(quarantine: TableDefinition) -> None:
    needed = _new_quarantine(quarantine.name).schema.arrow_schema
    try:
        quarantine.schema.check_schema(needed)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"the quarantine {quarantine.name!r} was altered and does not take its rows any more "
            f"({error}): drop it, and the next write creates it"
        ) from None
