"""One column of many changed in a tenth of the rows through Spark, of documents and of rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

import relstate
from relstate.storage import Store
from relstate.storage.schema.properties import EncodingName

from ..figure import Comparison, Figure, Samples
from ..turns import in_turns, seconds
from ..workbench import Workbench, records_of

_ENCODINGS: tuple[EncodingName, ...] = ("row", "document")
_COLUMNS = 20
_PART = 10
_BATCH = 100_000


def document_update(bench: Workbench) -> Iterator[Figure]:
    """Measure patches by a DataFrame and by UPDATE, beside an UPDATE of a table of rows."""
    spark, count = bench.spark, bench.size.rows
    with bench.store() as store:
        for encoding in _ENCODINGS:
            _new_table(store, encoding, count)
        store.compact()
        db = relstate.connect(spark, store.path)
        turns = itertools.count()

        def update(name: str) -> Callable[[], object]:
            return lambda: db.sql(f"UPDATE {name} SET c3 = k + {next(turns)} WHERE k % {_PART} = 3")

        def patch() -> None:
            frame = spark.range(3, count, _PART).selectExpr("id AS k", f"id + {next(turns)} AS c3")
            options = {"table": "document", "patch": "true"}
            writer = frame.write.format("relstate").options(**options).mode("append")
            writer.save(store.path)

        changed = len(range(3, count, _PART))
        for what, change, asked in (
            ("patches of a DataFrame", patch, 3.0),
            ("UPDATE", update("document"), None),
        ):
            samples = in_turns(seconds(change), seconds(update("row")), bench.size.turns)
            yield Figure(
                workload="document-update",
                case=f"{what}: a column of {_COLUMNS} in {changed:,} of {count:,} rows",
                unit="K rows/s",
                samples=samples.rates(changed / 1e3),
                comparison=Comparison.RATE,
                against="an UPDATE of a table of rows",
                asked=asked,
            )
        patch()
        yield _bytes(store, changed)


def _new_table(store: Store, encoding: EncodingName, count: int) -> None:
    names = [f"c{number}" for number in range(_COLUMNS)]
    columns = ", ".join(f"{column} BIGINT" for column in ["k", *names])
    store.create_table(encoding, columns, primary_key=["k"], encoding=encoding)
    for start in range(0, count, _BATCH):
        keys = pa.array(np.arange(start, min(start + _BATCH, count)))
        store.write(encoding, pa.record_batch([keys] * (_COLUMNS + 1), names=["k", *names]))


def _bytes(store: Store, changed: int) -> Figure:
    """Return the figure of the bytes of the last change beside those of its entries."""
    table_id = store.state.table_ids["document"]
    records = records_of(store, store.state.table("document").data_epoch)
    written = sum(record.size for record in records) / changed
    entries = sum(record.stored_bytes(table_id) for record in records) / changed
    return Figure(
        workload="document-update",
        case=f"bytes written for each of {changed:,} changed columns",
        unit="B",
        samples=Samples((written,), (entries,)),
        comparison=Comparison.TIME,
        against="the bytes of the entry",
        asked=2.0,
    )
