"""What is maintained in the place of a function over a frame, from the text of the frame."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import parse_expression
from relstate.connector.views.plan.frame import Frame
from relstate.connector.views.plan.window import WindowFunction
from relstate.connector.views.planner.open_frames import (
    MaintainedFrame,
    Pick,
    maintained_frame,
    parse_frame,
)
from relstate.connector.views.planner.value_frames import ValueFrameTree

RUN, RANGE_RUN = Frame(False, None, 0), Frame(True, None, 0)
SUM, COUNT = WindowFunction.SUM, WindowFunction.COUNT
FIRST, LAST, NTH = WindowFunction.FIRST_VALUE, WindowFunction.LAST_VALUE, WindowFunction.NTH_VALUE


def maintained(text: str, pick: Pick) -> MaintainedFrame | None:
    """Return what is maintained for a function over a frame in Spark's SQL."""
    window = parse_expression(f"sum(v) OVER (ORDER BY x {text})")
    frame = parse_frame(window.args.get("spec"))
    assert frame is not None
    return maintained_frame(pick, frame)


@pytest.mark.parametrize(
    ("frame", "run", "last_of"),
    [
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", RUN, None),
        ("ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", RUN, Frame(False, -2, -2)),
        ("ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING", RUN, Frame(False, 0, 3)),
        ("RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", RANGE_RUN, None),
    ],
)
def test_a_frame_to_the_last_row_is_a_run_in_the_reverse_order(
    frame: str, run: Frame, last_of: Frame | None
) -> None:
    """Its other end is counted in that order."""
    planned = MaintainedFrame(SUM, run, is_reversed=True, last_of=last_of)

    assert maintained(frame, Pick(SUM)) == planned


@pytest.mark.parametrize(
    ("frame", "last_of"),
    [
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING", Frame(False, -2, -2)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND 3 FOLLOWING", Frame(False, 0, 3)),
    ],
)
def test_a_frame_from_the_first_row_takes_a_value_of_the_run(frame: str, last_of: Frame) -> None:
    """That of the last row of the frame, whatever the function."""
    for pick in (Pick(SUM), Pick(NTH, 2), Pick(FIRST, ignores_nulls=True)):
        assert maintained(frame, pick) == MaintainedFrame(pick.function, RUN, last_of=last_of)


def test_a_range_to_a_later_value_takes_the_last_value_of_the_run_up_to_there() -> None:
    """In either direction; an end before the row may be any number of rows away."""
    forward = maintained("RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING", Pick(COUNT))
    backward = maintained("RANGE BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING", Pick(COUNT))

    for planned, is_reversed in ((forward, False), (backward, True)):
        assert planned is not None
        assert isinstance(planned.last_of, ValueFrameTree)
        assert planned.last_of.upper is not None
        assert (planned.last_of.lower, planned.last_of.upper.sql) == (None, "2 FOLLOWING")
        assert (planned.frame, planned.is_reversed) == (RANGE_RUN, is_reversed)
    before = maintained("RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", Pick(COUNT))
    after = maintained("RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", Pick(COUNT))
    assert (before, after) == (None, None)


@pytest.mark.parametrize(
    ("frame", "pick", "planned"),
    [
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            Pick(FIRST),
            MaintainedFrame(FIRST, RUN),
        ),
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            Pick(LAST),
            MaintainedFrame(FIRST, RUN, is_reversed=True),
        ),
        (
            "ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING",
            Pick(FIRST),
            MaintainedFrame(FIRST, Frame(False, -2, 0)),
        ),
        (
            "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
            Pick(FIRST),
            MaintainedFrame(FIRST, Frame(False, 2, 2)),
        ),
        (
            "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
            Pick(LAST),
            MaintainedFrame(FIRST, RUN, is_reversed=True, last_of=Frame(False, -2, -2)),
        ),
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
            Pick(LAST),
            MaintainedFrame(LAST, Frame(False, -2, -2)),
        ),
        (
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
            Pick(LAST),
            MaintainedFrame(LAST, Frame(False, 0, 2)),
        ),
        (
            "ROWS BETWEEN 4 PRECEDING AND UNBOUNDED FOLLOWING",
            Pick(NTH, 3),
            MaintainedFrame(NTH, Frame(False, -4, 2)),
        ),
        (
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            Pick(FIRST),
            MaintainedFrame(FIRST, Frame(True, 0, 0)),
        ),
        (
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            Pick(FIRST, ignores_nulls=True),
            MaintainedFrame(LAST, RUN, is_reversed=True),
        ),
    ],
)
def test_first_last_and_nth_values_are_read_from_where_they_are(
    frame: str, pick: Pick, planned: MaintainedFrame
) -> None:
    """From a bounded frame, where it has the same value, or from a run."""
    assert maintained(frame, pick) == planned


@pytest.mark.parametrize(
    ("frame", "pick"),
    [
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", Pick(SUM)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", Pick(NTH, 2)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", Pick(FIRST, 0, True)),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", Pick(NTH, 2, True)),
        ("RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", Pick(NTH, 2)),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND 1001 PRECEDING", Pick(SUM)),
        ("ROWS BETWEEN 1001 FOLLOWING AND UNBOUNDED FOLLOWING", Pick(FIRST)),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", Pick(NTH, 1002)),
        ("ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING", Pick(SUM)),
    ],
)
def test_other_frames_are_not_maintained_by_the_window_executor(frame: str, pick: Pick) -> None:
    """Their value depends on the whole partition, or on rows too far away."""
    assert maintained(frame, pick) is None
