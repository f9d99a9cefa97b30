"""The plan of a view: a tree of operators; those below a `Shared` have several parents.

    Scan                        a table or a view (stateless)
    Project, Filter, Union      stateless: Spark evaluates their expressions (stateless)
    OneRow, Generate            stateless: a constant row, the rows of a function (generate)
    Aggregate, Join, TopN,
    BroadcastJoin               stateful: executors maintain them (…, broadcast_join)
    OrderedWindow               stateful: window functions, from the first changed row on (window)
    GroupRecompute,
    WindowRecompute             stateful: Spark evaluates them again for changed groups (recompute)
    Recursion                   stateful: Spark evaluates it again as a whole (recursion)
    TemporalFilter              stateful: rows come and go as time passes (temporal)
    Shared                      rows that several operators read, computed once (shared)
    Materialize                 the root: the view's own table (materialize)

Every operator has *fields*, named uniquely among themselves; expressions are text in Spark's SQL
over the fields of its input. It has a *key*: fields that together identify a row (their values may
be NULL). It has a *distribution*: fields, all of them in the key, by whose hash its rows are
distributed over the parallel units; ``()`` if all of them are in vnode 0; None if they may be
anywhere.

All that is particular to an operator is in its class: its JSON, its line in EXPLAIN, the fields
that it reads. Its executors, if it has any, are listed in ``operators``.

Promises: nodes are values.
Does not know: SQL's queries (planner), executors, Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar

from relstate.storage import type_json, types
from relstate.vnode import cached_property

Names: TypeAlias = tuple[str, ...]
Json: TypeAlias = Mapping[str, Any]
ReadNode: TypeAlias = Callable[[Any], "Node"]
"""Returns the node that a JSON value describes; ValueError if it describes none."""
FieldsOf: TypeAlias = Callable[[str], Set[str]]
"""Returns the names of the fields that an expression reads."""
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Expression:
    """What Spark evaluates for a node: text in Spark's SQL, and the type of its value."""

    text: str
    type: types.DataType


class Node(ABC):
    """An operator of a plan."""

    operator: ClassVar[str]
    """Its name in JSON. On disk, in the log: never change one."""

    @property
    @abstractmethod
    def children(self) -> tuple[Node, ...]:
        """Its inputs, in order."""

    @property
    @abstractmethod
    def fields(self) -> tuple[types.Field, ...]:
        """Its columns, all nullable."""

    @property
    @abstractmethod
    def key(self) -> Names:
        """The fields that identify a row; of a global aggregate the one constant field."""

    @property
    @abstractmethod
    def distribution(self) -> Names | None:
        """The fields by whose hash its rows are distributed; None: they may be anywhere."""

    @property
    @abstractmethod
    def is_append_only(self) -> bool:
        """Whether its rows are only ever inserted."""

    @property
    def input_distribution(self) -> Names | None:
        """The fields by which its executor needs its input distributed; None if it has none."""
        return None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What Spark evaluates over `input_fields`."""
        return ()

    @property
    def aggregate_expressions(self) -> tuple[Expression, ...]:
        """What an executor computes as Spark would over the `input_fields` of several rows."""
        return ()

    @property
    def input_fields(self) -> tuple[types.Field, ...]:
        """The fields of all inputs."""
        return tuple(field for child in self.children for field in child.fields)

    @cached_property
    def names(self) -> Names:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)

    def type_of(self, name: str) -> types.DataType:
        """Return the type of a field. ValueError if there is no such field."""
        for field in self.fields:
            if field.name == name:
                return field.type
        raise ValueError(f"there is no field {name!r} among {', '.join(self.names)}")

    @abstractmethod
    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the operator over other inputs with the same fields."""

    @abstractmethod
    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator without those fields that are neither ``read`` nor needed."""

    @property
    @abstractmethod
    def explain_line(self) -> str:
        """What EXPLAIN shows for it."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values. On disk: never change a name."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the node that `to_json` described.

        ``read`` reads its inputs. KeyError, TypeError or ValueError if the value describes none.
        """

    def check(self) -> None:
        """ValueError if the node contradicts itself or its inputs, as only a damaged plan does."""
        require(bool(self.fields), f"{self.operator} has no fields")
        distinct = {name.lower() for name in self.names}
        require(len(distinct) == len(self.names), f"{self.operator} has two fields of one name")
        check_names(self.key, self.names, f"the key of {self.operator}")
        if self.distribution is not None:
            check_names(self.distribution, self.key, f"the distribution of {self.operator}")


class Leaf(Node):
    """An operator without inputs."""

    @property
    def children(self) -> tuple[Node, ...]:
        """None."""
        return ()

    @property
    def distribution(self) -> Names | None:
        """None: any task may read any part of it."""
        return None

    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the operator itself."""
        return self


