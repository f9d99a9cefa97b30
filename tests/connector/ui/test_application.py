"""The laws of the web application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from relstate.connector.ui.application import application, page_link
from relstate.connector.ui.report import report
from relstate.storage import Store, ViewFailure, keep_failure
from relstate.storage.commit_signal import LOOK_INTERVAL
from support.stores import StoreMaker
from support.views import new_view, progressed, quarantined_rows, refresh


@pytest.fixture
def client(viewed: Store) -> Iterator[TestClient]:
    """A browser on the same machine, looking at the store."""
    with TestClient(application(viewed), base_url="http://localhost:8787") as client:
        yield client


@pytest.mark.parametrize(
    "address", ["/", "/tables", "/table?name=t", "/view?name=v", "/view?name=w"]
)
def test_every_page_is_answered(client: TestClient, address: str) -> None:
    """Each is HTML, and a browser is told to load nothing from outside."""
    answer = client.get(address)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<!doctype html>" in answer.text
    for file in ("/static/style.css", "/static/live.js"):
        assert file in answer.text
        assert client.get(file).status_code == 200


def test_a_page_shows_the_latest_epoch(client: TestClient, viewed: Store) -> None:
    """What is committed is in the next answer, and in the epoch that pages ask for."""
    assert client.get("/epoch").json() == {"epoch": viewed.epoch}
    before = client.get("/table?name=t").text

    viewed.write("t", pa.table({"k": [99], "n": [1], "s": ["brand new"]}))

    assert client.get("/epoch").json() == {"epoch": viewed.epoch}
    assert "brand new" in client.get("/table?name=t").text
    assert "brand new" not in before
    assert "1 rows," in client.get("/").text


def test_the_page_of_a_table_lists_its_quarantine(client: TestClient, viewed: Store) -> None:
    """How many rows break each rule, and where they are."""
    assert "Quarantine" not in client.get("/table?name=t").text
    viewed.jobs.quarantine_target("t")
    assert "There are none." in client.get("/table?name=t").text
    values = {"row_json": "{}", "rule": "too small", "reason": "x", "written_at": datetime.now(UTC)}
    viewed.write("t__quarantine", [{"id": str(number)} | values for number in range(3)])

    page = client.get("/table?name=t").text
    assert "<td>too small</td><td>3</td>" in page
    assert "/table?name=t__quarantine" in page


def test_the_page_of_a_view_lists_its_quarantine(client: TestClient, viewed: Store) -> None:
    """Each row with its table, its key and the error; the store's page has their number."""
    assert "Quarantine" not in client.get("/view?name=v").text
    viewed.view_catalog.create(new_view(viewed, "x", "t", has_quarantine=True))
    assert "There are none." in client.get("/view?name=x").text
    segments = quarantined_rows(viewed, "x", "t", [1, 2], "<b>")
    progress = replace(progressed(viewed, "x"), quarantined=2)
    refresh(viewed, progress, segments=segments)

    page = client.get("/view?name=x").text
    assert "cannot be computed: 2." in page
    assert "{&#34;k&#34;: 1}" in page
    assert "&lt;b&gt;" in page
    assert "2 in quarantine" in client.get("/").text
    assert "cannot be computed: 2." in report(viewed)


def test_the_page_of_a_table_says_what_its_columns_have(client: TestClient, viewed: Store) -> None:
    """The clauses of defaults and of generated columns."""
    viewed.create_table(
        "made", "k INT, a INT, b INT", primary_key=["k"],
        defaults={"a": "1 + 2"}, generated={"b": "a * 2"},
    )  # fmt: skip
    text = client.get("/table?name=made").text
    assert "<code>DEFAULT 1 + 2</code>" in text
    assert "<code>GENERATED ALWAYS AS (a * 2)</code>" in text


