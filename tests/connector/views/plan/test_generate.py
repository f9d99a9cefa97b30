"""Rows of no table: the one row of a constant, and the rows that a function makes of each row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relstate.connector.views.plan.generate import Generate, Generator, OneRow
from relstate.connector.views.plan.node import Expression
from relstate.connector.views.plan.stateless import Output, Project
from relstate.connector.views.scans import OneRowPlan, SourceRead
from relstate.storage import types

ROW = OneRow(types.Field("one_row", types.TinyInt()))
CHILD = Project(
    ROW,
    (
        Output(ROW.field, "one_row", "one_row"),
        Output(types.Field("list", types.Array(types.Int())), "array(7, 8)"),
        Output(types.Field("other", types.Int()), "5"),
    ),
)
OUTPUTS = (types.Field("position", types.Int()), types.Field("element", types.Int()))
NODE = Generate(
    CHILD,
    Generator.ELEMENTS,
    (Expression("list", types.Array(types.Int())),),
    CHILD.names,
    OUTPUTS,
)


def fields_of(text: str) -> set[str]:
    """Return the fields that an expression reads, which is a name or a constant."""
    return {text} & set(CHILD.names)


def test_the_position_of_a_row_is_part_of_the_key() -> None:
    """The rows that one input row makes are told apart by their positions."""
    assert NODE.key == ("one_row", "position")
    assert NODE.fields == (*CHILD.fields, *OUTPUTS)


def test_only_what_is_read_passes_a_generator() -> None:
    """The array is read by the generator, and is not part of its rows unless it is read above."""
    node = NODE.prune({"element"}, fields_of)
    assert isinstance(node, Generate)
    assert node.names == ("one_row", "position", "element")
    assert node.child.names == ("one_row", "list")


@pytest.mark.parametrize(
    "node",
    [
        replace(NODE, outputs=OUTPUTS[:1]),
        replace(NODE, outputs=(OUTPUTS[1], types.Field("element_2", types.String()))),
        replace(NODE, passed=("list",)),
        replace(NODE, passed=(*CHILD.names, "missing")),
        replace(NODE, arguments=()),
        replace(NODE, function=Generator.JSON),
        OneRow(types.Field("one_row", types.Int())),
    ],
)
def test_a_generator_that_contradicts_itself_is_an_error(node: Generate | OneRow) -> None:
    """Columns that are not those of the function, a dropped key, a constant of another type."""
    with pytest.raises(ValueError, match=r"posexplode|json_tuple|passed fields|one row"):
        node.check()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_one_row_is_in_one_part_of_a_job(count: int) -> None:
    """However a job is cut into parts, and a part into vnodes, the row comes once."""
    read = SourceRead(ROW, OneRowPlan(4), range(4))
    parts = [read.part(number, count) for number in range(count)]
    chunks = [chunk for part in parts for chunk in part.chunks(part.vnodes)]
    assert [chunk.num_rows for chunk in chunks] == [1]
    assert chunks[0].column("one_row").to_pylist() == [0]
    assert [*SourceRead(ROW, None, range(4)).chunks(range(4))] == []
