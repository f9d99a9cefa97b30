"""Making a batch fit a table: columns found by name, types cast exactly, NULLs refused.

Promises: a batch that comes out holds the values that went in, in exactly the table's Arrow schema;
an error names the column, and the key of the row and the value where there is one.
Does not know: tables, the order of keys, bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NullKeyError, NullValueError, SchemaMismatchError, ValueRangeError
from .cast import exact_cast, positions_by_name, window_of
from .failing import Flags, cast_failures, failures

_SHOWN, _SHOWN_ROW = 80, 200


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """A rule that some rows of a batch break: its name, a sentence, and a flag for each row.

    ``rule``: the name of a column or of a constraint.
    """

    rule: str
    reason: str
    flags: Flags


class BatchShape:
    """An Arrow schema and the names of its key columns, prepared for many batches.

    ``defaults``: the values of columns that are missing, by their names; without one it is NULL.
    ``computed``: columns that `check_schema` does not ask for, though they are NOT NULL.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        defaults: Mapping[str, pa.Scalar] | None = None,
        computed: Collection[str] = (),
    ) -> None:
        self._schema = schema
        self._defaults = defaults or {}
        # These may be missing though they are NOT NULL.
        optional = {*self._defaults, *computed}
        self._accepted = pa.schema(
            field.with_nullable(field.nullable or field.name in optional) for field in schema
        )
        self._keys = tuple(keys)
        self._required = [index for index, field in enumerate(schema) if not field.nullable]
        self._guarded = [index for index, field in enumerate(schema) if _forbids_null(field.type)]

    def check_schema(self, schema: pa.Schema) -> None:
        """SchemaMismatchError unless batches of a schema can be conformed."""
        for target, position in zip(self._schema, self._positions(schema), strict=True):
            if position is not None:
                _cast_of(schema.field(position), target)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``batch`` with exactly this schema: columns reordered, values cast exactly.

        A column that is missing gets its default, else NULL if it is nullable and not of the key.
        SchemaMismatchError for a column that is unknown, missing though NOT NULL, or of a type that
        has no exact cast; ValueRangeError for a value that does not fit; NullKeyError and
        NullValueError for a NULL where none may be.
        """
        if not batch.schema.equals(self._schema):
            batch = self._rearranged(batch)
        for index in self._required:
            if batch.column(index).null_count:
                self._fail_null(index, batch)
        for index in self._guarded:
            if _holds_forbidden_null(batch.column(index)):
                self._fail_nested_null(index, batch)
        return batch

    def misfits(self, batch: pa.RecordBatch) -> Iterator[Misfit]:
        """Yield why rows of a batch cannot be conformed, column by column, if there are any.

        SchemaMismatchError as of `conform`.
        """
        for target, position in zip(self._schema, self._positions(batch.schema), strict=True):
            if position is None:
                continue
            column = batch.column(position)
            cast = _cast_of(batch.schema.field(position), target)
            flags = cast_failures(column, cast, target.type)
            if flags.any():
                reason = f"the value does not fit the column {target.name!r} of type {target.type}"
                yield Misfit(target.name, reason, flags)
            if not target.nullable and column.null_count:
                kind = "primary key" if target.name in self._keys else "NOT NULL"
                reason = f"the {kind} column {target.name!r} is NULL"
                yield Misfit(target.name, reason, _null_flags(column))
            if _forbids_null(target.type):
                fitting = np.flatnonzero(~flags)
                values = cast(column.take(pa.array(fitting)))
                flags = np.zeros(len(column), np.bool_)
                flags[fitting] = failures(values, _holds_forbidden_null)
                if flags.any():
                    reason = (
                        f"the column {target.name!r} holds a NULL where its type {target.type} "
                        "allows none"
                    )
                    yield Misfit(target.name, reason, flags)

    def _rearranged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        positions = self._positions(batch.schema)
        columns = [
            self._missing_values(target, batch.num_rows)
            if position is None
            else self._cast_column(batch, position, target)
            for target, position in zip(self._schema, positions, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _missing_values(self, target: pa.Field, rows: int) -> pa.Array:
        default = self._defaults.get(target.name)
        return pa.nulls(rows, target.type) if default is None else pa.repeat(default, rows)

    def _positions(self, schema: pa.Schema) -> Sequence[int | None]:
        """Return the position of each column in ``schema``, None for one that is missing."""
        positions = positions_by_name(schema, self._accepted)
        for target, position in zip(self._schema, positions, strict=True):
            if position is None and target.name in self._keys:
                raise SchemaMismatchError(
                    f"the primary key column {target.name!r} is missing; found "
                    f"{', '.join(schema.names) or 'no columns'}"
                )
        return positions

    def _fail_null(self, index: int, batch: pa.RecordBatch) -> None:
        name = self._schema.field(index).name
        row = self._described(batch, pc.index(batch.column(index).is_null(), True).as_py())
        if name in self._keys:
            raise NullKeyError(
                f"the primary key column {name!r} is NULL in {row}: leave the row out, give it "
                "a key, or create the table with the property 'nullable_key' = 'true'"
            )
        raise NullValueError(f"the NOT NULL column {name!r} is NULL in {row}")

    def _fail_nested_null(self, index: int, batch: pa.RecordBatch) -> None:
        column = batch.column(index)
        row = _first_row(column, _holds_forbidden_null)
        raise NullValueError(
            f"the column {self._schema.field(index).name!r} holds a NULL in "
            f"{self._described(batch, row)} where its type allows none: {_shown(column[row])}"
        )

    def _cast_column(self, batch: pa.RecordBatch, position: int, target: pa.Field) -> pa.Array:
        column = batch.column(position)
        cast = _cast_of(batch.schema.field(position), target)
        try:
            return cast(column)
        except pa.ArrowInvalid as error:
            row = _first_row(column, lambda part: _fails(cast, part))
            raise ValueRangeError(
                f"the value {_shown(column[row])} in {self._described(batch, row)} does not fit "
                f"the column {target.name!r} of type {target.type}"
            ) from error

    def _described(self, batch: pa.RecordBatch, row: int) -> str:
        return described_row(batch, self._keys, row)


def _cast_of(source: pa.Field, target: pa.Field) -> Callable[[pa.Array], pa.Array]:
    try:
        return exact_cast(source.type, target.type)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"the column {target.name!r} is {target.type} in the table and {source.type} in the "
            f"data: {error}; cast it before writing"
        ) from None


def _null_flags(column: pa.Array) -> Flags:
    flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return flags


def _fails(cast: Callable[[pa.Array], pa.Array], part: pa.Array) -> bool:
    try:
        cast(part)
    except pa.ArrowInvalid:
        return True
    return False


def _first_row(column: pa.Array, fails: Callable[[pa.Array], bool]) -> int:
    """Return the first row that fails, by halving; a part fails if one of its rows does."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(column.slice(start, middle - start)):
            stop = middle
        else:
            start = middle
    return start


