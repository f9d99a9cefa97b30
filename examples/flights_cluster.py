"""The demo of the flights on a cluster: its store in a bucket, its Spark a master and two workers.

    pip install "moto[server]"
    python examples/flights_cluster.py [--since DATE] [--days N]

All runs on this machine, in processes of its own: an object server (moto's, which keeps a bucket in
memory), a master and two workers of one core from pip's own PySpark, and the driver. Each of them
has a folder and a cache of its own; what they share is the address of the store, s3://flights/store.
How to find its server is in the environment. The demo itself is that of flights.py.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import flights
import flights_session
import pyspark
from flights_folder import Folder

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class BucketFolder(Folder):
    """The folders of a replay whose store is in a bucket."""

    @property
    def address(self) -> str:
        """The address of the store."""
        return "s3://flights/store"


def main() -> int:
    """Run the demo; return the exit code."""
    options = flights.arguments()
    with tempfile.TemporaryDirectory(prefix="flights-") as root, ExitStack() as processes:
        folder = Path(root)
        os.environ.update(processes.enter_context(object_server(folder)))
        master = processes.enter_context(cluster(folder, workers=2))
        os.environ["RELSTATE_CACHE_FOLDER"] = str(folder / "driver" / "cache")
        settings = {**flights_session.SETTINGS, "spark.master": master}
        settings |= {"spark.driver.host": HOST, "spark.executor.memory": "512m"}
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"  # wait for both workers
        replayed = BucketFolder(folder / "flights")
        equal = flights.replay(
            replayed, options.since, options.days, reset=False, settings=settings
        )
        print(f"\n{'All equal' if equal else 'NOT EQUAL'}, on two workers.")
        for name in ("worker0", "worker1", "driver"):
            copies = list((folder / name / "cache").glob("*/segments/*"))
            print(f"  {name}: {len(copies)} segments in its cache")
    return 0 if equal else 1


@contextmanager
def object_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run an object server with the bucket ``flights``; yield the variables by which to find it."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port = listener.getsockname()[1]
    endpoint = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    with process(command, folder / "server", {}):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                request = urllib.request.Request(f"{endpoint}/flights", method="PUT")
                urllib.request.urlopen(request).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo-secret",
        }


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Run a master and workers of one core; yield the master's address."""
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    ports = ["--port", "0", "--webui-port", "0"]
    with ExitStack() as processes:
        command = [spark_class, f"{deploy}.master.Master", "--host", HOST, *ports]
        log = processes.enter_context(process(command, folder / "master", {}))
        master = wait_for(log, r"Starting Spark master at (\S+)")
        for number in range(workers):
            home = folder / f"worker{number}"
            command = [spark_class, f"{deploy}.worker.Worker", "--host", HOST, *ports]
            command += ["--cores", "1", "--memory", "1g", master]
            variables = {
                "SPARK_WORKER_DIR": str(home / "work"),
                "SPARK_LOCAL_DIRS": str(home / "local"),
                "RELSTATE_CACHE_FOLDER": str(home / "cache"),
            }
            log = processes.enter_context(process(command, home, variables))
            wait_for(log, r"(Successfully registered) with master")
        yield master


@contextmanager
def process(command: list[str], folder: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """Run a program in a folder of its own; yield the file that it logs to."""
    folder.mkdir(parents=True)
    log = folder / "log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        **variables,
    }
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        running.terminate()
        running.wait()


def wait_for(log: Path, pattern: str) -> str:
    """Return what a group of a pattern matches in a log, as soon as it does."""
    deadline = time.monotonic() + SECONDS
    while (match := re.search(pattern, log.read_text(errors="replace"))) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {pattern!r} in {log}:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
    return match[1]


if __name__ == "__main__":
    sys.exit(main())
