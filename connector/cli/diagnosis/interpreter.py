"""The Pythons that take part when Spark uses relstate, and what each of them can import.

Spark 4.3 starts three: the driver's own; one for all that data sources do, which is what
PYSPARK_DRIVER_PYTHON names, else PYSPARK_PYTHON, else ``python3`` on PATH (PythonUtils in Spark's
core); and one for functions such as ``mapInArrow``, which is what PYSPARK_PYTHON names, else
``python3``. Running a virtual environment's Python by its path without activating it leaves the
other two on the system's ``python3``.

Promises: every interpreter is asked itself, in a process of its own with a time limit.
Does not know: what else may hide a data source (discovery.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..surroundings import Surroundings
from .finding import Finding, problem, warning, well
from .requirement import LEAST_PYTHON, REQUIREMENTS

SECONDS = 60.0
_MARK = "relstate-doctor:"

# Run by any Python 3: it must not use what is new.
_PROGRAM = """
import json, sys
from importlib import import_module
from pkgutil import iter_modules
versions, troubles = {}, {}
for name in sys.argv[1:]:
    try:
        module = import_module(name)
        versions[name] = str(getattr(module, "__version__", None) or getattr(module, "VERSION", ""))
    except BaseException as error:
        troubles[name] = "%s: %s" % (type(error).__name__, error)
listed = sorted(module.name for module in iter_modules() if module.name.startswith("pyspark_"))
print()
print("relstate-doctor:" + json.dumps({
    "executable": sys.executable, "prefix": sys.prefix, "version": sys.version_info[:3],
    "versions": versions, "troubles": troubles, "listed": listed,
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What a Python says of itself.

    ``prefix`` tells its environment; ``versions`` are of the modules it can import, ``troubles``
    why it cannot import the others; ``listed`` are the top-level modules named ``pyspark_*``.
    """

    executable: str
    prefix: str
    version: tuple[int, ...]
    versions: dict[str, str]
    troubles: dict[str, str]
    listed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """What a Python is for, how it was named, by what, and what it says, or why it does not."""

    subject: str
    program: str
    origin: str
    interpreter: Interpreter | None
    trouble: str = ""


def assign_roles(surroundings: Surroundings, libraries: tuple[str, ...]) -> tuple[Role, Role, Role]:
    """Return who plays the driver, the data sources' Python and the functions' Python.

    ``libraries``: Spark's own, which it puts first in the PYTHONPATH of those it starts.
    """
    worker = _named(surroundings, "PYSPARK_PYTHON")
    source = _named(surroundings, "PYSPARK_DRIVER_PYTHON", *worker)
    driver = (surroundings.executable, "it runs this command")
    known = {
        program: _ask(surroundings, program, libraries)
        for program in dict.fromkeys((driver[0], source[0], worker[0]))
    }
    return (
        Role("driver's Python", *driver, *known[driver[0]]),
        Role("data sources' Python", *source, *known[source[0]]),
        Role("functions' Python", *worker, *known[worker[0]]),
    )


def _named(
    surroundings: Surroundings,
    variable: str,
    otherwise: str = "python3",
    because: str = "the python3 on PATH, as PYSPARK_PYTHON is not set",
) -> tuple[str, str]:
    """Return the program that a variable names, and a word on where the name comes from."""
    named = surroundings.variables.get(variable)
    return (otherwise, because) if named is None else (named, f"named by {variable}")


def _ask(
    surroundings: Surroundings, program: str, libraries: tuple[str, ...]
) -> tuple[Interpreter | None, str]:
    """Return what a Python says of itself; else None and why it says nothing."""
    if surroundings.path_of(program) is None:
        return None, "there is no such program"
    modules = ["relstate", *(requirement.module for requirement in REQUIREMENTS)]
    done = surroundings.run(
        program, "-c", _PROGRAM, *modules, seconds=SECONDS, python_path=libraries
    )
    answer = marked(done.output)
    if answer is None:
        return None, f"it does not run as Python: {done.last_words}"
    found: dict[str, Any] = json.loads(answer)
    return Interpreter(
        **{**found, "version": tuple(found["version"]), "listed": tuple(found["listed"])}
    ), ""


def marked(output: str) -> str | None:
    """Return what a program of ours answered, among what modules wrote; None for no answer."""
    lines = [line for line in output.splitlines() if line.startswith(_MARK)]
    return lines[-1].removeprefix(_MARK) if lines else None


def judge_roles(driver: Role, *others: Role) -> Iterator[Finding]:
    """Yield a finding for each Python; those that Spark starts are compared with the driver's."""
    yield _judge(driver, None)
    for role in others:
        yield _judge(role, driver.interpreter)


def _judge(role: Role, driver: Interpreter | None) -> Finding:
    found = role.interpreter
    if found is None:
        return problem(role.subject, f"{_name(role)}: {role.trouble}", _USE_ONE)
    where = f"Python {_dotted(found.version)} at {found.executable} ({role.origin})"
    troubles = [*_lacks(found), *(_differs(found, driver) if driver else ())]
    if troubles:
        advice = _USE_ONE if driver and driver.prefix != found.prefix else _INSTALL
        return problem(role.subject, f"{where}: {'; '.join(troubles)}", advice)
    if driver and driver.versions["pyarrow"] != found.versions["pyarrow"]:
        versions = f"pyarrow {found.versions['pyarrow']}, the driver {driver.versions['pyarrow']}"
        return warning(role.subject, f"{where} has {versions}", _USE_ONE)
    return well(role.subject, where)


_USE_ONE = (
    "let Spark start the Python that runs the driver: "
    'export PYSPARK_PYTHON="$(command -v python)" PYSPARK_DRIVER_PYTHON="$(command -v python)" '
    "in its activated environment"
)
_INSTALL = "pip install relstate in this environment, which brings what it needs"


_MISSING = "No module named '{}'"


def _name(role: Role) -> str:
    return f"{role.program!r} ({role.origin})"


def _lacks(found: Interpreter) -> Iterator[str]:
    """Yield what relstate needs and this interpreter has not, or not in a version that works."""
    if found.version < LEAST_PYTHON:
        yield f"relstate needs Python {_dotted(LEAST_PYTHON)} or newer"
    missing = [name for name, said in found.troubles.items() if _MISSING.format(name) in said]
    if missing:
        yield f"it lacks {', '.join(missing)}"
    for module, said in found.troubles.items():
        if module not in missing:
            yield f"it cannot import {module} ({said})"
    for requirement in REQUIREMENTS:
        version = found.versions.get(requirement.module)
        if version is not None and not requirement.admits(version):
            yield f"it has {requirement.module} {version}, which is not {requirement}"


def _differs(found: Interpreter, driver: Interpreter) -> Iterator[str]:
    """Yield in what an interpreter must equal the driver's and does not."""
    if found.version[:2] != driver.version[:2]:
        yield f"the driver runs Python {_dotted(driver.version)}, and Spark wants one minor version"
    for module in ("relstate", "pyspark"):
        here, there = found.versions.get(module), driver.versions.get(module)
        if here and there and here != there:
            yield f"it has {module} {here}, the driver {there}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
