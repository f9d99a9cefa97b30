"""Views in the catalog: what each one reads and stores, and its progress.

Promises: values; `from_json(to_json())` gives an equal one.
Does not know: SQL, or the content of a plan, which is a JSON value here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relstate.vnode import VnodeMapping

from ..notebook import html_table


@dataclass(frozen=True, slots=True)
class ViewInput:
    """A table (possibly another view's) that a view reads, and the ids of the columns it reads.

    ``follows_expiry``: rows of the table that expire leave the view. ``by_parts``: so do parts of
    its rows, whose times the view takes from the table.
    """

    table_id: int
    column_ids: tuple[int, ...]
    follows_expiry: bool = False
    by_parts: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the input as JSON values. On disk: never change a name."""
        flags = {"follows_expiry": self.follows_expiry, "by_parts": self.by_parts}
        return {name: flag for name, flag in flags.items() if flag} | {
            "table_id": self.table_id,
            "columns": list(self.column_ids),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ViewInput:
        """Return the input that `to_json` described."""
        flags = value.get("follows_expiry", False), value.get("by_parts", False)
        return cls(value["table_id"], tuple(value["columns"]), *flags)


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view; its id is the id of the table with its rows.

    ``inputs``: every table it reads, once. ``internal``: the ids of its state tables, in the order
    of its plan. ``mapping``: which parallel unit owns which vnode. ``settings``: the settings of
    the session that created it which its result depends on. ``plan``: a JSON value.
    ``replaces``: the id of the view whose place it takes once it is populated; until then users do
    not see it. ``planned_epoch``: the epoch at which the query was planned, None if that is the
    one that created its table. ``quarantine``: the id of the table that lists the rows of inputs
    that are left out because the view cannot be computed for them; None if such a row fails it.
    """

    view_id: int
    query: str
    inputs: tuple[ViewInput, ...]
    internal: tuple[int, ...]
    mapping: VnodeMapping
    settings: Mapping[str, str]
    plan: Any
    replaces: int | None = None
    planned_epoch: int | None = None
    quarantine: int | None = None

    @property
    def table_ids(self) -> tuple[int, ...]:
        """The ids of the view's tables: of its rows, then of its state, then its quarantine."""
        quarantine = () if self.quarantine is None else (self.quarantine,)
        return (self.view_id, *self.internal, *quarantine)

    def reads(self, table_id: int) -> bool:
        """Return whether a table is among the inputs."""
        return any(table.table_id == table_id for table in self.inputs)

    def follows_expiry(self, table_id: int) -> bool:
        """Return whether rows of a table that it reads leave it when they expire."""
        return any(table.table_id == table_id and table.follows_expiry for table in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON values. On disk: never change a name."""
        # Only there for views that replace or have replaced another one, or have a quarantine.
        numbers = {
            "replaces": self.replaces,
            "planned_epoch": self.planned_epoch,
            "quarantine": self.quarantine,
        }
        return {name: number for name, number in numbers.items() if number is not None} | {
            "view_id": self.view_id,
            "query": self.query,
            "inputs": [table.to_json() for table in self.inputs],
            "internal": list(self.internal),
            "mapping": self.mapping.to_json(),
            "settings": dict(self.settings),
            "plan": self.plan,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ViewDefinition:
        """Return the definition that `to_json` described."""
        return cls(
            value["view_id"],
            value["query"],
            tuple(map(ViewInput.from_json, value["inputs"])),
            tuple(value["internal"]),
            VnodeMapping.from_json(value["mapping"]),
            dict(value["settings"]),
            value["plan"],
            value.get("replaces"),
            value.get("planned_epoch"),
            value.get("quarantine"),
        )


@dataclass(frozen=True, slots=True)
class MomentRange:
    """The moments that pass a temporal filter at one time: ``low <= moment < high``.

    Moments are whole numbers. A bound of None is no bound. ``kept_from``: rows with earlier moments
    are not in the state of the filter, because time cannot change any more whether they pass.
    """

    low: int | None
    high: int | None
    kept_from: int

    def to_json(self) -> list[int | None]:
        """Return the range as JSON values. On disk: never change the order."""
        return [self.low, self.high, self.kept_from]

    @classmethod
    def from_json(cls, value: Any) -> MomentRange:
        """Return the range that `to_json` described."""
        low, high, kept_from = value
        return cls(low, high, kept_from)


@dataclass(frozen=True, slots=True)
class ViewClock:
    """The time that a view reflects whose query compares rows with the present time.

    Times are in microseconds since 1970. ``time``: what the present time was in its last refresh.
    ``due``: the time before which it does not change unless its inputs do; None if time alone never
    changes it. ``ranges``: for each temporal filter, in the order of the plan, what passes at
    ``time``.
    """

    time: int
    due: int | None
    ranges: tuple[MomentRange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the clock as JSON values. On disk: never change a name."""
        ranges = [moments.to_json() for moments in self.ranges]
        return {"time": self.time, "due": self.due, "ranges": ranges}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ViewClock:
        """Return the clock that `to_json` described."""
        ranges = tuple(map(MomentRange.from_json, value["ranges"]))
        return cls(value["time"], value["due"], ranges)


@dataclass(frozen=True, slots=True)
class RefreshFigures:
    """What one refresh of a view did, for people.

    ``started``: microseconds since 1970; ``planning`` and ``running``: for how many microseconds
    its changes were looked up and computed; what is left until the time of the commit is the
    commit. ``rows_in``: the changes of its inputs, ``rows_out``: those of its own rows.
    ``is_local``: whether it was computed in the driver's process; ``is_full``: from all rows of
    its inputs.
    """

    started: int
    planning: int
    running: int
    rows_in: int
    rows_out: int
    is_local: bool = False
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """The figures of a refresh, and the epoch that it committed.

    ``previous``: the epoch of the last refresh before it that left figures; None if there is none.
    """

    epoch: int
    figures: RefreshFigures
    previous: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values. On disk: never change a name."""
        figures = self.figures
        previous = {} if self.previous is None else {"previous": self.previous}
        local = {"local": True} if figures.is_local else {}
        full = {"full": True} if figures.is_full else {}
        return (
            previous
            | local
            | full
            | {
                "epoch": self.epoch,
                "started": figures.started,
                "planning": figures.planning,
                "running": figures.running,
                "rows_in": figures.rows_in,
                "rows_out": figures.rows_out,
            }
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RefreshRecord:
        """Return the record that `to_json` described."""
        figures = RefreshFigures(
            value["started"],
            value["planning"],
            value["running"],
            value["rows_in"],
            value["rows_out"],
            value.get("local", False),
            value.get("full", False),
        )
        return cls(value["epoch"], figures, value.get("previous"))


@dataclass(frozen=True, slots=True)
class ViewProgress:
    """The progress of a view: which epochs of its inputs it has read.

    ``reflects``: the epoch of base tables that it reflects, 0 for none yet. ``inputs``: for each
    input its table's id and the epoch up to which its changes have been read, 0 for an input that
    has not been read yet. ``backfill``: a JSON value that describes what is left to read of the
    inputs as they were at those epochs; None for a view that follows their changes. ``clock``:
    None for a view that does not depend on the present time. ``last_refresh``: the figures of the
    refresh that led here; None where it left none. ``quarantined``: how many rows of inputs are in
    its quarantine.
    """

    view_id: int
    reflects: int
    inputs: tuple[tuple[int, int], ...]
    backfill: Any = None
    clock: ViewClock | None = None
    last_refresh: RefreshRecord | None = None
    quarantined: int = 0

    @classmethod
    def start(cls, definition: ViewDefinition) -> ViewProgress:
        """Return the progress of a view that has read nothing yet."""
        inputs = tuple((table.table_id, 0) for table in definition.inputs)
        return cls(definition.view_id, 0, inputs)

    @property
    def is_populated(self) -> bool:
        """Whether the backfill of the view is complete, so that it follows its inputs."""
        return self.reflects > 0 and self.backfill is None

    def epoch_of(self, table_id: int) -> int:
        """Return the epoch up to which the changes of an input have been read."""
        return dict(self.inputs)[table_id]

    def is_due(self, time: int) -> bool:
        """Return whether time alone may change the view; ``time``: microseconds since 1970."""
        return self.clock is not None and self.clock.due is not None and self.clock.due <= time

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON values. On disk: never change a name."""
        clock = {} if self.clock is None else {"clock": self.clock.to_json()}
        record = self.last_refresh
        last_refresh = {} if record is None else {"last_refresh": record.to_json()}
        quarantined = {"quarantined": self.quarantined} if self.quarantined else {}
        return (clock | last_refresh | quarantined) | {
            "view_id": self.view_id,
            "reflects": self.reflects,
            "inputs": [[table_id, epoch] for table_id, epoch in self.inputs],
            "backfill": self.backfill,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ViewProgress:
        """Return the progress that `to_json` described."""
        inputs = tuple((table_id, epoch) for table_id, epoch in value["inputs"])
        clock, last_refresh = value.get("clock"), value.get("last_refresh")
        return cls(
            value["view_id"],
            value["reflects"],
            inputs,
            value["backfill"],
            None if clock is None else ViewClock.from_json(clock),
            None if last_refresh is None else RefreshRecord.from_json(last_refresh),
            value.get("quarantined", 0),
        )


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A view and its progress."""

    definition: ViewDefinition
    progress: ViewProgress

    def __repr__(self) -> str:
        query = " ".join(self.definition.query.split())
        return (
            f"CatalogView(view {self.view_id}, reflects epoch {self.progress.reflects}, in "
            f"{self.definition.mapping.units} units: {query!r})"
        )

    def _repr_html_(self) -> str:
        """Return what the view reflects and its query, as notebooks show them."""
        units, reflects = self.definition.mapping.units, self.progress.reflects
        rows = [("reflects epoch", reflects), ("units", units), ("query", self.definition.query)]
        return html_table(f"view {self.view_id}", ("what", "value"), rows)

    @property
    def view_id(self) -> int:
        """The id of the view, which is the id of the table with its rows."""
        return self.definition.view_id