def described_row(batch: pa.RecordBatch, keys: Sequence[str], row: int) -> str:
    """Return how a message names a row: by its key, else by its values, and by its number.

    ``keys``: the names of the key columns, in any case.
    """
    key_names = {name.lower() for name in keys}
    shown = {
        name: f"{name} = {_shown(column[row])}"
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column[row].is_valid
    }
    key = [text for name, text in shown.items() if name.lower() in key_names]
    values = _cut(", ".join(key or shown.values()))
    return (
        f"the row with {values} (row {row} of the batch)" if values else f"row {row} of the batch"
    )


def describe_row(row: pa.RecordBatch) -> str:
    """Return the values of a batch of one row for a message: ``id = 1, name = 'a'``."""
    (values,) = row.to_pylist()
    return ", ".join(f"{name} = {value!r:.{_SHOWN}}" for name, value in values.items())


def _shown(value: pa.Scalar) -> str:
    return _cut(str(value) if value.is_valid else "NULL", _SHOWN)


def _cut(text: str, most: int = _SHOWN_ROW) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _forbids_null(arrow: pa.DataType) -> bool:
    """Return whether a part of a nested type must not be NULL."""
    if pa.types.is_map(arrow):
        return True
    if pa.types.is_struct(arrow):
        return any(not field.nullable or _forbids_null(field.type) for field in arrow)
    if pa.types.is_list(arrow):
        return not arrow.value_field.nullable or _forbids_null(arrow.value_type)
    return False


def _holds_forbidden_null(array: pa.Array) -> bool:
    """Return whether ``array`` holds a NULL inside where its type allows none."""
    arrow = array.type
    if not _forbids_null(arrow) or array.null_count == len(array):
        return False
    if pa.types.is_struct(arrow):
        # The child of a NULL struct counts as NULL here: only further NULLs are forbidden.
        return any(
            (not field.nullable and child.null_count > array.null_count)
            or _holds_forbidden_null(child)
            for field, child in zip(arrow, array.flatten(), strict=True)
        )
    if pa.types.is_map(arrow):
        present = array.drop_null()
        _, start, count = window_of(present)
        keys, items = present.keys.slice(start, count), present.items.slice(start, count)
        return _breaks(arrow.key_field, keys) or _breaks(arrow.item_field, items)
    return _breaks(arrow.value_field, array.flatten())


def _breaks(field: pa.Field, values: pa.Array) -> bool:
    return bool(not field.nullable and values.null_count) or _holds_forbidden_null(values)
