"""Plans as JSON: they round-trip, and damaged ones are refused in bounded time."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from relstate.connector.views.operators import MAX_DEPTH, PlanError, plan_from_json
from relstate.connector.views.plan.node import plan_lines, walk
from relstate.connector.views.viewplan import parse_stored_plan
from relstate.storage import errors

FROZEN = sorted((Path(__file__).parent / "frozen").glob("*.txt"))


def frozen_plan(path: Path) -> tuple[list[str], Any]:
    """Return the lines and the JSON of a frozen plan."""
    text = path.read_text("utf-8")
    lines, _, value = text.partition("\n== JSON ==\n")
    return lines.splitlines(), json.loads(value)


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_a_stored_plan_is_read_as_it_was_written(path: Path) -> None:
    """JSON and EXPLAIN's lines of every frozen plan survive a round trip."""
    lines, value = frozen_plan(path)

    plan = plan_from_json(value)

    assert plan.to_json() == value
    assert list(plan_lines(plan)) == lines[1 : lines.index("")]


VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**40, 10**400, 1.5, "", "x", "materialize", "scan", [], [None], {},
    [[]], {"operator": "scan"}, "string", ["g", True, False],
)  # fmt: skip


def positions(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for every value within a JSON value."""
    keys = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(keys):
        yield value, key
        if isinstance(inner, dict | list):
            yield from positions(inner)


def mutated(value: Any, random: Random) -> Any:
    """Return a copy with one to three values replaced, removed, repeated or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        container, key = random.choice(list(positions(value)))
        source, source_key = random.choice(list(positions(value)))
        act = random.randrange(4)
        if act == 0:
            container[key] = random.choice(VALUES)
        elif act == 1:
            container[key] = copy.deepcopy(source[source_key])
        elif act == 2 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        else:
            del container[key]
        if not value:
            break
    return value


@pytest.mark.parametrize("path", FROZEN[::3], ids=lambda path: path.stem)
def test_a_damaged_plan_is_refused_or_read_whole(path: Path) -> None:
    """A changed plan is either a plan with known executors, or an error."""
    _, value = frozen_plan(path)
    random = Random(path.stem)
    refusals = []

    for _ in range(150):
        changed = mutated(value, random)
        try:
            plan = parse_stored_plan("v", changed)
        except errors.CorruptionError as error:
            refusals.append(str(error))
        else:
            assert plan_from_json(plan.root.to_json()) == plan.root
            assert plan.fragments
            assert plan.table_schema.columns

    assert len(refusals) > 50
    assert all("view 'v'" in text and len(text) < 500 for text in refusals)


def nested(depth: int) -> Any:
    """Return a plan of filters over filters."""
    _, value = frozen_plan(FROZEN[0])
    for _ in range(depth):
        value["child"] = {"operator": "filter", "child": value["child"], "condition": "TRUE"}
    return value


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda value: nested(100_000), f"more than {MAX_DEPTH} levels deep"),
        (lambda value: [], "not an operator"),
        (lambda value: None, "not an operator"),
        (lambda value: value["child"], "does not materialize"),
        (lambda value: {**value, "child": value}, "reads the root"),
        (lambda value: {**value, "operator": "reduce"}, "'reduce' is not an operator"),
        (lambda value: {**value, "visible": [["a", "nothing"]]}, "nothing"),
        (lambda value: {**value, "visible": value["visible"] * 2}, "two fields of one name"),
        (lambda value: {k: v for k, v in value.items() if k != "order"}, "has no 'order'"),
    ],
)
def test_the_error_says_what_is_wrong(damage: Callable[[Any], Any], problem: str) -> None:
    """It names the damaged part."""
    _, value = frozen_plan(FROZEN[0])

    with pytest.raises(PlanError, match=problem):
        plan_from_json(damage(value))


def test_a_shared_operator_is_one_node_however_many_operators_read_it() -> None:
    """A reader's copy of it in JSON makes no second node; a copy that differs is refused."""
    _, value = frozen_plan(Path(__file__).parent / "frozen" / "shared.txt")
    plan = plan_from_json(value)

    assert sum(node.operator == "shared" for node in walk(plan)) == 1
    assert plan.to_json() == value
    copies = [
        inner
        for container, key in positions(value)
        if isinstance(inner := container[key], dict) and inner.get("operator") == "shared"
    ]
    assert len(copies) == 2
    copies[1]["child"] = copies[1]["child"]["child"]
    with pytest.raises(PlanError, match=r"there are two shared operators 1|is not one of its"):
        plan_from_json(value)


def test_all_operators_are_frozen() -> None:
    """Every operator occurs in the frozen plans, so that its JSON cannot change."""
    names = {
        node.operator for path in FROZEN for node in walk(plan_from_json(frozen_plan(path)[1]))
    }

    assert names == {
        "scan", "project", "filter", "union", "aggregate", "join", "top_n", "materialize",
        "group_recompute", "window_recompute", "one_row", "generate", "window", "temporal_filter",
        "broadcast_join", "session_recompute", "shared", "asof_join", "recursion",
    }  # fmt: skip
