"""The commands that combine sorted sets, and sets among them: ZUNION, ZINTER, ZDIFF."""

from __future__ import annotations

from collections.abc import Callable

from .command import (
    SYNTAX,
    Arguments,
    Command,
    command,
    parse_float,
    parse_integer,
)
from .database import WRONG_TYPE, Database
from .replies import CommandError, Reply
from .sets import parse_limit
from .sorted_sets import elements_reply, store_scores
from .values import SetValue, SortedSetValue

_Scores = dict[bytes, float]
_Aggregate = Callable[[float, float], float]


def _sum(first: float, second: float) -> float:
    """Return a sum; infinities of both signs cancel each other."""
    total = first + second
    return total if total == total else 0.0


_AGGREGATES: dict[bytes, _Aggregate] = {b"SUM": _sum, b"MIN": min, b"MAX": max}


def _source(db: Database, key: bytes) -> _Scores:
    """Return the scores of a sorted set; 1 for each member of a set."""
    value = db.get(key)
    if value is None:
        return {}
    if isinstance(value, SetValue):
        return dict.fromkeys(value.items, 1.0)
    if isinstance(value, SortedSetValue):
        return value.items
    raise CommandError(WRONG_TYPE)


def _weighted(scores: _Scores, weight: float) -> _Scores:
    products = {member: score * weight for member, score in scores.items()}
    return {member: product if product == product else 0.0 for member, product in products.items()}


def _union(sources: list[_Scores], aggregate: _Aggregate) -> _Scores:
    result: _Scores = {}
    for scores in sources:
        for member, score in scores.items():
            result[member] = aggregate(result[member], score) if member in result else score
    return result


def _intersection(sources: list[_Scores], aggregate: _Aggregate) -> _Scores:
    members = set(sources[0]).intersection(*sources[1:])
    return _union([{member: scores[member] for member in members} for scores in sources], aggregate)


def _difference(sources: list[_Scores], _: _Aggregate) -> _Scores:
    members = set(sources[0]).difference(*sources[1:])
    return {member: score for member, score in sources[0].items() if member in members}


_COMBINATIONS = {b"ZUNION": _union, b"ZINTER": _intersection, b"ZDIFF": _difference}


def _combine(db: Database, args: Arguments) -> Reply:
    scores, with_scores = _combined(db, args[0].upper(), args, 1, stores=False)
    elements = sorted((score, member) for member, score in scores.items())
    return elements_reply(elements, with_scores=with_scores)


def _combine_and_store(db: Database, args: Arguments) -> Reply:
    name = args[0].upper().removesuffix(b"STORE")
    scores, _ = _combined(db, name, args, 2, stores=True)
    count = int(args[2])
    db.note_misses(args[3 : 3 + count])
    return store_scores(db, args[1], scores, args[0].lower())


def _combined(
    db: Database, name: bytes, args: Arguments, start: int, *, stores: bool
) -> tuple[_Scores, bool]:
    """Return what is combined, and whether scores are asked for; ``start``: where the number is."""
    sources = _sources(db, args, start)
    count = len(sources)
    weights = [1.0] * count
    aggregate: _Aggregate = _sum
    with_scores = False
    index = start + 1 + count
    while index < len(args):
        option, left = args[index].upper(), len(args) - index - 1
        if option == b"WEIGHTS" and left >= count and name != b"ZDIFF":
            message = "ERR weight value is not a float"
            weights = [parse_float(arg, message) for arg in args[index + 1 : index + 1 + count]]
            index += count
        elif option == b"AGGREGATE" and left and name != b"ZDIFF":
            index += 1
            if args[index].upper() not in _AGGREGATES:
                raise CommandError(SYNTAX)
            aggregate = _AGGREGATES[args[index].upper()]
        elif option == b"WITHSCORES" and not stores:
            with_scores = True
        else:
            raise CommandError(SYNTAX)
        index += 1
    weighted = [_weighted(*pair) for pair in zip(sources, weights, strict=True)]
    return _COMBINATIONS[name](weighted, aggregate), with_scores


def _sources(db: Database, args: Arguments, start: int) -> list[_Scores]:
    """Return the scores of each key that a command names; ``start``: where their number is."""
    count = parse_integer(args[start])
    if count < 1:
        command_name = args[0].decode().lower()
        raise CommandError(f"ERR at least 1 input key is needed for '{command_name}' command")
    if count > len(args) - start - 1:
        raise CommandError(SYNTAX)
    return [_source(db, key) for key in args[start + 1 : start + 1 + count]]


def _zintercard(db: Database, args: Arguments) -> Reply:
    sources = _sources(db, args, 1)
    limit = parse_limit(args[2 + len(sources) :])
    size = len(_intersection(sources, _sum))
    return size if limit is None else min(size, limit)


COMMANDS: dict[str, Command] = {
    "zdiff": command(_combine, -3, "readonly movablekeys", 0, 0, 0, count_at=1),
    "zdiffstore": command(_combine_and_store, -4, "write denyoom movablekeys", 1, 1, count_at=2),
    "zinter": command(_combine, -3, "readonly movablekeys", 0, 0, 0, count_at=1),
    "zintercard": command(_zintercard, -3, "readonly movablekeys", 0, 0, 0, count_at=1),
    "zinterstore": command(_combine_and_store, -4, "write denyoom movablekeys", 1, 1, count_at=2),
    "zunion": command(_combine, -3, "readonly movablekeys", 0, 0, 0, count_at=1),
    "zunionstore": command(_combine_and_store, -4, "write denyoom movablekeys", 1, 1, count_at=2),
}
