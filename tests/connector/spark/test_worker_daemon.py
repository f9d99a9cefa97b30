"""The daemon of the workers of tasks, which imports before it forks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from relstate.connector.spark.worker_daemon import without_archive

HOME = Path(pyspark.__file__).parent
ARCHIVE = str(HOME / "python" / "lib" / "pyspark.zip")


def test_the_archive_of_the_installed_pyspark_is_left_out() -> None:
    """It has the same modules, but none that is compiled."""
    site = str(HOME.parent)

    assert without_archive(["/work", ARCHIVE, "/a.jar", site]) == ["/work", "/a.jar", site]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param([ARCHIVE, "/lib"], id="no other PySpark"),
        pytest.param(
            ["/opt/spark/python/lib/pyspark.zip", str(HOME.parent)], id="another distribution"
        ),
    ],
)
def test_another_archive_stays(path: list[str]) -> None:
    """Workers run the PySpark that Spark has chosen for them."""
    assert without_archive(path) == path


def test_a_forked_process_has_what_a_task_needs() -> None:
    """It computes with numpy and pyarrow too, whose threads a fork does not copy."""
    program = """
import json, os, sys, threading
from relstate.connector.spark.worker_daemon import import_needed
import_needed()
reader, writer = os.pipe()
if os.fork() == 0:
    before = set(sys.modules)
    import numpy, pyarrow, pyarrow.compute
    from relstate.connector.sink.write import WriteJob
    from relstate.connector.source.read import TableReader
    from relstate.storage import TableWriter
    total = pyarrow.compute.sum(pyarrow.array(numpy.ones((64, 64)) @ numpy.ones(64))).as_py()
    os.write(writer, json.dumps([total, sorted(set(sys.modules) - before)]).encode())
    os._exit(0)
os.close(writer)
print(os.fdopen(reader).read(), threading.active_count())
"""
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    answer, threads = run.stdout.rsplit(maxsplit=1)

    assert json.loads(answer) == [4096.0, []]
    assert threads == "1"
