"""The operators that make rows of no table: the one row of a constant, and the rows of a generator.

Does not know: how Spark runs them (frame).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from relstate.storage import type_json, types
from relstate.vnode import cached_property

from .node import (
    Expression,
    FieldsOf,
    Json,
    Leaf,
    Names,
    Node,
    ReadNode,
    Unary,
    check_names,
    field_json,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_text,
    require,
)
from .stateless import Scan


@dataclass(frozen=True)
class OneRow(Leaf):
    """One row that never changes, with one field: a TINYINT that is 0."""

    operator = "one_row"

    field: types.Field

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The one field."""
        return (self.field,)

    @property
    def key(self) -> Names:
        """The one field."""
        return (self.field.name,)

    @property
    def is_append_only(self) -> bool:
        """True: the row is inserted when the view is created, and stays."""
        return True

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the row: its field is its key."""
        return self

    @property
    def explain_line(self) -> str:
        """``OneRow [field]``."""
        return f"OneRow [{self.field.name}]"

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {"operator": self.operator, "field": field_json(self.field)}

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the row that `to_json` described."""
        return cls(read_field(value["field"]))

    def check(self) -> None:
        """ValueError, too, if the field is not a TINYINT."""
        require(self.field.type == types.TinyInt(), "the field of the one row is not a TINYINT")
        super().check()


Source: TypeAlias = Scan | OneRow
"""What has no inputs."""


class Generator(StrEnum):
    """A function of Spark's that returns rows, each with its position first, except JSON's one."""

    ELEMENTS = "posexplode"
    JSON = "json_tuple"


@dataclass(frozen=True)
class Generate(Unary):
    """The rows that a function makes of each row of the child.

    ``passed``: the fields of the child that its rows have too, all key fields among them.
    ``arguments``: in Spark's SQL over the child's fields. ``outputs``: the columns of the function;
    the first is the position, except JSON's. ``keeps_empty``: a row of the child of which it makes
    nothing passes with NULLs.
    """

    operator = "generate"

    function: Generator
    arguments: tuple[Expression, ...]
    passed: Names
    outputs: tuple[types.Field, ...]
    keeps_empty: bool = False

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The fields that pass, and the outputs."""
        by_name = {field.name: field for field in self.child.fields}
        return (*(by_name[name] for name in self.passed), *self.outputs)

    @property
    def row_count(self) -> int:
        """The number of rows that it makes of each row if its argument lists structs; else 1."""
        text = self.arguments[0].text.upper()
        is_list = self.function is Generator.ELEMENTS and text.startswith("ARRAY(")
        return max(1, text.count("NAMED_STRUCT(")) if is_list else 1

    @property
    def key(self) -> Names:
        """The child's key and the position."""
        return (*self.child.key, *(() if self.position is None else (self.position,)))

    @property
    def position(self) -> str | None:
        """The field with the position of a row among those of its input row; None of JSON's."""
        return None if self.function is Generator.JSON else self.outputs[0].name

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator that passes only fields that are read or in the key."""
        needed = {*read, *self.child.key}
        passed = tuple(name for name in self.passed if name in needed)
        arguments = {name for expression in self.arguments for name in fields_of(expression.text)}
        child = self.child.prune({*passed, *arguments}, fields_of)
        return replace(self, child=child, passed=passed)

    @property
    def explain_line(self) -> str:
        """``Generate function(argument) AS [field] passing [field]``."""
        arguments = ", ".join(argument.text for argument in self.arguments)
        outputs = ", ".join(field.name for field in self.outputs)
        outer = " OUTER" if self.keeps_empty else ""
        passed = ", ".join(self.passed)
        return f"Generate{outer} {self.function}({arguments}) AS [{outputs}] passing [{passed}]"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "function": str(self.function),
            "arguments": [
                [argument.text, type_json.to_json(argument.type)] for argument in self.arguments
            ],
            "passed": list(self.passed),
            "outputs": [field_json(field) for field in self.outputs],
            "keeps_empty": self.keeps_empty,
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            Generator(value["function"]),
            tuple(_read_argument(argument) for argument in read_list(value["arguments"])),
            read_names(value["passed"]),
            tuple(map(read_field, read_list(value["outputs"]))),
            read_flag(value["keeps_empty"]),
        )

    def check(self) -> None:
        """ValueError, too, if the outputs are not those of the function, or the key is dropped."""
        check_names(self.passed, self.child.names, "the passed fields of a generator")
        check_names(self.child.key, self.passed, "the passed fields of a generator")
        arguments = tuple(argument.type for argument in self.arguments)
        outputs = tuple(field.type for field in self.outputs)
        is_right = outputs == output_types(self.function, arguments)
        require(is_right, f"the columns of {self.function} are not those of its arguments")
        super().check()


def _read_argument(value: Any) -> Expression:
    text, data_type = value
    return Expression(read_text(text), type_json.from_json(data_type))


def output_types(
    function: Generator, arguments: Sequence[types.DataType]
) -> tuple[types.DataType, ...]:
    """Return the types of the columns of a generator. ValueError for arguments it does not take."""
    match function, arguments:
        case Generator.ELEMENTS, (types.Array(element, _),):
            return types.Int(), element
        case Generator.ELEMENTS, (types.Map(key, value, _),):
            return types.Int(), key, value
        case Generator.JSON, (types.String(), _, *_):
            return (types.String(),) * (len(arguments) - 1)
    raise ValueError(f"{function} does not take {', '.join(map(str, arguments))}")
