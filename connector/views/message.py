"""What a task of a refresh tells the driver, and the proof that every task was heard once.

Promises: a refresh in which an executor of a unit was not heard of, or told two things, is never
committed.
Does not know: how messages travel (wire).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relstate.storage import SegmentRecord, errors


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """What one task did for a view: it ran executors, by number, in one unit.

    ``rows``: how many changes it took in; ``started``: when it began, microseconds since 1970;
    ``segments``: what it wrote.
    """

    view_id: int
    executors: tuple[int, ...]
    unit: int
    rows: int
    started: int
    segments: tuple[SegmentRecord, ...]

    def encode(self) -> bytes:
        """Return the message as bytes."""
        value = {
            "view": self.view_id,
            "executors": self.executors,
            "unit": self.unit,
            "rows": self.rows,
            "started": self.started,
            "segments": [segment.to_json() for segment in self.segments],
        }
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, data: bytes) -> TaskMessage:
        """Return the message that `encode` made bytes of."""
        value = json.loads(data)
        return cls(
            value["view"],
            tuple(value["executors"]),
            value["unit"],
            value["rows"],
            value["started"],
            tuple(map(SegmentRecord.from_json, value["segments"])),
        )


def checked(
    view: str, messages: Iterable[TaskMessage], units: Sequence[tuple[int, int]]
) -> tuple[TaskMessage, ...]:
    """Return the messages of a view, each once, in the order of executors and units.

    ``units``: for each executor its number and in how many units it ran. LostMessageError unless
    every executor of every unit was heard of in exactly one distinct message.
    """
    found = tuple(dict.fromkeys(messages))
    heard = Counter((number, one.unit) for one in found for number in one.executors)
    wanted = {(number, unit) for number, count in units for unit in range(count)}
    wrong = sorted(place for place in heard.keys() | wanted if heard[place] != (place in wanted))
    if wrong:
        number, unit = wrong[0]
        raise errors.LostMessageError(
            f"view {view!r}: executor {number} in unit {unit} was heard of {heard[number, unit]} "
            f"times instead of {int((number, unit) in wanted)}, and so {len(wrong)} in all: Spark "
            "lost a task or ran one twice; nothing was committed: refresh again"
        )
    return tuple(sorted(found, key=lambda one: (one.executors, one.unit)))
