"""Equal parts of a plan are one shared operator, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.spark.capabilities import RECURSIVE_VIEWS
from relstate.connector.views.operators import plan_from_json
from relstate.connector.views.plan.node import plan_lines, walk
from relstate.connector.views.plan.recursion import Recursion
from relstate.connector.views.plan.shared import Shared
from relstate.connector.views.viewplan import ViewPlan
from support.versions import needs

if TYPE_CHECKING:
    from relstate.connector.views.plan.materialize import Materialize

Planned = Callable[[str], "Materialize"]
_SUMS = "SELECT g, count(*) AS c, sum(x) AS s FROM t GROUP BY g"


def shared_of(plan: Materialize) -> list[Shared]:
    """Return the shared operators of a plan."""
    return [node for node in walk(plan) if isinstance(node, Shared)]


@pytest.mark.parametrize(
    "query",
    [
        f"WITH a AS ({_SUMS}) SELECT a.g, a.s, b.c FROM a JOIN a AS b ON a.s = b.c",
        f"SELECT a.g, a.s, b.c FROM ({_SUMS}) a JOIN ({_SUMS}) b ON a.s = b.c",
    ],
)
def test_what_is_read_twice_is_planned_once(query: str, planned: Planned) -> None:
    """A common table, or two subqueries of one text; it has the fields that any of them reads."""
    plan = planned(query)
    (shared,) = shared_of(plan)
    assert shared.names == ("g", "count", "sum_x")
    assert sum(node.operator == "aggregate" for node in walk(plan)) == 1
    lines = plan_lines(plan)
    assert [line.strip() for line in lines if "Shared" in line] == [
        "Shared 1",
        "Shared 1, as above",
    ]
    assert plan_from_json(plan.to_json()) == plan
    # The fragment of the join gets both sides from that of the aggregate.
    assert [fragment.inputs for fragment in ViewPlan(plan).fragments][1:] == [(1,)]


@needs(RECURSIVE_VIEWS)
def test_a_recursion_that_is_read_twice_runs_once(planned: Planned) -> None:
    """Names of columns that are those of fields in one of its places only do not keep it apart."""
    plan = planned(
        "WITH RECURSIVE r(id, n) AS (SELECT id, 0 FROM t UNION ALL "
        "SELECT r.id, n + 1 FROM r JOIN t ON t.x = r.n) "
        "SELECT a.id, b.n FROM r a JOIN r b ON a.n = b.id"
    )
    (shared,) = shared_of(plan)
    assert isinstance(shared.child, Recursion)
    assert plan_from_json(plan.to_json()) == plan
    different = planned(
        "WITH RECURSIVE r(n) AS (SELECT id FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 5), "
        "s(n) AS (SELECT x FROM t UNION ALL SELECT n + 1 FROM s WHERE n < 5) SELECT r.n FROM r, s"
    )
    assert shared_of(different) == []


def test_a_part_on_which_readers_differ_is_not_shared(planned: Planned) -> None:
    """A filter of one reader alone stays above what they share; one below keeps them apart."""
    above = planned(f"WITH a AS ({_SUMS}) SELECT a.g FROM a JOIN a AS b ON a.s = b.c AND b.c > 2")
    assert [type(node.child).operator for node in shared_of(above)] == ["aggregate"]
    below = planned(
        "SELECT a.g FROM (SELECT g, sum(x) AS s FROM t WHERE x > 1 GROUP BY g) a "
        "JOIN (SELECT g, sum(x) AS s FROM t WHERE x > 2 GROUP BY g) b ON a.s = b.s"
    )
    assert shared_of(below) == []


def test_rows_without_state_are_read_once_for_each_reader(planned: Planned) -> None:
    """A table joined with itself has two scans: to read changes twice costs little."""
    plan = planned("SELECT a.id, b.id AS other FROM t a JOIN t b ON a.x = b.x")
    assert shared_of(plan) == []
    assert sum(node.operator == "scan" for node in walk(plan)) == 2


def test_what_is_shared_may_share_parts(planned: Planned) -> None:
    """A common table that reads another one, both of which are read twice."""
    plan = planned(
        f"WITH a AS ({_SUMS}), b AS (SELECT u.k, u.g, a.s FROM u JOIN a ON u.g = a.g), "
        "c AS (SELECT g, max(s) AS m FROM b GROUP BY g) "
        "SELECT c.g, c.m, d.m AS other, a.c FROM c JOIN c AS d ON c.m = d.m JOIN a ON a.g = c.g"
    )
    first, second = shared_of(plan)
    assert (first.number, second.number) == (1, 2)
    assert first in walk(second)
    operators = [node.operator for node in walk(plan)]
    assert (operators.count("scan"), operators.count("aggregate")) == (2, 2)
    read_again = plan_from_json(plan.to_json())
    assert read_again == plan
    assert len(shared_of(read_again)) == 2
