"""The law of views: after every epoch a view equals its SELECT, whatever changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import relstate
from relstate.connector.views import backfill, frame, full_refresh, job, local_run, refresh, runner
from relstate.connector.views.full_refresh import LEAST_STATE_ROWS, pays_off
from relstate.connector.views.job import UNIT_ROWS
from relstate.storage import Store
from support.catalogue import CATALOGUE, OVER_VIEWS, RECOMPUTED
from support.local import IN_DRIVER, IN_EITHER, IN_JOB
from support.moving import Moving, MovingBags
from support.multisets import difference, rows_of_table
from support.spark import INTERPRETED
from support.stores import StoreMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

# More seeds: RELSTATE_LAW_SEEDS=100:120 python -m pytest tests/connector/views/test_law.py
SEEDS = range(*map(int, os.environ.get("RELSTATE_LAW_SEEDS", "0:3").split(":")))
VNODE_COUNTS = (1, 256, 7)
EPOCHS = 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_equals_its_select_after_every_epoch(
    seed: int, spark: SparkSession, make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views created before the first row and after several epochs are both right, and equal.

    Every operator; parallelism changes in between. Every third case takes rows in by parts. Views
    are computed in the driver's process and by jobs, one after the other. Random compositions of
    operators are in `test_random_queries`.
    """
    random = Random(seed)
    if seed % 3 == 2:
        for module in (runner, backfill):
            monkeypatch.setattr(module, "PART_ROWS", 25)
    store = make_store(vnode_count=VNODE_COUNTS[seed % len(VNODE_COUNTS)], shards=1)
    tables = Moving(store, random)
    Law(spark, store, tables, random, views_of(seed), monkeypatch).hold(f"seed {seed}")


