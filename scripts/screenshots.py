"""Photograph the pages of `relstate ui` for the documents, in a Chromium without a window.

usage: screenshots.py STORE FOLDER

STORE is the store of the flights demo, as `make demo` leaves it: stores/flights. FOLDER gets
a PNG of each page, docs/pictures for those in the documents. Needs chromium and chromedriver on
PATH, and the extra dev.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

_MAIN = "import sys; from relstate.connector.cli import main; sys.exit(main())"
_WIDTH = 1120
_SCROLL = "document.querySelector(arguments[0]).scrollIntoView()"


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown of a page: so much of its height, from a heading on if one is named."""

    name: str
    page: str
    height: int
    colours: str = "light"
    heading: str = "h1"


PICTURES = (
    Picture("ui-store", "/", 1165),
    Picture("ui-view", "/view?name=carrier_hours", 1040, "dark"),
    Picture("ui-table", "/table?name=flights", 640, heading="h2:nth-of-type(3)"),
)


def main(store: Path, folder: Path) -> None:
    """Serve the store and write the picture of every page."""
    with _served(store) as address, _browser() as browser:
        for picture in PICTURES:
            media = [{"name": "prefers-color-scheme", "value": picture.colours}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
            size = {"width": _WIDTH, "height": picture.height}
            metrics = size | {"deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.get(address + picture.page)
            if picture.heading != "h1":
                browser.execute_script(_SCROLL, picture.heading)
            file = folder / f"{picture.name}.png"
            browser.save_screenshot(str(file))
            print(f"{file}: {file.stat().st_size:,} bytes")


@contextmanager
def _served(store: Path) -> Iterator[str]:
    """Serve a store by the command, in another process; yield the address."""
    command = [sys.executable, "-P", "-c", _MAIN, "ui", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            if "(Ctrl-C ends)" not in line:
                sys.exit(line)
            yield line.split()[1].rstrip("/")
        finally:
            server.terminate()


@contextmanager
def _browser() -> Iterator[Chrome]:
    """Yield a browser without a window, whose pages have the size that it is given."""
    options = ChromeOptions()
    options.binary_location = which("chromium") or ""
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    browser = Chrome(options, ChromeService(which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
