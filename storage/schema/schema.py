"""The schema of a table: its columns, which of them are its key, and how rows are distributed.

Columns have ids that are never used again, so a column can be added, dropped or renamed without
rewriting a row. Names match in any case, as in Spark.
Does not know: the table's name, the store, bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from relstate.vnode import cached_property

from ..errors import SchemaError
from . import types as t
from .arrow import arrow_schema, arrow_type
from .batch import BatchShape, Misfit
from .default import ClockDefault, ColumnDefault, default_from_json
from .generated import GeneratedColumn
from .type_json import from_json, to_json

# On disk: 16 bits of every value are the version of the schema it was encoded under.
MAX_VERSION = 0xFFFF
# The name of the hidden column that identifies the rows of a table without a primary key.
_ROW_ID = "_row_id"
_KEY_PART = re.compile(
    r"(?P<name>`(?:[^`]|``)+`|.+?)"
    r"(?:\s+(?P<order>asc|desc))?"
    r"(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its ``id`` counts from 1 in its table and is never used again.

    A ``hidden`` column is returned only by reads that name it. ``comment``: for people.
    ``default``: its value in rows that are written without it; None is NULL. ``generated``: what
    its value is computed of in every row.
    """

    id: int
    name: str
    type: t.DataType
    nullable: bool = True
    hidden: bool = False
    comment: str | None = None
    default: ColumnDefault | ClockDefault | None = None
    generated: GeneratedColumn | None = None

    @classmethod
    def of(cls, column_id: int, field: t.Field) -> Column:
        """Return the column of a table that a field becomes."""
        return cls(column_id, field.name, field.type, field.nullable, comment=field.comment)

    @property
    def field(self) -> t.Field:
        """The column without its id."""
        return t.Field(self.name, self.type, self.nullable, self.comment)

    @property
    def as_stored(self) -> Column:
        """The column as far as its stored rows go: its name, type and place."""
        return replace(self, comment=None, default=None, generated=None)

    def at(self, time: int) -> Column:
        """Return the column with the constant that its default is at a time.

        ``time``: microseconds since 1970.
        """
        if not isinstance(self.default, ClockDefault):
            return self
        return replace(self, default=self.default.at(arrow_type(self.type), time))

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values. On disk, in the log: never change a name."""
        comment = {} if self.comment is None else {"comment": self.comment}
        default = {} if self.default is None else {"default": self.default.to_json()}
        generated = {} if self.generated is None else {"generated": self.generated.to_json()}
        return {
            "id": self.id,
            "name": self.name,
            "type": to_json(self.type),
            "nullable": self.nullable,
            "hidden": self.hidden,
            **comment,
            **default,
            **generated,
        }

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> Column:
        """Return the column that `to_json` described. KeyError if a value is missing."""
        default, generated = item.get("default"), item.get("generated")
        return cls(
            item["id"],
            item["name"],
            from_json(item["type"]),
            item["nullable"],
            item["hidden"],
            item.get("comment"),
            None if default is None else default_from_json(default),
            None if generated is None else GeneratedColumn.from_json(generated),
        )


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the primary key, and the order in which its values sort."""

    column_id: int
    descending: bool = False
    nulls_first: bool = True

    @property
    def order(self) -> str:
        """The order in SQL: ``ASC NULLS FIRST``, for example."""
        direction = "DESC" if self.descending else "ASC"
        return f"{direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table under one ``version`` (from 1), its keys, and its next column id.

    ``distribution_key``: the ids of the columns that are hashed to the vnode, in order; if there
    are none, all rows are in vnode 0. ``stored_keys``: those of the columns of the primary key that
    are in the value, too, because a key does not tell their values apart: of FLOAT and DOUBLE it
    has 0 for -0, and one NaN.
    Not slotted: values derived from a schema are cached on it.
    """

    version: int
    columns: tuple[Column, ...]
    primary_key: tuple[KeyColumn, ...]
    distribution_key: tuple[int, ...]
    next_column_id: int
    stored_keys: tuple[int, ...] = ()

    @classmethod
    def build(
        cls,
        fields: Sequence[t.Field],
        primary_key: Sequence[str],
        distribution_key: Sequence[str] | None = None,
        *,
        nullable_key: bool = False,
        keeps_floats: bool = False,
        hidden: Collection[str] = (),
    ) -> TableSchema:
        """Return the first schema of a table; its key columns become NOT NULL.

        A part of ``primary_key`` is a column's name, ``"name desc"``, or ``"name desc nulls
        last"``; ascending puts NULLs first, descending last, as Spark does. The distribution key
        is the whole primary key by default; ``()`` puts all rows in vnode 0. ``nullable_key``: key
        columns are nullable if their fields are. ``keeps_floats``: floats in the key are read back
        as they are written. ``hidden``: the names of hidden columns.
        SchemaError for keys or columns that cannot be, UnsupportedTypeError for a type that cannot
        be stored.
        """
        columns = _numbered(fields)
        keys = tuple(_key_column(part, columns) for part in _named("primary key", primary_key))
        key_ids = tuple(key.column_id for key in keys)
        _check_key("primary key", key_ids, columns)
        distribution = key_ids
        if distribution_key is not None:
            names = name_list("distribution key", distribution_key)
            distribution = tuple(_find(name, columns).id for name in names)
            _check_key("distribution key", distribution, columns)
        for column in columns:
            if column.id in distribution and column.id not in key_ids:
                raise SchemaError(
                    f"the distribution key column {column.name!r} is not part of the primary key"
                )
        required = () if nullable_key else key_ids
        hidden_ids = {_find(name, columns).id for name in hidden}
        if len(hidden_ids) == len(columns):
            raise SchemaError("all columns are hidden; a table needs at least one that is not")
        final = tuple(
            replace(
                column,
                nullable=column.nullable and column.id not in required,
                hidden=column.id in hidden_ids,
            )
            for column in columns
        )
        stored = (column.id for column in final if keeps_floats and t.holds_floats(column.type))
        stored_keys = tuple(column_id for column_id in stored if column_id in key_ids)
        return cls(1, final, keys, distribution, len(columns) + 1, stored_keys)

    @classmethod
    def build_keyless(cls, fields: Sequence[t.Field]) -> TableSchema:
        """Return the first schema of a table without a primary key; errors as of `build`.

        Its first column is the hidden row id, which is its key.
        """
        for field in fields:
            if field.name.lower() == _ROW_ID:
                raise SchemaError(
                    f"a table without a primary key has a hidden column {_ROW_ID!r} of its own: "
                    f"rename the column {field.name!r}, or declare a primary key"
                )
        _numbered(fields)
        return cls.build([t.Field(_ROW_ID, t.Binary()), *fields], [_ROW_ID], hidden=[_ROW_ID])

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the table's rows, hidden columns included, without metadata."""
        return arrow_schema(column.field for column in self.columns)

    @cached_property
    def visible_columns(self) -> tuple[Column, ...]:
        """The columns that a read returns if it names none."""
        return tuple(column for column in self.columns if not column.hidden)

    @cached_property
    def row_id(self) -> Column | None:
        """The hidden row id of a table without a primary key; None for a table that has one.

        The columns that a view hides come after the visible ones, so none of them is taken for it.
        """
        first = self.columns[0]
        is_key = [key.column_id for key in self.primary_key] == [first.id]
        return first if is_key and first.hidden and first.type == t.Binary() else None

    @cached_property
    def generated_columns(self) -> tuple[Column, ...]:
        """The columns whose values are computed of others in every row."""
        return tuple(column for column in self.columns if column.generated is not None)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the primary key, in its order."""
        return tuple(self._by_id[key.column_id] for key in self.primary_key)

    @cached_property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns that are in the value of a row, in the table's order.

        Those that are not in the primary key, and `stored_keys`.
        """
        key_ids = {key.column_id for key in self.primary_key} - set(self.stored_keys)
        return tuple(column for column in self.columns if column.id not in key_ids)

    @cached_property
    def distribution_columns(self) -> tuple[Column, ...]:
        """The columns that are hashed to the vnode, in order."""
        return tuple(self._by_id[column_id] for column_id in self.distribution_key)

    def version_columns(self, ids: Sequence[int]) -> tuple[Column, ...]:
        """Return the columns of these ids, in their order."""
        return tuple(self._by_id[column_id] for column_id in ids)

    def column(self, name: str) -> Column:
        """Return the column of a name, in any case; SchemaError if there is none, or no text."""
        return _find(name, self.columns)

    def key_part(self, part: str) -> KeyColumn:
        """Return the column and the order that a part of a key names; SchemaError if there is none.

        A part is written as for `build`.
        """
        return _key_column(part, self.columns)

    def check_schema(self, schema: pa.Schema) -> None:
        """SchemaMismatchError unless batches of a schema can be written to the table by users."""
        self._input_shape.check_schema(schema)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``batch`` in exactly the table's Arrow schema, its values unchanged.

        Columns are found by name and cast exactly; a column that is missing has its default, or is
        NULL if it may be; what a writer fills (`with_present_time`, `Generation`) is there already.
        A batch that already has the schema is only checked for NULLs. Errors as of
        `BatchShape.conform`.
        """
        return self._shape.conform(batch)

    def conform_input(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that a user writes as `conform` does, but without row ids."""
        return self._input_shape.conform(batch)

    def misfits(self, batch: pa.RecordBatch) -> Iterator[Misfit]:
        """Yield why rows that a user writes cannot be conformed: see `BatchShape.misfits`."""
        return self._input_shape.misfits(batch)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON values. On disk, in the log: never change a name."""
        return {
            "version": self.version,
            "columns": [column.to_json() for column in self.columns],
            "primary_key": [
                {
                    "column": key.column_id,
                    "descending": key.descending,
                    "nulls_first": key.nulls_first,
                }
                for key in self.primary_key
            ],
            "distribution_key": list(self.distribution_key),
            "next_column_id": self.next_column_id,
            **({"stored_keys": list(self.stored_keys)} if self.stored_keys else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableSchema:
        """Return the schema that `to_json` described; SchemaError for another value."""
        try:
            return cls(
                value["version"],
                tuple(map(Column.from_json, value["columns"])),
                tuple(
                    KeyColumn(item["column"], item["descending"], item["nulls_first"])
                    for item in value["primary_key"]
                ),
                tuple(value["distribution_key"]),
                value["next_column_id"],
                tuple(value.get("stored_keys", ())),
            )
        except (KeyError, TypeError) as error:
            raise SchemaError(f"{value!r} is not the schema of a table") from error

    def check(self) -> None:
        """Raise SchemaError for a schema that `build` and its alterations cannot lead to."""
        ids = [column.id for column in self.columns]
        names = {column.name.lower() for column in self.columns}
        key_ids = [key.column_id for key in self.primary_key]
        is_possible = (
            1 <= self.version <= MAX_VERSION
            and len(set(ids)) == len(names) == len(ids) > 0
            and min(ids) >= 1
            and max(ids) < self.next_column_id
            and len(set(key_ids)) == len(key_ids) > 0
            and set(self.distribution_key) <= set(key_ids) <= set(ids)
            and len(set(self.distribution_key)) == len(self.distribution_key)
            and set(self.stored_keys) <= set(key_ids)
            and len(set(self.stored_keys)) == len(self.stored_keys)
            and not all(column.hidden for column in self.columns)
        )
        if not is_possible:
            raise SchemaError(f"the schema of a table contradicts itself: {self!r:.300}")

    @cached_property
    def _by_id(self) -> dict[int, Column]:
        return {column.id: column for column in self.columns}

    @cached_property
    def _shape(self) -> BatchShape:
        keys = [column.name for column in self.key_columns]
        return BatchShape(
            self.arrow_schema, keys, default_values(self.columns), self._computed_names
        )

    @cached_property
    def _input_shape(self) -> BatchShape:
        if self.row_id is None:
            return self._shape
        columns = self.visible_columns
        return BatchShape(
            arrow_schema(column.field for column in columns),
            (),
            default_values(columns),
            self._computed_names,
        )

    @cached_property
    def clock_columns(self) -> tuple[Column, ...]:
        """The columns whose default is the time of a write."""
        return tuple(c for c in self.columns if isinstance(c.default, ClockDefault))

    def with_present_time(self, batch: pa.RecordBatch, time: int) -> pa.RecordBatch:
        """Return rows with those of `clock_columns` that they lack.

        ``time``: of the write, microseconds since 1970.
        """
        if not self.clock_columns:
            return batch
        names = {name.lower() for name in batch.schema.names}
        for column in self.clock_columns:
            if column.name.lower() not in names:
                value = default_values([column.at(time)])[column.name]
                batch = batch.append_column(column.name, pa.repeat(value, batch.num_rows))
        return batch

    @cached_property
    def _computed_names(self) -> frozenset[str]:
        """The names of the columns that writers fill before they encode rows."""
        return frozenset(c.name for c in (*self.generated_columns, *self.clock_columns))


def default_values(columns: Iterable[Column]) -> dict[str, pa.Scalar]:
    """Return the defaults of columns that are constants, by the names of these."""
    return {
        column.name: column.default.scalar(arrow_type(column.type))
        for column in columns
        if isinstance(column.default, ColumnDefault)
    }


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows whose primary key begins with ``prefix`` and is in ``[start, stop)``.

    Each is a tuple of the first values of the primary key, in key order; an empty tuple sets no
    bound. On a descending column the start is the greater value. A row is below ``stop`` if its
    first columns are: ``stop=(5,)`` excludes all keys that begin with 5. ``after_start`` excludes
    all keys that begin with the start, ``with_stop`` includes all that begin with the stop.
    ``distribution``: the values of the distribution key if all rows share them, else None.
    """

    prefix: tuple[Any, ...] = ()
    start: tuple[Any, ...] = ()
    stop: tuple[Any, ...] = ()
    after_start: bool = False
    with_stop: bool = False
    distribution: tuple[Any, ...] | None = None


