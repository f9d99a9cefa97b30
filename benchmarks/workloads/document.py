"""Document tables: scans, changes of parts, and an entry per column beside one per row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from relstate.storage import Store
from relstate.storage.schema.properties import EncodingName

from .. import rows
from ..figure import Comparison, Figure, Samples
from ..turns import in_turns, seconds
from ..workbench import Workbench, records_of, write

_ENCODINGS: tuple[EncodingName, ...] = ("row", "document")
_MOST_ROWS = 1_000_000
_MAPS = 1000
_ENTRIES = {"small": 10, "large": 10_000}
_WIDTHS = (2, 10, 50)
_CELLS = 1_000_000
_GETS = 2000
_PART = 100


def document_scan(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.scan` of a document table, compacted and with cells above its rows."""
    count = min(bench.size.rows, _MOST_ROWS)
    with bench.store() as store:
        for encoding in _ENCODINGS:
            store.create_table(encoding, rows.COLUMNS, primary_key=["k"], encoding=encoding)
            write(store, encoding, rows.batches(range(count)))
        store.compact()
        yield _scan(bench, store, count, "compacted", 0.95, "a compacted table of rows")
        changed = rows.batch(np.arange(0, count, _PART, dtype=np.int64))
        store.write("row", changed)
        store.patch("document", changed.select(["k", "s"]))
        against = "a table of rows in which the same rows were written again"
        yield _scan(bench, store, count, "1% of the rows have a cell", 0.7, against)
        store.compact("row")
        case = "1% of the rows have a cell, beside a compacted table"
        yield _scan(bench, store, count, case, 0.7, "a compacted table of rows")


def _scan(
    bench: Workbench, store: Store, count: int, case: str, asked: float, against: str
) -> Figure:
    def scan(name: str) -> Callable[[], object]:
        return lambda: sum(batch.num_rows for batch in store.table(name).scan())

    samples = in_turns(seconds(scan("document")), seconds(scan("row")), bench.size.turns)
    return Figure(
        workload="document-scan",
        case=f"{count:,} rows, {case}",
        unit="M rows/s",
        samples=samples.rates(count / 1e6),
        comparison=Comparison.RATE,
        against=against,
        asked=asked,
    )


def document_patch(bench: Workbench) -> Iterator[Figure]:
    """Measure adding an entry to each of many maps, beside maps of fewer entries."""
    maps = max(int(_MAPS * bench.size.scale), 8)
    map_type = pa.map_(pa.string(), pa.int64())
    keys = pa.array(range(maps))
    turns = itertools.count()
    with bench.store() as store:
        for name, entries in _ENTRIES.items():
            store.create_table(
                name, "k BIGINT, m MAP<STRING, BIGINT>", primary_key=["k"], encoding="document"
            )
            value = [(f"{number:06d}", number) for number in range(entries)]
            for start in range(0, maps, 100):
                part = keys.slice(start, 100)
                store.write(
                    name, pa.table({"k": part, "m": pa.array([value] * len(part), map_type)})
                )

        def patch(name: str) -> Callable[[], int]:
            def add() -> int:
                value = [(f"new {next(turns):06d}", 1)]
                return store.patch(
                    name, pa.table({"k": keys, "m": pa.array([value] * maps, map_type)})
                )

            return add

        samples = in_turns(seconds(patch("large")), seconds(patch("small")), bench.size.turns)
        yield Figure(
            workload="document-patch",
            case=f"one entry added to each of {maps:,} maps of {_ENTRIES['large']:,}",
            unit="ms",
            samples=samples.scaled(1e3),
            comparison=Comparison.TIME,
            against=f"the same to maps of {_ENTRIES['small']}",
            asked=1.5,
        )
        large, small = (
            sum(record.size for record in records_of(store, patch(name)())) / maps
            for name in ("large", "small")
        )
        yield Figure(
            workload="document-patch",
            case=f"bytes written for each entry added to maps of {_ENTRIES['large']:,}",
            unit="B",
            samples=Samples((large,), (small,)),
            comparison=Comparison.TIME,
            against=f"the same to maps of {_ENTRIES['small']}",
            asked=1.5,
        )


def document_cells(bench: Workbench) -> Iterator[Figure]:
    """Measure an entry for each column, `packed = false`, beside one for each row."""
    for width in _WIDTHS:
        count = max(min(bench.size.rows, _CELLS // width), 1000)
        columns = "k BIGINT, " + ", ".join(f"c{number} BIGINT" for number in range(width))
        with bench.store() as store:
            store.create_table("row", columns, primary_key=["k"])
            store.create_table(
                "cells", columns, primary_key=["k"], encoding="document", packed=False
            )
            yield from _cells(bench, store, width, count)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a row takes in the files: entries, and bytes of their keys and values."""

    entries: float
    stored_bytes: float


def _stored(store: Store, name: str, count: int) -> _Stored:
    table_id = store.state.table_ids[name]
    records = [segment.record for segment in store.state.segments_of(table_id)]
    return _Stored(
        sum(record.rows(table_id) for record in records) / count,
        sum(record.stored_bytes(table_id) for record in records) / count,
    )


def _cells(bench: Workbench, store: Store, width: int, count: int) -> Iterator[Figure]:
    keys = np.arange(count, dtype=np.int64)
    names = ["k", *(f"c{number}" for number in range(width))]
    batch = pa.record_batch([pa.array(keys)] * (width + 1), names=names)
    some = keys[:: max(count // _GETS, 1)].tolist()
    part = batch.take(pa.array(keys[::_PART]))

    def figure(what: str, unit: str, samples: Samples, comparison: Comparison) -> Figure:
        case = f"{what}, {count:,} rows of {width} columns, an entry each"
        against = "a table of rows"
        return Figure("document-cells", case, unit, samples, comparison, against)

    def each(action: Callable[[str], object]) -> Samples:
        cells, row = (seconds(partial(action, name)) for name in ("cells", "row"))
        return in_turns(cells, row, bench.size.turns)

    written = each(lambda name: store.write(name, batch, overwrite=True))
    yield figure("write", "M rows/s", written.rates(count / 1e6), Comparison.RATE)
    cells, row = (_stored(store, name, count) for name in ("cells", "row"))
    entries = Samples((cells.entries,), (row.entries,))
    yield figure("entries of a row", "entries", entries, Comparison.TIME)
    stored = Samples((cells.stored_bytes,), (row.stored_bytes,))
    yield figure("bytes of a row", "B", stored, Comparison.TIME)

    def get(name: str) -> object:
        table = store.table(name)
        return [table.get(key) for key in some]

    gets = each(get)
    yield figure("get", "us", gets.scaled(1e6 / len(some)), Comparison.TIME)
    scans = each(lambda name: sum(rows_.num_rows for rows_ in store.table(name).scan()))
    yield figure("scan", "M rows/s", scans.rates(count / 1e6), Comparison.RATE)

    def change_column(name: str) -> object:
        if name == "cells":
            return store.patch(name, part.select(["k", "c0"]))
        keys_of_part = part.select(["k"])
        table = store.table(name).get_rows(keys_of_part)
        return store.write(name, table.set_column(1, "c0", part.column("c0")))

    changed = each(change_column)
    yield figure(
        "one column of 1% changed",
        "K rows/s",
        changed.rates(part.num_rows / 1e3),
        Comparison.RATE,
    )
