"""The options of reads and writes through Spark, parsed from the text in which they arrive.

    read     path table versionAsOf columns numPartitions
    write    path table opColumn clustered txnAppId txnVersion
    stream   path table opColumn clustered txnAppId

Promises: every problem of a set of options is told at once, by the name the documentation uses; an
option that is not known, or means nothing for what is being done, is refused and never ignored.
Does not know: Spark, or whether the store and the table exist. Names match whatever their case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from relstate.storage import errors

MAX_PARTITIONS = 32_768

_Parse: TypeAlias = Callable[[str], Any]
_Check: TypeAlias = Callable[[Mapping[str, Any]], str | None]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_LOCAL_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?:[^/].*)?)")
_DIGITS = re.compile(r"\s*[0-9]{1,19}\s*")
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]+?))\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a batch read asks for. ``columns`` and ``version`` are None for all and the latest."""

    path: str
    table: str
    version: int | None = None
    columns: tuple[str, ...] | None = None
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write asks for.

    ``operation_column`` names the column that says insert, update or delete. ``application`` and
    ``version`` make the write happen once: a version not above the application's last is skipped.
    A version without an application is one of the streaming query that runs the write.
    """

    path: str
    table: str
    operation_column: str | None = None
    application: str | None = None
    version: int | None = None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch read; OptionError, naming every problem, if there is one."""
    values = _parsed(given, _READ, "a read")
    return ReadOptions(
        path=values["path"],
        table=values["table"],
        version=values.get("versionAsOf"),
        columns=values.get("columns"),
        partitions=values.get("numPartitions"),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options of a batch write; OptionError, naming every problem, if there is one."""
    return _written(_parsed(given, _WRITE, "a write", _check_operation, _check_identity))


def stream_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options of a streaming write; OptionError as for the others.

    Its version is the number of the micro-batch, so that it cannot be given.
    """
    own = {key: value for key, value in given.items() if key.lower() not in _SET_BY_SPARK}
    return _written(_parsed(own, _STREAM, "a streaming write", _check_operation))


def _written(values: Mapping[str, Any]) -> WriteOptions:
    return WriteOptions(
        path=values["path"],
        table=values["table"],
        operation_column=values.get("opColumn"),
        application=values.get("txnAppId"),
        version=values.get("txnVersion"),
    )


def _parsed(
    given: Mapping[str, str], known: Mapping[str, _Parse], use: str, *checks: _Check
) -> dict[str, Any]:
    names = {name.lower(): name for name in known}
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, text in given.items():
        name = names.get(key.lower())
        if name is None:
            problems.append(_unknown(key, known, use))
            continue
        try:
            values[name] = known[name](text)
        except ValueError as error:
            problems.append(f"option {name!r} is {text!r}: {error}")
    tried = {names.get(key.lower()) for key in given}
    problems += [_MISSING[name] for name in _REQUIRED if name not in tried]
    problems += [problem for check in checks if (problem := check(values)) is not None]
    if problems:
        raise errors.OptionError(_told(problems, use))
    return values


def _told(problems: Sequence[str], use: str) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} problems in the options of {use}: " + "; ".join(problems)


def _unknown(key: str, known: Mapping[str, _Parse], use: str) -> str:
    lowered = key.lower()
    if lowered == "paths":
        return "load() was given several paths; a relstate table lies in one store"
    for name in _EVERY_NAME:
        if name.lower() == lowered:
            return f"option {name!r} has no meaning for {use}"
    shown = {name.lower(): name for name in known}
    near = [repr(shown[name]) for name in get_close_matches(lowered, shown, n=2)]
    if near:
        return f"unknown option {key!r} for {use}; did you mean {' or '.join(near)}?"
    return f"unknown option {key!r} for {use}; the options are {', '.join(known)}"


def _check_operation(values: Mapping[str, Any]) -> str | None:
    if "opColumn" not in values and "clustered" in values:
        return "option 'clustered' says how the rows of 'opColumn' arrive; give that too"
    if "opColumn" in values and not values.get("clustered", False):
        return (
            "option 'opColumn' needs 'clustered'='true', by which you promise that all changes "
            "of one key arrive in one task, in order; without it the last change is not known"
        )
    return None


def _check_identity(values: Mapping[str, Any]) -> str | None:
    if "txnAppId" in values and "txnVersion" not in values:
        return "option 'txnAppId' needs 'txnVersion', the number of this write among its writes"
    return None


# --- Values -------------------------------------------------------------------------------------


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it must not be empty")
    return text


def _path(text: str) -> str:
    """Return a local path; Spark's catalog writes it as a URI of the scheme ``file``."""
    local = _LOCAL_FILE.fullmatch(_text(text))
    if local is not None:
        return local[1]
    scheme = _SCHEME.match(text)
    if scheme is not None:
        raise ValueError(f"a store lies in a local directory, not under {scheme[1]!r}")
    return text


def _names(text: str) -> tuple[str, ...]:
    names: list[str] = []
    position = 0
    while position < len(text):
        found = _NAME.match(text, position)
        if found is None:
            raise ValueError("it must be column names, separated by commas")
        names.append(found[1].replace("``", "`") if found[1] else found[2].strip())
        position = found.end()
    if not names or not all(names):
        raise ValueError("it must be column names, separated by commas")
    if len({name.lower() for name in names}) != len(names):
        raise ValueError("it names a column twice")
    return tuple(names)


def _whole_number(least: int, most: int) -> _Parse:
    def parse(text: str) -> int:
        number = int(text) if _DIGITS.fullmatch(text) else least - 1
        if not least <= number <= most:
            raise ValueError(f"it must be a whole number from {least} to {most}")
        return number

    return parse


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("it must be 'true' or 'false'")
    return lowered == "true"


_MAX_LONG = 2**63 - 1
_PLACE: dict[str, _Parse] = {"path": _path, "table": _text}
_REQUIRED = tuple(_PLACE)
_MISSING = {
    "path": "option 'path', the directory of the store, is missing",
    "table": "option 'table', the name of the table in the store, is missing",
}
_READ = _PLACE | {
    "versionAsOf": _whole_number(0, _MAX_LONG),
    "columns": _names,
    "numPartitions": _whole_number(1, MAX_PARTITIONS),
}
_STREAM = _PLACE | {"opColumn": _text, "clustered": _boolean, "txnAppId": _text}
_WRITE = _STREAM | {"txnVersion": _whole_number(0, _MAX_LONG)}
_EVERY_NAME = tuple(_READ | _WRITE)
# Spark puts these of its own among the options of a streaming sink.
_SET_BY_SPARK = ("queryname", "checkpointlocation")
