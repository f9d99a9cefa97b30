"""The lock that a forked process finds open."""

from __future__ import annotations

import os
import threading

from relstate.storage.forklock import ForkLock, after_fork


def test_a_child_takes_a_lock_that_another_thread_held() -> None:
    """The parent's stays held until that thread leaves it."""
    lock = ForkLock()
    is_held, may_leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if not child:
        # A child that waits is ended.
        threading.Timer(60, os._exit, [1]).start()
        with lock:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    taken = threading.Thread(target=lock.__enter__)
    taken.start()
    taken.join(0.05)
    assert taken.is_alive()
    may_leave.set()
    taken.join()
    thread.join()


def test_after_fork_calls_in_the_child() -> None:
    """The function is called in the child, not in the parent."""
    read, write = os.pipe()
    parent = os.getpid()

    def report() -> None:
        if os.getpid() != parent:
            os.write(write, b"c")

    after_fork(report)

    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)

    assert os.read(read, 2) == b"c"
    os.close(read)
