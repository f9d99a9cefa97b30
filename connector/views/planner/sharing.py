"""Equal parts of a plan, as those of a common table that is read twice, computed once.

Every reference in a query is planned with names of its own. Two parts are equal if they are the
same but for these names; where one has state, they become one shared operator, and a projection
gives its fields the names of each reader. Parts on which a filter was pushed down for one reader
alone differ, and what is below them may still be equal.

Promises: rows, keys and visible columns do not change.
Does not know: Spark, queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    parse_expression,
    substituted,
    text_of,
)
from relstate.storage import errors, types

from ..plan.node import FieldsOf, Node, walk
from ..plan.recursion import Recursion
from ..plan.shared import Shared
from ..plan.stateless import Project, Scan
from .builder import pass_through_output


def share_equal_parts(root: Node) -> Node:
    """Return a plan in which each part with state that occurs several times is shared."""
    scans = Counter(node.table_id for node in walk(root) if isinstance(node, Scan))
    if max(scans.values(), default=0) < 2:
        return root
    return _Sharing(root).root


def prune_shared(root: Node, fields_of: FieldsOf) -> Node:
    """Return a plan whose shared operators have the fields that any of their readers reads."""
    operators = {node.number: node for node in walk(root) if isinstance(node, Shared)}
    pruned: dict[int, Node] = {}
    # What is shared within another one has a smaller number.
    for number in sorted(operators, reverse=True):
        read: set[str] = set()
        for reader in (root, *pruned.values()):
            read |= _fields_read(reader, number, fields_of)
        pruned[number] = operators[number].child.prune(read, fields_of)
    shared: dict[int, Shared] = {}
    for number in sorted(operators):
        shared[number] = Shared(_with_shared(pruned[number], shared), number)
    return _with_shared(root, shared)


def _with_shared(node: Node, shared: Mapping[int, Shared]) -> Node:
    """Return a plan with these shared operators in place of those with the same numbers."""
    if isinstance(node, Shared) and node.number in shared:
        return shared[node.number]
    if not node.children:
        return node
    return node.with_children([_with_shared(child, shared) for child in node.children])


def unify_shared(root: Node) -> Node:
    """Return a plan in which shared operators with one number, which are equal, are one node."""
    shared: dict[int, Shared] = {}
    for node in walk(root):
        if isinstance(node, Shared) and node.number not in shared:
            (child,) = node.children
            shared[node.number] = Shared(_with_shared(child, shared), node.number)
    return _with_shared(root, shared)


def _fields_read(node: Node, number: int, fields_of: FieldsOf) -> set[str]:
    """Return the fields of a shared operator that a plan reads, outside of shared operators."""
    if isinstance(node, Shared):
        return set()
    read: set[str] = set()
    for child in node.children:
        if not isinstance(child, Shared) or child.number != number:
            read |= _fields_read(child, number, fields_of)
        elif isinstance(node, Project):
            read |= {name for output in node.outputs for name in fields_of(output.expression)}
        else:
            read |= set(child.names)
    return read


@dataclass
class _Class:
    """Parts of a plan that are equal. ``first``: the first of them in the plan's walk.

    ``readers``: how many inputs of distinct classes they are. ``has_state``: whether an executor
    is in them.
    """

    first: Node
    has_state: bool
    readers: int = 0


@dataclass
class _Sharing:
    """One plan, whose parts are put into classes."""

    plan: Node
    _classes: dict[Hashable, _Class] = field(default_factory=dict)
    _class_of: dict[int, _Class] = field(default_factory=dict)
    _shared: dict[int, Shared] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The plan, its equal parts shared."""
        for node in walk(self.plan):
            self._classify(node)
        for part in self._classes.values():
            for child in part.first.children:
                self._class_of[id(child)].readers += 1
        return self._rebuilt(self.plan)

    def _classify(self, node: Node) -> None:
        children = [self._class_of[id(child)] for child in node.children]
        signature = _signature(node, [id(child) for child in children])
        is_stateful = node.input_distribution is not None
        has_state = is_stateful or any(child.has_state for child in children)
        part = self._classes.setdefault(signature, _Class(node, has_state))
        self._class_of[id(node)] = part

    def _rebuilt(self, node: Node) -> Node:
        part = self._class_of[id(node)]
        if part.readers < 2 or not part.has_state:
            return self._with_children(node)
        if id(part) not in self._shared:
            child = self._with_children(part.first)
            self._shared[id(part)] = Shared(child, len(self._shared) + 1)
        return _renamed(self._shared[id(part)], node)

    def _with_children(self, node: Node) -> Node:
        if not node.children:
            return node
        return node.with_children([self._rebuilt(child) for child in node.children])


def _renamed(shared: Shared, node: Node) -> Project:
    """Return the rows of a shared operator under the names of an equal node.

    Each reader has such a projection, so that pruning leaves there what it reads.
    """
    pairs = zip(shared.fields, node.names, strict=True)
    return Project(shared, tuple(pass_through_output(own, name) for own, name in pairs))


def _signature(node: Node, children: Sequence[int]) -> Hashable:
    """Return a value that two nodes share if they are equal but for the names of their fields.

    ``children``: the numbers of the classes of their inputs.
    """
    names = {
        name: f"#{number}.{position}"
        for number, child in enumerate(node.children)
        for position, name in enumerate(child.names)
    }
    for position, name in enumerate(node.names):
        names.setdefault(name, f"#.{position}")
    if isinstance(node, Scan):
        # The names of the table's columns may be those of fields.
        columns = tuple((own.column, own.field.type) for own in node.columns)
        key = tuple(map(names.__getitem__, node.primary_key))
        expiry = None if node.expiry is None else names[node.expiry.name]
        return Scan, node.table_id, columns, key, node.grows_only, expiry, node.by_parts
    if isinstance(node, Recursion):
        # The names of the query's relations and their columns may be those of fields.
        relations = tuple(tuple((n, names[own]) for n, own in i.columns) for i in node.inputs)
        return Recursion, node.query, relations, names[node.number], *children
    inputs = {id(child): number for child, number in zip(node.children, children, strict=True)}
    return _without_names(node, names, inputs.get)


def _without_names(
    value: object, names: Mapping[str, str], class_of: Callable[[int], int | None]
) -> Hashable:
    """Return a part of a node with positions for the names of fields, classes for its inputs."""
    match value:
        case Node() if (number := class_of(id(value))) is not None:
            return number
        case types.DataType() | Enum() | None | bool() | int():
            return value
        case str():
            return names[value] if value in names else _renamed_text(value, names)
        case tuple():
            return tuple(_without_names(item, names, class_of) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts: Iterable[object] = (getattr(value, own.name) for own in fields(value))
        return (type(value), *(_without_names(part, names, class_of) for part in parts))
    # A part of another kind equals itself alone.
    return id(value)


def _renamed_text(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with other names of its fields; any other text as it is."""
    if not any(name in text for name in names):
        return text

    def renamed(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column) or node.name not in names:
            return None
        return column(names[node.name])

    try:
        return text_of(substituted(parse_expression(text), renamed))
    except errors.UnsupportedStatementError:
        return text
