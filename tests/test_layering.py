"""Imports go down only, and each thing from outside comes through its one door."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from support.sources import (
    PACKAGES,
    Import,
    Source,
    files_imported,
    imports_of,
    names_used,
    package_names,
    product_sources,
    program_sources,
)

MOST_LINES = 800
SPARK_FOLDERS = ("connector", "package/relstate", "package/pyspark_relstate")
# Plain Python over Arrow, tested without Spark.
SPARKLESS = (
    "connector/figures/",
    "connector/files/",
    "connector/redis/",
    "connector/ui/",
    "connector/views/executor/",
    "connector/views/operators.py",
    "connector/views/plan/",
    "connector/views/viewplan.py",
)
# The one folder that knows what differs between the versions of Spark, and where PySpark has it.
VERSIONS_FOLDER = "connector/spark/"
VERSIONED = (
    "pyspark.__version__",
    "pyspark.serializers",
    "pyspark.sql.pandas",
    "pyspark.sql.streaming.datasource",
    "pyspark.util",
    "pyspark.version",
)
LMDB_FILE = "storage/segment/segment.py"
# What a store is made of has one door. What the command line finds around its own process (Spark
# starts programs by it) is no part of a store, and has another; so have the files that people load
# and export.
CHOICE_FILE = "storage/environment_choice.py"
# The environment of object stores keeps its copies in a local one.
LOCAL_FILES = ("storage/local_environment.py", "storage/objects/object_environment.py")
DOORS = (
    "storage/clock.py",
    "storage/disk.py",
    "storage/local_environment.py",
    "storage/objects/cache.py",
    "storage/objects/leases.py",
    "storage/objects/client.py",
    "connector/cli/surroundings.py",
    "connector/files/row_file.py",
    "connector/source/interpreter.py",
    "connector/spark/worker_output.py",
)
OBJECTS_FOLDER = "storage/objects/"
# Where storage has locks that a forked child may find closed: the one that is renewed, and what is
# not used across a fork, which are object stores, and a read that has threads of its own.
LOCK_FILES = (OBJECTS_FOLDER, "storage/forklock.py", "storage/threaded_aggregate.py")

# What the packages are made of, the lowest first: a file imports from its own floor or from those
# below. A file that is in none by name is on the floor of its folder. A package's own __init__ is
# above all of its floors.
FLOORS = {
    "storage": (
        "errors", "extras", "notebook", "paths", "location", "disk", "disk_errors", "clock",
        "commit_signal", "environment", "local_environment", "forklock", "problems", "objects",
        "environment_choice", "syntax", "duration", "instant", "schema", "codec", "predicate",
        "expression", "aggregate", "log", "segment", "table", "index", "read_plan", "view_failures",
        "aggregate_plan", "threaded_aggregate", "limited_plan", "feed", "maintenance", "figures",
        "check", "generated_columns", "alteration",
        "replacement", "epochs", "catalog_commit", "user_tables", "table_creation", "view_catalog",
        "definition_changes", "snapshot", "catalog",
        "python_values", "python_conversion", "rows", "writing", "quarantine", "restoring",
        "documentwriter", "schema_merge", "quarantined_keys", "erasure", "jobs", "store",
    ),
    "connector": (
        "syntax", "spark", "", "sink", "source", "views/plan", "views/view_settings",
        "views/planner", "views/executor", "views",
        "figures", "files", "sql", "ui", "redis", "cli",
    ),
}  # fmt: skip

# What touches files, the clock or chance, by the beginning of its name ...
OUTSIDE = (
    "builtins.open",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "fcntl",
    "glob",
    "io",
    "mmap",
    "numpy.fromfile",
    "numpy.load",
    "numpy.memmap",
    "numpy.random",
    "numpy.save",
    "numpy.savez",
    "os",
    "pathlib",
    "pyarrow.OSFile",
    "pyarrow.fs",
    "pyarrow.memory_map",
    "pyarrow.parquet",
    "random",
    "secrets",
    "shutil",
    "subprocess",
    "tempfile",
    "time",
    "uuid",
)
# ... and what does not, though its name begins so: pure, or about processes only.
PURE = (
    "io.BytesIO",
    "io.StringIO",
    "os.PathLike",
    "os.fsencode",
    "os.fspath",
    "os.getpid",
    "os.register_at_fork",
    "pathlib.PurePath",
    "pathlib.PurePosixPath",
)


def test_imports_go_down_only() -> None:
    """Connector -> storage -> vnode, and the public face above them all."""
    assert found_in(product_sources(), upward_imports) == []


def test_imports_inside_a_package_go_down_only() -> None:
    """The folders of storage and of connector stand in one order."""
    assert found_in(product_sources(), imports_of_higher_floors) == []


def test_no_two_files_import_each_other() -> None:
    """Nor do they by way of others: a file can be read after those that it imports."""
    imports = {source.path: dict(files_imported(source)) for source in product_sources()}

    assert circle_in({path: set(files) for path, files in imports.items()}) == []


def test_a_circle_is_found() -> None:
    """However long it is, and whatever else its files import."""
    assert circle_in({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_packages_see_each_other_s_public_names_only() -> None:
    """Across packages it is ``from relstate.vnode import name``, never a module inside."""
    assert found_in(product_sources(), inner_imports) == []


def test_spark_is_known_above_storage_only() -> None:
    """A serving process that only looks rows up never loads Spark."""
    assert found_in(product_sources(), misplaced_spark) == []


def test_versions_of_spark_are_known_to_one_folder() -> None:
    """The rest asks for what a version can do."""
    assert found_in(product_sources(), misplaced_versions) == []


def test_lmdb_is_known_to_one_file() -> None:
    """What LMDB needs to be safe is decided in one place."""
    assert found_in(product_sources() + program_sources(), misplaced_lmdb) == []


def test_obstore_is_known_to_one_folder() -> None:
    """A process with local stores only does not need it."""
    assert found_in(product_sources(), misplaced_obstore) == []


def test_files_clock_and_chance_have_one_door() -> None:
    """Tests can make anything fail, and an object store can stand behind the environment."""
    assert found_in(product_sources(), side_doors) == []


def test_no_lock_stays_closed_in_a_forked_child() -> None:
    """Nor does one that Python holds while a property is computed."""
    assert found_in(product_sources(), closed_locks) == []
    assert found_in(program_sources(), locked_properties) == []


def test_one_function_decides_which_environment_a_path_has() -> None:
    """Another kind of environment is added in one place."""
    assert found_in(product_sources(), chosen_environments) == []


def test_packages_are_imported_by_their_installed_names() -> None:
    """``import storage`` works from the root and gives second, unequal classes."""
    assert found_in(product_sources() + program_sources(), bare_imports) == []


def test_no_file_is_too_long() -> None:
    """A file is one noun; beyond 800 lines it is several."""
    assert found_in(product_sources() + program_sources(), excess_lines) == []


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        ("upward_imports", "vnode/hash.py", "from relstate.storage import Store"),
        ("upward_imports", "storage/log.py", "import relstate.connector"),
        ("upward_imports", "storage/log.py", "from relstate import connector"),
        ("upward_imports", "connector/sink.py", "def f():\n    import relstate"),
        ("upward_imports", "connector/sink.py", "import pyspark_relstate"),
        ("imports_of_higher_floors", "storage/log/log.py", "from ..table.scan import Scan"),
        ("imports_of_higher_floors", "storage/log/log.py", "from ..store import Store"),
        ("imports_of_higher_floors", "storage/new.py", "from .errors import RelstateError"),
        ("imports_of_higher_floors", "connector/types.py", "from .sink.shuffle import x"),
        (
            "imports_of_higher_floors",
            "connector/views/stream.py",
            "from relstate.connector.sql.database import Database",
        ),
        ("inner_imports", "storage/log.py", "from relstate.vnode.hash import xxhash64"),
        ("inner_imports", "package/relstate/__init__.py", "import relstate.storage.store"),
        ("inner_imports", "connector/sink.py", "from relstate.storage.errors import DataError"),
        ("misplaced_spark", "storage/schema/types.py", "import pyspark.sql"),
        ("misplaced_spark", "vnode/hash.py", "from pyspark import sql"),
        ("misplaced_spark", "connector/views/executor/join.py", "from pyspark import sql"),
        ("misplaced_versions", "connector/local_rows.py", "from pyspark.util import local_connect"),
        ("misplaced_versions", "connector/x.py", "from pyspark.sql.pandas.types import to_arrow"),
        ("misplaced_versions", "connector/x.py", "import pyspark\npyspark.__version__"),
        ("misplaced_versions", "connector/x.py", "from pyspark import __version__"),
        ("misplaced_lmdb", "storage/log.py", "import lmdb"),
        ("misplaced_lmdb", "connector/sink.py", "from lmdb import open"),
        ("side_doors", "storage/log.py", "open('x')"),
        ("side_doors", "storage/log.py", "import os\nos.path.exists('x')"),
        ("side_doors", "storage/log.py", "from os import path"),
        ("side_doors", "storage/log.py", "import os.path as p\np.exists('x')"),
        ("side_doors", "storage/log.py", "from pathlib import Path"),
        ("side_doors", "connector/sink.py", "import time as t\nt.time()"),
        ("side_doors", "connector/sink.py", "from time import monotonic"),
        ("side_doors", "connector/cli/doctor.py", "import subprocess\nsubprocess.run(['x'])"),
        ("side_doors", "vnode/hash.py", "import numpy as np\nnp.random.rand()"),
        ("side_doors", "vnode/hash.py", "from datetime import datetime as d\nd.now()"),
        ("side_doors", "vnode/hash.py", "import datetime\ndatetime.date.today()"),
        ("side_doors", "storage/log.py", "import pyarrow as pa\npa.memory_map('x')"),
        ("closed_locks", "storage/log.py", "import threading\nthreading.Lock()"),
        ("closed_locks", "storage/log.py", "from threading import RLock\nRLock()"),
        ("closed_locks", "vnode/hash.py", "from functools import cached_property"),
        (
            "closed_locks",
            "connector/sink.py",
            "import functools as f\nf.cached_property",
        ),
        ("locked_properties", "tests/x.py", "from functools import cached_property as kept"),
        ("chosen_environments", "storage/x.py", "from .local_environment import LocalEnvironment"),
        ("chosen_environments", "storage/x.py", "from . import x\nx.LocalEnvironment('y')"),
        (
            "chosen_environments",
            "storage/environment_choice.py",
            "def f(x):\n    LocalEnvironment(x)",
        ),
        ("misplaced_obstore", "storage/log.py", "import obstore"),
        ("misplaced_obstore", "storage/local_environment.py", "from obstore.store import S3Store"),
        ("bare_imports", "tests/test_x.py", "import storage"),
        ("bare_imports", "examples/x.py", "from vnode.hash import xxhash64"),
        ("bare_imports", "connector/sink.py", "import connector.source"),
        ("excess_lines", "storage/log.py", "x = 1\n" * 801),
    ],
)
def test_the_checks_see_what_they_forbid(check: str, path: str, text: str) -> None:
    """Each check finds each way around it."""
    assert found_in([Source(path, text)], globals()[check])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("storage/log.py", "from relstate.vnode import xxhash64\nfrom .entry import Entry"),
        ("connector/sink.py", "from relstate.storage import Store\nimport pyspark.sql"),
        ("connector/source/read.py", "from relstate.connector import Options"),
        ("package/relstate/__init__.py", "from relstate.storage import Store"),
        ("package/relstate/__init__.py", "from relstate.storage.errors import *"),
        ("package/pyspark_relstate/__init__.py", "from relstate.connector import Source"),
        ("storage/segment/segment.py", "import lmdb"),
        ("storage/forklock.py", "import threading\nthreading.RLock()"),
        ("storage/log.py", "import threading\nthreading.local()"),
        (
            "storage/log.py",
            "from relstate.vnode import cached_property",
        ),
        ("storage/disk.py", "import os, time\nos.open('x'); time.time()"),
        (
            "storage/environment_choice.py",
            "def environment_of(x):\n    LocalEnvironment(x)",
        ),
        ("connector/cli/surroundings.py", "import os, subprocess\nos.environ; subprocess.run"),
        ("storage/log.py", "import os\nos.getpid(); os.fspath('x')"),
        ("storage/log.py", "from pathlib import PurePosixPath"),
        ("storage/log.py", "from datetime import datetime\ndatetime.fromisoformat('x')"),
        (
            "storage/log.py",
            "def run(environment):\n    environment.open('x'); environment.time",
        ),
        (
            "storage/log.py",
            "def f(time, random, path):\n    return time.x, random, path.open()",
        ),
        ("package/relstate/__init__.py", "def open(path):\n    return path\nopen('x')"),
        ("connector/sink.py", "from .door import open, time\nopen('x'); time()"),
    ],
)
def test_the_checks_let_pass_what_is_right(path: str, text: str) -> None:
    """None of them finds fault with the allowed."""
    checks = (
        upward_imports,
        inner_imports,
        imports_of_higher_floors,
        misplaced_spark,
        misplaced_lmdb,
        side_doors,
        closed_locks,
        chosen_environments,
    )
    for check in (*checks, bare_imports, excess_lines):
        assert found_in([Source(path, text)], check) == []


Finding = tuple[str, int]


def found_in(sources: list[Source], check: Callable[[Source], Iterator[Finding]]) -> list[str]:
    """Return what the check finds in the files, as ``path:line: what``."""
    findings = (
        f"{source.path}:{line}: {what}" for source in sources for what, line in check(source)
    )
    return list(dict.fromkeys(findings))


def upward_imports(source: Source) -> Iterator[Finding]:
    """Find imports of packages that stand above the file's own."""
    order = list(PACKAGES)
    for imported in imports_of(source):
        target = folder_of(imported)
        if target and order.index(target) > order.index(source.folder):
            yield f"imports {imported.module}, which is above {source.folder}", imported.line


