"""Targets: where in a row something is changed, found by the path that a user writes.

    ["note"]                      a column
    ["address", "city"]           a field of a struct
    ["props", "read"]             the entry of a map under a key
    ["tags", "new"]               an element of a set
    ["doc", "a", "b"]             a field of an object in a variant
    ["orders", 7, "lines", "x"]   any of these within others

Promises: a path that goes where values of the column's type have no parts is refused, with the
column's name, before anything is written.
Does not know: what is written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from relstate.vnode import cached_property

from ...codec.memcomparable import KeyCodec
from ...codec.path import LIVENESS, NUMBER_BYTES, extended, number_component
from ...codec.ragged import Bytes, constant
from ...codec.variant_value import stored_members
from ...errors import NullKeyError, SchemaError, SchemaMismatchError
from ...schema import types as t
from ...schema.properties import TableProperties
from ...schema.schema import Column, KeyColumn, TableSchema
from ...schema.types import quoted
from ..header import check_path_length
from .containers import ListShape, MapShape, SetShape, StructShape, shape_of
from .shape import Shape
from .variantshape import DEEPEST, VariantShape

_KEY_ORDER = [KeyColumn(1)]


def column_shape(properties: TableProperties, column: Column) -> Shape:
    """Return the shape of a column's values. SchemaError for a set that is not an ARRAY."""
    if column.id not in properties.sets:
        return shape_of(column.type, 1)
    if not isinstance(column.type, t.Array):
        raise SchemaError(
            f"the column {column.name!r} cannot be a set, because it is {column.type}: a set is an "
            "ARRAY column"
        )
    try:
        return SetShape(column.type, 1)
    except SchemaError as error:
        raise SchemaError(f"the column {column.name!r} cannot be a set: {error}") from None


class Null(Enum):
    """What NULL is at a place: the same as nothing, a value, or refused."""

    NOTHING = "nothing"
    VALUE = "value"
    REFUSED = "refused"


@dataclass(frozen=True)
class Target:
    """A place in rows: the same in all of them, except for the keys on the way.

    ``numbers``: for each level below the column the number of a field, None for an item that is
    known by a key. ``keys``: the types of these keys. ``type`` and ``shape``: those of the values
    there. ``null``: what NULL is there. ``name``: for messages, as SQL writes the path, a key as
    ``[…]``. ``parent``: the target one step above.
    """

    column: Column
    numbers: tuple[int | None, ...]
    keys: tuple[t.DataType, ...]
    type: t.DataType
    shape: Shape
    null: Null
    name: str
    parent: Target | None = None

    def below(self, step: Any) -> Target:
        """Return the target one step below: in a field of a name, or in an item of any key.

        ``step`` may be None for a key. SchemaMismatchError if values of the type have no such part.
        """
        match self.shape, self.type:
            case (SetShape(), _) | (MapShape(), _):
                return self._item
            case VariantShape(), _ if step is None or isinstance(step, str):
                return self._item
            case StructShape(), t.Struct(fields):
                name = step.lower() if isinstance(step, str) else None
                target = self._fields.get(name)
                if target is None:
                    names = ", ".join(field.name for field in fields)
                    raise SchemaMismatchError(
                        f"{self.name} has no field {step!r}; its fields are {names}"
                    )
                return target
        raise _no_parts_error(self, step)

    @cached_property
    def _item(self) -> Target:
        match self.type:
            case t.Map(key, item, is_nullable):
                null = Null.VALUE if is_nullable else Null.REFUSED
            case t.Array(key, _):
                item, null = t.Void(), Null.REFUSED
            case t.Variant():
                key, item, null = t.String(), t.Variant(), Null.NOTHING
            case _:
                raise AssertionError(self.type)
        return self._child(None, item, null, "[…]", (*self.keys, key))

    @cached_property
    def _fields(self) -> dict[str | None, Target]:
        assert isinstance(self.type, t.Struct)
        return {
            field.name.lower(): self._child(
                number, field.type, Null.NOTHING, f".{quoted(field.name)}", self.keys
            )
            for number, field in enumerate(self.type.fields, start=1)
        }

    def _child(
        self,
        number: int | None,
        data_type: t.DataType,
        null: Null,
        step: str,
        keys: tuple[t.DataType, ...],
    ) -> Target:
        shape = shape_of(data_type, self.shape.depth + 1)
        numbers = (*self.numbers, number)
        return Target(self.column, numbers, keys, data_type, shape, null, self.name + step, self)

    @cached_property
    def of_variants(self) -> tuple[bool, ...]:
        """Which of the keys on the way are those of objects in variants."""
        if self.parent is None:
            return ()
        is_own = isinstance(self.parent.type, t.Variant)
        own = () if self.numbers[-1] is not None else (is_own,)
        return (*self.parent.of_variants, *own)

    @property
    def is_map(self) -> bool:
        """Whether its values are maps that change by their entries."""
        return isinstance(self.shape, MapShape)

    @property
    def is_set(self) -> bool:
        """Whether its values are sets."""
        return isinstance(self.shape, SetShape)

    @property
    def is_list(self) -> bool:
        """Whether its values are arrays that are not sets."""
        return isinstance(self.shape, ListShape)

    @property
    def is_element(self) -> bool:
        """Whether it is an element of a set, which has no value."""
        return isinstance(self.type, t.Void)

    def paths(self, keys: Sequence[pa.Array], count: int) -> Bytes:
        """Return the path in each of ``count`` rows. NullKeyError for a key that is NULL.

        ``keys``: arrays of the keys on the way, of the types of ``keys``, one key for each row.
        """
        if any(array.null_count for array in keys):
            raise self._null_key_error()
        pairs = zip(self.key_codecs, keys, strict=True)
        components = [codec.encode([array]) for codec, array in pairs]
        paths = constant(number_component(self.column.id), count)
        for number in self.numbers:
            step = components.pop(0) if number is None else number_component(number)
            paths = extended(paths, step)
        return paths

    def path_bytes(self, keys: Sequence[bytes]) -> bytes:
        """Return the path of one row; ``keys``: those on the way, encoded."""
        remaining = iter(keys)
        steps = (next(remaining) if n is None else number_component(n) for n in self.numbers)
        return b"".join([number_component(self.column.id), *steps])

    @cached_property
    def key_codecs(self) -> list[KeyCodec]:
        """The codec of each key on the way."""
        return [KeyCodec([key], _KEY_ORDER) for key in self.keys]

    def check_length(self, keys: Sequence[bytes], *, has_liveness: bool = False) -> None:
        """ValueRangeError for a path that is too long; ``keys``: those on the way, encoded.

        ``has_liveness``: whether it is the path of an object's liveness.
        """
        fields = len(self.numbers) - len(keys)
        length = NUMBER_BYTES * (1 + fields) + sum(map(len, keys))
        check_path_length(length + (len(LIVENESS) if has_liveness else 0))

    def value_in(self, value: Any, keys: Sequence[bytes]) -> Any:
        """Return what is at the target in a value of the column, as Arrow's ``as_py`` gives it.

        None if nothing is there; True for an element of a set. ``keys``: encoded.
        """
        targets: list[Target] = []
        target: Target | None = self
        while target is not None:
            targets.append(target)
            target = target.parent
        remaining = list(keys)
        for below in reversed(targets[:-1]):
            if value is None:
                return None
            value = below._step_in(value, remaining)
        return value

    def _step_in(self, value: Any, remaining: list[bytes]) -> Any:
        """Return what is one step down, at this target, in a value; a key is taken off a list."""
        assert self.parent is not None
        number = self.numbers[-1]
        if number is not None:
            assert isinstance(self.parent.type, t.Struct)
            return value[self.parent.type.fields[number - 1].name]
        key, codec = remaining.pop(0), self.key_codecs[-1]
        if isinstance(self.parent.type, t.Variant):
            items: Any = stored_members(value, DEEPEST).items()
        else:
            items = [(item, True) for item in value] if self.is_element else value
        return next((inner for name, inner in items if codec.encode_key([name]) == key), None)

    def encode_path_keys(self, keys: Sequence[Any]) -> tuple[bytes, ...]:
        """Return the keys on the way, Python values, encoded.

        SchemaMismatchError for one of another type, ValueRangeError for one that does not fit,
        NullKeyError for None.
        """
        if any(key is None for key in keys):
            raise self._null_key_error()
        codecs = zip(self.key_codecs, keys, strict=True)
        return tuple(codec.encode_key([key]) for codec, key in codecs)

    def encode_last_key(self, key: Any) -> bytes:
        """Return the last key on the way, encoded; errors as of `encode_path_keys`."""
        if key is None:
            raise self._null_key_error()
        return self.key_codecs[-1].encode_key([key])

    def _null_key_error(self) -> NullKeyError:
        return NullKeyError(f"{self.name}: the key of an entry is never NULL; leave that row out")


