"""The laws of the views that a stream follows, over stores whose views have invented plans."""

from __future__ import annotations

import pytest

from relstate.connector.views.followed import FollowedViews
from relstate.connector.views.lineage import view_ids
from relstate.storage import Store
from relstate.storage.errors import ViewNotFoundError
from support.views import new_view


def created(store: Store, *names: str) -> None:
    """Create views of the table."""
    for name in names:
        store.view_catalog.create(new_view(store, name, "t"))


def test_a_dropped_view_is_left_out_until_there_is_one_of_its_name(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning comes once; the last view that goes is an error."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    created(store, "w", "star")
    followed = FollowedViews(["w", "STAR"])
    assert followed.names(store.state) == ("w", "star")

    store.drop_view("star")
    for _ in range(2):
        assert followed.names(store.state) == ("w",)
        assert followed.ids(store.state) == view_ids(store.state, ["w"])
    assert caplog.text.count("STAR was dropped") == 1

    created(store, "star")
    assert followed.names(store.state) == ("w", "star")
    store.drop_view("star")
    store.drop_view("w")
    with pytest.raises(ViewNotFoundError, match="'w'"):
        followed.names(store.state)


def test_without_names_all_views_are_followed(store: Store) -> None:
    """Those that exist at any time, even none."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    followed = FollowedViews(None)
    assert followed.ids(store.state) == ()
    created(store, "w")
    assert followed.ids(store.state) == view_ids(store.state)
