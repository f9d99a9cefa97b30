"""Aggregates of a query that the tasks which read a table compute in part.

A SELECT over one table of the store becomes the same SELECT over partial rows: its calls of
aggregate functions add up the measures of the partial rows, its WHERE is evaluated by the read,
and everything else of its text stays. That is possible wherever

- its FROM is the table and nothing else, and no part of it is a query;
- its WHERE, if it has one, is a condition that a read can evaluate as a whole;
- its calls are known, over columns and values that tasks compute (`row_value`); what is
  outside of them names only columns that rows can be grouped by, and has no other functions than
  some that are known not to aggregate;
- no other part of the query sees a column that has the text of a call as its name.

The SELECT may group by expressions, too: outside of calls, such an expression is replaced by the
field of the partial rows that has its value.

Spark groups the partial rows again, by whatever the SELECT says: so ROLLUP, expressions and
DISTINCT calls keep their meaning, whose values all belong to the groups of the partial rows. Where
these groups are those of the SELECT, there is another text, for partial rows each of which is all
of its group: it groups nothing.

Does not know: whether Spark agrees, which is asked for the type of every column of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import TokenType, exp

from relstate.connector.syntax.parsed_query import Edit, ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree, text_of
from relstate.storage import (
    ColumnValue,
    PartialAggregate,
    Predicate,
    ReadPlan,
    TableSchema,
    Value,
    errors,
    syntax,
)

from .grouped_text import DEPTH, SET_OPERATORS, GroupedText
from .partial_calls import (
    COUNT_IF,
    CallText,
    PartialCalls,
    argument_of,
    counts_rows,
    distinct_arguments,
    is_call,
    name_of,
)
from .row_value import row_value
from .single_table import (
    NotPushedError,
    bound,
    check_qualifier,
    is_plain,
    select_over,
    shows_names,
    whole_condition,
)

_CLAUSES = frozenset(
    {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct"}
)
_ENDS_OF_WHERE = (
    TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET,
    *SET_OPERATORS,
)  # fmt: skip
_REFUSALS = (
    NotPushedError, errors.SchemaError, errors.SchemaMismatchError,
    errors.UnsupportedExpressionError, errors.UnsupportedTypeError, RecursionError,
)  # fmt: skip
# What contains values by which a SELECT may group, or cannot be one.
_NO_GROUPS = (
    exp.Alias, exp.Column, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Literal, exp.Identifier, exp.DataType,
    exp.Distinct, exp.Star,
)  # fmt: skip
# How far a value may reach beyond its first or last column.
_MOST_TOKENS = 24


@dataclass(frozen=True, slots=True)
class PushedAggregate:
    """What tasks add up for one reference, and how the text of the query changes for it.

    ``where``: the rows that they add up, None for all. ``description``: what EXPLAIN shows.
    ``final_edits``: how the text changes if each partial row is all of its group and no value has
    failed; None if Spark has to group them all the same.
    """

    aggregate: PartialAggregate
    where: Predicate | None
    edits: tuple[Edit, ...]
    final_edits: tuple[Edit, ...] | None
    description: str


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What replaces a part of the text, by itself and where the rows are the groups."""

    start: int
    end: int
    text: CallText

    @property
    def edit(self) -> Edit:
        return Edit(self.start, self.end, self.text.merged)

    @property
    def final_edit(self) -> Edit:
        return Edit(self.start, self.end, self.text.final)


@dataclass(frozen=True, slots=True)
class PushRules:
    """What of the session decides whether an aggregate is pushed.

    ``divides_decimals``, ``has_null_deviations``: quotients of decimals and the deviation of one
    value are as by default.
    """

    time_zone: str
    divides_decimals: bool
    has_null_deviations: bool = True


def pushed_aggregate(
    query: ParsedQuery, reference: TableReference, plan: ReadPlan, rules: PushRules
) -> PushedAggregate | None:
    """Return what the tasks that read a reference add up; None if they send its rows."""
    select = select_over(reference, _CLAUSES)
    if query.has_pipes or select is None:
        return None
    try:
        return _Selection(query, reference, select, plan, rules).pushed()
    except _REFUSALS:
        return None


