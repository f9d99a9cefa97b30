"""The property without a lock: its value, races, and children of threaded processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from relstate.vnode import cached_property


@dataclass(frozen=True)
class Numbers:
    """Some numbers."""

    values: tuple[int, ...]

    @cached_property
    def sorted(self) -> list[int]:
        """The numbers, ascending."""
        return sorted(self.values)


class Gate:
    """A property in which threads wait for one another."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)

    @cached_property
    def value(self) -> object:
        """Something new."""
        self._barrier.wait(30)
        return object()


def test_a_value_is_computed_once() -> None:
    """A frozen dataclass keeps the first; others, equal or not, have their own."""
    numbers, same = Numbers((3, 1, 2)), Numbers((3, 1, 2))

    assert numbers.sorted == [1, 2, 3]
    assert numbers.sorted is numbers.sorted
    assert numbers.sorted is not same.sorted
    assert numbers == same
    assert Numbers((2, 1)).sorted == [1, 2]


def test_the_class_shows_the_property() -> None:
    """Its documentation is that of the method; it belongs to no instance."""
    assert isinstance(Numbers.sorted, cached_property)
    assert Numbers.sorted.__doc__ == "The numbers, ascending."


def test_an_error_is_not_kept() -> None:
    """The next use computes again."""
    answers: Iterator[int] = iter([0, 2])

    class Inverse:
        @cached_property
        def value(self) -> float:
            return 1 / next(answers)

    inverse = Inverse()
    with pytest.raises(ZeroDivisionError):
        _ = inverse.value
    assert inverse.value == 0.5


def test_threads_that_race_get_one_value() -> None:
    """Each computes its own, and all get the one that was there first."""
    gate = Gate(4)
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(gate.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [gate.value] * 4


def test_a_child_forked_while_a_thread_computes_computes_too() -> None:
    """No lock is held while another thread is in the property of any instance."""
    begun, may_end = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *, waits: bool) -> None:
            self._waits = waits

        @cached_property
        def value(self) -> int:
            if self._waits:
                begun.set()
                may_end.wait(60)
            return 1

    slow = Slow(waits=True)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait(60)
    child = os.fork()
    if not child:
        # A child that waits is ended.
        threading.Timer(10, os._exit, [1]).start()
        os._exit(0 if Slow(waits=False).value == 1 else 2)
    status = os.waitpid(child, 0)[1]
    may_end.set()
    thread.join()

    assert os.waitstatus_to_exitcode(status) == 0
