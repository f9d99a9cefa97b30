"""Which field a name in a query means, by Spark's rules.

Promises: a name that is unknown or ambiguous to Spark is refused here too; a name before a dot is
first looked up as an alias of a table, then as a column with parts.
Does not know: operators, or which names a clause may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    column,
    columns_of,
    comparable_text,
    is_row_star,
    is_star,
    parse_expression,
    substituted,
    text_of,
    with_parts,
)
from relstate.storage import errors, types

from .builder import Item, Namer
from .calls import is_aggregate, is_aggregated
from .expressions import check_resolved, function_name, unsupported_error

Replacement: TypeAlias = Callable[[Tree], Tree | None]
ResolveSubquery: TypeAlias = Callable[[Tree, "Scope"], Tree]
"""Returns the call that stands for a subquery in an expression; the scope is that of the latter."""

StarColumn: TypeAlias = tuple[str | None, Tree]
"""The name of a column, and its value over fields."""


class DecorrelationError(errors.UnsupportedStatementError):
    """A subquery reads outer values where no join by its conditions gives them (outer_domain)."""


class OuterColumns(Protocol):
    """What the names of a subquery mean that no column of its FROM has."""

    def parameter(self, node: Tree) -> Tree:
        """Return what a name or a call means, over fields."""
        ...

    def is_map(self, reference: exp.Column) -> bool:
        """Return whether a name means a map."""
        ...

    def star(self, star: Tree) -> list[StarColumn]:
        """Return the columns that ``alias.*`` means."""
        ...


# Marks a reference to a field, to which a star or a subquery was expanded: it is not looked up.
_IS_FIELD = "is_field"
# Where no column has this name, it is Spark's name for grouping_id().
_GROUPING_ID = "grouping__id"

# Stars in the arguments of other calls are expanded with the names of parts of structs.
_WITH_STARS = exp.Count, exp.Distinct, exp.Array, exp.In
_OF_MAPS = frozenset(
    {"cardinality", "element_at", "map_contains_key", "map_entries", "map_keys", "map_values",
     "size", "try_element_at"}
)  # fmt: skip
# The patterns of LIKE ANY and LIKE ALL are no row.
_QUANTIFIERS = exp.Any, exp.All


def _last_moment(node: Tree) -> Tree | None:
    """Return what ``window_time(w)`` is: the last moment of a window of time."""
    if function_name(node) != "window_time" or len(node.expressions) != 1:
        return None
    end = text_of(with_parts(as_operand(node.expressions[0]), ["end"]))
    return exp.Paren(this=parse_expression(f"{end} - INTERVAL '1' MICROSECOND"))


@dataclass(frozen=True)
class Scope:
    """The columns of FROM, and the aliases of SELECT, by name in lower case.

    ``aliases_first``: an alias wins over a column of the same name, except within an aggregate
    function, as in ORDER BY. ``resolve_subquery``: makes an expression of a subquery; None where
    there can be none. ``outer``: where names that the scope does not know are looked up.
    """

    items: tuple[Item, ...]
    aliases: Mapping[str, Tree] = field(default_factory=dict)
    aliases_first: bool = False
    resolve_subquery: ResolveSubquery | None = None
    outer: OuterColumns | None = None

    def around_subquery(self) -> Scope:
        """Return the scope of the names that a subquery in an expression does not know itself."""
        # Values that a condition compares are not there yet for a subquery in the condition.
        return Scope(self.items, outer=None if isinstance(self.outer, Outer) else self.outer)

    def with_aliases_first(self) -> Scope:
        """Return the scope in which an alias wins over a column."""
        return replace(self, aliases_first=True)

    def resolve(self, expression: Tree, replacement: Replacement | None = None) -> Tree:
        """Return an expression over fields. UnsupportedStatementError if it cannot be resolved.

        ``replacement``: returns what replaces a part of it, in place of the scope's own rules.
        """
        expression = substituted(self._replace_subqueries(expression), self._without_stars)
        check_resolved(expression)
        tree = substituted(self._name_struct_parts(expression), replacement or self._replacement)
        tree = substituted(tree, _last_moment)
        tree = _with_own_variables(tree)
        _check_stars(tree)
        return tree

    def _replace_subqueries(self, expression: Tree) -> Tree:
        """Return an expression in which calls stand for subqueries; see `subqueries`."""
        resolve_subquery = self.resolve_subquery
        if resolve_subquery is None or not has_subquery(expression):
            return expression
        return substituted(
            expression, lambda node: resolve_subquery(node, self) if is_subquery(node) else None
        )

    def _without_stars(self, node: Tree) -> Tree | None:
        """Return a count, an array, a DISTINCT or an IN with columns for its stars."""
        if not isinstance(node, _WITH_STARS):
            return None
        arguments = [*([node.this] if isinstance(node, exp.Count) else []), *node.expressions]
        if not any(is_star(argument) and not is_row_star(argument) for argument in arguments):
            return None
        columns: list[Tree] = []
        for argument in arguments:
            values = self.star_columns(argument) if is_star(argument) else ()
            columns += [as_fields(value) for _, value in values] or [argument.copy()]
        copy = node.copy()
        if isinstance(node, exp.Count):
            copy.set("this", columns.pop(0))
        copy.set("expressions", columns)
        return copy

    def star_columns(self, star: Tree) -> list[StarColumn]:
        """Return the columns that a star in SELECT means, those of ``outer`` as Spark does."""
        if self.outer is None or self._is_own_star(star):
            return [(item.name, column(item.field)) for item in self.expand_star(star)]
        return self.outer.star(star)

    def _is_own_star(self, star: Tree) -> bool:
        """Return whether a star means columns of the scope, or parts of one: Spark's first look."""
        if not isinstance(star, exp.Column):
            return True
        first, *path = [part.name for part in star.parts[:-1]]
        if not path and any(_is_visible_as(item, first) for item in self.items):
            return True
        is_of_table = bool(path) and bool(self._matching_items(path[0], first))
        return is_of_table or bool(self._matching_items(first, None))

    def expand_star(self, star: Tree) -> tuple[Item, ...]:
        """Return the columns that ``*`` or ``alias.*`` means."""
        qualifier = star.table if isinstance(star, exp.Column) else None
        inner = star.this if isinstance(star, exp.Column) else star
        if inner.args.get("replace") or inner.args.get("rename"):
            raise unsupported_error("a star that replaces or renames", "name the columns", star)
        visible = [item for item in self.items if _is_visible_as(item, qualifier)]
        for name in inner.args.get("except_") or ():
            visible = self._without(visible, name, star)
        items = tuple(visible)
        if not items and qualifier is not None and self._matching_items(qualifier, None):
            error = unsupported_error(
                "a star over the parts of a struct", "name them, as in s.part", star
            )
            raise DecorrelationError(str(error))
        if not items:
            error = unsupported_error(
                "a star of no columns", "name columns of the tables in FROM", star
            )
            raise error if qualifier is None else DecorrelationError(str(error))
        self._check_order(items, star)
        return items

    def _without(self, items: Sequence[Item], name: Tree, star: Tree) -> list[Item]:
        """Return items without those that a name after EXCEPT means."""
        qualifier = name.text("table") or None
        if qualifier is not None and (
            "db" in name.args or not any(_is_visible_as(item, qualifier) for item in self.items)
        ):
            raise unsupported_error("EXCEPT of a part of a struct", "name the columns", star)
        return [
            item
            for item in items
            if (item.name or "").lower() != name.name.lower()
            or not (qualifier is None or _is_visible_as(item, qualifier))
        ]

    def _check_order(self, items: Sequence[Item], star: Tree) -> None:
        """Refuse the star of a table whose columns Spark would not return in the table's order.

        Spark puts the columns of a USING first.
        """
        merged_names = [(item.name or "").lower() for item in self.items if item.qualifier is None]
        hidden_items = [item for item in items if item.is_hidden]
        positions = [merged_names.index((item.name or "").lower()) for item in hidden_items]
        if list(items[: len(hidden_items)]) != hidden_items or positions != sorted(positions):
            raise unsupported_error(
                "a star over one side of a join with USING", "name the columns", star
            )

    def item(self, name: str, qualifier: str | None = None) -> Item | None:
        """Return the column of this name; None if there is none or more than one."""
        matches = self._matching_items(name, qualifier)
        return matches[0] if len(matches) == 1 else None

    def _replacement(self, node: Tree) -> Tree | None:
        if self.outer is not None and self._is_outer_value(node):
            return self.outer.parameter(node)
        if not isinstance(node, exp.Column):
            return None
        if is_star(node):
            raise unsupported_error("a star here", "name the columns", node)
        if node.meta.get(_IS_FIELD):
            return column(node.name)
        alias_wins = self.aliases_first and not is_aggregated(node)
        return self._reference(node, [part.name for part in node.parts], alias_wins)

    def _reference(self, node: Tree, parts: Sequence[str], alias_wins: bool) -> Tree:
        alias = self.aliases.get(parts[0].lower())
        if alias is not None and alias_wins:
            if len(parts) > 1 and self._matching_items(parts[1], parts[0]):
                raise unsupported_error("an ambiguous column", "give the alias another name", node)
            return with_parts(as_operand(alias), parts[1:])
        if len(parts) > 1 and (matches := self._matching_items(parts[1], parts[0])):
            return with_parts(self._only_column(matches, node), parts[2:])
        if matches := self._matching_items(parts[0], None):
            return with_parts(self._only_column(matches, node), parts[1:])
        if alias is not None:
            return with_parts(as_operand(alias), parts[1:])
        if len(parts) == 1 and parts[0].lower() == _GROUPING_ID:
            return exp.Anonymous(this="grouping_id", expressions=[])
        if self.outer is not None:
            return self.outer.parameter(node)
        advice = "write them in its SELECT or WHERE"
        if not parts[-1].isidentifier():
            advice += "; give an expression a name to read it by, AS …"
        error = unsupported_error(
            "an unknown column",
            "no table in FROM has it, and a subquery cannot read columns of the query around it "
            f"there: {advice}",
            node,
        )
        raise DecorrelationError(str(error))

    def _is_outer_value(self, node: Tree) -> bool:
        """Return whether a node, not a name, is a value of the query around a subquery.

        An aggregate, or what is read of a map, which cannot be compared itself.
        """
        if is_aggregate(node):
            return self._is_unknown(node)
        read = _map_of(node)
        if read is None or self.outer is None or not self._is_unknown(node):
            return False
        return not node.find(exp.Lambda) and self.outer.is_map(read)

    def _is_unknown(self, call: Tree) -> bool:
        """Return whether a call reads columns, and none that the scope knows."""
        references = list(call.find_all(exp.Column))
        return bool(references) and not any(map(self._is_known, references))

    def _is_known(self, reference: exp.Column) -> bool:
        parts = [part.name for part in reference.parts]
        is_qualified = len(parts) > 1 and bool(self._matching_items(parts[1], parts[0]))
        return is_qualified or bool(self._matching_items(parts[0], None))

    def _matching_items(self, name: str, qualifier: str | None) -> tuple[Item, ...]:
        return tuple(
            item
            for item in self.items
            if _is_visible_as(item, qualifier)
            and item.name is not None
            and item.name.lower() == name.lower()
        )

    def _only_column(self, items: Sequence[Item], node: Tree) -> Tree:
        if len({item.field for item in items}) > 1:
            raise unsupported_error(
                "an ambiguous column", "write the table's alias before it", node
            )
        return column(items[0].field)

    def _name_struct_parts(self, expression: Tree) -> Tree:
        """Return a copy in which the parts of structs have the names of their columns."""

        def name_parts(node: Tree) -> Tree | None:
            is_row = isinstance(node, exp.Tuple) and not isinstance(node.parent, _QUANTIFIERS)
            if is_row:
                node = exp.Anonymous(this="struct", expressions=node.copy().expressions)
            if not isinstance(node, exp.Anonymous):
                return None
            arguments = list(self._arguments(node))
            if function_name(node) == "struct":
                arguments = [_name_struct_part(argument) for argument in arguments]
            elif function_name(node) == "arrays_zip":
                named = [_name_zipped(*pair) for pair in enumerate(arguments)]
                return exp.Anonymous(
                    this=node.this, expressions=[self._name_struct_parts(part) for part in named]
                )
            if arguments == node.expressions and not is_row:
                return None
            named_arguments = [self._name_struct_parts(argument) for argument in arguments]
            return exp.Anonymous(this=node.this, expressions=named_arguments)

        return substituted(expression, name_parts)

    def _arguments(self, call: Tree) -> Iterator[Tree]:
        names_parts = function_name(call) == "struct"
        for argument in call.expressions:
            if is_star(argument):
                for name, value in self.star_columns(argument):
                    reference = as_fields(value)
                    title = name or value.name
                    yield exp.alias_(reference, title, quoted=True) if names_parts else reference
            else:
                yield argument


