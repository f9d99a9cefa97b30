"""The operators without state: scans, projections, filters and unions.

Does not know: how Spark runs them (frame).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from relstate.storage import types
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
    field_json,
    read_field,
    read_flag,
    read_list,
    read_names,
    read_number,
    read_optional,
    read_text,
    require,
)

_MOST_TABLES = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of a table, by its name there, and the field that holds it."""

    column: str
    field: types.Field


@dataclass(frozen=True)
class Scan(Leaf):
    """The rows of a table of the store, or of a view.

    ``columns``: those that are read. ``primary_key``: the fields of the table's primary key, in its
    order; all of them are among the columns. ``grows_only``: the table is append-only. ``expiry``:
    the field, a BIGINT, with when a row expires; None if the table's rows do not. ``by_parts``: it
    is a document table: what of its rows has expired by the time of a refresh is not there.
    """

    operator = "scan"

    table_id: int
    table: str
    columns: tuple[ScanColumn, ...]
    primary_key: Names
    grows_only: bool = False
    expiry: types.Field | None = None
    by_parts: bool = False

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The columns' fields, and the expiry."""
        expiry = () if self.expiry is None else (self.expiry,)
        return (*(column.field for column in self.columns), *expiry)

    @property
    def key(self) -> Names:
        """The primary key."""
        return self.primary_key

    @property
    def is_append_only(self) -> bool:
        """Whether the table is."""
        return self.grows_only

    @property
    def follows_expiry(self) -> bool:
        """Whether what expires leaves the scan, or the filter above it."""
        return self.expiry is not None or self.by_parts

    @property
    def column_names(self) -> Names:
        """The names of the table's columns that are read."""
        return tuple(column.column for column in self.columns)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the scan of the columns that are read or in the key."""
        needed = {*read, *self.key}
        columns = tuple(column for column in self.columns if column.field.name in needed)
        return replace(self, columns=columns)

    @property
    def explain_line(self) -> str:
        """``Scan t [column, column AS field] key [field]``."""
        columns = ", ".join(_renamed(column.column, column.field.name) for column in self.columns)
        expiry = "" if self.expiry is None else f" expiry [{self.expiry.name}]"
        parts = " by the present time" if self.by_parts else ""
        return f"Scan {self.table} [{columns}] key [{', '.join(self.key)}]{expiry}{parts}"

    def to_json(self) -> dict[str, Any]:
        """Return the scan as JSON values."""
        expiry = {} if self.expiry is None else {"expiry": field_json(self.expiry)}
        parts = {"by_parts": True} if self.by_parts else {}
        return (
            expiry
            | parts
            | {
                "operator": self.operator,
                "table_id": self.table_id,
                "table": self.table,
                "columns": [[column.column, field_json(column.field)] for column in self.columns],
                "primary_key": list(self.primary_key),
                "grows_only": self.grows_only,
            }
        )

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the scan that `to_json` described."""
        return cls(
            read_number(value["table_id"], _MOST_TABLES),
            read_text(value["table"]),
            tuple(_read_column(column) for column in read_list(value["columns"])),
            read_names(value["primary_key"]),
            read_flag(value["grows_only"]),
            read_field(value["expiry"]) if "expiry" in value else None,
            read_flag(value.get("by_parts", False)),
        )

    def check(self) -> None:
        """ValueError, too, if the expiry is not a BIGINT, or one of a document table."""
        super().check()
        require(self.expiry is None or not self.by_parts, "a scan by parts has an expiry")
        is_whole = self.expiry is None or self.expiry.type == types.BigInt()
        require(is_whole, "the expiry of a scan is not a BIGINT")