def test_the_page_of_a_view_says_why_it_failed(client: TestClient, viewed: Store) -> None:
    """With its message, as text; the store's page has writes and rows a minute."""
    viewed.write("t", pa.table({"k": [99], "n": [1], "s": ["x"]}))
    view_id, time = viewed.view("v").view_id, viewed.environment.now()
    failure = ViewFailure(viewed.epoch, time, "view 'v' could not be computed: <b>")
    keep_failure(viewed.environment, view_id, failure)

    page = client.get("/view?name=v").text
    assert f"The refresh up to epoch {viewed.epoch} failed at " in page
    assert "could not be computed: &lt;b&gt;" in page
    store_page = client.get("/").text
    assert '<span class="status failed">failed</span>' in store_page
    assert 'class="node view failed"' in store_page
    assert "Commits a minute since epoch" in store_page
    assert "Rows a minute since epoch" in store_page


def test_rows_are_shown_at_an_epoch(client: TestClient, viewed: Store) -> None:
    """``at`` shows the table as it was; the key is looked up at that epoch, too."""
    first = next(e.epoch for e in viewed.history() if e.operation == "create index") + 1

    then = client.get(f"/table?name=t&at={first}&key=3").text
    now = client.get("/table?name=t&key=3").text

    assert "There is no row with this key." in then
    assert "There is no row with this key." not in now
    assert "&lt;b&gt;one&lt;/b&gt;" in then


def test_changes_are_shown(client: TestClient, viewed: Store) -> None:
    """``from`` and ``to`` choose epochs; the changes have Delta's columns."""
    viewed.delete("t", pa.table({"k": [2]}))
    text = client.get(f"/table?name=t&from={viewed.epoch}&to={viewed.epoch}").text

    assert "_change_type" in text
    assert ">delete</td>" in text


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("/table?name=nope", 404, "there is no table"),
        ("/table", 404, "there is no table"),
        ("/view?name=t", 404, "there is no view"),
        ("/table?name=t&at=x", 404, "must be a whole number"),
        ("/table?name=t&at=999", 200, "there is no epoch 999"),
        ("/table?name=t&key=x", 200, "is not a BIGINT"),
        ("/table?name=t&from=5&to=2", 200, "problem"),
        ("/view?name=v&units=0", 200, "parallel units"),
        ("/nowhere", 404, "There is no page &#39;/nowhere&#39;"),
        ("/<b>", 404, "There is no page &#39;/&lt;b&gt;&#39;"),
    ],
)
def test_what_is_not_there_is_said(
    client: TestClient, address: str, status: int, message: str
) -> None:
    """A wrong address is a page that says why, never a traceback."""
    answer = client.get(address)

    assert answer.status_code == status
    assert "<!doctype html>" in answer.text
    assert message in answer.text
    assert "Traceback" not in answer.text


def test_a_rescale_is_shown_before_it_is_done(client: TestClient, viewed: Store) -> None:
    """``units`` shows which vnodes would move, and moves none."""
    epoch = viewed.epoch
    text = client.get("/view?name=v&units=3").text

    mapping = viewed.view("v").definition.mapping
    moved = sum(a != b for a, b in zip(mapping.owners, mapping.rescale(3).owners, strict=True))
    assert f"After a rescale to 3: {moved} of {mapping.vnode_count} vnodes move" in text
    assert viewed.epoch == epoch


def test_nothing_is_changed(client: TestClient) -> None:
    """No other method is answered."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:9", 200), ("[::1]:9", 200), ("evil.example", 400)],
)
def test_a_page_of_another_site_cannot_read_it(client: TestClient, host: str, status: int) -> None:
    """A name that resolves to this machine is not enough: the host must be one of its own."""
    assert client.get("/epoch", headers={"Host": host}).status_code == status


def test_a_name_in_an_address_is_text(client: TestClient) -> None:
    """A name that is a script is shown as text, and a link to it is quoted."""
    name = "<script>alert(1)</script>&x=1#y"
    answer = client.get(page_link("table", name))

    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
    assert "&amp;x=1#y" in answer.text


def test_metrics_are_served(client: TestClient, viewed: Store) -> None:
    """The text of Prometheus, with a type that it accepts."""
    answer = client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f"relstate_epoch {viewed.epoch}\n" in answer.text


def test_an_empty_store_has_a_page(store: Store) -> None:
    """It says that there is nothing."""
    with TestClient(application(store), base_url="http://localhost") as client:
        assert "There are no tables." in client.get("/").text


def test_a_chart_of_shards_counts_no_file_twice(make_store: StoreMaker) -> None:
    """A file has rows of all shards: the chart shows bytes, which add up."""
    store = make_store()
    store.create_table("t", "k BIGINT", primary_key=["k"])
    for start in range(0, 3_000, 1_000):
        store.write("t", pa.table({"k": range(start, start + 1_000)}))
    with TestClient(application(store), base_url="http://localhost") as client:
        text = client.get("/").text

    files = len(store.state.segments)
    assert "Bytes stored of all tables, by shard" in text
    assert f"Of {files} live file" in text
    assert "Live files of all tables, by shard" not in text


def test_rows_of_small_tables_are_counted(viewed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every page; those of others are estimates with a ~, as upserts of a key count twice."""
    for value in (1, 2):
        viewed.write("t", pa.table({"k": [1], "n": [value], "s": ["x"]}))
    with TestClient(application(viewed), base_url="http://localhost") as client:
        for page in ("/", "/tables", "/table?name=t"):
            text = client.get(page).text
            assert ">4<" in text
            assert "~6" not in text
        monkeypatch.setattr("relstate.connector.figures.row_counts.MOST_ENTRIES", 1)
        for page in ("/", "/tables", "/table?name=t"):
            assert ">~6<" in client.get(page).text