def _map_of(node: Tree) -> exp.Column | None:
    """Return what a node reads a value of if it is a map; None for any other node.

    Reading it raises no error.
    """
    if isinstance(node, exp.Bracket):
        value: Tree = node.this
        return value if isinstance(value, exp.Column) else None
    if not isinstance(node, exp.Anonymous) or function_name(node) not in _OF_MAPS:
        return None
    value = node.expressions[0] if node.expressions else node
    return value if isinstance(value, exp.Column) else None


def _is_visible_as(item: Item, qualifier: str | None) -> bool:
    """Return whether a name or a star with this qualifier, or none, can refer to a column."""
    if qualifier is None:
        return not item.is_hidden
    return item.qualifier is not None and item.qualifier.lower() == qualifier.lower()


def _name_struct_part(argument: Tree) -> Tree:
    if isinstance(argument, exp.Column | exp.Dot) and argument.name:
        return exp.alias_(argument.copy(), argument.name, quoted=True)
    return argument


def _name_zipped(position: int, argument: Tree) -> Tree:
    """Return an argument of arrays_zip() as a part of a struct, from which Spark takes the name."""
    # The variable of a lambda is an identifier.
    has_name = isinstance(argument, exp.Column | exp.Dot | exp.Identifier) and argument.name
    name = argument.name if has_name else str(position)
    struct = exp.Anonymous(
        this="named_struct", expressions=[exp.Literal.string(name), argument.copy()]
    )
    return with_parts(struct, [name])


