"""Which Spark is started, and the Java it runs on."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import PurePath

from ..surroundings import Surroundings
from .finding import Finding, problem, well
from .interpreter import Role

LEAST_JAVA = 17
SECONDS = 30.0

_CORE = re.compile(r"spark-core_[\d.]+-(?P<version>.+)\.jar")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')


def spark_home(surroundings: Surroundings) -> str | None:
    """Return where Spark lies: SPARK_HOME, else in the pyspark of this Python; None if nowhere."""
    named = surroundings.variables.get("SPARK_HOME")
    if named is not None:
        return named
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else str(PurePath(found.origin).parent)


def spark_libraries(surroundings: Surroundings) -> tuple[str, ...]:
    """Return what Spark puts into the PYTHONPATH of the Pythons it starts."""
    home = spark_home(surroundings)
    if home is None:
        return ()
    folder = f"{home}/python/lib"
    names = surroundings.names_in(folder)
    return tuple(f"{folder}/{name}" for name in names if name.endswith(".zip"))


def judge_spark_home(surroundings: Surroundings, driver: Role) -> Finding:
    """Return whether the Spark that is started is the one of the driver's pyspark."""
    subject = "SPARK_HOME"
    named = surroundings.variables.get("SPARK_HOME")
    if named is None:
        return well(subject, "not set: Spark is the one in pyspark")
    names = map(_CORE.fullmatch, surroundings.names_in(f"{named}/jars"))
    versions = [name["version"] for name in names if name]
    remedy = "unset SPARK_HOME, so that pyspark starts the Spark it brought"
    if not versions:
        return problem(subject, f"{named!r} holds no Spark", remedy)
    pyspark = driver.interpreter and driver.interpreter.versions.get("pyspark")
    if pyspark and versions != [pyspark]:
        found = f"{named} is Spark {', '.join(versions)}, pyspark is {pyspark}"
        return problem(subject, found, remedy)
    return well(subject, f"{named} is Spark {', '.join(versions)}")


def judge_java(surroundings: Surroundings) -> Finding:
    """Return whether Spark finds a Java that it runs on: JAVA_HOME's, else the one on PATH."""
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
    done = surroundings.run(program, "-version", seconds=SECONDS)
    found = _JAVA_VERSION.search(f"{done.errors}\n{done.output}")
    if found is None:
        says = f"{program!r} does not tell its version: {done.last_words} ({origin})"
        return problem(subject, says, remedy)
    says = f"Java {found['major']} ({origin})"
    if int(found["major"]) < LEAST_JAVA:
        return problem(subject, f"{says}; Spark needs {LEAST_JAVA} or newer", remedy)
    return well(subject, says)
