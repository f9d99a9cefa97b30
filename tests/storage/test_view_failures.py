"""What is kept of the failures of views: small, bounded, and never needed."""

from __future__ import annotations

import pytest

from relstate.storage import Store, ViewFailure, keep_failure, read_failure
from relstate.storage.environment import Environment
from relstate.storage.view_failures import MOST_MESSAGE


def test_the_last_failure_of_each_view_is_kept(store: Store) -> None:
    """One file per view; the first of an epoch stays; a long message is cut."""
    environment = store.environment
    assert read_failure(environment, 3) is None
    for view_id, epoch, message in ((3, 5, "a"), (4, 6, "b"), (3, 9, "c" * 9000), (3, 9, "again")):
        keep_failure(environment, view_id, ViewFailure(epoch, 1, message))

    assert read_failure(environment, 3) == ViewFailure(9, 1, "c" * MOST_MESSAGE)
    assert read_failure(environment, 4) == ViewFailure(6, 1, "b")
    assert len(environment.list("_failures")) == 2
    assert store.check().ok
    store.vacuum(retention=0)
    assert read_failure(environment, 4) is not None


def test_a_failure_that_cannot_be_kept_or_read_is_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure of the view is what counts; a damaged file is as none."""
    environment: Environment = store.environment
    environment.make_folders(["_failures"])
    environment.put_if_absent("_failures/0000000003-00000000000000000005.json", b"{")
    assert read_failure(environment, 3) is None

    def fail(folders: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(environment, "make_folders", fail)
    keep_failure(environment, 4, ViewFailure(1, 1, "a"))
    assert read_failure(environment, 4) is None