def _check_stars(tree: Tree) -> None:
    """Refuse a star that is left: Spark would take it for all fields of an operator."""
    for star in tree.find_all(exp.Star):
        if not is_row_star(star):
            raise unsupported_error("a star here", "name the columns", tree)


def _with_own_variables(tree: Tree) -> Tree:
    """Return an expression in which no variable of a lambda has the name of a field read there."""

    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Lambda):
            return None
        fields = {name.lower() for name in columns_of(node.this)}
        names = {variable.name.lower() for variable in node.expressions} & fields
        if not names:
            return None
        renamed: Tree = node.copy()
        used = {identifier.name.lower() for identifier in renamed.find_all(exp.Identifier)}
        for name in names:
            new_name = name
            while new_name in used:
                new_name += "_"
            _rename_variable(renamed, name, new_name)
        renamed.set("this", _with_own_variables(renamed.this))
        return renamed

    return substituted(tree, replacement)


def _rename_variable(tree: Tree, name: str, new_name: str) -> None:
    """Give a variable of lambdas another name; fields, and parts of structs, keep theirs."""
    for identifier in list(tree.find_all(exp.Identifier)):
        is_part = isinstance(identifier.parent, exp.Dot) and identifier.arg_key == "expression"
        is_name = is_part or isinstance(identifier.parent, exp.Column | exp.ColumnDef)
        if identifier.name.lower() == name and not is_name:
            identifier.set("this", new_name)