class _Selection:
    """One SELECT, taken apart."""

    def __init__(
        self,
        query: ParsedQuery,
        reference: TableReference,
        select: exp.Select,
        plan: ReadPlan,
        rules: PushRules,
    ) -> None:
        self._query = query
        self._reference = reference
        self._select = select
        self._rules = rules
        self._schema: TableSchema = plan.definition.schema
        self._columns = {column.name.lower(): column.name for column in self._schema.columns}
        self._aliases = {
            item.alias.lower(): item.this
            for item in select.expressions
            if isinstance(item, exp.Alias)
        }
        self._calls = PartialCalls(
            self._schema, plan.stored_rows + 1, rules.divides_decimals, rules.has_null_deviations
        )
        self._texts: list[tuple[str, Value]] = []
        self._grouped = self._grouped_values()

    def pushed(self) -> PushedAggregate:
        """Return what is pushed. NotPushedError, SchemaError and others if nothing can be."""
        alias, zone = self._reference.alias, self._rules.time_zone
        where = whole_condition(self._select, alias, self._schema, zone)
        replacements: list[_Replacement] = []
        calls = list(self._outer_calls(replacements))
        self._check_aliases()
        replacements += [part for call in calls for part in self._replacements(call)]
        if replacements and shows_names(self._select):
            self._check_names()
        is_grouped = bool(calls or self._select.args.get("group"))
        if not is_grouped and not self._select.args.get("distinct"):
            raise NotPushedError
        aggregate = self._calls.aggregate()
        keys = {column.name for column in self._schema.key_columns}
        if keys <= {value.name for value in aggregate.group if isinstance(value, ColumnValue)}:
            # Each row is a group.
            raise NotPushedError
        removed = () if where is None else (self._where_edit(),)
        edits = (*(part.edit for part in replacements), *removed)
        final_edits = (*(part.final_edit for part in replacements), *removed)
        return PushedAggregate(
            aggregate, where, edits, self._ungrouped(calls, final_edits), self._description(calls)
        )

    def _ungrouped(self, calls: Sequence[Tree], edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
        """Return the changes of the text where rows are groups; None if they are not its own."""
        text = GroupedText(self._query, self._reference, self._select, self._is_field)
        items = text.group_items()
        has_distinct = any(distinct_arguments(call) is not None for call in calls)
        if items is None or has_distinct:
            return None
        if text.is_global:
            return text.ungrouped(edits)
        if calls and not self._select.args.get("group"):
            return None
        grouped = set(map(self._group_value, map(self._resolved, items)))
        is_known = None not in grouped or items is self._select.expressions
        if not self._calls.group or not is_known or not grouped.issuperset(self._calls.group):
            return None
        return text.ungrouped(edits)

    def _group_value(self, node: Tree) -> Value | None:
        """Return the value of an item by which the SELECT groups; None if it is not known."""
        if not isinstance(node, exp.Column):
            return self._computed(node)
        name = self._column_name(node)
        return None if name is None else ColumnValue.named(name, self._schema)

    def _is_field(self, node: Tree) -> bool:
        """Return whether a node is a column of the table, a call, or a value that is grouped by."""
        if isinstance(node, exp.Column):
            return self._column_name(node) is not None
        return is_call(node) or self._is_grouped(node)

    def _description(self, calls: Sequence[Tree]) -> str:
        texts = list(dict.fromkeys(text_of(call) for call in calls)) or ["DISTINCT"]
        texts_of_values = {value: text for text, value in self._texts}
        group = ", ".join(
            value.name if isinstance(value, ColumnValue) else texts_of_values[value]
            for value in self._calls.group
        )
        return ", ".join(texts) + (f" BY {group}" if group else "")

    def _check_names(self) -> None:
        """NotPushedError if Spark names a column of the result by the text of a call."""
        for item in self._select.expressions:
            is_named = isinstance(item, exp.Alias | exp.Column)
            if not is_named and (
                any(map(is_call, item.walk())) or any(map(self._is_grouped, item.walk()))
            ):
                raise NotPushedError

    # WHERE

    def _where_edit(self) -> Edit:
        tokens = [token for token in self._query.tokens if token.start >= self._reference.end]
        starts = (i for i, token in enumerate(tokens) if token.token_type is TokenType.WHERE)
        start = next(starts, None)
        if start is None:
            raise NotPushedError
        stop, depth = start + 1, 0
        while stop < len(tokens):
            depth += DEPTH.get(tokens[stop].token_type, 0)
            if depth < 0 or (depth == 0 and tokens[stop].token_type in _ENDS_OF_WHERE):
                break
            stop += 1
        begin, end = tokens[start].start, tokens[stop - 1].end + 1
        condition = self._query.text[tokens[start].end + 1 : end]
        if syntax.parse_condition(condition) != self._select.args["where"].this:
            raise NotPushedError
        return Edit(begin, end, "")

    # Computed groups

    def _is_grouped(self, node: Tree) -> bool:
        """Return whether a part of the SELECT is one of the values that it groups by."""
        if not self._grouped or isinstance(node, _NO_GROUPS):
            return False
        return self._computed(node) in self._grouped

    def _group_replacement(self, node: Tree) -> _Replacement:
        value = self._computed(node)
        assert value is not None
        for column in node.find_all(exp.Column):
            self._check_alias(column)
        self._texts.append((text_of(node), value))
        return _Replacement(*self._place(node), self._calls.add_group(value))

    def _grouped_values(self) -> frozenset[Value]:
        """Return the values that the SELECT groups by, other than columns."""
        group = self._select.args.get("group")
        items = self._select.expressions
        nodes = list(items) if self._select.args.get("distinct") else []
        if isinstance(group, exp.Group):
            nodes += items if group.args.get("all") else group.expressions
        values = map(self._computed, map(self._resolved, nodes))
        return frozenset(value for value in values if value is not None)

    def _resolved(self, node: Tree) -> Tree:
        """Return the item of the SELECT that a name or a number in GROUP BY is."""
        items = self._select.expressions
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            number = int(node.name)
            node = items[number - 1] if 0 < number <= len(items) else node
        is_name = isinstance(node, exp.Column) and not node.table
        if is_name and node.name.lower() not in self._columns:
            node = self._aliases.get(node.name.lower(), node)
        return node.this if isinstance(node, exp.Alias) else node

    def _computed(self, node: Tree) -> Value | None:
        """Return the value of a node; None if it is a column, the same for all rows, or unknown."""
        if isinstance(node, _NO_GROUPS) or node.find(exp.Column) is None:
            return None
        try:
            value = self._value(node)
        except _REFUSALS:
            return None
        return None if isinstance(value, ColumnValue) else value

    def _place(self, node: Tree) -> tuple[int, int]:
        """Return where an expression is in the text: the least text around its columns."""
        columns = [part.this.meta for part in node.find_all(exp.Column)]
        first = min(int(meta["start"]) for meta in columns)
        last = max(int(meta["end"]) for meta in columns)
        tokens = self._query.tokens
        before = [token.start for token in tokens if token.start <= first][:-_MOST_TOKENS:-1]
        after = [token.end + 1 for token in tokens if token.end >= last][:_MOST_TOKENS]
        sizes = sorted(
            ((i + j, start, stop) for i, start in enumerate(before) for j, stop in enumerate(after))
        )
        for _, start, stop in sizes:
            text = self._query.text[start:stop]
            if text.count("(") != text.count(")"):
                continue
            try:
                if syntax.parse_condition(text) == node:
                    return start, stop
            except errors.UnsupportedExpressionError:
                continue
        raise NotPushedError

    # Calls, and what is outside of them

    def _outer_calls(self, replacements: list[_Replacement]) -> Iterator[Tree]:
        """Yield the calls; add what is outside of them to the groups, and what replaces it."""
        select = self._select
        pending: list[Tree | None] = [
            *select.expressions,
            *(select.args.get(name) for name in ("group", "having", "order", "limit", "offset")),
        ]
        while pending:
            node = pending.pop(0)
            if not isinstance(node, exp.Expr):
                continue
            if is_call(node):
                yield node
                continue
            if not isinstance(node, exp.Column) and self._is_grouped(node):
                replacements.append(self._group_replacement(node))
                continue
            if not is_plain(node):
                raise NotPushedError
            if isinstance(node, exp.Column):
                self._add_outer_column(node)
            else:
                pending += node.iter_expressions()

    def _add_outer_column(self, node: exp.Column) -> None:
        name = self._column_name(node)
        if name is not None:
            self._check_alias(node)
            self._calls.add_group(ColumnValue.named(name, self._schema))
        elif node.table or node.name.lower() not in self._aliases:
            raise NotPushedError

    def _check_aliases(self) -> None:
        """NotPushedError if a call in HAVING or ORDER BY has a name that may mean an item."""
        for clause in ("having", "order"):
            node = self._select.args.get(clause)
            for column in () if node is None else node.find_all(exp.Column):
                self._check_alias(column)

    def _check_alias(self, node: exp.Column) -> None:
        alias = self._aliases.get((node.table or node.name).lower())
        name = self._column_name(node)
        if alias is None or name is None:
            return
        if node.table or not self._is_itself(alias, name):
            # Which of the two it names depends on the clause; a qualified name may be a field.
            raise NotPushedError

    def _is_itself(self, item: Tree, name: str) -> bool:
        return isinstance(item, exp.Column) and self._column_name(item) == name

    def _column_name(self, node: exp.Column) -> str | None:
        """Return the name of a column of the table; None if it is an alias, or of another query."""
        check_qualifier(node, self._reference.alias)
        return self._columns.get(node.name.lower())

    def _replacements(self, node: Tree) -> Sequence[_Replacement]:
        """Return what replaces a call; of one with DISTINCT, its arguments."""
        distinct = distinct_arguments(node)
        if distinct is not None:
            return [part for argument in distinct for part in self._distinct_parts(argument)]
        call, where = node, None
        if isinstance(node, exp.Filter):
            call, where = node.this, self._bound(node.expression.this)
        argument = argument_of(call)
        if argument is None or (call is not node and name_of(call) == COUNT_IF):
            raise NotPushedError
        if name_of(call) == COUNT_IF:
            text = self._calls.text_of(call, None, self._bound(argument))
        else:
            counted = None if counts_rows(call) else self._value(argument)
            text = self._calls.text_of(call, counted, where)
        if text is None:
            raise NotPushedError
        return [_Replacement(*self._span(node, call), text)]

    def _distinct_parts(self, argument: Tree) -> Sequence[_Replacement]:
        if self._computed(argument) is not None:
            return [self._group_replacement(argument)]
        name = self._column_name(argument) if isinstance(argument, exp.Column) else None
        if name is None:
            raise NotPushedError
        self._calls.add_group(ColumnValue.named(name, self._schema))
        return []

    def _bound(self, condition: Tree) -> Predicate:
        return bound(condition, self._reference.alias, self._schema, self._rules.time_zone)

    def _value(self, node: Tree) -> Value:
        return row_value(node, self._reference.alias, self._schema, self._rules.time_zone)

    def _span(self, node: Tree, call: Tree) -> tuple[int, int]:
        """Return where a call is in the text, with its FILTER if ``node`` is that."""
        start = int(call.meta["start"])
        tokens = [token for token in self._query.tokens if token.start >= start]
        ends_left, depth = 1 + (node is not call), 0
        for token in tokens:
            depth += DEPTH.get(token.token_type, 0)
            if token.token_type is TokenType.R_PAREN and depth == 0:
                ends_left -= 1
                stop = token.end + 1
                if not ends_left:
                    if syntax.parse_condition(self._query.text[start:stop]) == node:
                        return start, stop
                    break
        raise NotPushedError
