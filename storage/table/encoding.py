"""How the rows of a table become entries of segments, and back: what reads and writes ask for.

Promises: `encoding_of` is the only place that chooses an encoding, so a table may get another one.
Does not know: files, epochs, or which of several versions of a row is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Buffer, Bytes, Positions
from ..codec.row_function import RowFunction
from ..errors import OptionError
from ..log.segment_record import TableStatistics
from ..log.table_definition import TableDefinition
from ..schema.schema import Column, KeyRange, TableSchema
from ..segment.block import Block
from ..segment.key import KeyPrefix, Kind
from .expiry_columns import ExpiryColumn
from .fullkey import KeyEncoder, KeyLocator, KeyReader
from .record import Row
from .resolve import Fold, Keep, Resolver
from .rowencoding import RowEncoding
from .scan import Bounds

if TYPE_CHECKING:
    from .document.documentencoding import DocumentEncoding


class Encoding(Protocol):
    """The codec of one table at one schema version. Immutable; safe between threads."""

    @property
    def definition(self) -> TableDefinition:
        """The table."""

    @property
    def table_id(self) -> int:
        """The table's id."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def schema(self) -> TableSchema:
        """The table's present schema."""

    @property
    def vnode_count(self) -> int:
        """The number of vnodes of the store."""

    @property
    def key_names(self) -> Sequence[str]:
        """The names of the primary key's columns, in its order."""

    @property
    def upsert(self) -> Kind:
        """The kind of an entry that upserts a row."""

    @property
    def fold(self) -> Fold | None:
        """What makes one version of several; None where the newest version is the row."""

    @property
    def has_parts(self) -> bool:
        """Whether parts of rows may be entries of their own, under keys that continue the rows'."""

    # Several entries of one row

    def may_divide(self, statistics: TableStatistics) -> bool:
        """Return whether a file may hold anything but whole rows and deletes of rows."""

    def resolver(
        self, keep: Keep, time: Callable[[], int], columns: Collection[Column] | None = None
    ) -> Resolver:
        """Return what makes one entry of those of a row, of which ``keep`` says if it is kept.

        ``time`` is called if a part expires: what has expired by then is not there. ``columns``:
        those that are read, None for all; where a row has parts its others may become NULL.
        """

    def remains_resolver(self, keep: Keep, is_bottom: bool, time: int) -> Resolver:
        """Return what makes of the entries of a row those that remain when files are merged.

        ``keep`` is for rows of one entry. ``is_bottom``: no older file remains. ``time``: what had
        expired by then may go.
        """

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return one entry for each row of some blocks, the newest block first, in key order.

        Nothing counts as expired; a row of which anything expires has an expiry.
        """

    def row_keys(self, block: Block) -> Bytes:
        """Return the full key of the row of every entry."""

    # Batches of rows

    def encode(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        expiries: Positions | None = None,
    ) -> tuple[Bytes, Bytes]:
        """Return (full keys, values) of the rows of a batch: see `RowEncoding.encode`."""

    def encode_keys(self, batch: pa.RecordBatch) -> Bytes:
        """Return the full key of every row of a batch that has the table's key columns."""

    def encode_prefixes(self, batch: pa.RecordBatch) -> Bytes:
        """Return the prefixes of full keys for a batch of the first key columns' values."""

    def encode_ranges(
        self, lows: pa.Array, highs: pa.Array, vnodes: NDArray[np.int64]
    ) -> tuple[Bytes, Bytes]:
        """Return the bounds of full keys for bounds of the first key column, vnode by vnode."""

    def vnodes(self, batch: pa.RecordBatch) -> NDArray[np.uint16]:
        """Return the vnode of every row of a batch with the table's distribution columns."""

    def reencode_values(self, block: Block) -> Bytes:
        """Return the values of the rows of a block, encoded under the present schema."""

    def canonical_values(self, block: Block) -> Bytes:
        """Return the values of entries, read and encoded again under their schemas.

        One that differs from the block's is damaged. ValueError, IndexError or a RelstateError if
        the bytes are not such entries.
        """

    def decode(self, block: Block, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return some columns of the rows of a block as a batch, in its order."""

    def conform_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the primary key's columns of a batch, in the key's order and exact types."""

    def primary_keys(self, batch: pa.RecordBatch) -> Bytes:
        """Return the primary keys of a batch that has its columns, as bytes that compare alike."""

    def finder(self, path: Sequence[Any]) -> Callable[[Block], bool]:
        """Return the function that says of a block of one row whether something is at a path."""

    # Ranges of keys

    @property
    def prefix(self) -> KeyPrefix:
        """What precedes the primary key in full keys."""

    def primary_keys_in(self, block: Block) -> Bytes:
        """Return the primary keys of the rows of a block; ValueError if a key is too short."""

    def key_hashes(
        self, buffer: Buffer, starts: Positions, lengths: Positions
    ) -> NDArray[np.uint64]:
        """Return the hash of the distribution key of every row, of whose full key it says where.

        The vnode follows from it. No key is long. ValueError or IndexError if the bytes are not
        such keys.
        """

    def vnode_bounds(self, vnodes: range) -> Bounds:
        """Return the bounds of the full keys of a range of vnodes."""

    def vnode_of_range(self, keys: KeyRange) -> int | None:
        """Return the vnode of all rows of a range; None if they may have several."""

    def key_bounds(self, keys: KeyRange) -> Bounds:
        """Return the bounds of the primary keys of a range."""

    # Single rows

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """Return the full key of the row whose primary key has these values."""

    def stored_key(self, values: Sequence[Any]) -> tuple[Sequence[Any], bytes]:
        """Return a primary key's values as reads return them, and its full key.

        See `KeyEncoding.stored_key`.
        """

    @property
    def key_encoder(self) -> KeyEncoder | None:
        """The quickest function from a primary key's values to (vnode, full key, hash); None: none.

        It raises `fullkey.MISFITS` for values of which `encode_key` must decide what they are.
        """

    def prefix_encoder(self, count: int) -> KeyEncoder | None:
        """Return the quickest function from ``count`` key values to (vnode, prefix, hash).

        They are the first ones, the prefix is that of `encode_key_prefix`. None: none; errors as of
        `key_encoder`.
        """

    @property
    def key_locator(self) -> KeyLocator | None:
        """The quickest function from a primary key's bytes to (values, vnode, full key, hash).

        None: none. It raises `fullkey.MISFITS` or IndexError for keys that `locate` must read.
        """

    @property
    def key_reader(self) -> KeyReader | None:
        """The quickest function from a primary key's bytes to its values, or None.

        Errors as of `key_locator`.
        """

    @property
    def plain_rows(self) -> tuple[range, RowFunction]:
        """(heads, decode): of values under the present schema that neither expire nor delete.

        ``heads``: their first bytes; ``decode`` takes a primary key's values and a value with such
        a byte, and returns the row. ValueError, IndexError, struct.error or OverflowError if the
        bytes are not such a row, or are one under another schema.
        """

    def plain_rows_of(self, columns: Sequence[str]) -> tuple[range, RowFunction]:
        """Return what `plain_rows` is, of rows of these columns only; the others stay bytes."""

    def encode_key_prefix(self, values: Sequence[Any]) -> bytes:
        """Return the bytes with which full keys begin: see `RowEncoding.encode_key_prefix`."""

    def locate(self, primary_key: bytes) -> tuple[list[Any], bytes]:
        """Return (values, full key) of a primary key given as its bytes."""

    def decode_key(self, full_key: bytes) -> list[Any]:
        """Return the primary key's values of a full key."""

    def encode_row(self, values: Sequence[Any]) -> bytes:
        """Return the value (a put) of a row with these values, in the order of the columns."""

    def encode_delete(self) -> bytes:
        """Return the value that deletes a row."""

    def decode_entries(
        self,
        key: Sequence[Any],
        files: Sequence[Sequence[tuple[bytes, bytes]]],
        time: Callable[[], int],
    ) -> Row | None:
        """Return the row with a primary key; None if there is none.

        ``files``: its entries, (full key, value) in key order, in each file that has any, the
        newest first. ManyPartsError if they have to be resolved with `resolver`; ValueError,
        IndexError or struct.error if the bytes are not such entries.
        """

    def decode_row(self, key: Sequence[Any], value: bytes) -> Row | None:
        """Return the row with a primary key and a stored value; None if the value is a delete."""

    def key_of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the primary key's values of a row, in the key's order."""

    def describe(self, full_key: bytes) -> str:
        """Return the table and the primary key of a full key, for an error's message."""


@lru_cache(maxsize=256)  # preparing one takes longer than many a read
def encoding_of(
    definition: TableDefinition, vnode_count: int, expiry_columns: tuple[ExpiryColumn, ...] = ()
) -> Encoding:
    """Return the encoding of a table, the same object for equal definitions.

    ``expiry_columns``: those of the definition that are not stored, but computed by reads.

    UnsupportedTypeError if a column's type cannot be stored, SchemaError if the encoding does not
    have such columns.
    """
    if definition.properties.may_have_parts:
        from .document.documentencoding import DocumentEncoding

        return DocumentEncoding(definition, vnode_count, expiry_columns)
    return RowEncoding(definition, vnode_count, expiry_columns)


def document_encoding(encoding: Encoding) -> DocumentEncoding:
    """Return the encoding of a document table as what encodes changes of parts.

    OptionError for a table of rows, whose parts are not written alone.
    """
    from .document.documentencoding import DocumentEncoding

    is_row = encoding.definition.properties.encoding == "row"
    if is_row or not isinstance(encoding, DocumentEncoding):
        raise OptionError(
            f"table {encoding.name}: its rows are written whole; create it with encoding = "
            "'document' to change parts of them"
        )
    return encoding
