"""Whether Spark discovers relstate's data source.

At the first use of a Python data source Spark lists all modules named ``pyspark_*`` and imports
each (pyspark/sql/worker/lookup_data_sources.py). One that fails hides all of them: Spark only says
DATA_SOURCE_NOT_FOUND. A package that is installed in editable mode with mapped folders can be
imported but is not listed.

Promises: each module is imported in a process of its own with a time limit, so the one that fails,
hangs or ends the process is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..surroundings import Surroundings
from .finding import Finding, problem, well
from .interpreter import Role, marked

SECONDS = 30.0
OURS = "pyspark_relstate"
_SUBJECT = "data source discovery"

# What Spark does with one module.
_PROGRAM = """
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
    found = role.interpreter
    if found is None or "pyspark" in found.troubles:
        return  # said of the interpreter already
    broken = False
    for module in found.listed:
        trouble = _trouble(surroundings, role.program, module, libraries)
        if trouble is not None:
            broken = True
            yield problem(_SUBJECT, f"{module} cannot be imported: {trouble}", _remedy(module))
    if OURS not in found.listed and "relstate" not in found.troubles:
        yield _not_listed(surroundings, role, libraries)
    elif OURS in found.listed and not broken:
        yield well(_SUBJECT, f"Spark finds {', '.join(found.listed)}")


def _trouble(
    surroundings: Surroundings, program: str, module: str, libraries: tuple[str, ...]
) -> str | None:
    """Return why Spark cannot take a data source from a module; None if it can."""
    done = surroundings.run(program, "-c", _PROGRAM, module, seconds=SECONDS, python_path=libraries)
    answer = marked(done.output)
    if answer is not None and answer.startswith("ok") and done.code == 0:
        return None
    if done.code is not None and done.code < 0:
        return f"it ended the process by signal {-done.code}"
    if not done.errors.strip():
        return f"it ended the process with exit code {done.code}"
    return done.last_words


def _remedy(module: str) -> str:
    if module == OURS:
        return "install relstate again: pip install --force-reinstall relstate"
    distribution = module.replace("_", "-")
    return (
        "it hides every Python data source from Spark, relstate's too: repair or remove it "
        f"(pip uninstall {distribution}, if it is named so)"
    )


def _not_listed(surroundings: Surroundings, role: Role, libraries: tuple[str, ...]) -> Finding:
    where = f"{role.interpreter.executable if role.interpreter else role.program}"
    if _trouble(surroundings, role.program, OURS, libraries) is None:
        return problem(
            _SUBJECT,
            f"{OURS} can be imported by {where} but is not listed, as in an editable install",
            "Spark lists modules: install relstate regularly, without -e (pip install .)",
        )
    return problem(
        _SUBJECT,
        f"{OURS} is not installed for {where}",
        "pip install relstate in that environment",
    )
