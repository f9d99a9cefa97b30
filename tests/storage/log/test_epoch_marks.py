"""What is known of epochs by their times, and that commits do not search the log for it."""

from __future__ import annotations

import random
from pathlib import Path

from relstate.storage import Store
from relstate.storage.epochs import Epochs
from relstate.storage.log.epoch_marks import EpochMarks
from support.clock import START, ManualClock
from support.commits import quick_environment
from support.divided_logs import divided_log
from support.faulty_environment import FaultyEnvironment

MINUTE = 60 * 1_000_000


def test_a_mark_is_never_after_the_time_asked_for() -> None:
    """And at most two minutes before it, of the epochs that were noted, as far as marks reach."""
    draw, marks = random.Random(3), EpochMarks()
    assert marks.before(START) is None
    time, times = START, dict[int, int]()
    for epoch in range(1, 2000):
        time += draw.randrange(MINUTE // 2)
        times[epoch] = time
        marks.note(time, epoch)
    for epoch, asked in times.items():
        mark = marks.before(asked)
        assert mark is None or times[mark] <= asked
        if epoch > 1900:
            assert mark is not None
            assert asked - times[mark] < 2 * MINUTE
    assert marks.before(START - 1) is None


def test_commits_do_not_search_the_log_of_a_large_store(tmp_path: Path) -> None:
    """But the first of a process that did not write it: others read no entry of the past."""
    clock = ManualClock()
    store = Store.create("", environment=quick_environment(tmp_path / "s", clock))
    store.create_table("t", "id BIGINT", primary_key=["id"])
    log = divided_log(quick_environment(tmp_path / "s", clock))
    writer = Store(Epochs(log, log.load()))
    for number in range(150):
        clock.advance(10)
        writer.write("t", [{"id": number}])

    environment = FaultyEnvironment(tmp_path / "s", clock=clock)
    log = divided_log(environment)
    other = Store(Epochs(log, log.load()))
    reads = []
    for number in range(12):
        clock.advance(10)
        before = len(environment.touches)
        other.write("t", [{"id": 1000 + number}])
        touches = environment.touches[before:]
        reads.append(len([touch for touch in touches if touch.startswith("read _")]))
    assert reads[0] > 2
    # Manifests, and one time the entries of a block that is archived.
    assert sorted(reads[1:])[-3] <= 3
