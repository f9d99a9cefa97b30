"""Which conditions of a query concern one table reference alone, so that its read may use them.

Spark evaluates every condition again, so a read may leave out rows, but only rows without effect. A
reference gets a condition only if every row that the condition rejects has no effect on the query:

- the condition is in the WHERE of the SELECT whose FROM has the reference, or in the ON of a join
  there; never in another SELECT around it, whether aggregated, windowed, limited or plain;
- no outer join replaces the reference's rows with NULLs before the condition is evaluated, and
  none keeps rows that the condition rejects: a condition in the ON of a LEFT JOIN goes to the right
  side only, one in the WHERE to the left; a FROM with an ASOF JOIN, which picks rows, takes none;
- it names columns of this reference only: by its alias, or without one where no other relation of
  the FROM can have such a column.

An equality of two columns of one type, in an inner join, makes a condition on one of them one on
the other too.

Does not know: what a read can evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree, column, substituted
from relstate.storage import TableSchema, syntax, types

SchemaOf: TypeAlias = Callable[[TableReference], TableSchema]

# Clauses that make rows of, or take rows from, the FROM before its WHERE is evaluated.
_UNKNOWN_CLAUSES = ("connect", "match", "prewhere", "sample", "pivots")
_UNKNOWN_PARTS = ("joins", "laterals", "pivots", "sample")
_CARRIED_TYPES = (
    types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Date, types.Boolean,
    types.Timestamp, types.TimestampNtz, types.Decimal, types.String,
)  # fmt: skip


def pruning_conjuncts(
    query: ParsedQuery, references: Sequence[TableReference], schema_of: SchemaOf
) -> list[tuple[Tree, ...]]:
    """Return for each reference the conditions its read may use, over its plain column names."""
    if query.has_pipes:
        return [() for _ in references]
    by_node = {id(reference.node): reference for reference in references}
    schemas = {node: schema_of(reference) for node, reference in by_node.items()}
    conjuncts: dict[int, list[Tree]] = {node: [] for node in by_node}
    for select in _selects(references):
        for node, conjunct in _Scope(select, schemas).conjuncts():
            if conjunct not in conjuncts[node]:
                conjuncts[node].append(conjunct)
    return [tuple(conjuncts[id(reference.node)]) for reference in references]


@dataclass(frozen=True, slots=True)
class KeySource:
    """A column of a reference, and one of another relation, of which it has the values.

    Rows of the reference with another value, or NULL, have no effect on the query. ``target`` and
    ``source``: the ids of the nodes of the two; columns are in lower case.
    """

    target: int
    column: str
    source: int
    source_column: str


def key_sources(
    query: ParsedQuery, references: Sequence[TableReference], schema_of: SchemaOf
) -> list[KeySource]:
    """Return the columns of references that equal those of other relations, by a join or an IN.

    The equality leaves a row as a condition on the reference would that it implies: see above. The
    other relation is a reference, or a table with another name.
    """
    if query.has_pipes:
        return []
    schemas = {id(reference.node): schema_of(reference) for reference in references}
    return [
        source
        for select in _selects(references)
        for source in _Scope(select, schemas).key_sources()
    ]


def _selects(references: Sequence[TableReference]) -> Iterator[exp.Select]:
    """Yield the SELECTs whose FROM has one of the references."""
    seen_selects: set[int] = set()
    for reference in references:
        parent = reference.node.parent if reference.node is not None else None
        select = parent.parent if isinstance(parent, exp.From | exp.Join) else None
        if isinstance(select, exp.Select) and id(select) not in seen_selects:
            seen_selects.add(id(select))
            yield select


@dataclass(frozen=True, slots=True)
class _Source:
    """One relation of a FROM. ``join`` is None for the first; ``schema`` None if not known.

    ``is_plain``: its rows and the names of its columns are not changed.
    """

    node: Tree
    alias: str
    join: exp.Join | None
    schema: TableSchema | None
    is_plain: bool

    @property
    def is_open(self) -> bool:
        """Whether it is a table that takes conditions."""
        return self.schema is not None

    @property
    def is_plain_table(self) -> bool:
        """Whether its columns are those of the table that it names."""
        return isinstance(self.node, exp.Table) and self.is_plain

    @property
    def side(self) -> str:
        return (self.join.side if self.join is not None else "").upper()

    @property
    def kind(self) -> str:
        return (self.join.kind if self.join is not None else "").upper()

    @property
    def is_hidden(self) -> bool:
        """Whether its columns are not visible after its join."""
        return self.kind in ("SEMI", "ANTI")

    @property
    def using(self) -> set[str]:
        names = self.join.args.get("using") or () if self.join is not None else ()
        return {name.name.lower() for name in names}

    @property
    def is_natural(self) -> bool:
        return self.join is not None and bool(self.join.method)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no condition may remove rows before its join: FULL, or ASOF, which picks rows."""
        is_asof = self.join is not None and self.join.method == "ASOF"
        return is_asof or self.side == "FULL"

    def has(self, name: str) -> bool | None:
        """Return whether it has a column of this name; None if that is not known."""
        return None if self.schema is None else self.type_of(name) is not None

    def type_of(self, name: str) -> types.DataType | None:
        """Return the type of a column; None if there is none, or that is not known."""
        columns = () if self.schema is None else self.schema.columns
        return next((col.type for col in columns if col.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class _ColumnOf:
    """A column of one of the sources of a FROM; ``name`` in lower case."""

    source: int
    name: str


class _Scope:
    """The FROM of one SELECT, and the conditions on its sources. Sources go by their index."""

    def __init__(self, select: exp.Select, schemas: Mapping[int, TableSchema]) -> None:
        self._select = select
        self._schemas = schemas
        first = select.args["from_"].this
        joins = select.args.get("joins") or []
        pairs = [(first, None), *((join.this, join) for join in joins)]
        self._sources = [_source(node, join, schemas) for node, join in pairs]
        self._is_known = not any(select.args.get(name) for name in _UNKNOWN_CLAUSES)
        self._has_laterals = bool(select.args.get("laterals"))

    def conjuncts(self) -> Iterator[tuple[int, Tree]]:
        """Yield (id of a reference's node, a conjunct for it)."""
        if not self._is_known or any(source.keeps_all_rows for source in self._sources):
            return
        assigned = list(self._assigned())
        for index, conjunct in assigned:
            if self._sources[index].is_open:
                yield id(self._sources[index].node), _unqualified(conjunct)
        yield from self._carried(assigned)

    def _assigned(self) -> Iterator[tuple[int, Tree]]:
        """Yield (index of a source, a conjunct that it may use)."""
        for conjunct in _conjuncts(self._where):
            index = self._only_source(conjunct)
            if index is not None and self._keeps_rows(index, len(self._sources)):
                yield index, conjunct
        for join_index, source in enumerate(self._sources):
            for conjunct in _conjuncts(_on(source)):
                index = self._only_source(conjunct)
                if index is not None and self._may_use_join(index, join_index):
                    yield index, conjunct

    @property
    def _where(self) -> Tree | None:
        where = self._select.args.get("where")
        return None if where is None else where.this

    def _keeps_rows(self, index: int, end: int) -> bool:
        """Return whether the rows of a source are still its own after the joins before ``end``."""
        own = self._sources[index]
        if own.is_hidden or (own.side == "LEFT" and index < end):
            return False
        return all(source.side != "RIGHT" for source in self._sources[index + 1 : end])

    def _may_use_join(self, index: int, join_index: int) -> bool:
        """Return whether a source may use a condition of a join."""
        join = self._sources[join_index]
        if index > join_index:
            return False
        if index == join_index:
            return join.side != "RIGHT"
        reaches = join.kind != "ANTI" and (join.side != "LEFT" or join.kind == "SEMI")
        return reaches and self._keeps_rows(index, join_index)

    # Names

    def _only_source(self, conjunct: Tree) -> int | None:
        """Return the one source whose columns a conjunct names; None if there is not just one."""
        if conjunct.find(exp.Query) is not None:
            return None
        indexes = {self._source_of(node) for node in conjunct.find_all(exp.Column)}
        return indexes.pop() if len(indexes) == 1 else None

    def _source_of(self, node: exp.Column) -> int | None:
        if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
            return None
        if isinstance(node.parent, exp.Dot):
            return None
        if not node.table:
            return self._source_of_name(node.name)
        aliases = [source.alias.lower() for source in self._sources]
        alias = node.table.lower()
        return aliases.index(alias) if aliases.count(alias) == 1 else None

    def _source_of_name(self, name: str) -> int | None:
        """Return the only source that can have a column; None if that is not certain."""
        if self._has_laterals or any(source.is_natural for source in self._sources):
            return None
        if any(name.lower() in source.using for source in self._sources):
            # The name means the column of the first source.
            is_first = self._sources[0].has(name) and self._using_is_of_first(len(self._sources))
            return 0 if is_first else None
        candidates = [
            index for index, source in enumerate(self._sources) if source.has(name) is not False
        ]
        is_certain = len(candidates) == 1 and self._sources[candidates[0]].has(name)
        return candidates[0] if is_certain else None

    def _using_is_of_first(self, end: int) -> bool:
        """Return whether a name of USING, after the joins before ``end``, is the first source's.

        After a RIGHT JOIN it is the column of the other side, after a FULL JOIN that of either.
        """
        return all(source.side not in ("RIGHT", "FULL") for source in self._sources[1:end])

    # Columns that have the values of others

    def key_sources(self) -> Iterator[KeySource]:
        """Yield the columns of references that have the values of others."""
        if not self._is_known or any(source.keeps_all_rows for source in self._sources):
            return
        end = len(self._sources)
        for left, right in self._equated_by(self._where):
            yield from self._sides(left, right, lambda index: self._keeps_rows(index, end))
        for join_index, source in enumerate(self._sources):

            def may_use(index: int, join_index: int = join_index) -> bool:
                return self._may_use_join(index, join_index)

            names = source.using if self._using_is_of_first(join_index) else ()
            pairs = [(_ColumnOf(0, name), _ColumnOf(join_index, name)) for name in names]
            for left, right in [*pairs, *self._equated_by(_on(source))]:
                yield from self._sides(left, right, may_use)
        for conjunct in _conjuncts(self._where):
            yield from self._memberships(conjunct)

    def _sides(
        self, left: _ColumnOf, right: _ColumnOf, is_reduced: Callable[[int], bool]
    ) -> Iterator[KeySource]:
        """Yield what an equality says of those of its sides whose rows it may remove."""
        for own, origin in ((left, right), (right, left)):
            source = self._sources[origin.source]
            if self._is_column(own) and source.is_plain_table and is_reduced(own.source):
                node = self._sources[own.source].node
                yield KeySource(id(node), own.name, id(source.node), origin.name)

    def _memberships(self, conjunct: Tree) -> Iterator[KeySource]:
        """Yield what ``column IN (SELECT column FROM …)`` in the WHERE says."""
        inner = conjunct.args.get("query") if isinstance(conjunct, exp.In) else None
        inner = inner.unnest() if isinstance(inner, exp.Subquery) else inner
        own = self._column_of(conjunct.this) if isinstance(conjunct, exp.In) else None
        if own is None or not isinstance(inner, exp.Select) or inner.args.get("from_") is None:
            return
        if not self._is_column(own) or not self._keeps_rows(own.source, len(self._sources)):
            return
        scope = _Scope(inner, self._schemas)
        items = [item.unalias() for item in inner.expressions]
        origin = scope._column_of(items[0]) if len(items) == 1 else None
        if origin is not None and scope._is_known and scope._sources[origin.source].is_plain_table:
            source = scope._sources[origin.source]
            own_node = self._sources[own.source].node
            yield KeySource(id(own_node), own.name, id(source.node), origin.name)

    def _is_column(self, column: _ColumnOf) -> bool:
        """Return whether it is a column of a table that takes conditions."""
        source = self._sources[column.source]
        return source.is_open and source.type_of(column.name) is not None

    # Equalities

    def _carried(self, assigned: Sequence[tuple[int, Tree]]) -> Iterator[tuple[int, Tree]]:
        """Yield conditions that equalities of inner joins carry from one source to another."""
        equalities = list(self._equalities())
        for index, conjunct in assigned:
            names = {node.name.lower() for node in conjunct.find_all(exp.Column)}
            if len(names) != 1:
                continue
            origin = _ColumnOf(index, names.pop())
            for equal, target in equalities:
                if equal == origin:
                    yield id(self._sources[target.source].node), _renamed(conjunct, target.name)

    def _equalities(self) -> Iterator[tuple[_ColumnOf, _ColumnOf]]:
        """Yield pairs of columns that are equal in every row, both ways."""
        for left, right in self._equated():
            if (
                self._takes_carried(left.source)
                and self._takes_carried(right.source)
                and self._have_same_type(left, right)
            ):
                yield left, right
                yield right, left

    def _equated(self) -> Iterator[tuple[_ColumnOf, _ColumnOf]]:
        for index, source in enumerate(self._sources):
            for name in source.using:
                yield _ColumnOf(0, name), _ColumnOf(index, name)
            yield from self._equated_by(_on(source))
        yield from self._equated_by(self._where)

    def _equated_by(self, condition: Tree | None) -> Iterator[tuple[_ColumnOf, _ColumnOf]]:
        for conjunct in _conjuncts(condition):
            if not isinstance(conjunct, exp.EQ):
                continue
            left, right = self._column_of(conjunct.this), self._column_of(conjunct.expression)
            if left is not None and right is not None and left.source != right.source:
                yield left, right

    def _column_of(self, tree: Tree) -> _ColumnOf | None:
        index = self._source_of(tree) if isinstance(tree, exp.Column) else None
        return None if index is None else _ColumnOf(index, tree.name.lower())

    def _takes_carried(self, index: int) -> bool:
        """Return whether all joins are inner ones and the source takes conditions."""
        are_inner = all(
            not source.side and source.kind in ("", "INNER", "CROSS") and not source.is_natural
            for source in self._sources
        )
        return are_inner and self._sources[index].is_open

    def _have_same_type(self, left: _ColumnOf, right: _ColumnOf) -> bool:
        """Return whether two columns have one type in which equal values are identical."""
        data_type = self._sources[left.source].type_of(left.name)
        if data_type != self._sources[right.source].type_of(right.name):
            return False
        is_collated = isinstance(data_type, types.String) and data_type.is_collated
        return isinstance(data_type, _CARRIED_TYPES) and not is_collated


def _conjuncts(condition: Tree | None) -> Iterator[Tree]:
    return iter(()) if condition is None else syntax.operands(condition, exp.And)


def _on(source: _Source) -> Tree | None:
    on: Tree | None = source.join.args.get("on") if source.join is not None else None
    return on


def _unqualified(conjunct: Tree) -> Tree:
    """Return a copy with ``a.b`` written as ``b``, for every column."""

    def plain(node: Tree) -> Tree | None:
        is_qualified = isinstance(node, exp.Column) and bool(node.table)
        return exp.Column(this=node.this.copy()) if is_qualified else None

    return substituted(conjunct, plain)


def _renamed(conjunct: Tree, name: str) -> Tree:
    """Return a copy of a conjunct over one column, over another column."""
    return substituted(conjunct, lambda node: _column_named(node, name))


def _column_named(node: Tree, name: str) -> Tree | None:
    return column(name) if isinstance(node, exp.Column) else None


def _source(node: Tree, join: exp.Join | None, schemas: Mapping[int, TableSchema]) -> _Source:
    schema = schemas.get(id(node))
    alias = node.alias_or_name if isinstance(node, exp.Table | exp.Subquery) else node.alias
    table_alias = node.args.get("alias")
    has_columns = isinstance(table_alias, exp.TableAlias) and bool(table_alias.columns)
    is_plain = not has_columns and not any(node.args.get(name) for name in _UNKNOWN_PARTS)
    return _Source(node, alias, join, schema if is_plain else None, is_plain)
