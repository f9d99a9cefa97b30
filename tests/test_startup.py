"""What a new process imports: only what its first calls need."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import relstate

# Most of the time of a first get is that of imports. A new module costs about a millisecond.
MOST_MODULES_OF_A_GET = 155
# What a get needs nothing of, by the beginning of its name.
NOT_OF_A_GET = tuple(
    f"relstate.{name}"
    for name in (
        "connector",
        "storage.aggregate",
        "storage.expression",
        "storage.feed.feed_plan",
        "storage.jobs",
        "storage.log.transaction",
        "storage.maintenance",
        "storage.predicate.",
        "storage.segment.writer",
        "storage.syntax",
        "storage.table.document.",
        "storage.table.tablewriter",
        "storage.writing",
    )
)


def test_the_public_face_is_light() -> None:
    """``import relstate`` loads neither Spark nor what only Spark needs."""
    program = (
        "import json, sys, relstate; relstate.create, relstate.open; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(run.stdout))

    assert "relstate.storage" in loaded
    assert not loaded & {"pyspark", "py4j", "sqlglot", "relstate.connector"}


def test_a_get_of_a_new_process_imports_only_what_it_needs(tmp_path: Path) -> None:
    """Nor pandas, which pyarrow imports for Python values and which takes longer than all else."""
    store = relstate.create(str(tmp_path / "store"))
    store.create_table("items", "id BIGINT, name STRING, price DECIMAL(9,2)", primary_key=["id"])
    store.write("items", [{"id": 1, "name": "pen", "price": Decimal("1.50")}])
    program = (
        "import json, sys, relstate; row = relstate.open(sys.argv[1]).table('items').get(1); "
        "assert row.name == 'pen', row; print(json.dumps(sorted(sys.modules)))"
    )

    run = subprocess.run(
        [sys.executable, "-P", "-c", program, store.path],
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = json.loads(run.stdout)
    own = [name for name in loaded if name.partition(".")[0] == "relstate"]

    assert not {"pandas", "pyspark", "sqlglot"} & set(loaded)
    assert [name for name in own if name.startswith(NOT_OF_A_GET)] == []
    assert len(own) <= MOST_MODULES_OF_A_GET
