"""The Spark job of a refresh: the fragments of a view's plan as one frame.

Stateless operators are Spark's; a shuffle brings rows to the unit that owns their vnode; there a
task runs the executors. Executors without a shuffle or an expression between them share a task.

Promises: the frame yields messages (see message), one from every task, and nothing else.
Does not know: what a scan reads, or what is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from relstate.connector.types import struct_of
from relstate.storage import OP_COLUMN, ReadPlan, types
from relstate.vnode import VnodeMapping

from .executor.executor import PAIR, PART_COLUMN, SIDE_COLUMN
from .executor.join import JoinExecutor
from .executor.step import SelectStep, Step
from .plan.node import Names, Node
from .plan.stateful import Join, Materialize
from .plan.stateless import Filter, Output, Project, Scan, Union
from .task import ExecutorStep, FragmentTask, StatelessTask, Target
from .viewplan import ExecutorType, Operator, ViewPlan, distribution_of, is_colocated, units_of
from .wire import MESSAGE, TARGET, guarded, passing, wire_fields

Source: TypeAlias = Callable[[Scan, Sequence[Step]], DataFrame]
"""Gives the changed rows of a scan, after some steps, as rows of the wire."""

# From so many changes on, to add rows up before a shuffle takes less than a task of its own costs.
MANY_ROWS = 1 << 16

_SIDE = types.Field(SIDE_COLUMN, types.TinyInt())
_PART = types.Field(PART_COLUMN, types.TinyInt())


@dataclass(frozen=True, slots=True)
class ViewJob:
    """What a job needs to know of a view.

    ``states``: how to read the state tables, in the plan's order, and last the view's own table.
    """

    view_id: int
    plan: ViewPlan
    mapping: VnodeMapping
    target: Target
    states: tuple[ReadPlan, ...]
    is_ansi: bool

    def combiner(self, operator: Operator) -> tuple[Step, ExecutorType] | None:
        """Return how rows are combined before they are shuffled to an executor; None if not."""
        return operator.executor.combiner(operator.node)

    def step(self, operator: Operator) -> ExecutorStep:
        """Return an executor with its state."""
        states = self.states[-1:] if operator.is_root else [self.states[i] for i in operator.tables]
        return ExecutorStep(operator, tuple(states), self.is_ansi)


def message_frame(job: ViewJob, source: Source, rows: int) -> DataFrame:
    """Return the frame of the messages of all tasks of a view's refresh, in one column.

    ``rows``: how many changes there are, about.
    """
    flow = _Builder(job, source, rows).flow(job.plan.root)
    return _frame(flow).where(f"{MESSAGE} IS NOT NULL AND length({MESSAGE}) > 0").select(MESSAGE)


@dataclass(frozen=True)
class _Flow:
    """Rows of an operator on their way: a frame or a scan, and steps that are yet to be run.

    ``fields``: of the frame's rows; ``result``: of what the steps make of them. ``units``: in how
    many partitions the rows lie since the last shuffle.
    """

    rows: DataFrame | Scan
    fields: tuple[types.Field, ...]
    result: tuple[types.Field, ...]
    units: int
    steps: tuple[ExecutorStep | Step, ...] = ()

    @property
    def is_in_hand(self) -> bool:
        """Whether a task of ours is about to have the rows."""
        return bool(self.steps) or isinstance(self.rows, Scan)

    def then(self, step: Step) -> _Flow:
        """Return the rows after a step."""
        return replace(self, steps=(*self.steps, step), result=step.fields)

    def executed(self, step: ExecutorStep, result: tuple[types.Field, ...]) -> _Flow:
        """Return the rows that an executor gives."""
        return replace(self, steps=(*self.steps, step), result=result)


class _Builder:
    """Builds the frame of one job."""

    def __init__(self, job: ViewJob, source: Source, rows: int) -> None:
        self._job = job
        self._source = source
        self._are_many = rows >= MANY_ROWS

    def flow(self, node: Node) -> _Flow:
        """Return the rows of an operator."""
        match node:
            case Scan():
                return _Flow(node, node.fields, node.fields, 1)
            case Project():
                return self._project(node)
            case Filter():
                below = self._run(self.flow(node.child))
                return replace(below, rows=_frame(below).where(passing(node.condition)))
            case Union():
                return self._union([self._run(self.flow(one)) for one in node.inputs])
            case Join():
                return self._join(node)
            case _:
                return self._executed(node)

    def _project(self, node: Project) -> _Flow:
        below = self.flow(node.child)
        if node.is_selection and below.is_in_hand:
            chosen = tuple(str(one.source) for one in node.outputs)
            return below.then(SelectStep(chosen, node.fields))
        below = self._run(below)
        columns = [_projected(output) for output in node.outputs]
        return self._selected(below, columns, node.fields)

    def _executed(self, node: Node) -> _Flow:
        (child,) = node.children
        below = self.flow(child)
        (operator,) = self._job.plan.operators_of(node)
        if not is_colocated(node):
            # A task that has the rows adds them up by the way, else it takes a task more.
            combiner = self._job.combiner(operator)
            if combiner is not None and (below.is_in_hand or self._are_many):
                step, executor = combiner
                below = below.then(step)
                operator = replace(operator, executor=executor)
            below = self._shuffled(self._run(below), distribution_of(node))
        result = () if isinstance(node, Materialize) else node.fields
        flow = below.executed(self._job.step(operator), result)
        return self._run(flow) if isinstance(node, Materialize) else flow

    # Joins

    def _join(self, node: Join) -> _Flow:
        sides = [self._side(node, number) for number in range(2)]
        flow = self._shuffled(self._union(sides), distribution_of(node))
        first, *rest = self._job.plan.operators_of(node)
        assert issubclass(first.executor, JoinExecutor)
        if not rest:
            return flow.executed(self._job.step(first), node.fields)
        keys = tuple(key.field for key in node.keys)
        candidates = (_PART, *keys, *node.left.fields, *node.right.fields)
        flow = flow.executed(self._job.step(first), candidates)
        if node.condition is not None:
            flow = self._run(flow)
            kept = passing(f"{PART_COLUMN} <> {PAIR} OR ({node.condition})")
            flow = replace(flow, rows=_frame(flow).where(kept))
        (degree,) = rest
        return flow.executed(self._job.step(degree), node.fields)

    def _side(self, node: Join, number: int) -> _Flow:
        """Return the rows of an input of a join with the columns of both."""
        child = node.children[number]
        flow = self._run(self.flow(child))
        own = [key.left if number == 0 else key.right for key in node.keys]
        columns = [f"CAST({number} AS TINYINT) AS {SIDE_COLUMN}"]
        columns += [
            f"{types.quoted(name)} AS {types.quoted(key.field.name)}"
            for name, key in zip(own, node.keys, strict=True)
        ]
        for side, other in enumerate(node.children):
            columns += [
                types.quoted(one.name) if side == number else _null(one) for one in other.fields
            ]
        keys = tuple(key.field for key in node.keys)
        fields = (_SIDE, *keys, *node.left.fields, *node.right.fields)
        return self._selected(flow, columns, fields)

    # Parts of a frame

    def _union(self, flows: Sequence[_Flow]) -> _Flow:
        first, *rest = flows
        frame = _frame(first)
        for other in rest:
            frame = frame.unionAll(_frame(other))
        return replace(first, rows=frame)

    def _selected(
        self, flow: _Flow, columns: Sequence[str], fields: tuple[types.Field, ...]
    ) -> _Flow:
        frame = _frame(flow).selectExpr(OP_COLUMN, *columns, TARGET, MESSAGE)
        return replace(flow, rows=frame, fields=fields, result=fields)

    def _shuffled(self, flow: _Flow, distribution: Names) -> _Flow:
        """Return rows each in the unit that owns its vnode."""
        frame, units = _frame(flow), units_of(self._job.mapping, distribution)
        if units == 1:
            return replace(flow, rows=frame.repartition(1), units=1)
        owner = owner_expression(self._job.mapping, distribution)
        unit = f"CASE WHEN {MESSAGE} IS NOT NULL THEN {TARGET} ELSE {owner} END"
        return replace(flow, rows=frame.repartitionById(units, f.expr(unit)), units=units)

    def _run(self, flow: _Flow) -> _Flow:
        """Return a flow of a frame, whose steps have been run by its tasks."""
        stateless = [step for step in flow.steps if not isinstance(step, ExecutorStep)]
        if isinstance(flow.rows, Scan):
            assert len(stateless) == len(flow.steps)
            frame = self._source(flow.rows, stateless)
        elif not flow.steps:
            return flow
        else:
            is_stateless = len(stateless) == len(flow.steps)
            task = (
                StatelessTask(flow.fields, tuple(stateless))
                if is_stateless
                else self._fragment(flow)
            )
            frame = flow.rows.mapInArrow(task, struct_of(wire_fields(flow.result)))
        return _Flow(frame, flow.result, flow.result, flow.units)

    def _fragment(self, flow: _Flow) -> FragmentTask:
        return FragmentTask(
            self._job.view_id,
            self._job.target,
            self._job.mapping,
            flow.fields,
            flow.steps,
            flow.result,
            flow.units,
        )


def _frame(flow: _Flow) -> DataFrame:
    """Return the frame of a flow that was run."""
    assert not isinstance(flow.rows, Scan)
    assert not flow.steps
    return flow.rows


def owner_expression(mapping: VnodeMapping, columns: Sequence[str]) -> str:
    """Return, in Spark's SQL, the unit that owns the vnode of a row's distribution, an INT."""
    vnode = f"pmod(xxhash64({', '.join(map(types.quoted, columns))}), {mapping.vnode_count})"
    owners = ",".join(map(str, mapping.owners))
    return f"CAST(split('{owners}', ',')[CAST({vnode} AS INT)] AS INT)"


def _projected(output: Output) -> str:
    name = types.quoted(output.field.name)
    if output.source is not None:
        return f"{types.quoted(output.source)} AS {name}"
    return f"{guarded(output.expression)} AS {name}"


def _null(field: types.Field) -> str:
    return f"CAST(NULL AS {field.type}) AS {types.quoted(field.name)}"
