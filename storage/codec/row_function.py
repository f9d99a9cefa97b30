"""The function from the bytes of a row to its values, made of source for its columns.

Promises: the values are those of `PointBody.decode`; bytes that are not such a row raise what that
raises, or struct.error.
Does not know: headers, what a key is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .compiled import compiled_function
from .point_value import FixedPoint, PointValue, TextPoint, VariablePoint

Place: TypeAlias = tuple[bool, int]
"""Whether a value is in the key, and its index there, or else among the fields of the row."""
RowFunction: TypeAlias = Callable[[Sequence[Any], bytes], Any]
"""Takes the values of a key and the bytes of a row; returns the row."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """What rows a function is for: their fields, and the bytes before these.

    ``header``: those bytes, the same for all rows; ``bitmap_width``: that of the null bitmap.
    """

    codecs: Sequence[PointValue]
    bitmap_width: int
    header: bytes


def row_function(
    form: RowForm, places: Sequence[Place], row_class: type[Any], otherwise: RowFunction
) -> RowFunction:
    """Return the function that makes a ``row_class``, which is a tuple, of the values at places.

    ``otherwise`` is called for rows that have a NULL. The bytes of other fields are not looked at.
    """
    source = _Source(form, [index for in_key, index in places if not in_key])
    values = [f"key[{index}]" if in_key else source.value(index) for in_key, index in places]
    lines = [
        "def make_row(key, data):",
        *source.header_check(),
        f"    {', '.join(['nulls', *source.slots])}, = unpack(data, {len(form.header)})",
        "    if nulls != no_nulls:",
        "        return otherwise(key, data)",
        *source.length_checks(),
        f"    return new(row_class, ({', '.join(values)},))",
    ]
    namespace: dict[str, Any] = {
        "unpack": struct.Struct(source.layout).unpack_from,
        "no_nulls": bytes(form.bitmap_width),
        "header": form.header,
        # Half the time of a call of the class.
        "new": tuple.__new__,
        "row_class": row_class,
        "otherwise": otherwise,
    }
    namespace |= {f"decode{index}": codec.decode for index, codec in enumerate(form.codecs)}
    function: RowFunction = compiled_function("make_row", lines, namespace)
    return function


class _Source:
    """The expressions of some fields. ``layout``: of the slots that they need, for ``struct``."""

    def __init__(self, form: RowForm, needed: Sequence[int]) -> None:
        variable = [
            index for index, codec in enumerate(form.codecs) if isinstance(codec, VariablePoint)
        ]
        self._codecs, self._header = form.codecs, form.header
        self._needed = set(needed)
        self._before = dict(zip(variable, [None, *variable], strict=False))
        # It ends where the row does, and has no slot.
        self._last = variable[-1] if variable else None
        ends = {self._before.get(index) for index in self._needed}
        used = (self._needed | ends) - {None, self._last}
        formats = [
            codec.format if isinstance(codec, FixedPoint) else "0s" if index == self._last else "I"
            for index, codec in enumerate(form.codecs)
        ]
        self.slots = [f"slot{index}" for index in range(len(formats)) if index in used]
        self.layout = f"<{form.bitmap_width}s" + "".join(
            slot if index in used else f"{struct.calcsize(f'<{slot}')}x"
            for index, slot in enumerate(formats)
        )
        self._base = len(form.header) + struct.calcsize(self.layout)

    def value(self, index: int) -> str:
        """Return the value of a field."""
        codec = self._codecs[index]
        if isinstance(codec, FixedPoint):
            return f"slot{index}" if codec.decode is None else f"decode{index}(slot{index})"
        start, stop = self._start(index), self._stop(index)
        if isinstance(codec, TextPoint):
            # Another call would take longer than that.
            return f"data[{start}:{stop}].decode()"
        return f"decode{index}(data, {start}, {stop or 'len(data)'})"

    def _start(self, index: int) -> str:
        before = self._before[index]
        return f"{self._base}" if before is None else f"{self._base} + slot{before}"

    def _stop(self, index: int) -> str:
        return "" if index == self._last else f"{self._base} + slot{index}"

    def header_check(self) -> list[str]:
        """Return the lines that refuse rows with another header."""
        if not self._header:
            return []
        return [
            "    if not data.startswith(header):",
            "        raise ValueError('the row is encoded under another schema')",
        ]

    def length_checks(self) -> list[str]:
        """Return the lines that refuse fields which do not end where their bytes do."""
        if self._last is None:
            conditions = [f"len(data) == {self._base}"]
        else:
            conditions = [
                " <= ".join([*self._ends(index), f"len(data) - {self._base}"])
                for index in sorted(self._needed & self._before.keys())
                if self._ends(index)
            ]
        if not conditions:
            return []
        return [
            f"    if not ({' and '.join(conditions)}):",
            "        raise ValueError('a field of a row does not end where its bytes do')",
        ]

    def _ends(self, index: int) -> list[str]:
        """Return where the variable field before one ends, and where that one ends."""
        ends = (self._before[index], None if index == self._last else index)
        return [f"slot{end}" for end in ends if end is not None]
