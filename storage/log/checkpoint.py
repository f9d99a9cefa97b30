"""A checkpoint: the state of a store at one epoch, as bytes.

The first line is the state without the records of its segments; then follows one line per segment:
its record, decoded only when it is needed.

Promises: equal states have equal bytes, wherever the fold started;
`decode_checkpoint(encode_checkpoint(state)) == state`; a changed byte is a CorruptionError.
Does not know: when checkpoints are made (log.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from ..errors import CorruptionError
from .entry import (
    FORMAT,
    Settings,
    Transaction,
    check_format,
    check_settings,
    check_time,
    malformed_error,
)
from .frame import seal, unseal
from .sequenced_segment import SequencedSegment
from .state import CatalogTable, StoreState, check_mapping
from .table_definition import MAX_TABLE_ID, TableDefinition, check_definition
from .typecheck import check_types
from .view import CatalogView, ViewDefinition, ViewProgress


def encode_checkpoint(state: StoreState) -> bytes:
    """Return the content of a state's checkpoint file."""
    segments = sorted(state.segments.values(), key=attrgetter("epoch", "rank", "name"))
    lines = [segment.record_json for segment in segments]
    return seal("checkpoint", _to_json(state, segments), lines)


def decode_checkpoint(data: bytes, epoch: int, location: str) -> StoreState:
    """Return the state of ``epoch`` from its file's content; ``location`` is for messages.

    CorruptionError if it is damaged or another epoch's, FormatVersionError if it is too new.
    """
    value, lines = unseal("checkpoint", data, location)
    check_format(value, location)
    try:
        state = _from_json(value, lines)
        _check_values(state)
    except Exception as error:
        raise malformed_error(location, "checkpoint", error) from error
    if state.epoch != epoch:
        raise CorruptionError(
            f"{location}: it holds the state of epoch {state.epoch}, not of epoch {epoch}; "
            "the file was renamed or replaced: restore it from a backup"
        )
    return state


def _to_json(state: StoreState, segments: Sequence[SequencedSegment]) -> dict[str, Any]:
    """Return a state as JSON values. On disk: never change a name."""
    index = {segment.name: number for number, segment in enumerate(segments)}
    # Only there where a clock was repaired.
    repairs = {"clock_repairs": list(state.clock_repairs)} if state.clock_repairs else {}
    return repairs | {
        "format": FORMAT,
        "epoch": state.epoch,
        "commit_id": state.commit_id,
        "time": state.time,
        "settings": state.settings.to_json(),
        "oldest_epoch": state.oldest_epoch,
        "next_table_id": state.next_table_id,
        "tables": [_table_to_json(state.tables[table_id]) for table_id in sorted(state.tables)],
        "views": [_view_to_json(state.views[view_id]) for view_id in sorted(state.views)],
        "transactions": [state.transactions[key].to_json() for key in sorted(state.transactions)],
        "segments": {
            "names": [segment.name for segment in segments],
            "epochs": [segment.epoch for segment in segments],
            "ranks": [segment.rank for segment in segments],
        },
        # Pairs, in the order of the ids: as names of an object they would sort as text.
        "segments_by_table": [
            [table_id, [index[segment.name] for segment in of_table]]
            for table_id, of_table in sorted(state.segments_by_table.items())
        ],
    }


def _from_json(value: Mapping[str, Any], lines: Sequence[bytes]) -> StoreState:
    tables = [_table_from_json(table) for table in value["tables"]]
    transactions = [Transaction.from_json(transaction) for transaction in value["transactions"]]
    names, epochs, ranks = (value["segments"][name] for name in ("names", "epochs", "ranks"))
    settings = Settings.from_json(value["settings"])
    rows = zip(lines, epochs, ranks, names, strict=True)
    segments = [SequencedSegment.from_json(*row, settings.shards) for row in rows]
    return StoreState(
        value["epoch"],
        value["commit_id"],
        value["time"],
        settings,
        value["oldest_epoch"],
        value["next_table_id"],
        {table.definition.table_id: table for table in tables},
        {table.definition.name.lower(): table.definition.table_id for table in tables},
        dict(zip(names, segments, strict=True)),
        {
            table_id: tuple(segments[number] for number in numbers)
            for table_id, numbers in value["segments_by_table"]
        },
        {(last.writer, last.table_id): last for last in transactions},
        {view.view_id: view for view in map(_view_from_json, value["views"])},
        tuple(value.get("clock_repairs", ())),
    )


def _check_values(state: StoreState) -> None:
    """Raise ValueError for a state that no log leads to."""
    for name in ("epoch", "commit_id", "time", "oldest_epoch", "next_table_id"):
        if type(getattr(state, name)) is not (str if name == "commit_id" else int):
            raise ValueError(f"{name} is {getattr(state, name)!r:.100}")
    check_types(state.settings)
    check_settings(state.settings)
    check_time(state.time)
    if not 1 <= state.oldest_epoch <= state.epoch:
        raise ValueError(f"{state.oldest_epoch} cannot be the oldest epoch")
    for table in state.tables.values():
        check_types(table)
        check_definition(table.definition)
        if not 1 <= table.definition.table_id < state.next_table_id <= MAX_TABLE_ID + 1:
            raise ValueError(f"the table id {table.definition.table_id}")
    for transaction in state.transactions.values():
        check_types(transaction)
    for view in state.views.values():
        check_types(view)
        check_mapping(view.definition, state.settings)
    for segment in state.segments.values():
        if type(segment.epoch) is not int or type(segment.rank) is not int or segment.epoch < 1:
            raise ValueError(f"the sequence number of segment {segment.name!r:.100}")
    named = {*state.segments_by_table, *state.views, *(key[1] for key in state.transactions)}
    if not named <= state.tables.keys():
        raise ValueError(f"tables {sorted(named - state.tables.keys())} are not defined")


def _table_to_json(table: CatalogTable) -> dict[str, Any]:
    return {
        "definition": table.definition.to_json(),
        "base_epoch": table.base_epoch,
        "data_epoch": table.data_epoch,
    }


def _table_from_json(value: Mapping[str, Any]) -> CatalogTable:
    return CatalogTable(
        TableDefinition.from_json(value["definition"]),
        value["base_epoch"],
        value["data_epoch"],
    )


def _view_to_json(view: CatalogView) -> dict[str, Any]:
    return {"definition": view.definition.to_json(), "progress": view.progress.to_json()}


def _view_from_json(value: Mapping[str, Any]) -> CatalogView:
    return CatalogView(
        ViewDefinition.from_json(value["definition"]), ViewProgress.from_json(value["progress"])
    )