def test_what_changes_is_announced_and_bars_have_names(client: TestClient) -> None:
    """For readers of the screen: a live region, bars that say what they show, headings' scopes."""
    text = client.get("/").text

    assert 'id="live" class="note" role="status"' in text
    assert text.count('<g role="listitem" aria-label="') >= 2
    assert "% of the largest" in text
    assert "<th>" not in text
    assert text.count("<th ") == text.count('<th scope="col"')


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_damaged_files_are_said(viewed: Store, harm: str) -> None:
    """On the pages of the store and of the table, though their rows are not read."""
    (segment, *_) = viewed.state.segments_of(viewed.state.table("t").definition.table_id)
    file = Path(viewed.path, "segments", f"{segment.name}.lmdb")
    content = file.read_bytes()
    file.unlink()
    if harm == "cut":
        file.write_bytes(content[:-4096])
    try:
        with TestClient(application(viewed), base_url="http://localhost") as client:
            for page in ("/", "/table?name=t"):
                text = client.get(page).text
                assert f"1 file is {harm}" in text
                assert segment.name in text
            assert "1 file is" not in client.get("/view?name=w").text
    finally:
        file.unlink(missing_ok=True)
        file.write_bytes(content)


def test_a_damaged_store_still_has_pages(make_store: StoreMaker) -> None:
    """A lost segment is an error in its place on the page of its table, and on the first."""
    store = make_store()
    store.create_table("t", "k BIGINT", primary_key=["k"])
    store.write("t", pa.table({"k": [1]}))
    (segment,) = store.state.segments.values()
    file = Path(store.path, "segments", f"{segment.name}.lmdb")
    content = file.read_bytes()
    file.unlink()
    try:
        with TestClient(application(store), base_url="http://localhost") as client:
            assert "1 file is missing" in client.get("/").text
            page = client.get("/table?name=t")
            assert page.status_code == 200
            assert "the file is missing" in page.text
    finally:
        file.write_bytes(content)


def test_a_damaged_log_is_said(make_store: StoreMaker) -> None:
    """If the newest epoch cannot be read, every page says why."""
    store = make_store()
    store.create_table("t", "k BIGINT", primary_key=["k"])
    with TestClient(application(store), base_url="http://localhost") as client:
        entry = Path(store.path, "_log", f"{store.epoch + 1:020d}.json")
        entry.write_text("{}")
        # Nobody has announced it, so that it is seen only by the next look.
        sleep(2 * LOOK_INTERVAL)
        try:
            page, epoch = client.get("/"), client.get("/epoch")
        finally:
            entry.unlink()

    assert page.status_code == epoch.status_code == 500
    assert "The store cannot be read" in page.text


def test_the_page_of_a_table_shows_its_retention_of_writers(
    client: TestClient, viewed: Store
) -> None:
    """Only where it has one."""
    assert "are forgotten after" not in client.get("/table?name=t").text
    viewed.set_transaction_retention("t", "30 days")
    assert "writers (txnAppId) are forgotten after 30 days" in client.get("/table?name=t").text
