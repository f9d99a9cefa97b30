"""Recursion: the rows of a WITH RECURSIVE, which Spark computes again when an input changes.

Its executors keep the rows of all inputs, which are one key, and the rows that it returns. Spark
runs the query over the former; how far a change reaches is known only to the whole run.

Does not know: how an operator is maintained (executor), or what the query means.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .node import (
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
    read_text,
    require,
)
from .recompute import KeyedRecompute


@dataclass(frozen=True, slots=True)
class RecursionInput:
    """A relation that the query reads: its name there, its columns, and the fields with these."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> Names:
        """The fields of the child that hold its columns."""
        return tuple(field for _, field in self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the input as JSON values. On disk: never change a name."""
        return {"name": self.name, "columns": [list(pair) for pair in self.columns]}

    @classmethod
    def from_json(cls, value: Json) -> RecursionInput:
        """Return the input that `to_json` described."""
        columns = []
        for name, field in read_list(value["columns"]):
            columns.append((read_text(name), read_text(field)))
        return cls(read_text(value["name"]), tuple(columns))


@dataclass(frozen=True)
class Recursion(KeyedRecompute):
    """The rows of a query over some inputs, each as often as the query returns it.

    ``query``: in Spark's SQL. ``inputs``: what it reads; the field ``number`` of the child, an INT,
    says which of them a row is of, by its position. ``outputs``: the columns of the query.
    ``collated``: the outputs that are strings of a collation, with the fields that hold their
    bytes, by which they are told apart. ``copy``: numbers equal rows, from 1. It is global: the
    rows of all inputs are one group.
    """

    operator = "recursion"

    query: str
    inputs: tuple[RecursionInput, ...]
    number: str
    outputs: tuple[types.Field, ...]
    collated: tuple[tuple[str, types.Field], ...]
    copy: types.Field

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The group, the outputs, the bytes of collated strings, and the number of the copy."""
        return (*self.group_fields, *self.outputs, *(own for _, own in self.collated), self.copy)

    @cached_property
    def compared(self) -> Names:
        """The fields that tell the rows of the query apart."""
        of_bytes = {name: field.name for name, field in self.collated}
        return tuple(of_bytes.get(field.name, field.name) for field in self.outputs)

    @cached_property
    def key(self) -> Names:
        """The group, all values of a row, and the number of the copy."""
        return (*self.group, *self.compared, self.copy.name)

    @property
    def relations(self) -> dict[str, tuple[types.Field, ...]]:
        """The columns of the inputs, by the names that the query has for them."""
        return {
            own.name: tuple(types.Field(name, self.child.type_of(f)) for name, f in own.columns)
            for own in self.inputs
        }

    @property
    def is_never_empty(self) -> bool:
        """Whether there may be rows without any in the inputs: True, as constants recur, too."""
        return True

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator over the fields that are columns of its inputs."""
        columns = {field for own in self.inputs for field in own.fields}
        needed = {*self.group, *self.child.key, self.number, *columns}
        return replace(self, child=self.child.prune(needed, fields_of))

    @property
    def explain_line(self) -> str:
        """``Recursion [field] recomputed by Spark, a change costs the whole recursion: query``."""
        outputs = ", ".join(field.name for field in self.outputs)
        cost = "recomputed by Spark, a change costs the whole recursion"
        return f"Recursion [{outputs}] {cost}: {self.query}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "is_global": self.is_global,
            "query": self.query,
            "inputs": [own.to_json() for own in self.inputs],
            "number": self.number,
            "outputs": [field_json(field) for field in self.outputs],
            "collated": [[name, field_json(field)] for name, field in self.collated],
            "copy": field_json(self.copy),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_text(value["query"]),
            tuple(map(RecursionInput.from_json, read_list(value["inputs"]))),
            read_text(value["number"]),
            tuple(map(read_field, read_list(value["outputs"]))),
            tuple((read_text(name), read_field(own)) for name, own in read_list(value["collated"])),
            read_field(value["copy"]),
            is_global=read_flag(value["is_global"]),
        )

    def check(self) -> None:
        """ValueError, too, if the inputs and outputs do not fit the child and each other."""
        require(self.is_global, f"{self.operator} is not global")
        is_constant = self.child.type_of(self.group[0]) == types.TinyInt()
        require(is_constant, f"the group of {self.operator} is not a TINYINT")
        is_number = self.child.type_of(self.number) == types.Int()
        require(is_number, f"the field {self.number!r} is not the number of an input")
        require(self.copy.type == types.BigInt(), f"the field {self.copy.name!r} is not a number")
        names = [own.name.lower() for own in self.inputs]
        require(len(set(names)) == len(names), f"{self.operator} has two inputs of one name")
        for own in self.inputs:
            check_names(own.fields, self.child.names, f"an input of {self.operator}")
        outputs = [field.name for field in self.outputs]
        check_names([name for name, _ in self.collated], outputs, f"a string of {self.operator}")
        of_bytes = [own.type for _, own in self.collated]
        is_bytes = all(own == types.String() for own in of_bytes)
        require(is_bytes, f"{self.operator} compares strings by another type")
        super().check()
