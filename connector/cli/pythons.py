"""The Python interpreters that Spark uses with relstate, and the modules that each can import.

Spark starts three: the driver's own; one for all that data sources do, which is what
PYSPARK_DRIVER_PYTHON names, else PYSPARK_PYTHON, else ``python3`` on PATH (PythonUtils in Spark's
core); and one for functions such as ``mapInArrow``, which is what PYSPARK_PYTHON names, else
``python3``. Running a virtual environment's Python by its path without activating it leaves the
other two on the system's ``python3``.

At the first use of a Python data source Spark lists all modules named ``pyspark_*`` and imports
each (pyspark/sql/worker/lookup_data_sources.py). One that fails hides all of them: Spark only says
DATA_SOURCE_NOT_FOUND.

Promises: every interpreter is started to report on itself, and each module is imported in a
separate process with a time limit, so that a module that fails, hangs or ends the process is named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from relstate.connector.spark.version import BELOW_SPARK, LEAST_SPARK, dotted, version_numbers
from relstate.storage import install_command

from .surroundings import Surroundings

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    ``subject``: what was checked; ``found``: the result in words; ``advice``: what to do, empty if
    ``status`` is ok.

    A ``problem`` prevents relstate from working in Spark; a ``warning`` may prevent it.
    """

    subject: str
    status: Status
    found: str
    advice: str = ""


