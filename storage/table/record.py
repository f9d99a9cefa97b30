"""One row, as a point lookup returns it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar


class Row(tuple[Any, ...]):
    """The values of a row in the order of the table's columns: a tuple that knows their names.

    ``row[0]``, ``row["amount"]`` and ``row.amount`` are the same value; it equals the plain tuple.
    """

    __slots__ = ()
    columns: ClassVar[tuple[str, ...]] = ()

    def __getitem__(self, key: Any) -> Any:
        """Return a value by position or by column name. KeyError if there is no such column."""
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self.columns.index(key))
            except ValueError:
                raise KeyError(f"{key}; the row has {', '.join(self.columns)}") from None
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{name}; the row has {', '.join(self.columns)}") from None

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dict from column name to value."""
        return dict(zip(self.columns, self, strict=True))

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - as Spark's Row has it
        """Return what `as_dict` does."""
        return self.as_dict()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"Row({values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (self.columns, tuple(self))


def row_type(columns: Sequence[str]) -> type[Row]:
    """Return the class of the rows of a table with these columns."""
    # Without these an attribute costs ten times as much. Names of methods stay methods.
    attributes = {
        name: getter
        for name, getter in zip(columns, _getters(len(columns)), strict=True)
        if not hasattr(Row, name) and not name.startswith("__")
    }
    return type("Row", (Row,), {**attributes, "__slots__": (), "columns": tuple(columns)})


@lru_cache(maxsize=64)
def _getters(count: int) -> Sequence[Any]:
    """Return the descriptors of the values of a tuple, which `namedtuple` has for any tuple."""
    fields = [f"value{index}" for index in range(count)]
    # Referred to until its attributes are read: a collected class has none.
    values_class = _named_tuple(fields)
    return [vars(values_class)[field] for field in fields]


def _named_tuple(fields: Sequence[str]) -> type[Any]:
    return namedtuple("Values", fields)


def _row(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_type(columns)(values)
