"""The join operator: the rows of two inputs that are joined by equalities.

`JoinNode` is what all joins have in common; `broadcast_join` has those without an equality.
Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from relstate.storage import types
from relstate.vnode import cached_property

from .node import (
    Expression,
    FieldsOf,
    Json,
    Names,
    Node,
    ReadNode,
    check_names,
    field_json,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_optional,
    read_text,
    require,
)


class JoinKind(StrEnum):
    """How two inputs are joined."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def keeps_left(self) -> bool:
        """Whether the output for a left row depends on it having a match (outer, semi, anti)."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)

    @property
    def keeps_right(self) -> bool:
        """Whether the output for a right row depends on it having a match (outer)."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def gives_pairs(self) -> bool:
        """Whether the output rows are pairs, with the fields of both sides."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality: a field of each side, of one type.

    ``field`` is the result's: its value is that of a side that has a row. ``is_null_safe``: NULL
    equals NULL.
    """

    left: str
    right: str
    field: types.Field
    is_null_safe: bool = False

    def __str__(self) -> str:
        return f"{self.left} {'<=>' if self.is_null_safe else '='} {self.right}"

    def to_json(self) -> list[Any]:
        """Return the equality as JSON values. On disk: never change."""
        return [self.left, self.right, field_json(self.field), self.is_null_safe]

    @classmethod
    def from_json(cls, value: Any) -> JoinKey:
        """Return the equality that `to_json` described."""
        left, right, field, is_null_safe = value
        return cls(read_text(left), read_text(right), read_field(field), read_flag(is_null_safe))


@dataclass(frozen=True)
class JoinNode(Node):
    """A join of two inputs; the names of their fields are disjoint."""

    left: Node
    right: Node
    kind: JoinKind

    def __post_init__(self) -> None:
        require(not set(self.left.names) & set(self.right.names), "both sides have a field")

    @property
    def children(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @property
    def is_append_only(self) -> bool:
        """Whether no row is ever removed: inputs only grow, and no row needs a missing match."""
        grows = self.left.is_append_only and self.right.is_append_only
        return grows and self.kind in (JoinKind.INNER, JoinKind.SEMI)

    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the join with these inputs."""
        left, right = children
        return replace(self, left=left, right=right)


@dataclass(frozen=True)
class Join(JoinNode):
    """The rows of two inputs joined by at least one equality.

    ``condition``: the residual condition in Spark's SQL over the fields of both; None if
    there are only equalities, as always in an inner join (a filter above has the rest).
    ``presence``: of a full join a field of the left input and one of the right that are never NULL
    there: nothing else distinguishes a padded left row from a padded right row if both have nothing
    but NULLs in their keys. Fields: those of the keys, the left ones and, if the join gives pairs,
    the right ones.
    """

    operator = "join"

    keys: tuple[JoinKey, ...]
    condition: str | None = None
    presence: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.keys), "a join needs an equality")
        is_inner = self.kind is JoinKind.INNER
        require(not is_inner or self.condition is None, "an inner join has a condition")
        require(self.kind is JoinKind.FULL or self.presence is None, "no full join has presence")

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The keys' fields and the inputs'."""
        keys = tuple(key.field for key in self.keys)
        right = self.right.fields if self.kind.gives_pairs else ()
        return (*keys, *self.left.fields, *right)

    @cached_property
    def key(self) -> Names:
        """The distribution and the keys of the inputs, without a key that they determine.

        A row has at most one match if the join keys include the whole key of the other input.
        """
        left, right = self.left.key, self.right.key if self.kind.gives_pairs else ()
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and self._is_unique(self.right, "right"):
            right = ()
        elif self.kind in (JoinKind.INNER, JoinKind.RIGHT) and self._is_unique(self.left, "left"):
            left = ()
        return tuple(dict.fromkeys((*self.distribution, *(self.presence or ()), *left, *right)))

    @cached_property
    def distribution(self) -> Names:
        """The fields that hold the keys' values in every row."""
        # If all rows of a side are in the result, its fields equal those of the keys.
        is_right = self.kind is JoinKind.RIGHT
        names = tuple(key.right if is_right else key.left for key in self.keys)
        if self.kind is JoinKind.FULL or len(set(names)) < len(names):
            return tuple(key.field.name for key in self.keys)
        return names

    def _is_unique(self, side: Node, name: Literal["left", "right"]) -> bool:
        """Return whether the join keys include a side's whole key: they match at most one row."""
        return set(side.key) <= {getattr(key, name) for key in self.keys}

    @property
    def input_distribution(self) -> Names:
        """The keys' fields, which are added to every input row before the executor."""
        return tuple(key.field.name for key in self.keys)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The residual condition, if there is one."""
        return () if self.condition is None else (Expression(self.condition, types.Boolean()),)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the join of the fields that are read of each side, by the join or above it."""
        needed = {*read, *self.key}
        if self.condition is not None:
            needed |= fields_of(self.condition)
        left = needed & set(self.left.names) | {key.left for key in self.keys}
        right = needed & set(self.right.names) | {key.right for key in self.keys}
        return self.with_children(
            [self.left.prune(left, fields_of), self.right.prune(right, fields_of)]
        )

    @property
    def explain_line(self) -> str:
        """``Join kind ON a = b AND (condition)``."""
        keys = " AND ".join(map(str, self.keys))
        condition = "" if self.condition is None else f" AND ({self.condition})"
        return f"Join {self.kind} ON {keys}{condition}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "kind": str(self.kind),
            "keys": [key.to_json() for key in self.keys],
            "condition": self.condition,
            "presence": None if self.presence is None else list(self.presence),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the join that `to_json` described."""
        keys = tuple(map(JoinKey.from_json, read_list(value["keys"])))
        return cls(
            read(value["left"]),
            read(value["right"]),
            JoinKind(value["kind"]),
            keys,
            read_optional(value["condition"], read_text),
            read_optional(value["presence"], read_presence),
        )

    def check(self) -> None:
        """ValueError, too, if a key or the presence does not fit the inputs."""
        for key in self.keys:
            sides = self.left.type_of(key.left), self.right.type_of(key.right)
            require(sides == (key.field.type,) * 2, f"the types of the join key {key} differ")
        check_presence(self, self.presence)
        super().check()


def read_presence(value: Any) -> tuple[str, str]:
    """Return a field of each input."""
    in_left, in_right = read_names(value)
    return in_left, in_right


def check_presence(node: JoinNode, presence: tuple[str, str] | None) -> None:
    """ValueError unless a full join, and no other, has presence, fields of its inputs."""
    is_full = node.kind is JoinKind.FULL
    require(is_full == (presence is not None), "a full join has presence, no other has")
    if presence is not None:
        check_names(presence[:1], node.left.names, "the presence of a join")
        check_names(presence[1:], node.right.names, "the presence of a join")
