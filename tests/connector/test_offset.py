"""The laws of the offsets of a stream of changes."""

from __future__ import annotations

import json

import pytest

from relstate.connector.source.stream import FeedOffset
from relstate.storage.errors import OptionError


def test_an_offset_has_one_text() -> None:
    """Checkpoints hold this text for ever."""
    offset = FeedOffset.whole(7, 3)

    text = json.dumps(offset.to_json())
    assert text == '{"table": 7, "began": 3, "snapshot": true, "epoch": 3, "whole": true}'
    assert FeedOffset.from_json(json.loads(text)) == offset


def test_a_stream_knows_where_it_began() -> None:
    """Every later offset has the beginning: after an epoch, or with all rows of one."""
    whole, after = FeedOffset.whole(7, 3), FeedOffset.after(7, 3)

    assert whole.after_snapshot().at(9).beginning() == whole
    assert after.at(9).beginning() == after
    assert whole.after_snapshot() != after


@pytest.mark.parametrize("value", [{}, {"table": 1}, [], {"partition-1": {"index": 3}}])
def test_what_is_no_offset_is_refused(value: object) -> None:
    """The checkpoint of another source is an error."""
    with pytest.raises(OptionError, match="the checkpoint belongs to another query"):
        FeedOffset.from_json(value)  # type: ignore[arg-type]


def test_an_end_without_a_start_has_one_text() -> None:
    """It is marked; the end after it, whose start is known, is not."""
    offset = FeedOffset.whole(7, 3).unplaced_at(5)

    text = json.dumps(offset.to_json())
    assert text == (
        '{"table": 7, "began": 3, "snapshot": true, "epoch": 5, "whole": false, "unplaced": true}'
    )
    assert FeedOffset.from_json(json.loads(text)) == offset
    assert offset.at(9) == FeedOffset.whole(7, 3).after_snapshot().at(9)
