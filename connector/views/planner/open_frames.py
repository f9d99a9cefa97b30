"""Frames of windows by what the window executor maintains: bounded frames, and runs from a start.

    ROWS UNBOUNDED PRECEDING               a run: each value follows from that of the row before
    CURRENT ROW AND UNBOUNDED FOLLOWING    the run in the reverse order of rows
    UNBOUNDED PRECEDING AND n FOLLOWING    the last value of the run up to n rows after the row
    UNBOUNDED PRECEDING AND n PRECEDING    the value of the run n rows before the row
    n FOLLOWING AND UNBOUNDED FOLLOWING    that, in the reverse order

First, last and n-th values that a bounded frame gives as well are computed over it.

Promises: the frame gives the same value, if the function is the same for rows in either order, and
if ties are in the reverse order, too, where the order is reversed.
Does not know: types of arguments; frames of the whole partition, but for first and last values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from relstate.connector.syntax.tree import Tree, whole_number

from ..plan.frame import WIDEST_FRAME, Frame
from ..plan.window import PICKS, WindowFunction
from .value_frames import OffsetTree, ValueFrameTree


class End(Enum):
    """An end of a frame without an offset."""

    FIRST_ROW = "UNBOUNDED PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    LAST_ROW = "UNBOUNDED FOLLOWING"


@dataclass(frozen=True, slots=True)
class FrameTree:
    """A frame as it is written."""

    is_range: bool
    start: End | OffsetTree
    stop: End | OffsetTree


@dataclass(frozen=True, slots=True)
class Pick:
    """A function over a frame as far as its frame matters.

    ``number``: of the row that nth_value returns.
    """

    function: WindowFunction
    number: int = 0
    ignores_nulls: bool = False


@dataclass(frozen=True, slots=True)
class MaintainedFrame:
    """What is maintained in the place of a function over a frame.

    ``function``: over ``frame``, which the executor maintains. ``is_reversed``: in the reverse
    order. ``last_of``: the result is the last of these values in this frame, where not None.
    """

    function: WindowFunction
    frame: Frame | ValueFrameTree
    is_reversed: bool = False
    last_of: Frame | ValueFrameTree | None = None


DEFAULT_FRAME = FrameTree(True, End.FIRST_ROW, End.CURRENT_ROW)
"""That of a window with an order and without a frame."""
_FROM_FIRST = Frame(False, None, 0)
_MIRRORED = {
    WindowFunction.COUNT: WindowFunction.COUNT,
    WindowFunction.SUM: WindowFunction.SUM,
    WindowFunction.AVG: WindowFunction.AVG,
    WindowFunction.MIN: WindowFunction.MIN,
    WindowFunction.MAX: WindowFunction.MAX,
    WindowFunction.FIRST_VALUE: WindowFunction.LAST_VALUE,
    WindowFunction.LAST_VALUE: WindowFunction.FIRST_VALUE,
}
"""The functions that give the same over the rows of a frame in the reverse order."""


def parse_frame(spec: Tree | None) -> FrameTree | None:
    """Return the frame of a window with an order; None if it has an EXCLUDE."""
    if spec is None:
        return DEFAULT_FRAME
    if spec.args.get("exclude"):
        return None
    start = _parse_end(spec.args.get("start"), spec.args.get("start_side"))
    stop = _parse_end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    return FrameTree(str(spec.args["kind"]).upper() == "RANGE", start, stop)


def _parse_end(bound: Tree | str | None, side: str | None) -> End | OffsetTree:
    is_preceding = str(side or "").upper() == "PRECEDING"
    if isinstance(bound, str):
        if bound.upper() == "CURRENT ROW":
            return End.CURRENT_ROW
        return End.FIRST_ROW if is_preceding else End.LAST_ROW
    assert bound is not None, "a frame has a start"
    return OffsetTree(bound, is_preceding)


def maintained_frame(pick: Pick, frame: FrameTree) -> MaintainedFrame | None:
    """Return what is maintained for a function over a frame; None if it is recomputed."""
    planned = _plan_frame(pick, frame)
    if planned is None:
        return None
    frames = (planned.frame, planned.last_of)
    is_supported = all(not isinstance(part, Frame) or part.is_supported for part in frames)
    return planned if is_supported else None


def _plan_frame(pick: Pick, frame: FrameTree) -> MaintainedFrame | None:
    bounded = _bounded(frame.is_range, frame.start, frame.stop)
    if bounded is not None:
        return MaintainedFrame(pick.function, bounded)
    if pick.function in PICKS and not pick.ignores_nulls:
        picked = _plan_pick(pick, frame)
        if picked is not None:
            return picked
    if frame.stop is End.LAST_ROW:
        function = _MIRRORED.get(pick.function)
        if function is None or frame.start is End.FIRST_ROW:
            return None
        mirrored = FrameTree(frame.is_range, End.FIRST_ROW, _mirrored(frame.start))
        run = _plan_run(function, mirrored)
        return None if run is None else replace(run, is_reversed=True)
    return _plan_run(pick.function, frame) if frame.start is End.FIRST_ROW else None


def _mirrored(end: End | OffsetTree) -> End | OffsetTree:
    """Return an end of a frame in the reverse order."""
    if isinstance(end, OffsetTree):
        return replace(end, is_preceding=not end.is_preceding)
    return end


def _plan_run(function: WindowFunction, frame: FrameTree) -> MaintainedFrame | None:
    """Return what is maintained for a frame from the first row of the partition on."""
    run = Frame(frame.is_range, None, 0)
    if not isinstance(frame.stop, OffsetTree):
        return MaintainedFrame(function, run)
    if frame.is_range:
        # The last row that is so much before a row may be anywhere.
        last_of = None if frame.stop.is_preceding else ValueFrameTree(None, frame.stop)
        return None if last_of is None else MaintainedFrame(function, run, last_of=last_of)
    rows = _rows_of(frame.stop)
    if rows is None:
        return None
    return MaintainedFrame(function, run, last_of=Frame(False, min(rows, 0), rows))


def _plan_pick(pick: Pick, frame: FrameTree) -> MaintainedFrame | None:
    """Return what is maintained for the first, last or n-th of all values, if it is simpler."""
    start, stop, is_range = frame.start, frame.stop, frame.is_range
    match pick.function:
        case WindowFunction.FIRST_VALUE if start is End.FIRST_ROW:
            is_after = stop is End.LAST_ROW or _is_following(stop)
            return MaintainedFrame(pick.function, _FROM_FIRST) if is_after else None
        case WindowFunction.FIRST_VALUE if not (is_range and _is_following(start)):
            return _over_bounded(pick.function, is_range, start, _later(start))
        case WindowFunction.LAST_VALUE if stop is End.LAST_ROW:
            if _is_following(start):
                return None
            return MaintainedFrame(WindowFunction.FIRST_VALUE, _FROM_FIRST, is_reversed=True)
        case WindowFunction.LAST_VALUE if isinstance(stop, OffsetTree):
            if is_range and stop.is_preceding:
                return None
            earlier = stop if stop.is_preceding else End.CURRENT_ROW
            return _over_bounded(pick.function, is_range, earlier, stop)
        case WindowFunction.NTH_VALUE if stop is End.LAST_ROW and not is_range:
            return _plan_nth(pick, start)
    return None


def _plan_nth(pick: Pick, start: End | OffsetTree) -> MaintainedFrame | None:
    """Return the n-th row from a start of ROWS on: it is n - 1 rows after the start, at most."""
    first = _rows_of(start)
    if first is None:
        return None
    last = max(first, 0) + pick.number - 1
    return MaintainedFrame(pick.function, Frame(False, first, last))


def _is_following(end: End | OffsetTree) -> bool:
    return isinstance(end, OffsetTree) and not end.is_preceding


def _later(start: End | OffsetTree) -> End | OffsetTree:
    """Return the later one of a start and the current row."""
    return start if _is_following(start) else End.CURRENT_ROW


def _over_bounded(
    function: WindowFunction, is_range: bool, start: End | OffsetTree, stop: End | OffsetTree
) -> MaintainedFrame | None:
    frame = _bounded(is_range, start, stop)
    return None if frame is None else MaintainedFrame(function, frame)


def _bounded(
    is_range: bool, start: End | OffsetTree, stop: End | OffsetTree
) -> Frame | ValueFrameTree | None:
    """Return a frame that has two bounds; None if it has not, or not by literal numbers of rows."""
    if {start, stop} & {End.FIRST_ROW, End.LAST_ROW}:
        return None
    if is_range:
        lower, upper = (end if isinstance(end, OffsetTree) else None for end in (start, stop))
        return Frame(True, 0, 0) if lower is upper is None else ValueFrameTree(lower, upper)
    first, last = _rows_of(start), _rows_of(stop)
    return None if first is None or last is None else Frame(False, first, last)


def _rows_of(end: End | OffsetTree) -> int | None:
    """Return how many rows after the row an end is; None if that is not known, or too many."""
    if not isinstance(end, OffsetTree):
        return 0 if end is End.CURRENT_ROW else None
    number = whole_number(end.offset)
    if number is None or number > WIDEST_FRAME:
        return None
    return -number if end.is_preceding else number
