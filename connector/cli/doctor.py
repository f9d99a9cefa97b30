"""The command ``doctor``: why Spark may fail to see relstate, or a store may fail to work.

Promises: nothing is changed but for one file that is created in the store and removed; every check
has a time limit; no check starts Spark.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath

import click

from relstate.storage import Environment, Store, environment_of, errors

from .pythons import (
    Finding,
    Role,
    assign_roles,
    judge_discovery,
    judge_roles,
    ok,
    problem,
    warning,
)
from .surroundings import Surroundings, surroundings
from .terminal import Heading, json_option, progress, show_document, show_prose, show_prose_table


@click.command(short_help="Find what keeps Spark from seeing relstate.")
@click.argument("path", metavar="[STORE]", required=False)
@json_option
@click.pass_context
def doctor(context: click.Context, path: str | None, as_json: bool) -> None:
    """Check what Spark will use: Pythons, versions, data sources, Java, and the STORE.

    Run it where the driver runs, with its Python and its variables. Ends with 1 if there is a
    problem.
    """
    with progress("Checking"):
        diagnosis = diagnose(surroundings(), path)
    if as_json:
        show_document(diagnosis)
    else:
        _show(diagnosis)
    context.exit(int(not diagnosis.ok))


def _show(diagnosis: Diagnosis) -> None:
    headings = [Heading("status"), Heading("subject"), Heading("found")]
    show_prose_table(
        headings,
        [(finding.status, finding.subject, finding.found) for finding in diagnosis.findings],
    )
    for finding in diagnosis.findings:
        if finding.advice:
            show_prose("")
            show_prose(f"{finding.status}, {finding.subject}: {finding.advice}")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings; ``ok`` is whether none of them is a problem."""

    ok: bool
    findings: tuple[Finding, ...]


def diagnose(surroundings: Surroundings, path: str | None) -> Diagnosis:
    """Return the findings on a process's surroundings and, with a ``path``, on the store there."""
    findings = tuple(_findings(surroundings, path))
    return Diagnosis(all(finding.status != "problem" for finding in findings), findings)


def _findings(surroundings: Surroundings, path: str | None) -> Iterator[Finding]:
    libraries = spark_libraries(surroundings)
    driver, source, worker = assign_roles(surroundings, libraries)
    yield from judge_roles(driver, source, worker)
    yield from judge_discovery(surroundings, source, libraries)
    yield judge_spark_home(surroundings, driver)
    yield judge_java(surroundings)
    if path is not None:
        yield from judge_store(surroundings, path)


LEAST_JAVA = 17
JAVA_SECONDS = 30.0

_CORE = re.compile(r"spark-core_[\d.]+-(?P<version>.+)\.jar")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')


def spark_home(surroundings: Surroundings) -> str | None:
    """Return the folder of Spark: SPARK_HOME, else this Python's pyspark; None without either."""
    home = surroundings.variables.get("SPARK_HOME")
    if home is not None:
        return home
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else str(PurePath(spec.origin).parent)


def spark_libraries(surroundings: Surroundings) -> tuple[str, ...]:
    """Return the archives that Spark adds to the PYTHONPATH of the Pythons that it starts."""
    home = spark_home(surroundings)
    if home is None:
        return ()
    folder = f"{home}/python/lib"
    names = surroundings.names_in(folder)
    return tuple(f"{folder}/{name}" for name in names if name.endswith(".zip"))


def judge_spark_home(surroundings: Surroundings, driver: Role) -> Finding:
    """Return a finding on whether SPARK_HOME has the version of the driver's pyspark."""
    subject = "SPARK_HOME"
    home = surroundings.variables.get("SPARK_HOME")
    if home is None:
        return ok(subject, "not set: Spark is the one in pyspark")
    matches = map(_CORE.fullmatch, surroundings.names_in(f"{home}/jars"))
    versions = [match["version"] for match in matches if match]
    remedy = "unset SPARK_HOME, so that pyspark starts the Spark it brought"
    if not versions:
        return problem(subject, f"{home!r} holds no Spark", remedy)
    pyspark = driver.interpreter and driver.interpreter.versions.get("pyspark")
    if pyspark and versions != [pyspark]:
        description = f"{home} is Spark {', '.join(versions)}, pyspark is {pyspark}"
        return problem(subject, description, remedy)
    return ok(subject, f"{home} is Spark {', '.join(versions)}")


def judge_java(surroundings: Surroundings) -> Finding:
    """Return a finding on the Java that Spark uses: JAVA_HOME's, else the one on PATH."""
    subject = "Java"
    home = surroundings.variables.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    origin = f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, so it is the one on PATH"
    remedy = (
        f"set JAVA_HOME to a Java {LEAST_JAVA} or newer"
        + (", or unset it to take the one on PATH" if home else "")
        + " (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    )
    if surroundings.path_of(program) is None:
        return problem(subject, f"there is no {program!r} ({origin})", remedy)
    outcome = surroundings.run(program, "-version", seconds=JAVA_SECONDS)
    version = _JAVA_VERSION.search(f"{outcome.errors}\n{outcome.output}")
    if version is None:
        description = f"{program!r} does not print its version: {outcome.last_words} ({origin})"
        return problem(subject, description, remedy)
    description = f"Java {version['major']} ({origin})"
    if int(version["major"]) < LEAST_JAVA:
        return problem(subject, f"{description}; Spark needs {LEAST_JAVA} or newer", remedy)
    return ok(subject, description)


# The default of many systems; with fewer, relstate closes and reopens segments all the time.
FEW_DESCRIPTORS = 1024


def judge_store(surroundings: Surroundings, path: str) -> Iterator[Finding]:
    """Yield findings on opening a store, its file system and the limits of this process."""
    try:
        environment = environment_of(path)
        with Store.open(path, environment=environment) as store:
            tables = len(store.tables())
            noun = "table" if tables == 1 else "tables"
            description = f"{store.path}: {tables} {noun} at epoch {store.epoch}"
    except errors.RelstateError as error:
        advice = "give the path of a store, or repair what the message says"
        yield problem("store", f"{type(error).__name__}: {error}", advice)
    else:
        yield ok("store", description)
        yield _judge_links(environment)
    yield _judge_descriptors(surroundings)


def _judge_links(environment: Environment) -> Finding:
    """Return a finding on creating a file as a commit does; the file is removed."""
    subject = "hard links"
    name = f".doctor-{environment.random_id()}"
    try:
        environment.put_if_absent(name, b"")
        environment.remove(name)
    except errors.RelstateError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EROFS):
            description = "this user cannot write into the store, so hard links could not be tried"
            return warning(subject, description, "run doctor as the user who writes")
        advice = "put the store on a local POSIX file system with hard links"
        return problem(subject, str(error), advice)
    return ok(subject, "the store's file system supports them")


def _judge_descriptors(surroundings: Surroundings) -> Finding:
    subject = "open files"
    limit = surroundings.descriptor_limit()
    if limit is not None and limit < FEW_DESCRIPTORS:
        description = f"a process may have {limit} open"
        return warning(subject, description, f"raise the limit: ulimit -n {4 * FEW_DESCRIPTORS}")
    return ok(subject, f"a process may have {'any number' if limit is None else limit} open")