def imports_of_higher_floors(source: Source) -> Iterator[Finding]:
    """Find imports of files that are on a higher floor of the same package."""
    if source.folder not in FLOORS or source.path == f"{source.folder}/__init__.py":
        return
    own = floor_of(source.path)
    if own is None:
        yield "is on no floor: name it in FLOORS", 1
        return
    for file, line in files_imported(source):
        target = floor_of(file) if file.startswith(f"{source.folder}/") else None
        if target is not None and target > own:
            yield f"imports {file}, which is on a higher floor", line


def floor_of(path: str) -> int | None:
    """Return the number of a file's floor in its package; None if it is on none."""
    package, inside = path.removesuffix(".py").split("/", 1)
    floors = FLOORS[package]
    named = [name for name in floors if inside == name or inside.startswith(f"{name}/")]
    if named:
        return floors.index(max(named, key=len))
    return floors.index("") if "" in floors and "/" not in inside else None


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """Return files that import one another in a circle, the first one last again; often none."""
    done: set[str] = set()

    def circle_from(file: str, trail: list[str]) -> list[str]:
        if file in trail:
            return [*trail[trail.index(file) :], file]
        if file not in done:
            for imported in sorted(imports.get(file, ())):
                circle = circle_from(imported, [*trail, file])
                if circle:
                    return circle
            done.add(file)
        return []

    return next((circle for file in sorted(imports) if (circle := circle_from(file, []))), [])


