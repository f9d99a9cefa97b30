"""A server of pages that lives long keeps no more for each epoch that it has shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from relstate.connector.ui.application import application
from relstate.storage import Store
from support.clock import ManualClock
from support.commits import quick_environment
from support.growth import RETENTION, check_no_growth
from support.views import new_view, progressed, refresh

# Slow by it: some 1,500 commits.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


def test_the_pages_do_not_grow(tmp_path: Path) -> None:
    """A page asks for the epoch each second and for itself when that has changed; metrics, too."""
    clock, path = ManualClock(), str(tmp_path / "store")
    writer = Store.create(
        path,
        vnode_count=16,
        shards=4,
        retention=RETENTION,
        environment=quick_environment(path, clock),
    )
    writer.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    writer.view_catalog.create(new_view(writer, "v", "t"))
    shown = Store.open(path, environment=quick_environment(path, clock))
    pages = ["/", "/tables", "/table?name=t", "/view?name=v", "/metrics"]
    with TestClient(application(shown), base_url="http://localhost:8787") as client:

        def step() -> None:
            written = writer.write("t", [{"k": writer.epoch % 50, "v": str(writer.epoch)}])
            if written % 10 == 0:
                refresh(writer, progressed(writer, "v"))
            clock.advance(1)
            assert client.get("/epoch").json() == {"epoch": writer.epoch}
            if written % 4 == 0:
                assert client.get(pages[written // 4 % len(pages)]).status_code == 200

        check_no_growth(step, lambda: writer.epoch, writer.vacuum)
