"""A star over the parts of a struct in SELECT, ``s.*``, as its parts."""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, is_star
from relstate.storage import types

from .builder import Builder
from .scope import Scope


def with_struct_parts(builder: Builder, select: exp.Select, scope: Scope) -> exp.Select:
    """Return a SELECT that names the parts where it had a star over a struct."""
    parts = [_parts_of_star(builder, expression, scope) for expression in select.expressions]
    if not any(parts):
        return select
    expanded = select.copy()
    written = zip(parts, expanded.expressions, strict=True)
    expanded.set("expressions", [e for own, star in written for e in own or [star]])
    return expanded


def _parts_of_star(builder: Builder, star: Tree, scope: Scope) -> list[Tree]:
    """Return the parts of a struct; empty if an expression is not a plain star over one."""
    if not isinstance(star, exp.Column) or not is_star(star) or any(star.this.args.values()):
        return []
    names = [part.name for part in star.parts][:-1]
    tables = {(item.qualifier or "").lower() for item in scope.items}
    if not names or names[-1].lower() in tables:
        return []
    item = scope.item(names[-1], names[-2] if len(names) > 1 else None)
    data_type = None if item is None else builder.field_types.get(item.field)
    if not isinstance(data_type, types.Struct):
        return []
    return [_part(names, part.name) for part in data_type.fields]


def _part(names: list[str], part: str) -> Tree:
    identifiers = [exp.to_identifier(name, quoted=True) for name in reversed([*names, part])]
    reference = exp.Column(**dict(zip(("this", "table", "db"), identifiers, strict=False)))
    return exp.alias_(reference, part, quoted=True)