EVERY_KEY = KeyRange()


def _numbered(fields: Sequence[t.Field]) -> tuple[Column, ...]:
    if not fields:
        raise SchemaError("a table needs at least one column")
    used_names: set[str] = set()
    for field in fields:
        if not field.name:
            raise SchemaError("a column needs a name")
        if field.name.lower() in used_names:
            raise SchemaError(f"two columns are named {field.name!r} (names match in any case)")
        used_names.add(field.name.lower())
    arrow_schema(fields)
    return tuple(Column.of(number, field) for number, field in enumerate(fields, start=1))


def name_list(description: str, names: Iterable[str]) -> Sequence[str]:
    """Return column names as a list. SchemaError for anything else, also for one name alone."""
    if isinstance(names, str):
        raise SchemaError(
            f"{description}: expected a list of column names, found the text {names!r}; write "
            f"[{names!r}]"
        )
    if not isinstance(names, Iterable):
        raise SchemaError(f"{description}: expected a list of column names, found {names!r}")
    names = list(names)
    for name in names:
        t.check_text(f"{description}: a name", name)
    return names


def _named(description: str, names: Sequence[str]) -> Sequence[str]:
    if not name_list(description, names):
        raise SchemaError(f"the {description} is empty; name at least one column")
    return names


def _key_column(part: str, columns: Sequence[Column]) -> KeyColumn:
    """Read one part of a primary key; a column named exactly so wins over ``name desc``."""
    text = part.strip()
    if any(column.name.lower() == text.lower() for column in columns):
        return KeyColumn(_find(text, columns).id)
    match = _KEY_PART.fullmatch(text)
    if match is None:
        raise SchemaError(f"{part!r} is not a part of a primary key: write a column's name")
    name = match["name"]
    if name.startswith("`") and name.endswith("`"):
        name = name[1:-1].replace("``", "`")
    descending = (match["order"] or "asc").lower() == "desc"
    nulls = (match["nulls"] or ("last" if descending else "first")).lower()
    return KeyColumn(_find(name, columns).id, descending, nulls == "first")


def _find(name: str, columns: Sequence[Column]) -> Column:
    t.check_text("the name of a column", name)
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    column_names = ", ".join(column.name for column in columns if not column.hidden)
    raise SchemaError(f"there is no column {name!r}; the columns are {column_names}")


def _check_key(description: str, ids: Sequence[int], columns: Sequence[Column]) -> None:
    for column in columns:
        if ids.count(column.id) > 1:
            raise SchemaError(f"the {description} names the column {column.name!r} twice")
        if column.id in ids and not _can_be_key(column.type):
            raise SchemaError(
                f"the column {column.name!r} of type {column.type} cannot be in the {description}: "
                "maps, variants, collated strings, calendar intervals and void have no order"
            )


def _can_be_key(data_type: t.DataType) -> bool:
    """Return whether the values of a type have an order that their bytes can keep."""
    match data_type:
        case t.Struct(fields):
            return all(_can_be_key(field.type) for field in fields)
        case t.Array(element, _):
            return _can_be_key(element)
        case t.String():
            return not data_type.is_collated
    return not isinstance(data_type, t.Map | t.Variant | t.CalendarInterval | t.Void)
