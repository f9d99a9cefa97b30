"""The laws of the figures of views: lag, and the refreshes that the log remembers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from relstate.connector.figures import lag as lag_figures
from relstate.connector.figures.lag import NO_LAG, lags
from relstate.connector.figures.metrics import metric_values, store_metrics
from relstate.connector.figures.views import refreshes, view_figures, view_page
from relstate.storage import RefreshFigures, Store, ViewFailure, keep_failure
from support.refreshes import refreshed
from support.views import new_view, progressed, refresh


@pytest.fixture
def viewed(store: Store) -> Store:
    """A table of two rows, a view of it, and a view of that, both up to date."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.write("t", pa.table({"k": [1, 2], "n": [10, 20]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    store.view_catalog.create(new_view(store, "w", "v"))
    refresh(store, progressed(store, "v"), progressed(store, "w"))
    return store


def test_a_view_lacks_what_its_tables_got_since(viewed: Store) -> None:
    """Epochs, rows and seconds since the first; of views over views through these."""
    by_name = {view.name: view.lag for view in view_figures(viewed, viewed.state)}
    assert by_name == {"v": NO_LAG, "w": NO_LAG}

    viewed.write("t", pa.table({"k": [3, 4, 5], "n": [0, 0, 0]}))
    viewed.create_table("u", "k BIGINT", primary_key=["k"])
    viewed.write("u", pa.table({"k": [1]}))
    viewed.delete("t", pa.table({"k": [1]}))

    for view in view_figures(viewed, viewed.state):
        assert (view.lag.epochs, view.lag.rows, view.lag.is_bounded) == (2, 4, False)
        assert 0 <= view.lag.seconds < 300
        assert view.status == "behind"
    refresh(viewed, progressed(viewed, "v"), progressed(viewed, "w"))
    assert {view.lag for view in view_figures(viewed, viewed.state)} == {NO_LAG}


def test_a_truncation_is_a_change(viewed: Store) -> None:
    """It writes no row, and is an epoch that views lack."""
    viewed.truncate("t")

    lag = lags(viewed, viewed.state)[viewed.view("v").view_id]
    assert (lag.epochs, lag.rows) == (1, 0)


def test_a_long_lag_is_bounded(viewed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many entries are read; then the lag is at least what they show."""
    monkeypatch.setattr(lag_figures, "ENTRIES", 3)
    for number in range(5):
        viewed.write("t", pa.table({"k": [number], "n": [0]}))

    lag = lags(viewed, viewed.state)[viewed.view("v").view_id]
    assert (lag.epochs, lag.is_bounded) == (3, True)


def test_a_view_that_is_not_populated_has_no_lag(viewed: Store) -> None:
    """It says so, and a damaged position of its backfill hides nothing else."""
    viewed.view_catalog.create(new_view(viewed, "x", "t"))
    refresh(viewed, progressed(viewed, "x", backfill={"place": 1}))

    figures = {view.name: view for view in view_figures(viewed, viewed.state)}["x"]

    assert (figures.status, figures.lag, figures.backfill) == ("being populated", NO_LAG, None)


def test_the_log_remembers_refreshes(viewed: Store) -> None:
    """Each names the one before it, so that they are found however much is between them."""
    committed = []
    for number in range(4):
        committed.append(
            refreshed(viewed, "v", RefreshFigures(viewed.state.time, 10, 20, number, 2 * number))
        )
        for other in range(3):
            viewed.write("t", pa.table({"k": [other], "n": [number]}))

    with Store.open(viewed.path) as reopened:
        found = list(refreshes(reopened, reopened.view("v")))

    assert [refresh.epoch for refresh in found] == committed[::-1]
    assert [refresh.figures.rows_in for refresh in found] == [3, 2, 1, 0]
    assert all(refresh.total >= 0 and refresh.rest >= 0 for refresh in found)
    assert list(refreshes(viewed, viewed.view("w"))) == []


def test_a_page_without_a_plan_says_why(viewed: Store) -> None:
    """Its other figures are there."""
    page = view_page(viewed, viewed.state, "V")

    assert page.problem is not None
    assert "is damaged" in page.problem
    assert page.summary.name == "v"
    assert page.readers == ("w",)
    assert page.plan == ()


def test_a_page_shows_why_a_view_failed_until_it_is_refreshed(viewed: Store) -> None:
    """Also where another process refreshed it; a failure of an earlier epoch is past."""
    viewed.write("t", pa.table({"k": [3], "n": [0]}))
    view_id, time = viewed.view("v").view_id, viewed.environment.now()
    failure = ViewFailure(viewed.epoch, time, "v could not be computed: a row")
    keep_failure(viewed.environment, view_id, failure)

    assert view_page(viewed, viewed.state, "v").summary.failure == failure
    assert view_page(viewed, viewed.state, "v").summary.status == "failed"
    assert view_page(viewed, viewed.state, "w").summary.failure is None
    values = metric_values(store_metrics(viewed))
    assert values['relstate_view_failed{view="v"}'] == 1
    assert values['relstate_view_failed{view="w"}'] == 0
    refresh(viewed, progressed(viewed, "v"))
    viewed.write("t", pa.table({"k": [4], "n": [0]}))
    refresh(viewed, progressed(viewed, "v"))
    assert view_page(viewed, viewed.state, "v").summary.failure is None
    assert metric_values(store_metrics(viewed))['relstate_view_failed{view="v"}'] == 0