@dataclass(frozen=True)
class Unary(Node):
    """An operator with one input. What a subclass does not define is as for the child."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The child."""
        return (self.child,)

    @property
    def key(self) -> Names:
        """As the child."""
        return self.child.key

    @property
    def distribution(self) -> Names | None:
        """As the child."""
        return self.child.distribution

    @property
    def is_append_only(self) -> bool:
        """As the child."""
        return self.child.is_append_only

    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the operator over another child."""
        (child,) = children
        return replace(self, child=child)


@dataclass(frozen=True)
class Grouped(Unary):
    """An operator that computes something of each group of rows; a group is in one unit.

    ``group``: fields of the child, by whose values rows are grouped. ``is_global``: all rows are
    one group; its only group field is a constant of the child, and it is in vnode 0.
    """

    group: Names
    _: KW_ONLY
    is_global: bool = False

    @property
    def distribution(self) -> Names | None:
        """The group; nothing for a global operator, which is in vnode 0."""
        return () if self.is_global else self.group

    @property
    def input_distribution(self) -> Names | None:
        """The distribution of the output."""
        return self.distribution

    @property
    def group_fields(self) -> tuple[types.Field, ...]:
        """The fields of the group."""
        return tuple(types.Field(name, self.child.type_of(name)) for name in self.group)

    @property
    def row_key(self) -> Names:
        """The group, and the rest of the child's key: what identifies a row within its group."""
        return tuple(dict.fromkeys((*self.group, *self.child.key)))

    def _group_text(self, word: str) -> str:
        """Return the group after a word, as EXPLAIN shows it; nothing for a global operator."""
        return "" if self.is_global else f" {word} [{', '.join(self.group)}]"

    def check(self) -> None:
        """ValueError, too, if the group does not fit the input."""
        require(bool(self.group), f"{self.operator} has no group")
        check_names(self.group, self.child.names, f"the group of {self.operator}")
        is_one = not self.is_global or len(self.group) == 1
        require(is_one, f"a global {self.operator} has several group fields")
        super().check()


@dataclass(frozen=True, slots=True)
class Order:
    """A field to sort by."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = " DESC" if self.descending else ""
        is_usual = self.nulls_first != self.descending
        nulls = "" if is_usual else f" NULLS {self._null_order}"
        return f"{self.name}{direction}{nulls}"

    @property
    def reverse(self) -> Order:
        """The field in the opposite direction, NULLs at the opposite end."""
        return Order(self.name, not self.descending, not self.nulls_first)

    @property
    def sql(self) -> str:
        """The sort key in Spark's SQL."""
        direction = "DESC" if self.descending else "ASC"
        return f"{types.quoted(self.name)} {direction} NULLS {self._null_order}"

    @property
    def _null_order(self) -> str:
        return "FIRST" if self.nulls_first else "LAST"

    def to_json(self) -> list[Any]:
        """Return the order as JSON values. On disk: never change."""
        return [self.name, self.descending, self.nulls_first]

    @classmethod
    def from_json(cls, value: Any) -> Order:
        """Return the order that `to_json` described."""
        name, descending, nulls_first = value
        return cls(read_text(name), read_flag(descending), read_flag(nulls_first))


