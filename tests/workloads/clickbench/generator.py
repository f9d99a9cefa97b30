"""ClickBench: visits of web pages, of which some are corrected or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..synthetic import find_literals, random_changes, random_rows
from ..workload import FOLDER as _ROOT
from ..workload import Change, Rows, Workload, read_queries, read_tables

ROWS = 1_000_000
"""Visits at scale 1."""

_SEED = 43
_TABLES = read_tables("clickbench")
_QUERIES = read_queries(_ROOT / "clickbench" / "queries")
# Pages that the conditions and the regular expression of the queries distinguish.
_LITERALS = {
    **find_literals(_QUERIES.values()),
    "url": [
        "http://www.google.com/search/a",
        "https://google-like.org/b/c",
        "http://example.com/long/path/of/a/page?x=1",
        "",
    ],
    "title": ["Google", "About Google and others", "News", "", "Weather"],
    "referer": ["http://www.example.com/a/b", "https://news.org/", "no address", ""],
    "counterid": ["62", "62", "63", "1"],
    "eventdate": ["2013-07-01", "2013-07-08", "2013-07-14", "2013-08-01"],
    "refererhash": ["3594120000172545465", "1"],
    "urlhash": ["2868770270353813622", "2"],
    "traficsourceid": ["-1", "6", "0"],
    "searchphrase": ["", "cars", "weather in town", "views", "ä"],
    "mobilephonemodel": ["", "iPad", "N8", "A"],
    "isrefresh": ["0", "1"],
    "dontcounthits": ["0", "1"],
    "isdownload": ["0", "1"],
    "advengineid": ["0", "2", "3"],
    "searchengineid": ["0", "2", "3"],
}
_REDUCED = {"> 100000": "> 10", "OFFSET 10000": "OFFSET 1", "OFFSET 1000": "OFFSET 3"}


def workload() -> Workload:
    """Return ClickBench; scale 1 has a million visits."""
    return Workload("ClickBench", _TABLES, _QUERIES, _generate, _changes, reduced=_REDUCED)


def _generate(scale: float) -> Rows:
    (table,) = _TABLES
    random = np.random.default_rng(_SEED)
    return {table.name: random_rows(table, max(round(ROWS * scale), 1), _LITERALS, random)}


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    return random_changes(_TABLES, rows, share, _SEED)
