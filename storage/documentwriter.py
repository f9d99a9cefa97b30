"""Changes of parts of single rows of a document table, which become one epoch.

Promises: nothing is read, whatever the size of the rows; all changes become visible at once or none
does.
Does not know: Spark, or how a part becomes an entry. Many rows at once are a patch: see writing.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from .epochs import Epochs
from .errors import SchemaMismatchError, TableNotFoundError
from .log.proposal import Proposal
from .table.document.change import Action
from .table.document.edits import Edits, Path
from .table.encoding import document_encoding, encoding_of
from .table.tablewriter import check_ttl
from .table.writetarget import WriteTarget
from .writing import write_target


class DocumentWriter:
    """Collects changes of rows of one document table, in memory. For one thread.

    A context manager: the changes are committed at the end of the block, or forgotten if it ends
    with an error. A row is named by its primary key: a value, or a tuple of several. A path is the
    name of a column, or a tuple of it and the steps below: names of fields and keys of maps. Of
    two changes of one part the later counts. A missing row is created; a row is removed with the
    last of its columns. ``ttl``: after how many seconds what is written expires, None for what the
    table says. The table and its TTL are those at the commit, however long the writer lives.

    Methods raise SchemaMismatchError for a path that the columns' types do not have, or a value of
    another type, ValueRangeError for a value or a TTL that does not fit, NullKeyError,
    NullValueError; nothing of such a change is kept.
    """

    def __init__(self, epochs: Epochs, name: str) -> None:
        """OptionError for a table of rows; errors as of `write_target`."""
        self._epochs = epochs
        self._name = name
        self._begin()

    def _begin(self) -> None:
        """Collect nothing yet, for the table as it is now."""
        self._target = write_target(self._epochs, self._name)
        encoding = encoding_of(self._target.definition, self._target.vnode_count)
        self._encoding = document_encoding(encoding)
        self._edits = Edits(self._encoding)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()

    def patch(self, key: Any, values: Mapping[str, Any], *, ttl: int | None = None) -> None:
        """Merge values into columns, as a JSON merge patch (RFC 7396) does.

        None removes, dicts are merged into structs and maps, all else is replaced.
        """
        self._check_ttl(ttl)
        _check_mapping(values)
        self._current_edits().patch(self._key(key), values, ttl)

    def set(self, key: Any, values: Mapping[Path, Any], *, ttl: int | None = None) -> None:
        """Replace what is at some paths; None is a value only as the value of a map's entry."""
        self._check_ttl(ttl)
        _check_mapping(values)
        self._current_edits().set(self._key(key), values, ttl)

    def remove(self, key: Any, *paths: Path) -> None:
        """Remove what is at some paths: columns, fields, entries of maps, elements of sets."""
        self._current_edits().remove(self._key(key), paths)

    def add(self, key: Any, path: Path, items: Any, *, ttl: int | None = None) -> None:
        """Add entries to a map, elements to a set, or elements to the end of an array.

        An entry replaces the one that the map has under its key. Elements come after all that were
        added by commits that are there when this one is made.
        """
        self._check_ttl(ttl)
        self._current_edits().add(self._key(key), path, items, ttl, Action.ADD)

    def prepend(self, key: Any, path: Path, items: Any, *, ttl: int | None = None) -> None:
        """Add elements, in their order, to the beginning of an array."""
        self._check_ttl(ttl)
        self._current_edits().add(self._key(key), path, items, ttl, Action.PREPEND)

    def commit(self) -> int | None:
        """Commit the changes that were collected, and return their epoch; None if there are none.

        The writer is empty then, and can be used again. TableNotFoundError if the table was dropped
        since, SchemaMismatchError if a changed column was; the errors of `transaction.commit`.
        """
        if not len(self._edits):
            return None
        row_keys, changes, ttls = self._edits.columns()
        expires = ttls.null_count < len(ttls)
        started = self._epochs.environment.now()
        with self._target_now().open(self._epochs.environment) as writer:
            writer.change(row_keys, changes, ttls if expires else None)
            segments = writer.finish_unsynced()
        proposal = Proposal(
            operation="patch", started=started, segments=segments, syncs_segments=True
        )
        epoch = self._epochs.commit(proposal).epoch
        self._edits = Edits(self._encoding)
        return epoch

    def _current_edits(self) -> Edits:
        """Return the changes collected so far; without any, for the table as it is now."""
        if not len(self._edits):
            self._begin()
        return self._edits

    def _target_now(self) -> WriteTarget:
        """Return the table as it is now, if the changes that were collected fit it."""
        target = write_target(self._epochs, self._name)
        if target.definition.table_id != self._target.definition.table_id:
            raise TableNotFoundError(
                f"the table {self._name!r} was dropped and created again; nothing was committed: "
                "make the changes again, with a new writer"
            )
        self._edits.check_columns(target.definition.schema)
        return target

    def _key(self, key: Any) -> Sequence[Any]:
        """Return the values of a primary key."""
        is_whole = len(self._encoding.key_names) > 1 and isinstance(key, tuple | list)
        return key if is_whole else (key,)

    def _check_ttl(self, ttl: int | None) -> None:
        """Raise what is wrong with a TTL, before anything is kept of the change."""
        if ttl is not None:
            check_ttl(self._target.definition, ttl)
            write_target(self._epochs, self._name, expiring=True)


def _check_mapping(values: object) -> None:
    if not isinstance(values, Mapping):
        raise SchemaMismatchError(
            f"changes are a dict from columns or paths to values, not {values!r:.100}"
        )
