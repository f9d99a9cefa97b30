"""Stars of SELECT that mean parts of structs, written as columns.

``s.*`` is the parts of a struct. ``* EXCEPT (s.part)`` and ``s.* EXCEPT (part.part)`` make a struct
of the other parts, as Spark does: where the struct is NULL, one of NULLs.

Promises: every other expression stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, is_star, substituted, with_parts
from relstate.storage import types

from .builder import Builder, Item
from .expressions import function_name, unsupported_error
from .scope import Outer, Scope, StarColumn, as_fields

Path = list[str]


def with_struct_parts(builder: Builder, select: exp.Select, scope: Scope) -> exp.Select:
    """Return a SELECT that names columns and parts where it had a star over a struct.

    UnsupportedStatementError for a star without a part of a column that is not a struct, or
    without all parts of one.
    """

    def expanded(expressions: Sequence[Tree]) -> list[Tree]:
        columns = (
            _StructStar(builder, scope, tree).columns() if is_star(tree) else []
            for tree in expressions
        )
        return [
            part
            for own, tree in zip(columns, expressions, strict=True)
            for part in own or [substituted(tree, of_call)]
        ]

    def of_call(node: Tree) -> Tree | None:
        """Return a call of the SELECT's own with parts for stars among its arguments."""
        is_call = isinstance(node, exp.Anonymous | exp.Array | exp.In)
        if not is_call or not any(map(is_star, node.expressions)):
            return None
        query = node.find_ancestor(exp.Query)
        if query is not None and query is not select:
            return None
        arguments = expanded(node.expressions)
        if arguments == node.expressions:
            return None
        if function_name(node) != "struct":
            arguments = [tree.this if isinstance(tree, exp.Alias) else tree for tree in arguments]
        call = node.copy()
        call.set("expressions", arguments)
        return call

    if not any(map(is_star, select.find_all(exp.Star, exp.Column))):
        return select
    written = expanded(select.expressions)
    result = select.copy()
    result.set("expressions", written)
    return result


def outer_columns(builder: Builder, scope: Scope) -> Outer:
    """Return the columns of the query around a subquery, whose scope this is."""
    return Outer(scope, builder.namer, partial(_named_parts, builder), builder.field_types)


def _named_parts(builder: Builder, scope: Scope, star: Tree) -> list[StarColumn]:
    """Return the columns of a star over a struct; none if it is not one."""
    return [(tree.alias, tree.this) for tree in _StructStar(builder, scope, star).columns()]


@dataclass(frozen=True)
class _StructStar:
    """A star in a SELECT."""

    builder: Builder
    scope: Scope
    star: Tree

    def columns(self) -> list[Tree]:
        """Return what it is without stars; empty if it means no parts of structs."""
        inner = self.star.this if isinstance(self.star, exp.Column) else self.star
        if inner.args.get("replace") or inner.args.get("rename"):
            return []
        exceptions = [
            [part.name for part in name.parts] for name in inner.args.get("except_") or ()
        ]
        struct = self._struct()
        if struct is not None:
            value, data_type = struct
            return self._parts(value, data_type, exceptions)
        paths = [(item, path) for item, path in map(self._resolve, exceptions) if item and path]
        return self._items(inner, paths) if paths else []

    def _struct(self) -> tuple[Tree, types.Struct] | None:
        """Return the struct before the star, with its type; None if there is none."""
        names = _names_of(self.star)[:-1] if self._is_qualified else []
        tables = {(item.qualifier or "").lower() for item in self.scope.items}
        if not names or (len(names) == 1 and names[0].lower() in tables):
            return None
        item, path = self._resolve(names)
        if item is None:
            return None
        value, data_type = as_fields(column(item.field)), self.builder.field_types.get(item.field)
        for name in path:
            member = _member(data_type, name)
            if member is None:
                return None
            value, data_type = with_parts(value, [member.name]), member.type
        return (value, data_type) if isinstance(data_type, types.Struct) else None

    @property
    def _is_qualified(self) -> bool:
        return isinstance(self.star, exp.Column)

    def _resolve(self, names: Path) -> tuple[Item | None, Path]:
        """Return the column that a name after EXCEPT means, and the path within it."""
        if len(names) > 1 and (item := self.scope.item(names[1], names[0])) is not None:
            return item, names[2:]
        return self.scope.item(names[0]), names[1:]

    def _items(self, inner: Tree, paths: Sequence[tuple[Item, Path]]) -> list[Tree]:
        """Return the columns of tables, without some parts of their structs."""
        star = self.star.copy()
        plain = [name for name in inner.args["except_"] if not self._is_part(name)]
        (star.this if self._is_qualified else star).set("except_", plain)
        columns = []
        for item in self.scope.expand_star(star):
            value: Tree = as_fields(column(item.field))
            within = [path for owner, path in paths if owner.field == item.field]
            if within:
                value = self._without(value, self.builder.field_types.get(item.field), within)
            columns.append(exp.alias_(value, item.name or item.field, quoted=True))
        return columns

    def _is_part(self, name: Tree) -> bool:
        item, path = self._resolve(_names_of(name))
        return item is not None and bool(path)

    def _parts(self, value: Tree, struct: types.Struct, exceptions: Sequence[Path]) -> list[Tree]:
        """Return the parts of a struct as columns."""
        return [
            exp.alias_(part, name, quoted=True)
            for name, part in self._remaining(value, struct, exceptions)
        ]

    def _remaining(
        self, value: Tree, struct: types.Struct, paths: Sequence[Path]
    ) -> list[tuple[str, Tree]]:
        """Return the parts of a struct, by name, without those at some paths within it."""
        remaining = []
        for field in struct.fields:
            within = [path[1:] for path in paths if path[0].lower() == field.name.lower()]
            part = with_parts(value.copy(), [field.name])
            if all(within):
                value_left = self._without(part, field.type, within) if within else part
                remaining.append((field.name, value_left))
        if not remaining:
            raise unsupported_error("a struct without parts", "name the columns", self.star)
        return remaining

    def _without(
        self, value: Tree, data_type: types.DataType | None, paths: Sequence[Path]
    ) -> Tree:
        """Return a struct of the parts that are not at some paths."""
        if not isinstance(data_type, types.Struct):
            raise unsupported_error(
                "EXCEPT of a part of what is not a struct", "name the columns", self.star
            )
        arguments = [
            argument
            for name, part in self._remaining(value, data_type, paths)
            for argument in (exp.Literal.string(name), part)
        ]
        return exp.Anonymous(this="named_struct", expressions=arguments)


def _member(data_type: types.DataType | None, name: str) -> types.Field | None:
    """Return the part of a struct of this name, whatever its case; None if there is none."""
    if not isinstance(data_type, types.Struct):
        return None
    return next((m for m in data_type.fields if m.name.lower() == name.lower()), None)


def _names_of(reference: Tree) -> list[str]:
    """Return the names between the dots of a reference to a column."""
    assert isinstance(reference, exp.Column)
    return [part.name for part in reference.parts]
