"""The laws of the pages in a real browser; skipped where there is no Chromium with its driver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.storage import Store, new_table
from support.stores import StoreMaker, committed

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_BROWSER = shutil.which("chromium")
_DRIVER = shutil.which("chromedriver")
_MAIN = "import sys; from relstate.connector.cli import main; sys.exit(main())"
_SECONDS = 60

# What a reader of the screen misses: an empty list if nothing.
_ACCESSIBLE = """
const headings = [...document.querySelectorAll("h1, h2, h3, h4")];
const missing = [], levels = headings.map(heading => +heading.tagName[1]);
if (levels.filter(level => level === 1).length !== 1) missing.push("h1");
levels.forEach((level, n) => { if (level > (levels[n - 1] ?? 0) + 1) missing.push("h" + level); });
const named = "svg:not([aria-label]), table:not(:has(th)), th:not([scope]), html:not([lang]), "
  + "svg.bars g:not([aria-label])";
if (!document.querySelector("[role=status]")) missing.push("status");
document.querySelectorAll(named).forEach(element => missing.push(element.outerHTML.slice(0, 80)));
document.querySelectorAll("input:not([type=hidden])").forEach(
  input => { if (!input.labels.length) missing.push(input.outerHTML); });
return missing;
"""
# The least contrast of a text with what is behind it, as WCAG defines it.
_LEAST_CONTRAST = """
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = element => {
  for (; element; element = element.parentElement) {
    const colour = parts(getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let least = 21;
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  const isSeen = element.checkVisibility() && !element.closest("svg");
  if (!texts.currentNode.data.trim() || !isSeen) continue;
  const [a, b] = [parts(getComputedStyle(element).color), behind(element)].map(light);
  least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
}
return least;
"""

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
    """What is committed while the page is open appears in it, again and again."""
    with served(browser, viewed) as address:
        browser.get(f"{address}/table?name=t")
        browser.execute_script("window.isSamePage = true")
        wait_for(browser, lambda: f"live · epoch {viewed.epoch}" in browser.page_source)

        for number in (99, 100, 101):
            viewed.write("t", pa.table({"k": [number], "n": [1], "s": [f"brand new {number}"]}))
            wait_for(browser, lambda: f"brand new {number}" in text_of(browser))  # noqa: B023

        assert browser.execute_script("return window.isSamePage") is True
        assert_silent(browser)


def test_what_is_selected_stays(browser: Chrome, viewed: Store) -> None:
    """While a reader has text selected the content is not replaced; afterwards it is."""
    select = (
        "getSelection().selectAllChildren(document.querySelector('#main h1'));"
        "return getSelection().toString()"
    )
    with served(browser, viewed) as address:
        browser.get(f"{address}/table?name=t")
        wait_for(browser, lambda: f"live · epoch {viewed.epoch}" in browser.page_source)
        selected = browser.execute_script(select)
        viewed.write("t", pa.table({"k": [99], "n": [1], "s": ["brand new"]}))

        wait_for(browser, lambda: f"live · epoch {viewed.epoch}" in browser.page_source)
        assert browser.execute_script("return getSelection().toString()") == selected
        assert "brand new" not in text_of(browser)
        browser.execute_script("getSelection().removeAllRanges()")
        wait_for(browser, lambda: "brand new" in text_of(browser))


def test_a_damaged_store_is_shown(browser: Chrome, viewed: Store) -> None:
    """A lost file is a message in its place, and a log that cannot be read one on an open page."""
    segments = viewed.state.segments_of(viewed.state.table("t").definition.table_id)
    file = Path(viewed.path, "segments", f"{segments[0].name}.lmdb")
    content = file.read_bytes()
    entry = Path(viewed.path, "_log", f"{viewed.epoch + 1:020d}.json")
    with served(browser, viewed) as address:
        file.unlink()
        try:
            browser.get(f"{address}/table?name=t")
            assert "the file is missing" in text_of(browser)
            assert "Columns" in text_of(browser)
            browser.get(address)
            assert "Latest commits" in text_of(browser)
            assert_silent(browser)
            entry.write_text("{}")
            wait_for(browser, lambda: "The store cannot be read" in text_of(browser))
        finally:
            file.write_bytes(content)
            entry.unlink(missing_ok=True)


def test_pages_can_be_read_by_everyone(browser: Chrome, viewed: Store) -> None:
    """One title and no gap in the levels of headings, a name for every field and picture.

    Text has enough contrast in both colour schemes, and a narrow window needs no scrolling
    sideways.
    """
    with served(browser, viewed) as address:
        for page in ("/", "/tables", "/table?name=t&key=1&from=2", "/view?name=v&units=3"):
            browser.get(f"{address}{page}")
            assert browser.execute_script(_ACCESSIBLE) == [], page
            for scheme in ("light", "dark"):
                media = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
                assert browser.execute_script(_LEAST_CONTRAST) >= 4.5, (page, scheme)
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True},
            )
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_an_empty_store_is_shown(browser: Chrome, store: Store) -> None:
    """It has its page."""
    with served(browser, store) as address:
        browser.get(address)
        assert "There are no tables." in text_of(browser)
        assert_silent(browser)


def test_two_thousand_tables_are_shown(browser: Chrome, make_store: StoreMaker) -> None:
    """The largest on the first page, all on a page of their own."""
    store = make_store()
    tables = (new_table(f"t{n:04}", "k BIGINT", primary_key=["k"]) for n in range(2000))
    committed(store, (), created_tables=tuple(tables))
    with served(browser, store) as address:
        browser.get(address)
        assert "The 100 largest of 2,000 tables" in text_of(browser)
        browser.get(f"{address}/tables")
        assert "t1999" in text_of(browser)
        assert_silent(browser)