def _read_column(value: Any) -> ScanColumn:
    name, field = value
    return ScanColumn(read_text(name), read_field(field))


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a projection: ``expression`` in Spark's SQL over the child's fields.

    ``source``: the field of the child that it is, unchanged and of the same type; None if it is
    computed.
    """

    field: types.Field
    expression: str
    source: str | None = None


@dataclass(frozen=True)
class Project(Unary):
    """Columns computed from each row. All key fields of the child pass through it."""

    operator = "project"

    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        missing = set(self.child.key) - {output.source for output in self.outputs}
        require(not missing, f"a projection drops the key fields {sorted(missing)}")

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The outputs' fields."""
        return tuple(output.field for output in self.outputs)

    @cached_property
    def key(self) -> Names:
        """The child's key, under its names here."""
        return tuple(self._names[name] for name in self.child.key)

    @cached_property
    def distribution(self) -> Names | None:
        """The child's distribution, under its names here."""
        names = self.child.distribution
        return None if names is None else tuple(self._names[name] for name in names)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the columns that are computed."""
        computed = (output for output in self.outputs if output.source is None)
        return tuple(Expression(output.expression, output.field.type) for output in computed)

    @property
    def is_selection(self) -> bool:
        """Whether it only chooses, orders and names columns."""
        return all(output.source is not None for output in self.outputs)

    @cached_property
    def _names(self) -> dict[str, str]:
        # Of several outputs that are the same field the first one represents it.
        passed = [(o.source, o.field.name) for o in self.outputs if o.source is not None]
        return dict(reversed(passed))

    def drop_identity(self) -> Node:
        """Return the projection; its child if it changes nothing."""
        passed = tuple(output.field.name for output in self.outputs)
        is_same = all(output.source == output.field.name for output in self.outputs)
        return self.child if is_same and passed == self.child.names else self

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the projection to the fields that are read or in the key."""
        needed = {*read, *self.key}
        outputs = [output for output in self.outputs if output.field.name in needed]
        passed = {output.source for output in outputs}
        outputs += [o for o in self.outputs if o.source in set(self.child.key) - passed]
        return self._over_pruned(outputs, fields_of).drop_identity()

    def select(self, names: Sequence[str], fields_of: FieldsOf) -> Project:
        """Return the projection to these of its fields, in this order, over a pruned child."""
        by_name = {output.field.name: output for output in self.outputs}
        return self._over_pruned([by_name[name] for name in names], fields_of)

    def _over_pruned(self, outputs: Sequence[Output], fields_of: FieldsOf) -> Project:
        read = {name for output in outputs for name in fields_of(output.expression)}
        return Project(self.child.prune(read, fields_of), tuple(outputs))

    @property
    def explain_line(self) -> str:
        """``Project [field, expression AS field]``."""
        outputs = (
            o.field.name if o.source == o.field.name else f"{o.expression} AS {o.field.name}"
            for o in self.outputs
        )
        return f"Project [{', '.join(outputs)}]"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        outputs = [[field_json(o.field), o.expression, o.source] for o in self.outputs]
        return {"operator": self.operator, "child": self.child.to_json(), "outputs": outputs}

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the projection that `to_json` described."""
        outputs = tuple(_read_output(output) for output in read_list(value["outputs"]))
        return cls(read(value["child"]), outputs)

    def check(self) -> None:
        """ValueError, too, if a field that passes has another type or text than below."""
        super().check()
        for output in self.outputs:
            if output.source is not None:
                is_same = self.child.type_of(output.source) == output.field.type
                require(is_same, f"the type of {output.field.name!r} is not that of its source")
                is_plain = output.expression == types.quoted(output.source)
                require(is_plain, f"{output.field.name!r} is not the field {output.source!r}")


def _read_output(value: Any) -> Output:
    field, expression, source = value
    return Output(read_field(field), read_text(expression), read_optional(source, read_text))


@dataclass(frozen=True)
class Filter(Unary):
    """The rows for which ``condition``, in Spark's SQL over the child's fields, is true."""

    operator = "filter"

    condition: str

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As the child."""
        return self.child.fields

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The condition."""
        return (Expression(self.condition, types.Boolean()),)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the filter over what is read by it or above it."""
        needed = {*read, *self.key, *fields_of(self.condition)}
        return Filter(self.child.prune(needed, fields_of), self.condition)

    @property
    def explain_line(self) -> str:
        """``Filter condition``."""
        return f"Filter {self.condition}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        child = self.child.to_json()
        return {"operator": self.operator, "child": child, "condition": self.condition}

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the filter that `to_json` described."""
        return cls(read(value["child"]), read_text(value["condition"]))


@dataclass(frozen=True)
class Union(Node):
    """The rows of all inputs, which have fields of the same names and types.

    ``row_key``: the fields that identify a row, among them one that identifies the input, unless
    no two inputs have a row with one key at a time.
    """

    operator = "union"

    inputs: tuple[Node, ...]
    row_key: Names

    @property
    def children(self) -> tuple[Node, ...]:
        """The inputs."""
        return self.inputs

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As every input."""
        return self.inputs[0].fields

    @property
    def key(self) -> Names:
        """The fields that identify a row."""
        return self.row_key

    @property
    def distribution(self) -> Names | None:
        """None: each input has a distribution of its own."""
        return None

    @property
    def is_append_only(self) -> bool:
        """Whether all inputs are."""
        return all(child.is_append_only for child in self.inputs)

    def with_children(self, children: Sequence[Node]) -> Node:
        """Return the union of other inputs."""
        return replace(self, inputs=tuple(children))

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the union of what is read, or in the key, of every input."""
        names = [name for name in self.names if name in {*read, *self.key}]
        inputs = tuple(_select(child, names, fields_of) for child in self.inputs)
        return replace(self, inputs=inputs)

    @property
    def explain_line(self) -> str:
        """``Union key [field]``."""
        return f"Union key [{', '.join(self.key)}]"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        inputs = [child.to_json() for child in self.inputs]
        return {"operator": self.operator, "inputs": inputs, "row_key": list(self.row_key)}

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the union that `to_json` described."""
        inputs = tuple(map(read, read_list(value["inputs"])))
        require(bool(inputs), "a union has no inputs")
        return cls(inputs, read_names(value["row_key"]))

    def check(self) -> None:
        """ValueError, too, if the inputs have different fields."""
        super().check()
        is_same = all(child.fields == self.fields for child in self.inputs)
        require(is_same, "the inputs of a union have different fields")


def _select(child: Node, names: Collection[str], fields_of: FieldsOf) -> Node:
    if not isinstance(child, Project):
        outputs = tuple(Output(f, types.quoted(f.name), f.name) for f in child.fields)
        child = Project(child, outputs)
    return child.select(tuple(names), fields_of)


def _renamed(name: str, alias: str) -> str:
    return name if name == alias else f"{name} AS {alias}"