def sorted_key(group: Names, order: Sequence[Order], key: Sequence[Order]) -> tuple[Order, ...]:
    """Return the key of a table of rows sorted by their group, an order, and their own key."""
    orders = {name: Order(name) for name in group}
    for field in (*order, *key):
        orders.setdefault(field.name, field)
    return tuple(orders.values())


def walk(node: Node) -> Sequence[Node]:
    """Return a node and all of its inputs, children before their parents, left before right.

    A node that several operators read comes once.
    """
    nodes: dict[int, Node] = {}
    _collect(node, nodes)
    return list(nodes.values())


def _collect(node: Node, nodes: dict[int, Node]) -> None:
    if id(node) in nodes:
        return
    for child in node.children:
        _collect(child, nodes)
    nodes[id(node)] = node


def plan_lines(node: Node) -> tuple[str, ...]:
    """Return a line of text for each operator; inputs are indented by two spaces more.

    The inputs of a node that several operators read are shown where it first occurs.
    """
    return tuple(_lines(node, set()))


def _lines(node: Node, shown: set[int]) -> Iterator[str]:
    if id(node) in shown:
        yield f"{node.explain_line}, as above"
        return
    yield node.explain_line
    for child in node.children:
        yield from (f"  {line}" for line in _lines(child, shown))
    if node.children:
        shown.add(id(node))


def free_name(name: str, used_names: set[str]) -> str:
    """Return ``name``, with a number if it is taken, and take it; ``taken``: in lower case."""
    free, number = name, 2
    while free.lower() in used_names:
        free, number = f"{name}_{number}", number + 1
    used_names.add(free.lower())
    return free


# JSON


def field_json(field: types.Field) -> dict[str, Any]:
    """Return a field as JSON values."""
    return type_json.field_to_json(field)


def read_field(value: Any) -> types.Field:
    """Return the field that `field_json` described."""
    field = type_json.field_from_json(value)
    read_text(field.name)
    require(field.nullable is True, f"the field {field.name!r} is not nullable")
    return field


def read_text(value: Any) -> str:
    """Return a JSON string. ValueError if it is anything else."""
    require(isinstance(value, str) and bool(value), f"{shown(value)} is not a text")
    return str(value)


def read_optional(value: Any, read: Callable[[Any], ValueT]) -> ValueT | None:
    """Return what ``read`` returns for a JSON value; None for null."""
    return None if value is None else read(value)


def read_flag(value: Any) -> bool:
    """Return a JSON boolean. ValueError if it is anything else."""
    require(isinstance(value, bool), f"{shown(value)} is not true or false")
    return bool(value)


def read_number(value: Any, most: int) -> int:
    """Return a whole number from 0 to ``most``. ValueError if it is anything else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    require(is_number and 0 <= value <= most, f"{shown(value)} is not a number from 0 to {most}")
    return int(value)


def read_list(value: Any) -> list[Any]:
    """Return a JSON array. ValueError if it is anything else."""
    require(isinstance(value, list), f"{shown(value)} is not a list")
    return list(value)


def read_names(value: Any) -> Names:
    """Return names. ValueError if they are none, or one comes twice."""
    names = tuple(map(read_text, read_list(value)))
    require(len(set(names)) == len(names), f"{shown(value)} has a name twice")
    return names


def read_orders(value: Any) -> tuple[Order, ...]:
    """Return orders, each of another field."""
    orders = tuple(map(Order.from_json, read_list(value)))
    read_names([order.name for order in orders])
    return orders


def check_names(names: Sequence[str], field_names: Sequence[str], description: str) -> None:
    """ValueError unless all names are among those that are known."""
    missing = sorted(set(names) - set(field_names))
    require(not missing, f"{description} has {missing[:1]}, which is not one of its fields")


def require(condition: bool, problem: str) -> None:
    """ValueError that says the problem, unless the condition is true."""
    if not condition:
        raise ValueError(problem)


def shown(value: Any) -> str:
    """Return a JSON value as an error shows it: bounded, however long it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 64:
        return "a number beyond 64 bits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:80] if isinstance(value, str) else value)
