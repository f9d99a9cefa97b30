"""``ttl(path)`` in a query: the seconds after which what is at a path of a row is gone.

    ttl(note)               a column
    ttl(t.address.city)     a field of a struct
    ttl(props['x'])         an entry of a map, or an element of a set
    ttl(id)                 of a column of the primary key: the row

Spark has no such function. A read gives the time at which the part expires as a hidden column, from
which the relation has the seconds, counted from the time at which its rows are judged. The call
becomes the name of that column.

Does not know: how a part's expiry is found (storage).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from sqlglot import Token, TokenType, exp

from relstate.connector.syntax.parsed_query import Edit, ParsedQuery, TableReference
from relstate.connector.syntax.tokens import TokenReader, excerpt, quoted
from relstate.connector.syntax.tree import Tree, is_row_star
from relstate.storage import ReadPlan, errors

from .dml import read_place

_FUNCTION = "ttl"
_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


@dataclass(frozen=True, slots=True)
class TtlCall:
    """A call at ``[start, end)`` in the text of a query.

    ``reference``: to the table whose rows it is of; ``path``: of the part. ``name``: of the column
    that it becomes, the same for all calls with the path.
    """

    reference: TableReference
    path: tuple[Any, ...]
    start: int
    end: int
    name: str = ""

    @property
    def edit(self) -> Edit:
        """The change of the text that makes it a column of the table."""
        text = f"{quoted(self.reference.alias)}.{quoted(self.name)}"
        return Edit(self.start, self.end, text)


def ttl_calls(
    query: ParsedQuery, tables: Sequence[tuple[TableReference, ReadPlan]]
) -> tuple[TtlCall, ...]:
    """Return the calls of a query; ``tables``: those that it reads.

    UnsupportedStatementError for a call of something else than a part of a table in FROM, and
    where columns that are not named would be read with the hidden ones.
    """
    spans = list(_spans(query))
    calls = [_call(query, tables, span) for span in spans]
    for call in calls:
        _check_names(query, call)
    names = _names_of(call.path for call in calls)
    return tuple(replace(call, name=names[call.path]) for call in calls)


def showing_expiries(
    plan: ReadPlan, calls: Sequence[TtlCall], reference: TableReference
) -> ReadPlan:
    """Return the plan of the rows of a reference that shows what its calls need.

    SchemaMismatchError, ValueRangeError and OptionError for paths that the table does not have.
    """
    paths = tuple(dict.fromkeys(call.path for call in calls if call.reference is reference))
    return plan.showing_expiries(paths) if paths else plan


def with_remaining_times(rows: DataFrame, plan: ReadPlan, calls: Sequence[TtlCall]) -> DataFrame:
    """Return rows of a plan with the seconds that calls ask for, in place of the hidden columns."""
    if not plan.expiry_columns:
        return rows
    hidden = {expiry.column.name for expiry in plan.expiry_columns}
    columns = [f.col(quoted(name)) for name in rows.columns if name not in hidden]
    names = [expiry.column.name for expiry in plan.expiry_columns]
    for name, shown_name in zip(names, shown_names(names, plan, calls), strict=True):
        micros = f.col(quoted(name)) - f.lit(plan.time).cast("bigint")
        columns.append((micros / f.lit(1e6)).alias(shown_name))
    return rows.select(columns)


def shown_names(names: Iterable[str], plan: ReadPlan, calls: Sequence[TtlCall]) -> list[str]:
    """Return names of columns of a read, with the calls that hidden ones are of in their place."""
    by_path = {call.path: call.name for call in calls}
    shown = {expiry.column.name: by_path[expiry.path] for expiry in plan.expiry_columns}
    return [shown.get(name, name) for name in names]


def _spans(query: ParsedQuery) -> Iterator[tuple[int, int]]:
    """Yield the indices of the first and the last token of each call."""
    tokens = query.tokens
    for first, token in enumerate(tokens[:-1]):
        is_name = token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        is_field = first > 0 and tokens[first - 1].token_type is TokenType.DOT
        is_call = tokens[first + 1].token_type is TokenType.L_PAREN
        if token.text.lower() != _FUNCTION or not (is_name and is_call) or is_field:
            continue
        depth = 0
        for last in range(first + 1, len(tokens)):
            depth += _DEPTH.get(tokens[last].token_type, 0)
            if depth == 0:
                yield first, last
                break


def _call(
    query: ParsedQuery,
    tables: Sequence[tuple[TableReference, ReadPlan]],
    span: tuple[int, int],
) -> TtlCall:
    first, last = span
    start, end = query.tokens[first].start, query.tokens[last].end + 1
    node = _node_in(query, start, end)
    if query.has_pipes or node is None:
        _refuse(query.text[start:end], "write it in a plain SELECT, of a column")
    tokens = query.tokens[first + 2 : last]
    reference, path_tokens = _reference(query.text[start:end], tokens, node, tables)
    path = _path(query.text, path_tokens, query.text[start:end])
    return TtlCall(reference, path, start, end)


def _names_of(paths: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], str]:
    """Return a name for each path, like a call of it; no two are the same in any case."""
    names: dict[tuple[Any, ...], str] = {}
    for path in dict.fromkeys(paths):
        used_names = {name.lower() for name in names.values()}
        name = f"{_FUNCTION}({path[0]}{''.join(f'[{step!r}]' for step in path[1:])})"
        while name.lower() in used_names:
            name += "_"
        names[path] = name
    return names


def _node_in(query: ParsedQuery, start: int, end: int) -> Tree | None:
    """Return the node of the call at ``[start, end)``; None if its argument names nothing."""
    for node in query.tree.find_all(exp.Anonymous):
        if node.name.lower() == _FUNCTION:
            names = node.find_all(exp.Identifier)
            places = [name.meta["start"] for name in names if "start" in name.meta]
            if places and start < min(places) < end:
                return node
    return None


def _reference(
    call: str,
    tokens: Sequence[Token],
    node: Tree,
    tables: Sequence[tuple[TableReference, ReadPlan]],
) -> tuple[TableReference, Sequence[Token]]:
    """Return the table of a call, and the tokens of the path in it."""
    name = tokens[0].text.lower()
    is_qualified = len(tokens) > 2 and tokens[1].token_type is TokenType.DOT
    query = node.find_ancestor(exp.Query)
    while query is not None:
        inputs = [pair for pair in tables if _query_of(pair[0]) is query]
        by_alias = [reference for reference, _ in inputs if reference.alias == name]
        if is_qualified and by_alias:
            return by_alias[0], tokens[2:]
        by_column = [reference for reference, plan in inputs if _has_column(plan, name)]
        if len(by_column) > 1:
            _refuse(call, f"several tables have a column {tokens[0].text!r}: name the table, too")
        if by_column:
            return by_column[0], tokens
        query = query.find_ancestor(exp.Query)
    _refuse(
        call,
        f"{tokens[0].text!r} is not a column of a table in FROM; of a column of a subquery, a "
        "common table or a view's text compute it there, and name the result",
    )


def _query_of(reference: TableReference) -> Tree | None:
    return None if reference.node is None else reference.node.find_ancestor(exp.Query)


def _has_column(plan: ReadPlan, name: str) -> bool:
    columns = plan.definition.schema.visible_columns
    return any(column.name.lower() == name for column in columns)


def _path(text: str, tokens: Sequence[Token], call: str) -> tuple[Any, ...]:
    """Return the path that some tokens name."""
    reader = TokenReader(text, tokens)
    try:
        place = read_place(reader, ("", ""))
    except errors.UnsupportedStatementError:
        reader = TokenReader(text, [*tokens, tokens[-1]])
        place = None
    if place is None or reader.token is not None:
        _refuse(call, "write a column, or a part of one, as in ttl(props['x'])")
    steps = (
        _key(TokenReader(step.text, _tokens_of(step.text)), call) if step.is_key else step.text
        for step in place.steps
    )
    return (place.column, *steps)


def _tokens_of(text: str) -> Sequence[Token]:
    return ParsedQuery.parse(f"SELECT {text}").tokens[1:]


def _key(reader: TokenReader, call: str) -> Any:
    """Return the value of a key: a text, or a whole number."""
    token = reader.token
    if token is not None and token.token_type is TokenType.STRING:
        reader.skip()
        key: Any = token.text
    else:
        sign = -1 if reader.accept("-") else 1
        try:
            key = sign * reader.whole_number("a whole number")
        except errors.UnsupportedStatementError:
            key = None
    if key is None or reader.token is not None:
        _refuse(call, "a key in it is a text in quotes or a whole number, the same for all rows")
    return key


def _check_names(query: ParsedQuery, call: TtlCall) -> None:
    """UnsupportedStatementError if a hidden column of the call would be read without its name."""
    select = _query_of(call.reference)
    stars = (
        star
        for star in query.tree.find_all(exp.Star)
        if not is_row_star(star) and star.find_ancestor(exp.Query) is select
    )
    if any(_table_of(star) in ("", call.reference.alias) for star in stars):
        _refuse(
            query.text[call.start : call.end],
            "with '*' in the same SELECT: write the names of the columns instead of '*', or join "
            "the two queries by the key",
        )
    if query.reads_columns_implicitly:
        _refuse(
            query.text[call.start : call.end],
            "not in a query with PIVOT, UNPIVOT, NATURAL, TRANSFORM, patterns of names, or a list "
            "of names after a table: compute it in a query of its own",
        )


def _table_of(star: Tree) -> str:
    parent = star.parent
    return parent.table.lower() if isinstance(parent, exp.Column) else ""


def _refuse(call: str, advice: str) -> NoReturn:
    raise errors.UnsupportedStatementError(f"{excerpt(call)}: {advice}")
