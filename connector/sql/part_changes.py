"""The changes of parts of rows that an UPDATE or a DELETE of a document table makes.

    SET path = expression                       the value replaces what is there
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

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import TokenType

from relstate.connector.syntax.tokens import TokenReader, quoted, tokens_of
from relstate.storage import ChangeAction, DocumentEncoding, Target, errors

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
    where two of them are at one place, or one within the other.
    """
    if isinstance(statement, DeleteParts):
        places = statement.places
        changes = tuple(_change(encoding, place, ChangeAction.REMOVE, None) for place in places)
    else:
        names = (statement.table, statement.alias)
        assignments = [
            _of_whole_array(encoding, assignment, statement.alias)
            for assignment in statement.assignments
        ]
        places = tuple(assignment.place for assignment in assignments)
        changes = tuple(
            change
            for assignment in assignments
            for change in _assigned(encoding, assignment, names)
        )
    _check_apart(places)
    return changes


def _of_whole_array(encoding: DocumentEncoding, assignment: Assignment, alias: str) -> Assignment:
    """Return an assignment to an element of an array as one to the array; others as they are."""
    steps = assignment.place.steps
    if not steps or not steps[-1].is_key:
        return assignment
    array = Place(assignment.place.column, steps[:-1])
    if not _change(encoding, array, ChangeAction.REMOVE, None).target.is_list:
        return assignment
    return Assignment(array, _with_element(array, alias, steps[-1].text, assignment.expression))


def _with_element(place: Place, alias: str, index: str, expression: str) -> str:
    """Return the expression of an array in which one element is replaced."""
    array = f"{quoted(alias)}.{quoted(place.column)}"
    for step in place.steps:
        array += f"[{step.text}]" if step.is_key else f".{quoted(step.text)}"
    position = f"CAST(({index}) AS INT)"
    before = f"slice({array}, 1, {position})"
    after = f"slice({array}, {position} + 2, size({array}))"
    name = _literal_of(f"{place.column} has no element ")
    problem = f"concat({name}, coalesce(string({index}), 'NULL'), '; the first is 0')"
    return (
        f"CASE WHEN {position} >= 0 AND {position} < size({array}) "
        f"THEN concat({before}, array({expression}), {after}) ELSE raise_error({problem}) END"
    )


def _assigned(
    encoding: DocumentEncoding, assignment: Assignment, names: tuple[str, str]
) -> Iterator[PartChange]:
    place, expression = assignment.place, assignment.expression
    target = _change(encoding, place, ChangeAction.REMOVE, None).target
    additions = list(_additions(target, assignment, names))
    for action, value in additions or [(ChangeAction.PUT, expression)]:
        yield _change(encoding, place, action, value)


def _change(
    encoding: DocumentEncoding, place: Place, action: ChangeAction, value: str | None
) -> PartChange:
    target, _ = encoding.locate_part([place.column])
    path: list[str | None] = [target.column.name]
    keys = []
    for step in place.steps:
        literal = _literal(step.text) if step.is_key else step.text
        target = target.below(step.text if literal is None else literal)
        is_key = target.numbers[-1] is None
        path.append(None if is_key else literal)
        if is_key:
            keys.append(step.text if step.is_key else _literal_of(step.text))
    return PartChange(target, tuple(path), action, tuple(keys), value)


def _additions(
    target: Target, assignment: Assignment, names: tuple[str, str]
) -> Iterator[tuple[ChangeAction, str]]:
    """Yield what an expression adds to what is there; nothing for another expression."""
    reader = TokenReader(assignment.expression, tokens_of(assignment.expression))
    token = reader.token
    function = "" if token is None else token.text.upper()
    if not reader.accept(function, "("):
        return
    reader = TokenReader(assignment.expression, tokens_of(assignment.expression))
    reader.expect(function)
    operands = reader.parenthesised()
    if reader.token is not None or len(operands) < 2 or not operands[0]:
        return
    first = TokenReader(assignment.expression, operands[0])
    if not _is_place(first, assignment.place, names):
        return
    texts = [reader.source(tokens) for tokens in operands[1:]]
    if function == "MAP_CONCAT" and target.is_map:
        yield from ((ChangeAction.ADD, text) for text in texts)
    elif function == "ARRAY_UNION" and target.is_set and len(texts) == 1:
        yield ChangeAction.ADD, texts[0]
    elif function in _APPENDS and (target.is_set or target.is_list) and len(texts) == 1:
        action = ChangeAction.ADD if target.is_set else _APPENDS[function]
        yield action, f"array({texts[0]})"


def _is_place(reader: TokenReader, place: Place, names: tuple[str, str]) -> bool:
    """Return whether the tokens of a reader are a place, and nothing else."""
    try:
        operand = read_place(reader, names)
    except errors.UnsupportedStatementError:
        return False
    return reader.token is None and _normal(operand) == _normal(place)


def _normal(place: Place) -> tuple[str, ...]:
    """Return the steps of a place as they compare."""
    steps = (
        f"[{step.text}]" if step.is_key and _literal(step.text) is None
        else str(_literal(step.text) if step.is_key else step.text)
        for step in place.steps
    )  # fmt: skip
    return (place.column.lower(), *steps)


def _check_apart(places: tuple[Place, ...]) -> None:
    normal = [_normal(place) for place in places]
    for index, first in enumerate(normal):
        for second in normal[index + 1 :]:
            shorter, longer = sorted((first, second), key=len)
            if longer[: len(shorter)] == shorter:
                raise errors.UnsupportedStatementError(
                    f"{'.'.join(longer)} is set twice, or within what is set; leave one out"
                )


def _literal(text: str) -> str | None:
    """Return the value of a text literal; None for any other expression."""
    tokens = tokens_of(text)
    is_text = len(tokens) == 1 and tokens[0].token_type is TokenType.STRING
    return tokens[0].text if is_text else None


def _literal_of(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
