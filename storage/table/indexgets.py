"""The quick lookups through the indexes of a table.

Promises: each is made when it is first asked for.
Does not know: how an index is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .columnnames import visible_names
from .encoding import Encoding
from .pointget import row_finder
from .prefixget import PrefixGet
from .record import Row
from .secondary import TableIndexes
from .tablefiles import TableFiles

_MOST_GETS = 64


class IndexGets:
    """The lookups of rows, or of some of their columns, through indexes. Safe between threads.

    ``whole``: those of whole rows that `rows` has made, by the names of indexes as they were given.
    """

    def __init__(self, encoding: Encoding, files: TableFiles, indexes: TableIndexes) -> None:
        """``encoding``, ``files``: of the table; ``indexes``: its own."""
        self._encoding, self._files, self._indexes = encoding, files, indexes
        self.whole: dict[str, PrefixGet] = {}
        self._gets: dict[tuple[str, tuple[str, ...] | None], PrefixGet] = {}

    def rows(
        self, index: str, values: Sequence[Any], columns: Sequence[str] | None
    ) -> list[Row] | None:
        """Return the rows with these values in the columns of an index, in its order.

        None if the general way is to be taken. IndexNotFoundError, SchemaMismatchError for an
        unknown column.
        """
        if isinstance(columns, str):
            # Its letters would be taken for names: this is the error that says so.
            visible_names(self._encoding, columns)
        names = None if columns is None else tuple(columns)
        get = self._gets.get((index, names))
        if get is None:
            get = self._new_get(index, columns)
            if len(self._gets) >= _MOST_GETS:
                self._gets.clear()
                self.whole.clear()
            self._gets[index, names] = get
            if columns is None:
                self.whole[index] = get
        return get(values)

    def _new_get(self, index: str, columns: Sequence[str] | None) -> PrefixGet:
        names = None if columns is None else visible_names(self._encoding, columns)
        find = row_finder(self._encoding, self._files, names)
        get = self._indexes.named(index).prefix_get(names, find)
        return get or _leave


def _leave(_: Sequence[Any]) -> None:
    """Leave a lookup to the general way."""
