"""The expected content of a store: one dict of rows per table and epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .shapes import Key, Row, Shape

Table = dict[Key, Row]


@dataclass
class Model:
    """A store in memory. Every change is one epoch, kept until `expire`."""

    epoch: int = 1
    tables: dict[str, Table] = field(default_factory=dict)
    past: dict[int, dict[str, Table]] = field(default_factory=lambda: {1: {}})

    def create(self, name: str) -> None:
        """Create an empty table."""
        self.tables[name] = {}
        self._commit()

    def drop(self, name: str) -> None:
        """Drop a table."""
        del self.tables[name]
        self._commit()

    def replace(self, name: str, rows: Iterable[tuple[Key, Row | None]]) -> None:
        """Empty a table and apply some changes."""
        self.tables[name] = {}
        self.apply(name, rows)

    def apply(self, name: str, changes: Iterable[tuple[Key, Row | None]]) -> None:
        """Apply changes in their order: rows, or None for deletes."""
        self.tables[name] = changed(self.tables[name], changes)
        self._commit()

    def pass_epochs(self, epoch: int) -> None:
        """Add epochs without changes, up to ``epoch``."""
        while self.epoch < epoch:
            self._commit()

    def expire(self, oldest: int) -> None:
        """Forget the epochs before ``oldest``."""
        self.past = {epoch: tables for epoch, tables in self.past.items() if epoch >= oldest}

    def _commit(self) -> None:
        self.epoch += 1
        self.past[self.epoch] = {name: dict(table) for name, table in self.tables.items()}


def changed(table: Mapping[Key, Row], changes: Iterable[tuple[Key, Row | None]]) -> Table:
    """Return a table after changes."""
    versions: dict[Key, Row | None] = {**table}
    versions.update(changes)
    return {key: row for key, row in versions.items() if row is not None}


def in_order(
    shape: Shape, table: Mapping[Key, Row], chosen: Callable[[Key], bool] = lambda _: True
) -> list[Row]:
    """Return the rows whose keys are chosen, in the order of the primary key."""
    keys = sorted(filter(chosen, table), key=shape.order_of)
    return [table[key] for key in keys]


def is_between(
    shape: Shape, start: Sequence[object], stop: Sequence[object]
) -> Callable[..., bool]:
    """Return a test whether a key is in ``[start, stop)``: first values of a key, or empty."""

    def check(key: Key) -> bool:
        order = shape.order_of(key)
        low, high = shape.order_of(start), shape.order_of(stop)
        return order[: len(low)] >= low and (not high or order[: len(high)] < high)

    return check
