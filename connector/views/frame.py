"""The Spark job of a refresh: the fragments of a view's plan as one frame.

Spark runs stateless operators; a shuffle brings rows, or packets of them (exchange), to the unit
that owns their vnode; there a task runs the executors. Executors without a shuffle or an expression
between them share a task.

Promises: the frame yields reports, one from every task, and nothing else.
Does not know: what a scan reads, or what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relstate.connector.types import struct_of
from relstate.storage import OP_COLUMN, types
from relstate.vnode import VnodeMapping

from .evaluation import evaluated
from .exchange import PacketOutput, RowOutput, TaskOutput
from .executor.changes import SelectStep, Step
from .executor.executor import LEFT_ROW, PAIR, PART_COLUMN, SIDE_COLUMN
from .executor.keyed_rows import row_fields
from .executor.session_step import SessionStep
from .job import ViewJob
from .join_rows import (
    AnyJoin,
    KeyedJoin,
    candidate_fields,
    match_condition,
    side_fields,
    side_step,
)
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.generate import Generate, Generator, OneRow, Source
from .plan.join import Join, JoinKind
from .plan.materialize import Materialize
from .plan.node import Names, Node
from .plan.recompute import KeyedRecompute
from .plan.recursion import Recursion
from .plan.session import SessionRecompute
from .plan.shared import Shared
from .plan.stateless import Filter, Output, Project, Scan, Union
from .recursion import recursive_rows
from .scans import rows_frame, sends_from_driver, source_frame
from .task import ExecutorStep, FragmentTask, StatelessTask
from .viewplan import distribution_of, is_broadcast, is_colocated, unit_count
from .wire import MESSAGE, TARGET, null_for_control_rows, true_for_control_rows

# From so many changes on it is worth a stage of its own to combine rows before a shuffle.
MANY_ROWS = 1 << 16


def report_frame(job: ViewJob, session: SparkSession) -> DataFrame:
    """Return the frame of the reports of all tasks of a job, in one column.

    Shared operators have been computed when it returns.
    """
    flow = _FrameBuilder(job, session).flow(job.plan.root)
    return _frame(flow).where(f"{MESSAGE} IS NOT NULL AND length({MESSAGE}) > 0").select(MESSAGE)


@dataclass(frozen=True)
class _Flow:
    """The rows of an operator: a frame or a source, and the steps that are still to be run on it.

    ``fields``: those of the frame; ``result``: those after the steps. ``units``: the number of
    partitions since the last shuffle.
    """

    rows: DataFrame | Source
    fields: tuple[types.Field, ...]
    result: tuple[types.Field, ...]
    units: int
    steps: tuple[ExecutorStep | Step, ...] = ()

    @property
    def is_in_task(self) -> bool:
        """Whether a task of relstate has the rows, so that one more step costs no stage."""
        return bool(self.steps) or isinstance(self.rows, Source)

    def with_step(self, step: Step) -> _Flow:
        """Return the rows after a step."""
        return replace(self, steps=(*self.steps, step), result=step.fields)

    def with_executor(self, step: ExecutorStep, result: tuple[types.Field, ...]) -> _Flow:
        """Return the rows after an executor."""
        return replace(self, steps=(*self.steps, step), result=result)


class _FrameBuilder:
    """Builds the frame of one job in a session."""

    def __init__(self, job: ViewJob, session: SparkSession) -> None:
        self._job = job
        self._mapping = job.mapping
        self._session = session
        self._has_many_rows = job.rows >= MANY_ROWS
        self._reads = {id(read.source): read for read in job.reads}
        self._shared: dict[int, _Flow] = {}

    def flow(self, node: Node) -> _Flow:
        """Return the rows of an operator."""
        rows = self._job.operator_rows.get(id(node))
        if rows is not None and sends_from_driver(node.fields, rows.nbytes):
            frame = rows_frame(self._session, rows, node.fields, self._mapping.units)
            return _Flow(frame, node.fields, node.fields, 1)
        match node:
            case Scan() | OneRow():
                return _Flow(node, node.fields, node.fields, 1)
            case Project():
                return self._project(node)
            case Filter():
                flow = self._run(self.flow(node.child))
                return replace(flow, rows=_frame(flow).where(true_for_control_rows(node.condition)))
            case Union():
                return self._union([self._run(self.flow(child)) for child in node.inputs])
            case Generate():
                return self._generate(node)
            case Shared():
                return self._share(node)
            case Join() | AsofJoin():
                return self._keyed_join(node)
            case BroadcastJoin():
                return self._broadcast_join(node)
            case KeyedRecompute():
                return self._recomputed(node)
            case _:
                return self._executed(node)

    def _project(self, node: Project) -> _Flow:
        flow = self.flow(node.child)
        if node.is_selection and flow.is_in_task:
            sources = tuple(str(output.source) for output in node.outputs)
            return flow.with_step(SelectStep(sources, node.fields))
        columns = [_projection(output) for output in node.outputs]
        return self._selected(self._run(flow), columns, node.fields)

    def _generate(self, node: Generate) -> _Flow:
        flow = self._run(self.flow(node.child))
        # The outer function keeps control rows; the rows of which it makes nothing are removed.
        outer = "" if node.function is Generator.JSON else "_outer"
        arguments = ", ".join(null_for_control_rows(argument.text) for argument in node.arguments)
        names = ", ".join(types.quoted(field.name) for field in node.outputs)
        columns = [types.quoted(name) for name in node.passed]
        columns.append(f"{node.function}{outer}({arguments}) AS ({names})")
        flow = self._selected(flow, columns, node.fields)
        if node.keeps_empty or node.position is None:
            return flow
        is_made = true_for_control_rows(f"{types.quoted(node.position)} IS NOT NULL")
        return replace(flow, rows=_frame(flow).where(is_made))

    def _share(self, node: Shared) -> _Flow:
        """Return rows that several operators read, computed now.

        Spark may run a stage once for each of its readers. What executors write must be in one
        report: so a job of its own keeps the rows, and fails where they are lost.
        """
        if node.number not in self._shared:
            flow = self._run(self.flow(node.child))
            self._shared[node.number] = replace(flow, rows=_frame(flow).localCheckpoint())
        return self._shared[node.number]

    def _executed(self, node: Node) -> _Flow:
        (child,) = node.children
        flow = self.flow(child)
        (operator,) = self._job.plan.operators_of(node)
        if not is_colocated(node):
            # A task that has the rows combines them at once, else it takes one more stage.
            combiner = self._job.combiner(operator)
            if combiner is not None and (flow.is_in_task or self._has_many_rows):
                step, executor = combiner
                flow = flow.with_step(step)
                operator = replace(operator, executor=executor)
            flow = self._shuffled([flow], distribution_of(node))
        result = () if isinstance(node, Materialize) else node.fields
        flow = flow.with_executor(self._job.step(operator), result)
        return self._run(flow) if isinstance(node, Materialize) else flow

    def _recomputed(self, node: KeyedRecompute) -> _Flow:
        (child,) = node.children
        flow = self.flow(child)
        first, second = self._job.plan.operators_of(node)
        if not is_colocated(node):
            flow = self._shuffled([flow], distribution_of(node))
        flow = flow.with_executor(self._job.step(first), row_fields(node))
        if isinstance(node, SessionRecompute):
            flow = flow.with_step(SessionStep(node))
            return flow.with_executor(self._job.step(second), node.fields)
        flow = self._run(flow)
        if isinstance(node, Recursion):
            # Spark reads the rows at every level: a job of its own keeps them.
            rows = recursive_rows(node, _frame(flow).localCheckpoint())
            flow = replace(flow, rows=rows, fields=node.fields, result=node.fields)
        else:
            flow = self._evaluated(flow, node)
        return flow.with_executor(self._job.step(second), node.fields)

    # Joins

    def _keyed_join(self, node: KeyedJoin) -> _Flow:
        sides = [self._side(node, number) for number in range(2)]
        flow = self._shuffled(sides, distribution_of(node))
        first, *rest = self._job.plan.operators_of(node)
        flow = flow.with_executor(self._job.step(first), candidate_fields(node))
        if not rest:
            return flow
        assert isinstance(node, Join)
        flow = self._with_matches(node, flow)
        (degree,) = rest
        return flow.with_executor(self._job.step(degree), node.fields)

    def _with_matches(self, node: Join | BroadcastJoin, flow: _Flow) -> _Flow:
        """Return the candidates of a join without the pairs that do not meet the condition."""
        if node.condition is None:
            return flow
        flow = self._run(flow)
        condition = true_for_control_rows(match_condition(node.condition))
        return replace(flow, rows=_frame(flow).where(condition))

    def _side(self, node: KeyedJoin, number: int) -> _Flow:
        """Return the rows of an input of a join with its keys and the columns of both."""
        flow, step = self.flow(node.children[number]), side_step(node, number)
        if flow.is_in_task:
            return flow.with_step(step)
        keys = [
            f"{types.quoted(name)} AS {types.quoted(key.field.name)}"
            for name, key in zip(step.keys, node.keys, strict=True)
        ]
        return self._with_both_sides(flow, node, number, keys)

    def _with_both_sides(
        self, flow: _Flow, node: AnyJoin, number: int, keys: Sequence[str] = ()
    ) -> _Flow:
        """Return the rows of an input with computed keys, and NULL for the other input's fields."""
        columns = [f"CAST({number} AS TINYINT) AS {SIDE_COLUMN}", *keys]
        for side, side_node in enumerate(node.children):
            columns += [
                types.quoted(field.name) if side == number else _null_column(field)
                for field in side_node.fields
            ]
        return self._selected(flow, columns, side_fields(node))

    def _broadcast_join(self, node: BroadcastJoin) -> _Flow:
        left, right = (
            self._with_both_sides(self._run(self.flow(child)), node, number)
            for number, child in enumerate(node.children)
        )
        if node.has_one_row:
            left = self._with_target(left, owner_expression(self._mapping, node.left.key))
        else:
            left = self._broadcast(left)
        flow = self._to_targets(self._union([left, self._broadcast(right)]))
        first, *rest = self._job.plan.operators_of(node)
        flow = flow.with_executor(self._job.step(first), candidate_fields(node))
        if not rest:
            return flow
        flow = self._with_matches(node, flow)
        if is_broadcast(node):
            flow = self._to_kept_rows(node, self._run(flow))
        (degree,) = rest
        return flow.with_executor(self._job.step(degree), node.fields)

    def _broadcast(self, flow: _Flow) -> _Flow:
        """Return the rows once for every unit, which is their target."""
        if self._mapping.units == 1:
            return flow
        units = f"sequence(0, {self._mapping.units - 1})"
        targets = f"CASE WHEN {MESSAGE} IS NULL THEN {units} ELSE array({TARGET}) END"
        columns = (types.quoted(field.name) for field in flow.fields)
        frame = _frame(flow).selectExpr(
            OP_COLUMN, *columns, f"explode({targets}) AS {TARGET}", MESSAGE
        )
        return replace(flow, rows=frame)

    def _with_target(self, flow: _Flow, unit: str) -> _Flow:
        """Return the rows with a unit, in Spark's SQL, for their target."""
        target = f"CASE WHEN {MESSAGE} IS NULL THEN {unit} ELSE {TARGET} END"
        return replace(flow, rows=_frame(flow).withColumn(TARGET, f.expr(target)))

    def _to_targets(self, flow: _Flow) -> _Flow:
        """Return the rows, each in the unit that is its target."""
        units = self._mapping.units
        frame = _frame(flow)
        if units == 1:
            return replace(flow, rows=frame.repartition(1), units=1)
        return replace(flow, rows=frame.repartitionById(units, TARGET), units=units)

    def _to_kept_rows(self, node: BroadcastJoin, flow: _Flow) -> _Flow:
        """Return the candidates, each where the degree is of the row that it is or counts for."""
        unit, right = (owner_expression(self._mapping, side.key) for side in node.children)
        if node.kind is JoinKind.FULL:
            unit = f"CASE WHEN {PART_COLUMN} IN ({PAIR}, {LEFT_ROW}) THEN {unit} ELSE {right} END"
        return self._to_targets(self._with_target(flow, unit))

    # Parts of a frame

    def _union(self, flows: Sequence[_Flow]) -> _Flow:
        first, *rest = flows
        frame = _frame(first)
        for flow in rest:
            frame = frame.unionAll(_frame(flow))
        return replace(first, rows=frame)

    def _selected(
        self, flow: _Flow, columns: Sequence[str], fields: tuple[types.Field, ...]
    ) -> _Flow:
        frame = _frame(flow).selectExpr(OP_COLUMN, *columns, TARGET, MESSAGE)
        return replace(flow, rows=frame, fields=fields, result=fields)

    def _shuffled(self, flows: Sequence[_Flow], distribution: Names) -> _Flow:
        """Return the rows of flows with the same fields, each in the unit that owns its vnode."""
        unit: Column | str = self._unit(distribution)
        if all(flow.is_in_task for flow in flows):
            packets = PacketOutput(flows[0].result, distribution, self._mapping)
            flow, unit = self._union([self._run(flow, packets) for flow in flows]), TARGET
        else:
            flow = self._union([self._run(flow) for flow in flows])
        frame, units = _frame(flow), unit_count(self._mapping, distribution)
        frame = frame.repartition(1) if units == 1 else frame.repartitionById(units, unit)
        return replace(flow, rows=frame, units=units)

    def _evaluated(self, flow: _Flow, node: KeyedRecompute) -> _Flow:
        """Return what Spark evaluates in the unit of each key, whose rows a task has just read."""
        frame = _frame(flow)
        if flow.units > 1:
            # Spark knows from the shuffle that the rows of a unit are in one partition.
            frame = frame.withColumn(TARGET, self._unit(distribution_of(node)))
            frame = frame.repartitionById(flow.units, TARGET)
        return replace(flow, rows=evaluated(node, frame), fields=node.fields, result=node.fields)

    def _unit(self, distribution: Names) -> Column:
        """Return the unit that owns a row's vnode, or that a control row is for."""
        owner = owner_expression(self._mapping, distribution)
        return f.expr(f"CASE WHEN {MESSAGE} IS NOT NULL THEN {TARGET} ELSE {owner} END")

    def _run(self, flow: _Flow, output: TaskOutput | None = None) -> _Flow:
        """Return the flow after its steps, as a frame.

        ``output``: how its task hands the rows over; None for rows that Spark can compute with.
        """
        output = output or RowOutput(flow.result)
        stateless = [step for step in flow.steps if not isinstance(step, ExecutorStep)]
        if isinstance(flow.rows, Source):
            assert len(stateless) == len(flow.steps)
            read = self._reads[id(flow.rows)]
            frame = source_frame(self._session, read, stateless, output, self._mapping.units)
        elif not flow.steps:
            return flow
        else:
            is_stateless = len(stateless) == len(flow.steps)
            task = (
                StatelessTask(flow.fields, tuple(stateless), output)
                if is_stateless
                else self._fragment(flow, output)
            )
            frame = flow.rows.mapInArrow(task, struct_of(output.wire_fields))
        return _Flow(frame, flow.result, flow.result, flow.units)

    def _fragment(self, flow: _Flow, output: TaskOutput) -> FragmentTask:
        return FragmentTask(
            self._job.view_id,
            self._job.target,
            self._mapping,
            flow.fields,
            flow.steps,
            output,
            flow.units,
            self._job.most_state_rows,
        )


def _frame(flow: _Flow) -> DataFrame:
    """Return the frame of a flow without steps."""
    assert not isinstance(flow.rows, Source)
    assert not flow.steps
    return flow.rows


def owner_expression(mapping: VnodeMapping, columns: Sequence[str]) -> str:
    """Return, in Spark's SQL, the unit that owns the vnode of a row's distribution, an INT."""
    vnode = f"pmod(xxhash64({', '.join(map(types.quoted, columns))}), {mapping.vnode_count})"
    owners = ",".join(map(str, mapping.owners))
    return f"CAST(split('{owners}', ',')[CAST({vnode} AS INT)] AS INT)"


def _projection(output: Output) -> str:
    name = types.quoted(output.field.name)
    if output.source is not None:
        return f"{types.quoted(output.source)} AS {name}"
    return f"{null_for_control_rows(output.expression)} AS {name}"


def _null_column(field: types.Field) -> str:
    return f"CAST(NULL AS {field.type}) AS {types.quoted(field.name)}"