def ok(subject: str, description: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(subject, "ok", description)


def warning(subject: str, description: str, advice: str) -> Finding:
    """Return a finding that may prevent relstate from working."""
    return Finding(subject, "warning", description, advice)


def problem(subject: str, description: str, advice: str) -> Finding:
    """Return a finding that prevents relstate from working."""
    return Finding(subject, "problem", description, advice)


LEAST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A module, the lowest version that is supported, and the first that is too new."""

    module: str
    least: tuple[int, ...]
    below: tuple[int, ...] | None = None

    def admits(self, version: str) -> bool:
        """Return whether a version is within the bounds."""
        numbers = version_numbers(version)
        return self.least <= numbers and (self.below is None or numbers < self.below)

    def __str__(self) -> str:
        upper = "" if self.below is None else f",<{dotted(self.below)}"
        return f"{self.module}>={dotted(self.least)}{upper}"


REQUIREMENTS = (
    Requirement("pyspark", LEAST_SPARK, BELOW_SPARK),
    Requirement("pyarrow", (19,)),
    Requirement("numpy", (2,)),
    Requirement("lmdb", (3,), (4,)),
    Requirement("xxhash", (3, 4), (5,)),
    Requirement("sqlglot", (30, 16), (31,)),
    Requirement("pandas", (2, 2, 2), (3,)),
)


SECONDS = 60.0
_MARK = "relstate-doctor:"

# Any Python 3 runs this, so it must not use newer syntax.
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
    """What a Python reports about itself.

    ``prefix`` is its environment's folder; ``versions`` are of the modules that it can import,
    ``troubles`` why it cannot import the others; ``listed`` are the top-level modules named
    ``pyspark_*``.
    """

    executable: str
    prefix: str
    version: tuple[int, ...]
    versions: dict[str, str]
    troubles: dict[str, str]
    listed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """A Python and its purpose: the program, what named it, its report or why there is none."""

    subject: str
    program: str
    origin: str
    interpreter: Interpreter | None
    trouble: str = ""


def assign_roles(surroundings: Surroundings, libraries: tuple[str, ...]) -> tuple[Role, Role, Role]:
    """Return the driver's Python, the data sources' Python and the functions' Python.

    ``libraries``: Spark's own, which come first in the PYTHONPATH of the Pythons that it starts.
    """
    worker = _program_of(surroundings, "PYSPARK_PYTHON")
    source = _program_of(surroundings, "PYSPARK_DRIVER_PYTHON", *worker)
    driver = (surroundings.executable, "it runs this command")
    answers = {
        program: _ask_interpreter(surroundings, program, libraries)
        for program in dict.fromkeys((driver[0], source[0], worker[0]))
    }
    return (
        Role("driver's Python", *driver, *answers[driver[0]]),
        Role("data sources' Python", *source, *answers[source[0]]),
        Role("functions' Python", *worker, *answers[worker[0]]),
    )


def _program_of(
    surroundings: Surroundings,
    variable: str,
    default: str = "python3",
    default_origin: str = "the python3 on PATH, as PYSPARK_PYTHON is not set",
) -> tuple[str, str]:
    """Return the program that a variable names, and what named it."""
    program = surroundings.variables.get(variable)
    return (default, default_origin) if program is None else (program, f"named by {variable}")


def _ask_interpreter(
    surroundings: Surroundings, program: str, libraries: tuple[str, ...]
) -> tuple[Interpreter | None, str]:
    """Return the report of a Python about itself, or None and why there is none."""
    if surroundings.path_of(program) is None:
        return None, "there is no such program"
    modules = ["relstate", *(requirement.module for requirement in REQUIREMENTS)]
    outcome = surroundings.run(
        program, "-c", _PROGRAM, *modules, seconds=SECONDS, python_path=libraries
    )
    answer = find_answer(outcome.output)
    if answer is None:
        return None, f"it does not run as Python: {outcome.last_words}"
    facts: dict[str, Any] = json.loads(answer)
    return Interpreter(
        **{**facts, "version": tuple(facts["version"]), "listed": tuple(facts["listed"])}
    ), ""


def find_answer(output: str) -> str | None:
    """Return the answer in the output of a program of this module; None if there is none."""
    lines = [line for line in output.splitlines() if line.startswith(_MARK)]
    return lines[-1].removeprefix(_MARK) if lines else None


def judge_roles(driver: Role, *spark_roles: Role) -> Iterator[Finding]:
    """Yield a finding for each Python; those that Spark starts are compared with the driver's."""
    yield _judge(driver, None)
    for role in spark_roles:
        yield _judge(role, driver.interpreter)


def _judge(role: Role, driver: Interpreter | None) -> Finding:
    interpreter = role.interpreter
    if interpreter is None:
        return problem(role.subject, f"{_describe_program(role)}: {role.trouble}", _USE_ONE_PYTHON)
    description = (
        f"Python {dotted(interpreter.version)} at {interpreter.executable} ({role.origin})"
    )
    troubles = [
        *_missing_requirements(interpreter),
        *(_driver_differences(interpreter, driver) if driver else ()),
    ]
    if troubles:
        advice = _USE_ONE_PYTHON if driver and driver.prefix != interpreter.prefix else _INSTALL
        return problem(role.subject, f"{description}: {'; '.join(troubles)}", advice)
    if driver and driver.versions["pyarrow"] != interpreter.versions["pyarrow"]:
        versions = (
            f"pyarrow {interpreter.versions['pyarrow']}, the driver {driver.versions['pyarrow']}"
        )
        return warning(role.subject, f"{description} has {versions}", _USE_ONE_PYTHON)
    return ok(role.subject, description)


_USE_ONE_PYTHON = (
    "let Spark start the Python that runs the driver: "
    'export PYSPARK_PYTHON="$(command -v python)" PYSPARK_DRIVER_PYTHON="$(command -v python)" '
    "in its activated environment"
)
_INSTALL = f"{install_command()} in this environment, which brings what it needs"


_MISSING = "No module named '{}'"


def _describe_program(role: Role) -> str:
    return f"{role.program!r} ({role.origin})"


def _missing_requirements(interpreter: Interpreter) -> Iterator[str]:
    """Yield the requirements that an interpreter does not meet, as clauses of a sentence."""
    if interpreter.version < LEAST_PYTHON:
        yield f"relstate needs Python {dotted(LEAST_PYTHON)} or newer"
    missing = [
        name for name, message in interpreter.troubles.items() if _MISSING.format(name) in message
    ]
    if missing:
        yield f"it lacks {', '.join(missing)}"
    for module, message in interpreter.troubles.items():
        if module not in missing:
            yield f"it cannot import {module} ({message})"
    for requirement in REQUIREMENTS:
        version = interpreter.versions.get(requirement.module)
        if version is not None and not requirement.admits(version):
            yield f"it has {requirement.module} {version}, which is not {requirement}"


def _driver_differences(interpreter: Interpreter, driver: Interpreter) -> Iterator[str]:
    """Yield the differences from the driver's interpreter that Spark does not allow."""
    if interpreter.version[:2] != driver.version[:2]:
        yield f"the driver runs Python {dotted(driver.version)}, and Spark wants one minor version"
    for module in ("relstate", "pyspark"):
        version, driver_version = interpreter.versions.get(module), driver.versions.get(module)
        if version and driver_version and version != driver_version:
            yield f"it has {module} {version}, the driver {driver_version}"


DISCOVERY_SECONDS = 30.0
DATA_SOURCE_MODULE = "pyspark_relstate"
_DISCOVERY = "data source discovery"

# What Spark does with each module.
_DISCOVERY_PROGRAM = """
import sys
from importlib import import_module
from pyspark.sql.datasource import DataSource
print()
print("relstate-doctor:")
module = import_module(sys.argv[1])
name = ""
if hasattr(module, "DefaultSource") and issubclass(module.DefaultSource, DataSource):
    name = module.DefaultSource.name()
print()
print("relstate-doctor:ok " + name)
"""


def judge_discovery(
    surroundings: Surroundings, role: Role, libraries: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield a finding for each module that breaks discovery, and one for relstate's own."""
    interpreter = role.interpreter
    if interpreter is None or "pyspark" in interpreter.troubles:
        return  # the finding on the interpreter says so
    broken = False
    for module in interpreter.listed:
        trouble = _discovery_trouble(surroundings, role.program, module, libraries)
        if trouble is not None:
            broken = True
            yield problem(_DISCOVERY, f"{module} cannot be imported: {trouble}", _remedy(module))
    if DATA_SOURCE_MODULE not in interpreter.listed and "relstate" not in interpreter.troubles:
        yield _not_listed_finding(surroundings, role, libraries)
    elif DATA_SOURCE_MODULE in interpreter.listed and not broken:
        yield ok(_DISCOVERY, f"Spark finds {', '.join(interpreter.listed)}")


def _discovery_trouble(
    surroundings: Surroundings, program: str, module: str, libraries: tuple[str, ...]
) -> str | None:
    """Return why Spark cannot load a data source from a module; None if it can."""
    outcome = surroundings.run(
        program, "-c", _DISCOVERY_PROGRAM, module, seconds=DISCOVERY_SECONDS, python_path=libraries
    )
    answer = find_answer(outcome.output)
    if answer is not None and answer.startswith("ok") and outcome.code == 0:
        return None
    if outcome.code is not None and outcome.code < 0:
        return f"it ended the process by signal {-outcome.code}"
    if not outcome.errors.strip():
        return f"it ended the process with exit code {outcome.code}"
    return outcome.last_words


def _remedy(module: str) -> str:
    if module == DATA_SOURCE_MODULE:
        return f"install relstate again: {install_command(None, '--force-reinstall')}"
    distribution = module.replace("_", "-")
    return (
        "it hides every Python data source from Spark, relstate's too: repair or remove it "
        f"(pip uninstall {distribution}, if it is named so)"
    )


def _not_listed_finding(
    surroundings: Surroundings, role: Role, libraries: tuple[str, ...]
) -> Finding:
    executable = f"{role.interpreter.executable if role.interpreter else role.program}"
    if _discovery_trouble(surroundings, role.program, DATA_SOURCE_MODULE, libraries) is None:
        return problem(
            _DISCOVERY,
            f"{DATA_SOURCE_MODULE} can be imported by {executable}, but Spark does not list it: "
            "it is in no folder of sys.path",
            f"install relstate again: {install_command()}",
        )
    return problem(
        _DISCOVERY,
        f"{DATA_SOURCE_MODULE} is not installed for {executable}",
        f"{install_command()} in that environment",
    )
