"""The temporal filter in a plan: its JSON, and what it needs of its input."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relstate.connector.views.plan.temporal import ClockBound, TemporalFilter
from relstate.storage import types
from support.changes import scan

FIELDS = (types.Field("id", types.Int()), types.Field("moment", types.BigInt()))
FILTER = TemporalFilter(scan(FIELDS, ["id"]), "moment", ClockBound("now", 7), None, 1)
FLAGGED = replace(FILTER, flag="passes")


@pytest.mark.parametrize("node", [FILTER, FLAGGED], ids=["filter", "flag"])
def test_a_filter_is_read_as_it_was_written(node: TemporalFilter) -> None:
    """A stored plan has the flag of a filter if it has one, and older plans have none."""
    assert TemporalFilter.from_json(node.to_json(), lambda _: node.child) == node


def test_a_flag_is_a_field_of_all_rows() -> None:
    """With a flag the rows of an input that only grows change; without, they may only come."""
    assert [field.name for field in FLAGGED.fields] == ["id", "moment", "passes"]
    coming = replace(FILTER, low=None, high=ClockBound("now", 0))
    growing = replace(coming, child=scan(FIELDS, ["id"], grows_only=True))
    assert growing.is_append_only
    assert not replace(growing, flag="passes").is_append_only


def test_a_flag_that_nothing_reads_is_left_out() -> None:
    """Its rows would change for nothing."""
    assert FLAGGED.prune({"id"}, lambda text: {text}) == FLAGGED.child.prune(
        {"id"}, lambda text: {text}
    )
    assert "passes" in FLAGGED.prune({"id", "passes"}, lambda text: {text}).names
