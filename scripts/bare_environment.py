"""Install a wheel into a new environment, and use it there.

usage: bare_environment.py WHEEL

The environment has only the wheel and its requirements. It is outside of the checkout, and the
programs in it get no variable of this process for Python or Spark. Exits with status 0 if the
package returns a row without Spark, Spark finds it as `format("relstate")` and it maintains a view,
and the command line works.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

# Each program runs in a process of its own, in this order, over one store.
WITHOUT_SPARK = """
import sys
import relstate

store = relstate.create(sys.argv[1])
store.create_table("orders", "id BIGINT, amount DOUBLE", primary_key=["id"])
store.write("orders", [{"id": 1, "amount": 2.5}])
assert store.table("orders").get(1).amount == 2.5
assert "pyspark" not in sys.modules
"""
WITH_SPARK = """
import sys
import relstate
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
frame = spark.sql("SELECT 2L AS id, 4.0D AS amount")
frame.write.format("relstate").option("table", "orders").mode("append").save(sys.argv[1])
rows = spark.read.format("relstate").option("table", "orders").load(sys.argv[1])
assert sorted(row.id for row in rows.collect()) == [1, 2]
db = relstate.connect(spark, sys.argv[1])
db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS amount FROM orders")
assert db.sql("SELECT amount FROM total").first().amount == 6.5
"""


def main(wheel: Path) -> None:
    """Make the environment, run everything in it, and remove it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment, store = folder / "environment", str(folder / "store")
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, f"{wheel.resolve()}[cli]"], folder)
        _run([python, "-c", WITHOUT_SPARK, store], folder)
        _run([python, "-c", WITH_SPARK, store], folder)
        _run([environment / "bin" / "relstate", "get", store, "orders", "2"], folder)
        _run([environment / "bin" / "relstate", "check", store], folder)
    print(f"{wheel.name} works in a bare environment")


def _run(command: list[str | Path], folder: Path) -> None:
    """Run a program in a folder, without this process's variables for Python and Spark."""
    prefixes = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    variables["PYSPARK_PYTHON"] = str(folder / "environment" / "bin" / "python")
    subprocess.run(command, cwd=folder, env=variables, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
