"""The join of a plan: two inputs, what they are equal in, and which rows come of it.

Does not know: how it is kept (executor/join, executor/degree).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal

from relstate.storage import types

from .node import Names, Node


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
        """Whether rows of the left side are told of by whether they have a partner."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)

    @property
    def keeps_right(self) -> bool:
        """Whether rows of the right side are told of by whether they have a partner."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def gives_pairs(self) -> bool:
        """Whether its rows are pairs, with fields of both sides."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality: a field of each side, of one type.

    ``field`` is that of the result: the value of whichever side is there. ``is_null_safe``: NULL
    equals NULL.
    """

    left: str
    right: str
    field: types.Field
    is_null_safe: bool = False


@dataclass(frozen=True)
class Join(Node):
    """The rows of two inputs joined by at least one equality.

    ``condition``: in Spark's SQL over the fields of both; None where the equalities are all of
    it, as in an inner join always (a filter above it says the rest). The names of the two inputs'
    fields are disjoint. ``presence``: of a full join a field of the left and one of the right that
    are never NULL there: two rows with nothing but NULLs in their keys, one of each side and padded
    both, are told apart by nothing else. Fields: those of the keys, the left ones and, where the
    join gives pairs, the right ones.
    """

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[JoinKey, ...]
    condition: str | None = None
    presence: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        assert self.keys, "a join needs an equality"
        assert not set(self.left.names) & set(self.right.names), "fields of one name on both sides"
        assert self.kind is not JoinKind.INNER or self.condition is None
        assert self.kind is JoinKind.FULL or self.presence is None

    @property
    def children(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The keys' fields and the inputs'."""
        keys = tuple(key.field for key in self.keys)
        right = self.right.fields if self.kind.gives_pairs else ()
        return (*keys, *self.left.fields, *right)

    @cached_property
    def key(self) -> Names:
        """The distribution and the keys of the inputs, but for what these tell already.

        A row whose partner is found by all of the partner's key has one at most.
        """
        left, right = self.left.key, self.right.key if self.kind.gives_pairs else ()
        if self.kind in (JoinKind.INNER, JoinKind.LEFT) and self._is_one(self.right, "right"):
            right = ()
        elif self.kind in (JoinKind.INNER, JoinKind.RIGHT) and self._is_one(self.left, "left"):
            left = ()
        found = (*self._distribution, *(self.presence or ()), *left, *right)
        return tuple(dict.fromkeys(found))

    @cached_property
    def distribution(self) -> Names | None:
        """The fields that hold the keys' values in every row."""
        return self._distribution

    @property
    def _distribution(self) -> Names:
        # Of a side whose rows are all there the fields say what the keys' own would.
        is_right = self.kind is JoinKind.RIGHT
        names = tuple(key.right if is_right else key.left for key in self.keys)
        if self.kind is JoinKind.FULL or len(set(names)) < len(names):
            return tuple(key.field.name for key in self.keys)
        return names

    def _is_one(self, side: Node, name: Literal["left", "right"]) -> bool:
        """Return whether the keys hold all of a side's key, so that one row at most has them."""
        return set(side.key) <= {getattr(key, name) for key in self.keys}

    @property
    def is_append_only(self) -> bool:
        """Whether no row of it can ever go: both inputs only grow, and no row waits for one."""
        grows = self.left.is_append_only and self.right.is_append_only
        return grows and self.kind in (JoinKind.INNER, JoinKind.SEMI)
