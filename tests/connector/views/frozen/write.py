"""Writes the plan and the EXPLAIN text of every SELECT of the catalogue, one file per SELECT.

Run it after a deliberate change of plans, and read the diff:
``.venv/bin/python tests/connector/views/frozen/write.py``
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from relstate.connector.views.creation import ViewOptions, new_view
from relstate.connector.views.explanation import explain_new_view
from relstate.storage import Store
from support.catalogue import CATALOGUE, OVER_VIEWS, RECOMPUTED, RECURSIVE, SHAPES, TIMED
from support.moving import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent


def frozen_views(spark: SparkSession, store: Store) -> Iterator[tuple[str, str]]:
    """Create every view of the catalogue in an empty store; yield its name and what is frozen."""
    for name, table in TABLES.items():
        store.create_table(name, table.ddl, primary_key=list(table.key))
    queries = {**CATALOGUE, **OVER_VIEWS, **RECOMPUTED, **TIMED}
    # Those that came later are created last: the ids of tables in the other plans stay.
    for name in sorted(
        queries, key=lambda name: (name in RECURSIVE, name in TIMED, name in SHAPES)
    ):
        query = queries[name]
        state = store.state
        view = new_view(spark, state, f"v_{name}", query.format(v="v_"), ViewOptions(2))
        plan = {key: value for key, value in view.plan.items() if key != "spark"}
        yield name, text_of(plan, explain_new_view(view))
        store.view_catalog.create(
            view, [state.tables[read.table_id].definition for read in view.inputs]
        )


def text_of(plan: object, explanation: list[str]) -> str:
    """Return a plan and its EXPLAIN text as the content of a file."""
    return "\n".join([*explanation, "", "== JSON ==", json.dumps(plan, indent=1), ""])


def main() -> None:
    """Write all files."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder, Store.create(f"{folder}/store") as store:
        for name, text in frozen_views(spark, store):
            (FOLDER / f"{name}.txt").write_text(text, "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
