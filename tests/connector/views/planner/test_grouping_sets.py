"""The sets that GROUPING SETS, CUBE and ROLLUP mean."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import text_of
from relstate.connector.views.planner.grouping_sets import check_grouping_sets, grouping_sets
from relstate.storage import errors


@pytest.mark.parametrize(
    ("clause", "expressions", "sets"),
    [
        ("ROLLUP (a, b)", "a b", ["ab", "a", ""]),
        ("ROLLUP ((a, b), c)", "a b c", ["abc", "ab", ""]),
        ("a, b WITH ROLLUP", "a b", ["ab", "a", ""]),
        ("CUBE (a, b)", "a b", ["ab", "a", "b", ""]),
        ("b, a WITH CUBE", "b a", ["ba", "b", "a", ""]),
        ("GROUPING SETS ((b), (a, b), (), b)", "b a", ["b", "ba", "", "b"]),
        ("a, b GROUPING SETS ((b, a), a)", "a b", ["ab", "a"]),
        ("c, ROLLUP (a)", "c a", ["ca", "c"]),
        ("ROLLUP (a), CUBE (b)", "a b", ["ab", "a", "b", ""]),
        (
            "GROUPING SETS (a, ROLLUP (b, c), GROUPING SETS ((c)))",
            "a b c",
            ["a", "bc", "b", "", "c"],
        ),
    ],
)
def test_the_sets_are_those_of_spark(clause: str, expressions: str, sets: list[str]) -> None:
    """Expressions are in the order of the text, on which grouping_id() depends."""
    query = ParsedQuery.parse(f"SELECT count(*) FROM t GROUP BY {clause}")

    group = grouping_sets(query.tree.args["group"], lambda tree: tree)

    names = [text_of(tree) for tree in group.expressions]
    assert names == expressions.split()
    assert group.sets is not None
    assert ["".join(names[place] for place in members) for members in group.sets] == sets


def test_one_empty_set_is_the_global_aggregate() -> None:
    """Then there is a row even if the input has none; a ROLLUP has none, nor a listed column."""
    listed = ParsedQuery.parse("SELECT a FROM t GROUP BY a GROUPING SETS (())")
    assert grouping_sets(listed.tree.args["group"], lambda tree: tree).sets == ((),)

    query = ParsedQuery.parse("SELECT count(*) FROM t GROUP BY GROUPING SETS (())")

    group = grouping_sets(query.tree.args["group"], lambda tree: tree)

    assert (group.expressions, group.sets) == ((), None)


@pytest.mark.parametrize(
    "clause", ["CUBE (a, b, c, d, e, f, g, h, i, j)", "CUBE (a, b, c, d, e), CUBE (f, g, h, i, j)"]
)
def test_the_number_of_sets_is_bounded(clause: str) -> None:
    """Each row is expanded to one row per set."""
    query = ParsedQuery.parse(f"SELECT count(*) FROM t GROUP BY {clause}")

    with pytest.raises(
        errors.UnsupportedStatementError, match=r"1024 grouping sets at .*: 512 are allowed"
    ):
        check_grouping_sets(query.tree)
