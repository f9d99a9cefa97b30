"""What is kept of the failures of views: small, bounded, and never needed."""

from __future__ import annotations

import pytest

from relstate.storage import Store, ViewFailure, keep_failure, read_failure
from relstate.storage.environment import Environment
from relstate.storage.view_failures import MOST_MESSAGE
from support.views import new_view


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


def test_failures_go_with_their_views(store: Store) -> None:
    """Also those of views that are dropped with what they read."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    for name, source in (("v", "t"), ("w", "v"), ("x", "t")):
        store.view_catalog.create(new_view(store, name, source))
        view_id = store.view(name).view_id
        keep_failure(store.environment, view_id, ViewFailure(1, 1, "a"))

    store.drop_view("x")
    assert len(store.environment.list("_failures")) == 2
    store.drop_table("t", cascade=True)
    assert store.environment.list("_failures") == []


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
