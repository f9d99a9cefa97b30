"""The laws of the pages in a real browser; skipped where there is no Chromium with its driver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.storage import Store
from support.stores import StoreMaker

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_BROWSER = shutil.which("chromium")
_DRIVER = shutil.which("chromedriver")
_MAIN = "import sys; from relstate.connector.cli import main; sys.exit(main())"
_SECONDS = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        _BROWSER is None or _DRIVER is None,
        reason="no chromium and chromedriver on PATH: apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """A browser without a window."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = _BROWSER or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(_DRIVER))
    yield driver
    driver.quit()


@contextmanager
def served(browser: Chrome, store: Store) -> Iterator[str]:
    """Serve a store by the command, in another process; yield the address."""
    command = [sys.executable, "-P", "-c", _MAIN, "ui", store.path, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            assert "(Ctrl-C ends)" in line
            yield line.split()[1].rstrip("/")
        finally:
            # A page that still follows would miss its server.
            browser.get("about:blank")
            browser.get_log("browser")
            server.terminate()


def wait_for(browser: Chrome, condition: Callable[[], bool]) -> None:
    """Wait until something is true of the page."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, _SECONDS).until(lambda _: condition())


def text_of(browser: Chrome) -> str:
    """Return the text of the page as a person sees it."""
    return str(browser.execute_script("return document.getElementById('main').innerText"))


def assert_silent(browser: Chrome) -> None:
    """Nothing was refused or failed in the page: scripts, styles, addresses."""
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_every_page_is_shown(browser: Chrome, viewed: Store) -> None:
    """Style and script are loaded; links lead from the graph to a view and from lists to tables."""
    with served(browser, viewed) as address:
        browser.get(address)
        assert "There are no" not in text_of(browser)
        assert (
            browser.execute_script(
                "return getComputedStyle(document.querySelector('.tile')).borderRadius"
            )
            == "8px"
        )
        wait_for(browser, lambda: "live · epoch" in browser.page_source)
        browser.find_element("css selector", "svg.graph a").click()
        wait_for(browser, lambda: browser.current_url.startswith(f"{address}/"))
        for page in ("/table?name=t&key=1&from=2", "/view?name=v&units=3", "/tables"):
            browser.get(f"{address}{page}")
            assert "problem" not in browser.title
        browser.get(f"{address}/table?name=t")
        assert "<b>one</b>" in text_of(browser)
        assert_silent(browser)


def test_a_page_follows_without_a_reload(browser: Chrome, viewed: Store) -> None:
    """What is committed while the page is open appears in it."""
    with served(browser, viewed) as address:
        browser.get(f"{address}/table?name=t")
        browser.execute_script("window.isSamePage = true")
        wait_for(browser, lambda: f"live · epoch {viewed.epoch}" in browser.page_source)

        viewed.write("t", pa.table({"k": [99], "n": [1], "s": ["brand new"]}))

        wait_for(browser, lambda: "brand new" in text_of(browser))
        assert browser.execute_script("return window.isSamePage") is True
        assert_silent(browser)


def test_an_empty_store_is_shown(browser: Chrome, store: Store) -> None:
    """It has its page."""
    with served(browser, store) as address:
        browser.get(address)
        assert "There are no tables." in text_of(browser)
        assert_silent(browser)


def test_two_thousand_tables_are_shown(browser: Chrome, make_store: StoreMaker) -> None:
    """The largest on the first page, all on a page of their own."""
    store = make_store()
    for number in range(2000):
        store.create_table(f"t{number:04}", "k BIGINT", primary_key=["k"])
    with served(browser, store) as address:
        browser.get(address)
        assert "The 100 largest of 2,000 tables" in text_of(browser)
        browser.get(f"{address}/tables")
        assert "t1999" in text_of(browser)
        assert_silent(browser)
