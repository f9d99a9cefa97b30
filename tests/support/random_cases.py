"""Random cases of views: tables, their changes, and queries over them, all from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from support.local import IN_DRIVER, IN_EITHER, IN_JOB
from support.random_changes import ChangeMaker
from support.random_expressions import UNORDERED
from support.random_queries import QueryMaker
from support.random_tables import random_tables
from support.view_cases import FAILING_TASKS, Accident, Case, Step, View

_STEPS = 5
# A refresh has a task for each unit, and for each part: many of them take most of the time.
_UNITS = (1, 1, 1, 1, 1, 1, 1, 3, 3, 8)
_PART_ROWS = (None, None, None, None, None, None, 8, 20)
# So many seconds pass before a step; rows have times that are 40 minutes apart.
_SECONDS = (0, 0, 0, 20, 2400, 2400, 7200, 66_000, 93_600)
# In Almaty clocks are turned back by an hour 20 hours after the first time.
_TIME_ZONES = ("UTC", "UTC", "Asia/Almaty", "Asia/Kathmandu")
_COMMIT = ("write _log/*", "link _log/*", "sync _log")


def random_case(seed: int, views: int = 12) -> Case:
    """Return the case of a seed, with so many views.

    Views are created before all rows, after some, or after all; rows come in one step or in many.
    """
    random = Random(seed)
    tables = random_tables(random, random.randint(2, 3))
    changes = ChangeMaker(random, tables)
    steps = [Step() if random.random() < 0.4 else Step(changes.step())]
    while len(steps) < _STEPS:
        steps.append(_random_step(random, changes))
    steps[-1] = replace(steps[-1], is_refreshed=True)
    vnode_count = random.choice([8, 16, 256])
    maker = QueryMaker(random, {table.name: table.kinds for table in tables})
    return Case(
        tables,
        tuple(steps),
        tuple(_random_views(random, maker, views)),
        vnode_count,
        random.choice(_PART_ROWS),
        random.choice([None, None, 1]),
        random.choice([IN_DRIVER, IN_EITHER, IN_JOB]),
        random.choice(_TIME_ZONES),
    )


def _random_step(random: Random, changes: ChangeMaker) -> Step:
    # Sometimes time passes, and nothing else happens.
    commits = changes.step() if random.random() < 0.93 else ()
    return Step(
        commits,
        is_refreshed=random.random() < 0.75,
        seconds=random.choice(_SECONDS),
        is_compacted=random.random() < 0.12,
        accident=_random_accident(random) if random.random() < 0.25 else None,
    )


def _random_accident(random: Random) -> Accident:
    """Return what ends a driver at any touch of its disk, near its commit, or by its tasks."""
    accidents: list[Accident]
    accidents = [FAILING_TASKS, random.choice(_COMMIT), random.randint(1, 60)]
    return random.choice(accidents)


def _random_views(random: Random, maker: QueryMaker, count: int) -> list[View]:
    views: list[View] = []
    latest = 0
    for number in range(count):
        query = maker.query(random.choice([1, 2, 2, 2, 3]))
        # In the order of their creation, so that each can read those before it.
        if number > count // 2 and random.random() < 0.4:
            latest = min(latest + 1, _STEPS - 1)
        units = [random.choice(_UNITS)]
        for _ in range(_STEPS - latest - 1):
            units.append(random.choice(_UNITS) if random.random() < 0.2 else units[-1])
        accident = _random_accident(random) if random.random() < 0.08 else None
        keys = [name for name, kind in query.columns if kind not in UNORDERED]
        cluster = random.sample(keys, 1) if keys and random.random() < 0.1 else []
        view = View(f"v{number}", query.sql, latest, tuple(units), accident, tuple(cluster))
        if random.random() < 0.3:
            maker.add_view(view.name, query.columns)
        elif latest < _STEPS - 1 and random.random() < 0.12:
            step = random.randint(latest + 1, _STEPS - 1)
            view = replace(view, replacement=(step, maker.query(1).sql))
        views.append(view)
    return views
