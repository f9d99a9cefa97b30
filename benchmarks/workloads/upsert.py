"""Upserts into a large table through Spark, beside Delta Lake merging the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, eighths, new_table, write

# The number of the table's rows that one turn writes again.
_PART = 50


def upsert(bench: Workbench) -> Iterator[Figure]:
    """Measure a batch that replaces rows all over a table, durable and committed."""
    count = bench.size.rows // _PART
    with bench.store() as store:
        new_table(store, "upserted")
        for part in eighths(bench.size.rows):
            write(store, "upserted", rows.batches(part))
        folder = bench.folder()
        write_deltalake(folder, _stored(rows.table(range(bench.size.rows))))
        ours, theirs = itertools.count(1), itertools.count(1)

        def into_relstate() -> float:
            frame = rows.frame(bench.spark, bench.size.rows)
            turn = next(ours)
            changed = frame.where(f"a % {_PART} = {turn % _PART}").selectExpr(
                "k", f"a + {turn} AS a", "d", "ts", "s"
            )
            batch = bench.spark.createDataFrame(changed.toArrow())
            writer = batch.write.format("relstate").option("table", "upserted").mode("append")
            return seconds(lambda: writer.save(store.path))()

        def into_delta() -> float:
            turn = next(theirs)
            indices = np.arange(turn % _PART, bench.size.rows, _PART)
            changed = _stored(rows.table(range(bench.size.rows))).take(pa.array(indices))
            places = changed.schema.get_field_index("a")
            changed = changed.set_column(places, "a", pa.array(indices + turn))
            merged = (
                DeltaTable(folder)
                .merge(changed, "t.k = s.k", source_alias="s", target_alias="t")
                .when_matched_update_all()
                .when_not_matched_insert_all()
            )
            return seconds(merged.execute)()

        samples = in_turns(into_relstate, into_delta, bench.size.turns)
        yield Figure(
            workload="upsert",
            case=f"{count:,} rows into {bench.size.rows:,}, through Spark",
            unit="M rows/s",
            samples=samples.rates(count / 1e6),
            comparison=Comparison.RATE,
            against="Delta Lake (deltalake, without Spark) merging the same rows by the same key",
            asked=3.0,
        )


def _stored(table: pa.Table) -> pa.Table:
    """Return rows as Delta Lake takes them: it knows no NOT NULL from Arrow."""
    fields = [pa.field(field.name, field.type) for field in table.schema]
    return table.cast(pa.schema(fields))
