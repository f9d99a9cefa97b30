"""The changes of parts of rows that an UPDATE or a DELETE of a document table makes.

    SET path = expression                       the value replaces what is there
    SET variant.key.key = expression            the same in an object of a variant, at any depth
    SET path = map_concat(path, map, …)         adds entries
    SET path = array_union(path, array)         adds elements to a set
    SET path = array_append(path, element)      adds an element to the end of an array, or to a set
    SET path = array_prepend(path, element)     adds an element to the beginning of an array
    SET path[index] = expression                replaces an element: the array is read and rewritten
    DELETE path                                 nothing is there any more

The forms that add need no old value, so they also make what is not there yet, and an entry replaces
one of the same key.

Does not know: Spark, or which rows change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from sqlglot import TokenType

from relstate.connector.syntax.tokens import TokenReader, quoted, tokens_of
from relstate.storage import ChangeAction, DocumentEncoding, Target, check_action, errors
from relstate.storage import types as t

from .dml import Assignment, DeleteParts, Place, Update, read_place

_APPENDS = {"ARRAY_APPEND": ChangeAction.ADD, "ARRAY_PREPEND": ChangeAction.PREPEND}


@dataclass(frozen=True, slots=True)
class PartChange:
    """What is done at a target.

    ``path``: the column and the steps to it, None for a key; ``keys``: expressions of the keys;
    ``value``: an expression, None to remove.
    """

    target: Target
    path: tuple[str | None, ...]
    action: ChangeAction
    keys: tuple[str, ...]
    value: str | None


def part_changes(
    statement: Update | DeleteParts, encoding: DocumentEncoding
) -> tuple[PartChange, ...]:
    """Return the changes of a statement.

    SchemaMismatchError for a path that the columns' types do not have, UnsupportedStatementError
    where two of them are at one place, or one may be within the other.
    """
    if isinstance(statement, DeleteParts):
        removals = [
            _locate_change(encoding, place, ChangeAction.REMOVE) for place in statement.places
        ]
        _check_apart(removals, "removed")
        return tuple(removals)
    names = (statement.table, statement.alias)
    changes = [
        _read_assignment(encoding, _replace_element(encoding, assignment, statement.alias), names)
        for assignment in statement.assignments
    ]
    _check_apart([first for first, *_ in changes], "set")
    return tuple(chain.from_iterable(changes))


def _replace_element(encoding: DocumentEncoding, assignment: Assignment, alias: str) -> Assignment:
    """Return an assignment to an element of an array as one to the array; others as they are."""
    steps = assignment.place.steps
    if not steps or not steps[-1].is_key:
        return assignment
    array = Place(assignment.place.column, steps[:-1])
    if not _locate_change(encoding, array, ChangeAction.REMOVE).target.is_list:
        return assignment
    return Assignment(array, _with_element(array, alias, steps[-1].text, assignment.expression))


def _with_element(place: Place, alias: str, index: str, expression: str) -> str:
    """Return the expression of an array in which one element is replaced.

    Spark refuses the index if it would refuse it in a SELECT.
    """
    array = f"{quoted(alias)}.{quoted(place.column)}"
    for step in place.steps:
        array += f"[{step.text}]" if step.is_key else f".{quoted(step.text)}"
    # Cast only where it is an index of the array: a larger number could wrap around.
    position = f"CAST(({index}) AS INT)"
    before = f"slice({array}, 1, {position})"
    after = f"slice({array}, {position} + 2, size({array}))"
    name = _literal_of(f"{place.column} has no element ")
    problem = f"concat({name}, coalesce(string({index}), 'NULL'), '; the first is 0')"
    # The last operand is never evaluated, but its types are checked.
    is_there = (
        f"({index}) >= 0 AND ({index}) < size({array}) AND (TRUE OR {array}[{index}] IS NULL)"
    )
    return (
        f"CASE WHEN {is_there} "
        f"THEN concat({before}, array({expression}), {after}) ELSE raise_error({problem}) END"
    )


def _read_assignment(
    encoding: DocumentEncoding, assignment: Assignment, names: tuple[str, str]
) -> tuple[PartChange, ...]:
    """Return the changes of an assignment, one or several of one target."""
    place = assignment.place
    unchanged = _locate_change(encoding, place, ChangeAction.REMOVE)
    additions = _read_additions(encoding, unchanged, assignment.expression, names)
    return tuple(
        _locate_change(encoding, place, action, value)
        for action, value in additions or [(ChangeAction.PUT, assignment.expression)]
    )


def _locate_change(
    encoding: DocumentEncoding, place: Place, action: ChangeAction, value: str | None = None
) -> PartChange:
    """Return what an action does at a place. SchemaMismatchError if there is no such place."""
    target, _ = encoding.locate_part([place.column])
    path: list[str | None] = [target.column.name]
    keys = []
    for step in place.steps:
        literal = _literal(step.text) if step.is_key else step.text
        if isinstance(target.type, t.Variant) and step.is_key and step.text.isdecimal():
            raise errors.SchemaMismatchError(
                f"{target.name}[{step.text}]: one element of an array in a variant cannot be "
                "changed alone: set the array"
            )
        target = target.below(step.text if literal is None else literal)
        is_key = target.numbers[-1] is None
        path.append(None if is_key else literal)
        if is_key:
            keys.append(step.text if step.is_key else _literal_of(step.text))
    check_action(target, action)
    return PartChange(target, tuple(path), action, tuple(keys), value)


def _read_additions(
    encoding: DocumentEncoding, change: PartChange, expression: str, names: tuple[str, str]
) -> list[tuple[ChangeAction, str]]:
    """Return what an expression adds to what is there; nothing for another expression."""
    target = change.target
    reader = TokenReader(expression, tokens_of(expression))
    token = reader.token
    function = "" if token is None else token.text.upper()
    if not reader.accept(function, "("):
        return []
    reader = TokenReader(expression, tokens_of(expression))
    reader.expect(function)
    operands = reader.parenthesised()
    if reader.token is not None or len(operands) < 2 or not operands[0]:
        return []
    if not _is_target(encoding, TokenReader(expression, operands[0]), change, names):
        return []
    texts = [reader.source(tokens) for tokens in operands[1:]]
    if function == "MAP_CONCAT" and target.is_map:
        return [(ChangeAction.ADD, text) for text in texts]
    if function == "ARRAY_UNION" and target.is_set and len(texts) == 1:
        return [(ChangeAction.ADD, texts[0])]
    if function in _APPENDS and (target.is_set or target.is_list) and len(texts) == 1:
        action = ChangeAction.ADD if target.is_set else _APPENDS[function]
        return [(action, f"array({texts[0]})")]
    return []


def _is_target(
    encoding: DocumentEncoding, reader: TokenReader, change: PartChange, names: tuple[str, str]
) -> bool:
    """Return whether the tokens of a reader are the place of a change, and nothing else."""
    try:
        place = read_place(reader, names)
        operand = _locate_change(encoding, place, ChangeAction.REMOVE)
    except (errors.UnsupportedStatementError, errors.SchemaMismatchError):
        return False
    return reader.token is None and _has_same_place(operand, change)


def _check_apart(changes: Sequence[PartChange], verb: str) -> None:
    """UnsupportedStatementError where two changes are at one place, or one may be in the other."""
    for pair in combinations(changes, 2):
        outer, inner = sorted(pair, key=lambda change: len(change.target.numbers))
        if _has_same_place(outer, inner):
            raise errors.UnsupportedStatementError(
                f"{inner.target.name} is {verb} twice; leave one out"
            )
        if _may_contain(outer, inner):
            raise errors.UnsupportedStatementError(
                f"{inner.target.name} may be in {outer.target.name}, which is {verb} too: leave "
                "one out, or use two statements"
            )


def _has_same_place(first: PartChange, second: PartChange) -> bool:
    """Return whether two changes surely are at one place of every row."""
    return (
        first.target.column.id == second.target.column.id
        and first.target.numbers == second.target.numbers
        and list(map(_as_compared, first.keys)) == list(map(_as_compared, second.keys))
    )


def _may_contain(outer: PartChange, inner: PartChange) -> bool:
    """Return whether the place of a change may be within that of another one."""
    depth = len(outer.target.numbers)
    return (
        outer.target.column.id == inner.target.column.id
        and depth < len(inner.target.numbers)
        and inner.target.numbers[:depth] == outer.target.numbers
        and not any(
            _are_different(key, inner_key, key_type)
            for key, inner_key, key_type in zip(
                outer.keys, inner.keys, outer.target.keys, strict=False
            )
        )
    )


def _are_different(first: str, second: str, key_type: t.DataType) -> bool:
    """Return whether two expressions surely are different keys of a type."""
    if isinstance(key_type, t.String):
        literals = _literal(first), _literal(second)
        return None not in literals and literals[0] != literals[1]
    return first.isdecimal() and second.isdecimal() and int(first) != int(second)


def _as_compared(key: str) -> tuple[bool, str]:
    """Return the expression of a key so that literals of one value are equal."""
    literal = _literal(key)
    return (False, key) if literal is None else (True, literal)


def _literal(text: str) -> str | None:
    """Return the value of a text literal; None for any other expression."""
    tokens = tokens_of(text)
    is_text = len(tokens) == 1 and tokens[0].token_type is TokenType.STRING
    return tokens[0].text if is_text else None


def _literal_of(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
