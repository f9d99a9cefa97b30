"""What a connector of Debezium sends for a value that it does not have.

PostgreSQL does not log a large value that is stored apart (TOAST) if an update does not change it.
The event has a placeholder instead, in a form that depends on the type of the column.

Does not know: events, or what is done about such a value.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from binascii import hexlify
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as s

from relstate.storage import errors

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default of the connector's property unavailable.value.placeholder."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The placeholder of a connector, in the forms that it may have."""

    octets: bytes

    @classmethod
    def of(cls, setting: str) -> Placeholder:
        """Return the placeholder of a connector's property. OptionError if it is not one."""
        if setting.startswith("hex:"):
            try:
                octets = bytes.fromhex(setting.removeprefix("hex:"))
            except ValueError:
                octets = b""
        else:
            octets = setting.encode(errors="replace")
        if not octets:
            raise errors.OptionError(
                f"unavailable_value is {setting!r}; it is the connector's property "
                "unavailable.value.placeholder: text, or bytes in hexadecimal digits after 'hex:'"
            )
        return cls(octets)

    @property
    def text(self) -> str:
        """The placeholder in a column of text."""
        return self.octets.decode(errors="replace")

    @property
    def texts(self) -> tuple[str, ...]:
        """The placeholder as text, and as bytes in each way of writing bytes as text."""
        encodings = (b64encode, urlsafe_b64encode, hexlify)
        return (self.text, *(encode(self.octets).decode() for encode in encodings))

    @property
    def uuid(self) -> str:
        """The placeholder in an array of UUIDs: Java's ``UUID.nameUUIDFromBytes``."""
        digest = bytearray(md5(self.octets, usedforsecurity=False).digest())
        digest[6] = digest[6] & 0x0F | 0x30
        digest[8] = digest[8] & 0x3F | 0x80
        digits = digest.hex()
        ends = pairwise((0, 8, 12, 16, 20, 32))
        return "-".join(digits[start:end] for start, end in ends)

    def is_in(self, value: Column, data_type: s.DataType) -> Column | None:
        """Return whether a value of a type is the placeholder; None if none of the type can be."""
        if isinstance(data_type, s.StringType):
            return value.isin(*self.texts)
        if isinstance(data_type, s.BinaryType):
            return value == f.lit(self.octets)
        if isinstance(data_type, s.ArrayType) and isinstance(data_type.elementType, s.IntegralType):
            codes = [f.lit(code) for code in self.octets]
            return value.cast("array<bigint>") == f.array(*codes).cast("array<bigint>")
        if isinstance(data_type, s.ArrayType | s.MapType | s.StructType | s.VariantType):
            text = f.to_json(f.struct(value.alias("value")))
            quoted_text = json.dumps(self.text, ensure_ascii=False)
            return text.contains(quoted_text) | text.contains(f'"{self.uuid}"')
        return None