def inner_imports(source: Source) -> Iterator[Finding]:
    """Find imports of another package's modules."""
    installed = package_names().values()
    for imported in imports_of(source):
        target = folder_of(imported)
        if target in (None, source.folder) or imported.module in ("relstate", *installed):
            continue
        if source.folder == "package/relstate" and imported.module == "relstate.storage.errors":
            continue  # the public face has all names of the errors
        yield f"imports {imported.module}, which is inside {PACKAGES[target]}", imported.line


def misplaced_spark(source: Source) -> Iterator[Finding]:
    """Find imports of pyspark below the connector, and in what a view's executors are."""
    if source.folder not in SPARK_FOLDERS or source.path.startswith(SPARKLESS):
        yield from imports_below(source, "pyspark")


def misplaced_versions(source: Source) -> Iterator[Finding]:
    """Find what differs between the versions of Spark outside its folder."""
    if not source.path.startswith(VERSIONS_FOLDER):
        for name, line in names_used(source):
            if is_below(name, VERSIONED):
                yield f"uses {name}", line


def misplaced_lmdb(source: Source) -> Iterator[Finding]:
    """Find imports of lmdb outside its file; tests and benchmarks compare with it."""
    if source.path != LMDB_FILE and source.folder in PACKAGES:
        yield from imports_below(source, "lmdb")


