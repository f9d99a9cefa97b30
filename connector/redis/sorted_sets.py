"""The commands of sorted sets, but those that combine several."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .command import (
    SYNTAX,
    Arguments,
    Command,
    command,
    parse_count,
    parse_float,
    parse_integer,
    parse_random_count,
)
from .database import Database, check_name
from .replies import CommandError, Pairs, Reply
from .score_range import MemberRange, Range, RankRange, Scored, ScoreRange
from .values import SortedSetValue

_ADD_OPTIONS = (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR")


def _scores(db: Database, key: bytes) -> dict[bytes, float]:
    """Return the scores of a sorted set; none if there is no sorted set."""
    value = db.find(key, SortedSetValue)
    return {} if value is None else value.items


def _zadd(db: Database, args: Arguments) -> Reply:
    index, options = 2, set[bytes]()
    while index < len(args) and args[index].upper() in _ADD_OPTIONS:
        options.add(args[index].upper())
        index += 1
    return _add(db, args[1], options, args[index:])


def _zincrby(db: Database, args: Arguments) -> Reply:
    return _add(db, args[1], {b"INCR"}, args[2:])


def _check_options(options: set[bytes], pairs: Arguments) -> None:
    if len(pairs) % 2 or not pairs:
        raise CommandError(SYNTAX)
    if options >= {b"NX", b"XX"}:
        raise CommandError("ERR XX and NX options at the same time are not compatible")
    if len(options & {b"NX", b"GT", b"LT"}) > 1:
        raise CommandError("ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in options and len(pairs) > 2:
        raise CommandError("ERR INCR option supports a single increment-element pair")


def _add(db: Database, key: bytes, options: set[bytes], pairs: Arguments) -> Reply:
    """Add members with their scores, and return what ZADD replies."""
    _check_options(options, pairs)
    scores = [parse_float(score) for score in pairs[::2]]
    value = db.find(key, SortedSetValue) or SortedSetValue()
    for member in pairs[1::2]:
        check_name(member)
    added = changed = 0
    result: float | None = None
    for score, member in zip(scores, pairs[1::2], strict=True):
        previous = value.items.get(member)
        total = score + previous if b"INCR" in options and previous is not None else score
        if math.isnan(total):
            raise CommandError("ERR resulting score is not a number (NaN)")
        if not _may_add(options, previous, total):
            continue
        result = total
        if previous is None:
            added += 1
        elif total != previous:
            changed += 1
        if previous != total:
            value.put(member, total)
    if added or changed:
        db.save(key, value, b"zincr" if b"INCR" in options else b"zadd")
    if b"INCR" in options:
        return result
    return added + changed if b"CH" in options else added


def _may_add(options: set[bytes], previous: float | None, score: float) -> bool:
    """Return whether options allow a score, where there is another or none."""
    if previous is None:
        return b"XX" not in options
    if b"NX" in options or (b"GT" in options and score <= previous):
        return False
    return not (b"LT" in options and score >= previous)


def _zrem(db: Database, args: Arguments) -> Reply:
    return db.remove_items(args[1], db.find(args[1], SortedSetValue), args[2:], b"zrem")


def _zscore(db: Database, args: Arguments) -> Reply:
    return _scores(db, args[1]).get(args[2])


def _zmscore(db: Database, args: Arguments) -> Reply:
    scores = _scores(db, args[1])
    return [scores.get(member) for member in args[2:]]


def _zcard(db: Database, args: Arguments) -> Reply:
    return len(_scores(db, args[1]))


def _zrank(db: Database, args: Arguments) -> Reply:
    value = db.find(args[1], SortedSetValue)
    if value is None or args[2] not in value:
        return None
    rank = value.rank(args[2])
    return len(value) - 1 - rank if args[0].upper() == b"ZREVRANK" else rank


# Ranges


@dataclass(frozen=True, slots=True)
class _Query:
    """What a command of the family of ZRANGE asks for. ``limit``: negative for none."""

    range: Range
    reverse: bool
    offset: int
    limit: int
    with_scores: bool

    def elements(self, value: SortedSetValue | None) -> Scored:
        """Return the elements that it asks for."""
        if value is None:
            return []
        indices = self.range.within(value, reverse=self.reverse)
        elements = value.order[indices.start : indices.stop]
        if self.reverse:
            elements.reverse()
        if isinstance(self.range, RankRange) or (self.limit < 0 and not self.offset):
            return elements
        if self.offset < 0:
            return []
        stop = None if self.limit < 0 else self.offset + self.limit
        return elements[self.offset : stop]


_FIXED = {
    b"ZREVRANGE": (b"RANK", True),
    b"ZRANGEBYSCORE": (b"BYSCORE", False),
    b"ZREVRANGEBYSCORE": (b"BYSCORE", True),
    b"ZRANGEBYLEX": (b"BYLEX", False),
    b"ZREVRANGEBYLEX": (b"BYLEX", True),
}
"""What the older commands ask for: the kind of range, and whether it is reversed."""


def _parse_query(name: bytes, args: Arguments, *, stores: bool = False) -> _Query:
    """Return what a command asks for, whose arguments after the key are given. CommandError."""
    kind, reverse = _FIXED.get(name, (b"", False))
    offset, limit, with_scores = 0, -1, False
    options = [arg.upper() for arg in args[2:]]
    index = 0
    while index < len(options):
        option = options[index]
        if option == b"WITHSCORES" and not stores:
            with_scores = True
        elif option == b"LIMIT" and index + 2 < len(options):
            offset = parse_integer(args[index + 3])
            limit = parse_integer(args[index + 4])
            index += 2
        elif option == b"REV" and name not in _FIXED:
            reverse = True
        elif option in (b"BYSCORE", b"BYLEX") and not kind:
            kind = option
        else:
            raise CommandError(SYNTAX)
        index += 1
    kind = kind or b"RANK"
    if limit != -1 and kind == b"RANK":
        raise CommandError(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
        )
    if with_scores and kind == b"BYLEX":
        raise CommandError("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
    return _Query(_parse_range(kind, args[:2], reverse), reverse, offset, limit, with_scores)


def _parse_range(kind: bytes, ends: Arguments, reverse: bool) -> Range:
    if kind == b"RANK":
        return RankRange(parse_integer(ends[0]), parse_integer(ends[1]))
    low, high = reversed(ends) if reverse else ends
    return (ScoreRange if kind == b"BYSCORE" else MemberRange).parse(low, high)


def elements_reply(elements: Scored, *, with_scores: bool) -> Reply:
    """Return the reply that shows some elements."""
    if with_scores:
        return Pairs([(member, score) for score, member in elements])
    return [member for _, member in elements]


def _zrange(db: Database, args: Arguments) -> Reply:
    query = _parse_query(args[0].upper(), args[2:])
    elements = query.elements(db.find(args[1], SortedSetValue))
    return elements_reply(elements, with_scores=query.with_scores)


def _zrangestore(db: Database, args: Arguments) -> Reply:
    query = _parse_query(b"ZRANGE", args[3:], stores=True)
    elements = query.elements(db.find(args[2], SortedSetValue))
    db.note_misses(args[2:3])
    scores = {member: score for score, member in elements}
    return store_scores(db, args[1], scores, b"zrangestore")


def store_scores(db: Database, key: bytes, scores: dict[bytes, float], event: bytes) -> int:
    """Let a sorted set be at a key, or nothing if it is empty; return the number of members."""
    if scores:
        db.put(key, SortedSetValue(scores), event)
    elif db.get(key) is not None:
        db.remove(key)
    return len(scores)


_RANGES = {b"RANK": b"RANK", b"SCORE": b"BYSCORE", b"LEX": b"BYLEX"}


def _zremrange(db: Database, args: Arguments) -> Reply:
    kind = _RANGES[args[0].upper().removeprefix(b"ZREMRANGEBY")]
    query = _Query(_parse_range(kind, args[2:4], False), False, 0, -1, False)
    value = db.find(args[1], SortedSetValue)
    members = [member for _, member in query.elements(value)]
    return db.remove_items(args[1], value, members, args[0].lower())


def _zcount(db: Database, args: Arguments) -> Reply:
    kind = b"BYLEX" if args[0].upper() == b"ZLEXCOUNT" else b"BYSCORE"
    counted = _parse_range(kind, args[2:4], False)
    value = db.find(args[1], SortedSetValue)
    return 0 if value is None else len(counted.within(value, reverse=False))


# Some of the elements


def _zpop(db: Database, args: Arguments) -> Reply:
    if len(args) > 3:
        raise CommandError(SYNTAX)
    count = parse_count(args[2]) if len(args) == 3 else 1
    value = db.find(args[1], SortedSetValue)
    elements = pop_elements(db, args[1], value, count, from_end=args[0].upper() == b"ZPOPMAX")
    if len(args) == 3:
        return elements_reply(elements, with_scores=True)
    return [item for score, member in elements for item in (member, score)]


def pop_elements(
    db: Database, key: bytes, value: SortedSetValue | None, count: int, *, from_end: bool
) -> Scored:
    """Remove the elements with the least or the greatest scores, and return them."""
    if value is None or not count:
        return []
    elements = value.order[-count:][::-1] if from_end else value.order[:count]
    event = b"zpopmax" if from_end else b"zpopmin"
    db.remove_items(key, value, [member for _, member in elements], event)
    return elements


def _zrandmember(db: Database, args: Arguments) -> Reply:
    count = parse_random_count(args[2]) if len(args) > 2 else None
    with_scores = len(args) == 4 and args[3].upper() == b"WITHSCORES"
    if len(args) > 4 or (len(args) == 4 and not with_scores):
        raise CommandError(SYNTAX)
    scores = _scores(db, args[1])
    if count is None:
        return db.choose(list(scores), 1)[0] if scores else None
    chosen = db.choose(list(scores), count)
    return elements_reply([(scores[member], member) for member in chosen], with_scores=with_scores)


COMMANDS: dict[str, Command] = {
    "zadd": command(_zadd, -4, "write denyoom fast"),
    "zcard": command(_zcard, 2, "readonly fast"),
    "zcount": command(_zcount, 4, "readonly fast"),
    "zincrby": command(_zincrby, 4, "write denyoom fast"),
    "zlexcount": command(_zcount, 4, "readonly fast"),
    "zmscore": command(_zmscore, -3, "readonly fast"),
    "zpopmax": command(_zpop, -2, "write fast"),
    "zpopmin": command(_zpop, -2, "write fast"),
    "zrandmember": command(_zrandmember, -2, "readonly"),
    "zrange": command(_zrange, -4, "readonly"),
    "zrangebylex": command(_zrange, -4, "readonly"),
    "zrangebyscore": command(_zrange, -4, "readonly"),
    "zrangestore": command(_zrangestore, -5, "write denyoom", 1, 2),
    "zrank": command(_zrank, 3, "readonly fast"),
    "zrem": command(_zrem, -3, "write fast"),
    "zremrangebylex": command(_zremrange, 4, "write"),
    "zremrangebyrank": command(_zremrange, 4, "write"),
    "zremrangebyscore": command(_zremrange, 4, "write"),
    "zrevrange": command(_zrange, -4, "readonly"),
    "zrevrangebylex": command(_zrange, -4, "readonly"),
    "zrevrangebyscore": command(_zrange, -4, "readonly"),
    "zrevrank": command(_zrank, 3, "readonly fast"),
    "zscore": command(_zscore, 3, "readonly fast"),
}
