"""Write the golden stores of this version: what later versions must read for ever.

usage: PYTHONPATH=tests python scripts/golden.py [NAME]...

Each is packed in tests/golden/VERSION/NAME.tar.xz, in the place of the one that is there; by
default all are written. The stores of a version that the changelog has released are not written
again: they are what it wrote. Afterwards run the tests named test_golden.py.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from pathlib import Path

from support.golden import FOLDER, pack
from support.golden_stores import WRITERS
from support.golden_views import write_redis, write_views
from support.sources import ROOT


def main(names: list[str]) -> None:
    """Write the stores of some names, or of all."""
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    if re.search(rf"^## {re.escape(version)} ", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M):
        sys.exit(
            f"{version} is released, and its stores are read for ever: raise the version in "
            "pyproject.toml"
        )
    for name in names or [*WRITERS, "redis", "views"]:
        with tempfile.TemporaryDirectory(prefix="relstate-") as folder:
            path = Path(folder) / "store"
            if name == "views":
                _write_views(path)
            else:
                (WRITERS | {"redis": write_redis})[name](path)
            file = FOLDER / version / f"{name}.tar.xz"
            pack(path, file)
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes", flush=True)


def _write_views(path: Path) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    write_views(path, spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