def misplaced_obstore(source: Source) -> Iterator[Finding]:
    """Find imports of obstore outside its folder."""
    if not source.path.startswith(OBJECTS_FOLDER):
        yield from imports_below(source, "obstore")


def side_doors(source: Source) -> Iterator[Finding]:
    """Find what touches files, the clock or chance outside the environment."""
    if source.path in DOORS:
        return
    for name, line in names_used(source):
        module_only = name in ("os", "io", "pathlib")
        if is_below(name, OUTSIDE) and not is_below(name, PURE) and not module_only:
            yield f"uses {name}", line
    for imported in imports_of(source):
        if imported.name is None and imported.module in ("time", "random", "uuid", "secrets"):
            yield f"imports {imported.module}", imported.line


def closed_locks(source: Source) -> Iterator[Finding]:
    """Find locks that a forked child could wait for: see `storage/forklock.py`.

    Those of the connector guard the connection to Spark, which a child cannot use.
    """
    yield from locked_properties(source)
    if source.folder == "connector" or source.path.startswith(LOCK_FILES):
        return
    for name, line in names_used(source):
        if is_below(name, ("threading.Condition", "threading.Lock", "threading.RLock")):
            yield f"uses {name} instead of ForkLock", line


def locked_properties(source: Source) -> Iterator[Finding]:
    """Find the cached property that has one lock for all instances, in Python 3.11."""
    for name, line in names_used(source):
        if name == "functools.cached_property":
            yield "uses functools.cached_property instead of that of vnode", line
    for imported in imports_of(source):
        if (imported.module, imported.name) == ("functools", "cached_property"):
            yield "imports functools.cached_property instead of that of vnode", imported.line