@dataclass(frozen=True)
class Outer:
    """The columns of the query around a subquery, and its aggregates, if it has a HAVING.

    ``parameters``: what the subquery reads of them, over the fields of that query, under the names
    that its conditions have for it. ``references``: the names that it has for them, by their parts.
    ``struct_columns``: returns the columns of a star over a struct; none for another star.
    ``field_types``: the types of the fields.
    """

    scope: Scope
    namer: Namer
    struct_columns: Callable[[Scope, Tree], list[StarColumn]]
    field_types: Mapping[str, types.DataType]
    parameters: dict[str, Tree] = field(default_factory=dict)
    references: set[tuple[str, ...]] = field(default_factory=set)

    def parameter(self, node: Tree) -> Tree:
        """Return a reference to a parameter for a name or call that the subquery does not know."""
        value = self.scope.resolve(node)
        self.references.update(map(parts_of, node.find_all(exp.Column)))
        text = comparable_text(value)
        known = (name for name, tree in self.parameters.items() if comparable_text(tree) == text)
        name = next(known, None) or self.namer.unique_name("outer")
        self.parameters[name] = value
        return column(name)

    def is_map(self, reference: exp.Column) -> bool:
        """Return whether a name means a map."""
        first, *path = [part.name for part in reference.parts]
        item = self.scope.item(path[0], first) if len(path) == 1 else self.scope.item(first)
        if item is None:
            return self.scope.outer is not None and self.scope.outer.is_map(reference)
        return isinstance(self.field_types.get(item.field), types.Map)

    def star(self, star: Tree) -> list[StarColumn]:
        """Return references to parameters for the columns of a star."""
        return [(name, self.parameter(as_fields(value))) for name, value in self.columns_of(star)]

    def columns_of(self, star: Tree) -> list[StarColumn]:
        """Return the columns of a star over fields of the query around the subquery."""
        self.references.add(parts_of(star))
        return self.struct_columns(self.scope, star) or self.scope.star_columns(star)


def parts_of(reference: Tree) -> tuple[str, ...]:
    """Return the parts of a name in lower case, as ``a.x``; the same for equal names."""
    assert isinstance(reference, exp.Column)
    return tuple(part.name.lower() for part in reference.parts)


def as_fields(tree: Tree) -> Tree:
    """Return a copy of an expression over fields whose names are not looked up again."""
    marked = tree.copy()
    for reference in marked.find_all(exp.Column):
        reference.meta[_IS_FIELD] = True
    return marked


def is_subquery(node: Tree) -> bool:
    """Return whether a part of an expression is a subquery, with its IN or EXISTS."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Subquery | exp.Exists)


def has_subquery(tree: Tree) -> bool:
    """Return whether an expression contains a subquery."""
    return any(map(is_subquery, tree.walk()))
