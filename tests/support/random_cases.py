"""Random cases of views: tables, their changes, and queries over them, all from a seed."""

from __future__ import annotations

from random import Random

from support.random_queries import QueryMaker
from support.random_tables import ChangeMaker, random_tables
from support.view_cases import Case, Step, View

_STEPS = 5
_UNITS = (1, 1, 1, 3, 3, 8)


def random_case(seed: int, views: int = 12) -> Case:
    """Return the case of a seed, with so many views."""
    random = Random(seed)
    tables = random_tables(random, random.randint(2, 3))
    changes = ChangeMaker(random, tables)
    steps = [Step() if random.random() < 0.4 else Step(changes.step())]
    while len(steps) < _STEPS:
        steps.append(Step(changes.step(), random.random() < 0.75))
    steps[-1] = Step(steps[-1].commits)
    vnode_count = random.choice([8, 16, 256])
    maker = QueryMaker(random, {table.name: table.kinds for table in tables})
    return Case(
        tables,
        tuple(steps),
        tuple(_random_views(random, maker, views)),
        vnode_count,
        random.choice([None, None, None, 5, 20]),
        random.choice([None, None, 1]),
    )


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
        views.append(View(f"v{number}", query.sql, latest, tuple(units)))
        if random.random() < 0.3:
            maker.add_view(f"v{number}", query.columns)
    return views
