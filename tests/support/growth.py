"""What a process keeps, counted twice in a long run: objects by their types, and bytes."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

# Counted from the first epoch to the second; memory is traced from an earlier one on, so that what
# is replaced now and then is known at the first.
TRACED, FIRST, LAST = 350, 500, 1500
# Seconds for which epochs can be read, at one epoch a second or so, and between vacuums.
RETENTION, VACUUM_EVERY = 60, 50
# What a process may keep more of, for each epoch that it has seen: an entry of the log alone, with
# one segment, is five objects and more than 1,000 bytes. The rest is by chance.
MOST_OBJECTS, MOST_BYTES = 1.0, 500


@dataclass(frozen=True, slots=True)
class Kept:
    """Objects that the collector knows, by their types, and the bytes that are traced."""

    epoch: int
    objects: Counter[type]
    bytes: int
    lines: tracemalloc.Snapshot

    @classmethod
    def now(cls, epoch: int) -> Kept:
        """Return what this process keeps."""
        # Finalizers may leave something for the second.
        gc.collect()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        # Without names: to make them would be counted.
        objects = Counter(map(type, gc.get_objects()))
        return cls(epoch, objects, size, tracemalloc.take_snapshot())

    def check_growth(self, before: Kept) -> None:
        """Raise AssertionError, saying what has grown, if too much has since ``before``."""
        epochs = self.epoch - before.epoch
        objects = self.objects.total() - before.objects.total()
        grown = self.bytes - before.bytes
        has_grown = objects > MOST_OBJECTS * epochs or grown > MOST_BYTES * epochs
        assert not has_grown, (
            f"in {epochs} epochs {objects} objects and {grown} bytes more: "
            f"{(self.objects - before.objects).most_common(12)}; "
            f"{[str(line) for line in self.lines.compare_to(before.lines, 'lineno')[:12]]}"
        )


def check_no_growth(
    step: Callable[[], None], epoch: Callable[[], int], vacuum: Callable[[], object]
) -> None:
    """Take steps until a store is at the last epoch; AssertionError if the process grows.

    ``step``: commits once or twice, and reads, refreshes or serves what was committed; ``epoch``:
    the newest; ``vacuum``: of the store.
    """

    def run_to(last: int) -> None:
        while epoch() < last:
            vacuumed = epoch()
            while epoch() < min(vacuumed + VACUUM_EVERY, last):
                step()
            vacuum()

    run_to(TRACED)
    tracemalloc.start(1)
    try:
        run_to(FIRST)
        before = Kept.now(epoch())
        run_to(LAST)
        Kept.now(epoch()).check_growth(before)
    finally:
        tracemalloc.stop()
