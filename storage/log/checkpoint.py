"""A checkpoint: the state of a store at one epoch, as bytes.

The first line is the state without the records of its segments. Of a small store one line per
segment follows: its record, decoded only when it is needed. The checkpoint of a large one names
manifests instead, which have the segments.

Promises: equal states have equal bytes, wherever the fold started;
`decode_checkpoint(encode_checkpoint(state)) == state`; a changed byte is a CorruptionError.
Does not know: when checkpoints are made (folding.py), how manifests are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ..environment import Environment
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
from .features import features_from_json, features_to_json
from .file_frame import seal, unseal
from .live_segments import LiveSegments, Manifests
from .manifest import Manifest, Shard, by_table, columns, segments_from_json
from .manifest_files import ManifestCache, ManifestFiles, shared_manifests
from .sequenced_segment import KEY_OF, SequencedSegment
from .state import CatalogTable, StoreState, check_mapping
from .table_definition import MAX_TABLE_ID, TableDefinition, check_definition
from .typecheck import check_types
from .view import CatalogView, ViewDefinition, ViewProgress


def encode_checkpoint(state: StoreState) -> bytes:
    """Return the content of a state's checkpoint file with the records of all segments."""
    segments = sorted(state.segments.values(), key=KEY_OF)
    lines = [segment.record_json for segment in segments]
    value = {"segments": columns(segments) | _shards(segments)} | by_table(segments)
    return seal("checkpoint", _to_json(state) | value, lines)


def encode_divided(state: StoreState, manifests: Manifests) -> bytes:
    """Return the content of a state's checkpoint file that names manifests, which have files."""
    in_order = chain.from_iterable(manifests[shard] for shard in sorted(manifests, key=_number))
    value = {"manifests": [manifest.to_json() for manifest in in_order]}
    return seal("checkpoint", _to_json(state) | value)


def _number(shard: Shard) -> int:
    return -1 if shard is None else shard


def _shards(segments: Sequence[SequencedSegment]) -> dict[str, list[Shard]]:
    return {"shards": [segment.shard for segment in segments]}


def decode_checkpoint(
    data: bytes,
    epoch: int,
    location: str,
    environment: Environment | None = None,
    cache: ManifestCache = shared_manifests,
) -> StoreState:
    """Return the state of ``epoch`` from its file's content; ``location`` is for messages.

    ``environment``: where its manifests are, if it may name some; ``cache``: for their contents.
    CorruptionError if it is damaged or another epoch's, FormatVersionError if it is too new, or
    has a feature that readers must know and this version does not.
    """
    value, lines = unseal("checkpoint", data, location)
    check_format(value, location)
    try:
        state = _from_json(value, lines, environment, cache)
        _check_values(state)
    except Exception as error:
        raise malformed_error(location, "checkpoint", error) from error
    if state.epoch != epoch:
        raise CorruptionError(
            f"{location}: it holds the state of epoch {state.epoch}, not of epoch {epoch}; "
            "the file was renamed or replaced: restore it from a backup"
        )
    return state


def _to_json(state: StoreState) -> dict[str, Any]:
    """Return a state without its segments as JSON values. On disk: never change a name."""
    # Only there where a clock was repaired.
    repairs = {"clock_repairs": list(state.clock_repairs)} if state.clock_repairs else {}
    return (
        repairs
        | features_to_json(state.features)
        | {
            "format": FORMAT,
            "epoch": state.epoch,
            "commit_id": state.commit_id,
            "time": state.time,
            "settings": state.settings.to_json(),
            "oldest_epoch": state.oldest_epoch,
            "next_table_id": state.next_table_id,
            "tables": [_table_to_json(state.tables[table_id]) for table_id in sorted(state.tables)],
            "views": [_view_to_json(state.views[view_id]) for view_id in sorted(state.views)],
            "transactions": [
                state.transactions[key].to_json() for key in sorted(state.transactions)
            ],
        }
    )


def _from_json(
    value: Mapping[str, Any],
    lines: Sequence[bytes],
    environment: Environment | None,
    cache: ManifestCache,
) -> StoreState:
    tables = [_table_from_json(table) for table in value["tables"]]
    # One that has no time was written before there was one: it counts as of the checkpoint.
    transactions = [
        Transaction.from_json({"time": value["time"], **transaction})
        for transaction in value["transactions"]
    ]
    settings = Settings.from_json(value["settings"])
    if "manifests" in value:
        if environment is None or lines:
            raise ValueError("it names manifests")
        files = ManifestFiles(environment, settings.shards, cache)
        segments = _manifests(map(files.from_json, value["manifests"]), value["epoch"])
    else:
        segments = LiveSegments.of(_segments(value, lines, settings.shards))
    return StoreState(
        value["epoch"],
        value["commit_id"],
        value["time"],
        settings,
        value["oldest_epoch"],
        value["next_table_id"],
        {table.definition.table_id: table for table in tables},
        {table.definition.name.lower(): table.definition.table_id for table in tables},
        segments,
        {(last.writer, last.table_id): last for last in transactions},
        {view.view_id: view for view in map(_view_from_json, value["views"])},
        tuple(value.get("clock_repairs", ())),
        features_from_json(value),
    )


def _segments(
    value: Mapping[str, Any], lines: Sequence[bytes], shards: int
) -> list[SequencedSegment]:
    of_segments = [() if shard is None else (shard,) for shard in value["segments"]["shards"]]
    segments = segments_from_json(value, lines, shards, of_segments)
    if len({segment.name for segment in segments}) < len(segments):
        raise ValueError("it names a segment twice")
    return segments


def _manifests(manifests: Iterable[Manifest], epoch: int) -> LiveSegments:
    by_shard: dict[Shard, list[Manifest]] = {}
    for manifest in manifests:
        of_shard = by_shard.setdefault(manifest.shard, [])
        if of_shard and of_shard[-1].last >= manifest.last:
            raise ValueError("its manifests are not in order")
        of_shard.append(manifest)
    return LiveSegments({shard: tuple(of_shard) for shard, of_shard in by_shard.items()}, epoch)


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
    table_ids = {*state.views, *(key[1] for key in state.transactions)}
    if not table_ids <= state.tables.keys():
        raise ValueError(f"tables {sorted(table_ids - state.tables.keys())} are not defined")


def _table_to_json(table: CatalogTable) -> dict[str, Any]:
    violations = [list(item) for item in table.violations]
    return {
        "definition": table.definition.to_json(),
        "base_epoch": table.base_epoch,
        "data_epoch": table.data_epoch,
        **({"violations": violations} if violations else {}),
    }


def _table_from_json(value: Mapping[str, Any]) -> CatalogTable:
    return CatalogTable(
        TableDefinition.from_json(value["definition"]),
        value["base_epoch"],
        value["data_epoch"],
        tuple((name, rows) for name, rows in value.get("violations", ())),
    )


def _view_to_json(view: CatalogView) -> dict[str, Any]:
    return {"definition": view.definition.to_json(), "progress": view.progress.to_json()}


def _view_from_json(value: Mapping[str, Any]) -> CatalogView:
    return CatalogView(
        ViewDefinition.from_json(value["definition"]), ViewProgress.from_json(value["progress"])
    )
