"""Which conditions of a query concern one table reference alone, so that its read may use them.

Spark evaluates every condition again; a read that knows one only leaves out rows that could not
count. So a condition is handed to a reference only where every row that it refuses is without
effect on the query:

- it stands in the WHERE of the SELECT whose FROM has the reference, or in the ON of a join there;
  never in another SELECT around it, be it aggregated, windowed, limited or not;
- an outer join does not put NULLs in the place of the reference's rows before the condition is
  looked at, nor keep rows that it refuses: so a condition in the ON of a LEFT JOIN goes to the
  right side only, one in the WHERE to the left;
- it names columns of this reference only: by its alias, or without one where no other relation of
  the FROM can have such a column.

An equality of two columns of one type, in an inner join, carries a condition from one to the other.

Does not know: what a read can evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import Token, exp

from relstate.connector.syntax.reference import TableReference
from relstate.connector.syntax.tokens import quoted
from relstate.storage import TableSchema, types

from .conjunct import Conjunct, Tree, conjuncts

SchemaOf: TypeAlias = Callable[[TableReference], TableSchema]

# What makes rows of, or takes rows from, the FROM before its WHERE is looked at.
_UNKNOWN_CLAUSES = ("connect", "match", "prewhere", "sample", "pivots")
_UNKNOWN_PARTS = ("joins", "laterals", "pivots", "sample")
_CARRIED = (
    types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Date, types.Boolean,
    types.Timestamp, types.TimestampNtz, types.Decimal, types.String,
)  # fmt: skip


def conditions(
    references: Sequence[TableReference],
    text: str,
    tokens: Sequence[Token],
    schema_of: SchemaOf,
) -> list[tuple[str, ...]]:
    """Return for each reference the conditions its read may use, over its plain column names."""
    by_node = {id(reference.node): reference for reference in references}
    schemas = {key: schema_of(reference) for key, reference in by_node.items()}
    found: dict[int, list[str]] = {key: [] for key in by_node}
    if any(token.text == "|>" for token in tokens):
        return [() for _ in references]
    for select in _selects(references):
        for node, condition in _Scope(select, schemas).conditions(text, tokens):
            if condition not in found[node]:
                found[node].append(condition)
    return [tuple(found[id(reference.node)]) for reference in references]


def _selects(references: Sequence[TableReference]) -> Iterator[exp.Select]:
    seen: set[int] = set()
    for reference in references:
        parent = reference.node.parent if reference.node is not None else None
        select = parent.parent if isinstance(parent, exp.From | exp.Join) else None
        if isinstance(select, exp.Select) and id(select) not in seen:
            seen.add(id(select))
            yield select


@dataclass(frozen=True, slots=True)
class _Source:
    """One relation of a FROM. ``join`` is None for the first; ``schema`` None if not known."""

    node: Tree
    alias: str
    join: exp.Join | None
    schema: TableSchema | None
    is_open: bool

    @property
    def side(self) -> str:
        return (self.join.side if self.join is not None else "").upper()

    @property
    def kind(self) -> str:
        return (self.join.kind if self.join is not None else "").upper()

    @property
    def is_hidden(self) -> bool:
        """Whether its columns are not seen behind its join."""
        return self.kind in ("SEMI", "ANTI")

    @property
    def using(self) -> set[str]:
        names = self.join.args.get("using") or () if self.join is not None else ()
        return {name.name.lower() for name in names}

    @property
    def is_natural(self) -> bool:
        return self.join is not None and bool(self.join.method)

    def has(self, name: str) -> bool | None:
        """Tell whether it has a column of this name; None if that is not known."""
        return None if self.schema is None else self.type_of(name) is not None

    def type_of(self, name: str) -> types.DataType | None:
        """Return the type of a column; None if there is none, or that is not known."""
        columns = () if self.schema is None else self.schema.columns
        return next((one.type for one in columns if one.name.lower() == name.lower()), None)


class _Scope:
    """The FROM of one SELECT, and what its conditions say of its relations."""

    def __init__(self, select: exp.Select, schemas: Mapping[int, TableSchema]) -> None:
        self._select = select
        first = select.args["from_"].this
        joins = select.args.get("joins") or []
        pairs = [(first, None), *((join.this, join) for join in joins)]
        self._sources = [_source(node, join, schemas) for node, join in pairs]
        self._is_known = not any(select.args.get(name) for name in _UNKNOWN_CLAUSES)
        self._has_laterals = bool(select.args.get("laterals"))

    def conditions(self, text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
        """Yield (id of a reference's node, a condition for it)."""
        if not self._is_known or any(source.side == "FULL" for source in self._sources):
            return
        placed = list(self._placed(text, tokens))
        for place, conjunct in placed:
            if self._sources[place].is_open:
                yield id(self._sources[place].node), conjunct.unqualified()
        yield from self._carried(placed)

    def _placed(self, text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, Conjunct]]:
        """Yield (place of a source, a conjunct that it may use)."""
        where = self._select.args.get("where")
        if where is not None:
            for conjunct in conjuncts(where.this, text, tokens):
                place = self._concerned(conjunct)
                if place is not None and self._keeps(place, len(self._sources)):
                    yield place, conjunct
        for join_place, source in enumerate(self._sources):
            on = source.join.args.get("on") if source.join is not None else None
            for conjunct in conjuncts(on, text, tokens) if on is not None else ():
                place = self._concerned(conjunct)
                if place is not None and self._may_join(place, join_place):
                    yield place, conjunct

    def _keeps(self, place: int, end: int) -> bool:
        """Tell whether the rows of a source are still its own behind the joins before ``end``."""
        own = self._sources[place]
        if own.is_hidden or (own.side == "LEFT" and place < end):
            return False
        return all(source.side != "RIGHT" for source in self._sources[place + 1 : end])

    def _may_join(self, place: int, join_place: int) -> bool:
        """Tell whether a condition of a join may go to a source."""
        join = self._sources[join_place]
        if place > join_place:
            return False
        if place == join_place:
            return join.side != "RIGHT"
        reaches = join.kind != "ANTI" and (join.side != "LEFT" or join.kind == "SEMI")
        return reaches and self._keeps(place, join_place)

    # Names

    def _concerned(self, conjunct: Conjunct) -> int | None:
        """Return the place of the one source whose columns a conjunct names; None if not one."""
        if conjunct.tree.find(exp.Query) is not None:
            return None
        places = {self._place(column) for column in conjunct.tree.find_all(exp.Column)}
        return places.pop() if len(places) == 1 else None

    def _place(self, column: exp.Column) -> int | None:
        if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
            return None
        if isinstance(column.parent, exp.Dot):
            return None
        if not column.table:
            return self._place_of_name(column.name)
        aliases = [source.alias.lower() for source in self._sources]
        name = column.table.lower()
        return aliases.index(name) if aliases.count(name) == 1 else None

    def _place_of_name(self, name: str) -> int | None:
        """Return the place of the only source that can have a column; None if that is not sure."""
        if self._has_laterals or any(source.is_natural for source in self._sources):
            return None
        if any(name.lower() in source.using for source in self._sources):
            # The column of the first source is what stands for all of them.
            is_first = self._sources[0].has(name) and all(
                source.side != "RIGHT" for source in self._sources
            )
            return 0 if is_first else None
        having = [place for place, one in enumerate(self._sources) if one.has(name) is not False]
        sure = len(having) == 1 and self._sources[having[0]].has(name)
        return having[0] if sure else None

    # Equalities

    def _carried(self, placed: Sequence[tuple[int, Conjunct]]) -> Iterator[tuple[int, str]]:
        """Yield conditions that equalities of inner joins carry from one source to another."""
        equalities = list(self._equalities())
        for place, conjunct in placed:
            columns = list(conjunct.tree.find_all(exp.Column))
            names = {column.name.lower() for column in columns}
            if len(names) != 1:
                continue
            (name,) = names
            for (one, other), (one_name, other_name) in equalities:
                if (one, one_name) == (place, name):
                    yield id(self._sources[other].node), _renamed(conjunct, other_name)

    def _equalities(self) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
        """Yield ((place, other place), (column, other column)), both ways, that are equal."""
        for left, right, name, other in self._equated():
            if (
                self._is_inner(left)
                and self._is_inner(right)
                and self._alike(left, right, name, other)
            ):
                yield (left, right), (name, other)
                yield (right, left), (other, name)

    def _equated(self) -> Iterator[tuple[int, int, str, str]]:
        for place, source in enumerate(self._sources):
            if source.join is None:
                continue
            for name in source.using:
                yield 0, place, name, name
            yield from self._equated_by(source.join.args.get("on"))
        where = self._select.args.get("where")
        yield from self._equated_by(where.this if where is not None else None)

    def _equated_by(self, condition: Tree | None) -> Iterator[tuple[int, int, str, str]]:
        if condition is None:
            return
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            if isinstance(part, exp.EQ):
                one, other = part.this, part.expression
                if isinstance(one, exp.Column) and isinstance(other, exp.Column):
                    left, right = self._place(one), self._place(other)
                    if left is not None and right is not None and left != right:
                        yield left, right, one.name.lower(), other.name.lower()

    def _is_inner(self, place: int) -> bool:
        """Tell whether there are inner joins only, and this source is open to conditions."""
        plain = all(
            not source.side and source.kind in ("", "INNER", "CROSS") and not source.is_natural
            for source in self._sources
        )
        return plain and self._sources[place].is_open

    def _alike(self, left: int, right: int, name: str, other: str) -> bool:
        """Tell whether two columns have one type whose equal values nothing tells apart."""
        one, two = self._sources[left].type_of(name), self._sources[right].type_of(other)
        if one is None or one != two or not isinstance(one, _CARRIED):
            return False
        return not (isinstance(one, types.String) and one.is_collated)


def _renamed(conjunct: Conjunct, name: str) -> str:
    """Return a conjunct over one column, over another one."""
    parts: list[str] = []
    end = 0
    for column in sorted(conjunct.tree.find_all(exp.Column), key=_begin):
        start = _begin(column) - conjunct.start
        parts += [conjunct.text[end:start], quoted(name)]
        end = column.this.meta["end"] + 1 - conjunct.start
    return "".join([*parts, conjunct.text[end:]])


def _begin(column: exp.Column) -> int:
    begin: int = (column.args.get("table") or column.this).meta["start"]
    return begin


def _source(node: Tree, join: exp.Join | None, schemas: Mapping[int, TableSchema]) -> _Source:
    schema = schemas.get(id(node))
    alias = node.alias_or_name if isinstance(node, exp.Table | exp.Subquery) else node.alias
    table_alias = node.args.get("alias")
    has_columns = isinstance(table_alias, exp.TableAlias) and bool(table_alias.columns)
    is_plain = not has_columns and not any(node.args.get(name) for name in _UNKNOWN_PARTS)
    known = schema if is_plain else None
    return _Source(node, alias, join, known, known is not None)
