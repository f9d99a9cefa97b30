"""Which field of a value's struct is stored in which field of a type, and the SQL that moves them.

By name or by position, as the statement has it; names match in any case. The same holds for structs
in arrays, in maps and in other structs.

Promises: the SQL changes neither types nor values; where nothing moves it is the value itself.
Does not know: how values are cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as s

from relstate.connector.syntax.parameters import literal
from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors


@dataclass(frozen=True, slots=True)
class StructFields:
    """How the fields of structs are stored.

    ``by_name``: their names decide, else their positions. ``renames``: the SQL gives the names of
    the type to fields that keep their position, too; a cast of Spark does that by itself.
    ``description``: where the value is stored, for messages.
    """

    description: str
    by_name: bool
    renames: bool

    def type_of(self, value: s.DataType, stored: s.DataType) -> s.DataType:
        """Return a value's type with its fields as the stored type has them.

        What does not correspond stays as it is. SchemaMismatchError if a field has no counterpart.
        """
        match value, stored:
            case s.StructType(), s.StructType():
                positions = self._positions(value, stored)
                if len(positions) != len(stored):
                    return value
                return s.StructType(
                    [
                        s.StructField(
                            field.name,
                            self.type_of(value[position].dataType, field.dataType),
                            value[position].nullable,
                        )
                        for field, position in zip(stored, positions, strict=True)
                    ]
                )
            case s.ArrayType(), s.ArrayType():
                element = self.type_of(value.elementType, stored.elementType)
                return s.ArrayType(element, value.containsNull)
            case s.MapType(), s.MapType():
                key = self.type_of(value.keyType, stored.keyType)
                item = self.type_of(value.valueType, stored.valueType)
                return s.MapType(key, item, value.valueContainsNull)
        return value

    def text_of(self, text: str, value: s.DataType, stored: s.DataType, depth: int = 0) -> str:
        """Return the SQL of a value, given by an SQL that may be repeated, with its fields moved.

        ``depth``: the number of arrays and maps around the value. Errors as of `type_of`.
        """
        match value, stored:
            case s.StructType(), s.StructType():
                return self._struct_text(text, value, stored, depth)
            case s.ArrayType(), s.ArrayType():
                return self._mapped(text, value.elementType, stored.elementType, depth)
            case s.MapType(), s.MapType():
                keys, items = f"map_keys({text})", f"map_values({text})"
                moved_keys = self._mapped(keys, value.keyType, stored.keyType, depth)
                moved_items = self._mapped(items, value.valueType, stored.valueType, depth)
                if (moved_keys, moved_items) == (keys, items):
                    return text
                return f"map_from_arrays({moved_keys}, {moved_items})"
        return text

    def _struct_text(self, text: str, value: s.StructType, stored: s.StructType, depth: int) -> str:
        positions = self._positions(value, stored)
        if len(positions) != len(stored):
            return text
        parts = [f"{text}.{quoted(value[position].name)}" for position in positions]
        moved = [
            self.text_of(part, value[position].dataType, field.dataType, depth)
            for part, position, field in zip(parts, positions, stored, strict=True)
        ]
        are_named = not self.renames or value.names == stored.names
        if moved == parts and positions == list(range(len(value))) and are_named:
            return text
        items = ", ".join(
            f"{literal(name)}, {part}" for name, part in zip(stored.names, moved, strict=True)
        )
        return f"CASE WHEN {text} IS NOT NULL THEN named_struct({items}) END"

    def _mapped(self, text: str, value: s.DataType, stored: s.DataType, depth: int) -> str:
        """Return the SQL of an array whose elements have their fields moved."""
        item = f"__relstate_item_{depth}"
        moved = self.text_of(item, value, stored, depth + 1)
        return text if moved == item else f"transform({text}, {item} -> {moved})"

    def _positions(self, value: s.StructType, stored: s.StructType) -> Sequence[int]:
        """Return the positions in a value of the fields of the stored type, in its order."""
        if not self.by_name:
            return list(range(len(value)))
        names = [name.lower() for name in value.names]
        fields = [name.lower() for name in stored.names]
        missing = [name for name in stored.names if name.lower() not in names]
        unknown = [name for name in value.names if name.lower() not in fields]
        repeated = [name for name in value.names if names.count(name.lower()) > 1]
        problems = [
            f"{word} {', '.join(map(repr, names_of_kind))}"
            for word, names_of_kind in (
                ("it lacks", missing),
                ("the type does not have", unknown),
                ("it repeats", repeated),
            )
            if names_of_kind
        ]
        if problems:
            shape = ", ".join(f"'{name}', …" for name in stored.names)
            raise errors.SchemaMismatchError(
                f"{self.description}: fields of a struct are found by their names, and in a value "
                f"of type {value.simpleString()} {' and '.join(problems)}; write "
                f"named_struct({shape})"
            )
        return [names.index(field) for field in fields]