@pytest.mark.parametrize("seed", SEEDS[-1:] if len(SEEDS) == 3 else SEEDS)
def test_a_view_over_tables_without_a_key_equals_its_select(
    seed: int, spark: SparkSession, make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same views, over rows of which some are there several times."""
    random, store = Random(seed), make_store(vnode_count=7, shards=1)
    tables = MovingBags(store, random)
    Law(spark, store, tables, random, views_of(seed), monkeypatch).hold(f"seed {seed}")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recomputed_view_equals_its_select_after_every_epoch(
    seed: int, spark: SparkSession, make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for aggregates, windows and grouping sets that Spark evaluates again."""
    random, step = Random(seed), min(len(SEEDS), 3)
    views = {name: RECOMPUTED[name] for name in list(RECOMPUTED)[seed % step :: step]}
    store = make_store(vnode_count=VNODE_COUNTS[(seed + 1) % len(VNODE_COUNTS)], shards=1)
    tables = Moving(store, random)
    Law(spark, store, tables, random, views, monkeypatch).hold(f"seed {seed}")


def views_of(seed: int) -> dict[str, str]:
    """Return SELECTs by name: part of the catalogue, which a few seeds cover."""
    step = min(len(SEEDS), 3)
    views = {name: CATALOGUE[name] for name in list(CATALOGUE)[seed % step :: step]}
    over = {name: OVER_VIEWS[name] for name in list(OVER_VIEWS)[seed % step :: step]}
    known = {**CATALOGUE, **OVER_VIEWS}
    needed = [base for query in over.values() for base in known if f"{{v}}{base}" in query]
    needed += [base for name in needed for base in known if f"{{v}}{base}" in known[name]]
    views.update({name: known[name] for name in reversed(needed) if name not in views})
    views.update(over)
    return views


class Law:
    """Views over changing tables, compared with their SELECTs."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        tables: Moving,
        random: Random,
        views: Mapping[str, str],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self._patch = patch
        self._db: Database = relstate.connect(spark, store.path)
        self._batch = spark.newSession()
        for name, value in INTERPRETED.items():
            self._batch.conf.set(name, value)
        self._store = store
        self._random = random
        self._views = views
        self._tables = tables
        self._paths = Random()
        self._paths.setstate(random.getstate())
        self._units = store.settings.vnode_count > 1
        late = set(random.sample(list(views), len(views) // 3))
        bases = {base for name in late for base in views if f"{{v}}{base} " in f"{views[name]} "}
        bases |= {b for name in bases for b in views if f"{{v}}{b} " in f"{views[name]} "}
        self._late = {name: query for name, query in views.items() if name in late | bases}

    def hold(self, where: str) -> None:
        """Check the law over some epochs; ``where`` names the case in failures."""
        self._choose_path()
        self._create("v_", self._views)
        for number in range(EPOCHS):
            self._tables.step()
            if number == 1:
                self._rescale()
            # Rows are added up before every shuffle, or only by tasks of relstate that have them.
            self._patch.setattr(frame, "MANY_ROWS", 0 if number == 0 else 1 << 16)
            self._choose_path()
            self._db.refresh()
            self._check(("v_",), f"{where}, epoch {number}")
        self._choose_path()
        self._create("w_", self._late)
        self._check(("w_",), f"{where}, created late")
        self._tables.step()
        self._choose_path()
        self._db.refresh()
        self._check(("v_", "w_"), f"{where}, the last epoch")
        for name, query in self._late.items():
            assert list(self._differing_tables(name)) == [], f"{where}: {name}: {query}"
        some = self._random.choice(list(self._views))
        reports = self._db.check_views(f"v_{some}")
        assert [report for report in reports if not report.ok] == [], where

    def _choose_path(self) -> None:
        most = self._paths.choice([IN_DRIVER, IN_JOB, IN_EITHER])
        for bound in ("LOCAL_ROWS", "OUTPUT_ROWS"):
            self._patch.setattr(local_run, bound, most)
        # In more units than the view has; and in full, at once or after much state was read.
        self._patch.setattr(job, "UNIT_ROWS", self._paths.choice([UNIT_ROWS, 5]))
        least = self._paths.choice([LEAST_STATE_ROWS, 0])
        self._patch.setattr(full_refresh, "LEAST_STATE_ROWS", least)
        is_full = self._paths.random() < 0.3
        self._patch.setattr(refresh, "pays_off", (lambda *_: True) if is_full else pays_off)

    def _create(self, prefix: str, views: Mapping[str, str]) -> None:
        for name, query in views.items():
            units = self._random.randint(1, 3) if self._units else 1
            self._db.sql(
                f"CREATE MATERIALIZED VIEW {prefix}{name} TBLPROPERTIES ('parallelism' = '{units}')"
                f" AS {query.format(v=prefix) if name in OVER_VIEWS else query}"
            )

    def _rescale(self) -> None:
        if self._units:
            for name in self._views:
                units = self._random.randint(1, 3)
                self._db.sql(f"ALTER MATERIALIZED VIEW v_{name} SET PARALLELISM {units}")

    def _check(self, prefixes: tuple[str, ...], where: str) -> None:
        self._tables.show(self._batch)
        for name, query in self._views.items():
            text = query.format(v="") if name in OVER_VIEWS else query
            self._batch.sql(text).createOrReplaceTempView(f"`{name}`")
            copies = [prefix for prefix in prefixes if prefix == "v_" or name in self._late]
            if not copies:
                continue
            expected = self._batch.table(f"`{name}`").toArrow()
            for prefix in copies:
                rows = self._store.table(prefix + name).to_arrow().select(expected.column_names)
                surplus, missing = difference(rows_of_table(rows), rows_of_table(expected))
                assert (surplus[:3], missing[:3]) == ([], []), (
                    f"{where}, epoch {self._store.epoch}: {prefix}{name} has {len(surplus)} rows "
                    f"too many and {len(missing)} too few for {text}"
                )

    def _differing_tables(self, name: str) -> Iterator[str]:
        """Yield the internal tables that differ between the early and the late copy of a view."""
        state = self._store.state
        pair = [state.view(prefix + name).definition.internal for prefix in ("v_", "w_")]
        for early, late in zip(*pair, strict=True):
            names = [state.name_of(table_id) for table_id in (early, late)]
            rows = [self._rows(table) for table in names]
            if difference(*rows) != ([], []):
                yield f"{names[0]}: {difference(*rows)}"

    def _rows(self, table: str) -> list[tuple[object, ...]]:
        rows: pa.Table = self._store.table(table).to_arrow()
        return rows_of_table(rows)