class Targets:
    """The targets in the rows of one table. Immutable; safe between threads."""

    def __init__(self, schema: TableSchema, properties: TableProperties) -> None:
        """SchemaError for a set that is not an ARRAY."""
        self._keys = {column.name.lower(): column.name for column in schema.key_columns}
        self._columns = {
            column.name.lower(): Target(
                column,
                (),
                (),
                column.type,
                column_shape(properties, column),
                Null.NOTHING,
                quoted(column.name),
            )
            for column in schema.value_columns
        }

    def column(self, name: Any) -> Target:
        """Return the target that is a column, found in any case.

        SchemaMismatchError for a column that there is not, or that is in the key.
        """
        target = self._columns.get(name.lower()) if isinstance(name, str) else None
        if target is not None:
            return target
        if isinstance(name, str) and name.lower() in self._keys:
            raise SchemaMismatchError(
                f"the column {self._keys[name.lower()]!r} is in the primary key, which never "
                "changes: write the row under its new key, and delete the old one"
            )
        names = ", ".join(target.column.name for target in self._columns.values())
        raise SchemaMismatchError(
            f"unknown column {name!r}; the columns that can change are {names}"
        )

    def locate(self, path: Any) -> tuple[Target, tuple[Any, ...]]:
        """Return the target at a path, and the steps of the path that are keys of items.

        ``path``: the name of a column, then for each level the name of a field, in any case, or the
        key of an item, which is returned as it is. SchemaMismatchError for a path that values of
        the column's type do not have.
        """
        if isinstance(path, str) or not isinstance(path, Sequence) or not path:
            raise SchemaMismatchError(
                f"a path is a column's name and the steps below it in a tuple, not {path!r}"
            )
        target = self.column(path[0])
        keys: list[Any] = []
        for step in path[1:]:
            target = target.below(step)
            if target.numbers[-1] is None:
                keys.append(step)
        return target, tuple(keys)


def _no_parts_error(target: Target, step: Any) -> SchemaMismatchError:
    match target.type:
        case t.Array():
            advice = "an element of an array has no name: set the array, or add to its ends"
        case t.Struct():
            advice = "a field of it is NOT NULL or named twice, so it is written as a whole"
        case t.Map():
            advice = "its keys have no order, so it is written as a whole"
        case t.Variant():
            advice = "the keys of a variant's objects are text, and at most 254 are in a path"
        case _:
            advice = "set the value itself"
    return SchemaMismatchError(
        f"{target.name:.200} is {target.type} and has no separate part {step!r:.200}: {advice}"
    )