def chosen_environments(source: Source) -> Iterator[Finding]:
    """Find what names `LocalEnvironment`, except in `environment_of`."""
    tree = source.tree
    allowed: set[ast.AST] = set()
    if source.path in LOCAL_FILES:
        return
    for statement in tree.body if source.path == CHOICE_FILE else ():
        is_choice = isinstance(statement, ast.FunctionDef) and statement.name == "environment_of"
        if is_choice or isinstance(statement, ast.ImportFrom):
            allowed |= set(ast.walk(statement))
    for node in ast.walk(tree):
        names = [getattr(node, "id", None), getattr(node, "attr", None)]
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        if not isinstance(node, ast.stmt | ast.expr) or node in allowed:
            continue
        if "LocalEnvironment" in names:
            yield "names LocalEnvironment instead of calling environment_of", node.lineno


def bare_imports(source: Source) -> Iterator[Finding]:
    """Find imports of the folders' names instead of the packages'."""
    for bare in ("vnode", "storage", "connector"):
        yield from imports_below(source, bare)


def excess_lines(source: Source) -> Iterator[Finding]:
    """Find a file's length where it is too long."""
    lines = source.text.count("\n")
    if lines > MOST_LINES:
        yield f"has {lines} lines", lines


def imports_below(source: Source, module: str) -> Iterator[Finding]:
    """Find imports of a module and of what is in it."""
    for imported in imports_of(source):
        if is_below(imported.module, (module,)):
            yield f"imports {imported.module}", imported.line


def folder_of(imported: Import) -> str | None:
    """Return the folder of the project's package that is imported; None for others."""
    full = imported.module if imported.name is None else f"{imported.module}.{imported.name}"
    folders = [folder for folder, package in PACKAGES.items() if is_below(full, (package,))]
    return folders[0] if folders else None


def is_below(name: str, roots: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the roots, or in one of them."""
    return any(name == root or name.startswith(f"{root}.") for root in roots)
