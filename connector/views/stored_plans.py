"""The plans of a store's views: read from the catalog, checked as CREATE checks, and cached.

A store may be damaged or forged, and Spark runs the expressions of a plan: so a plan is checked
against the catalog, and its expressions as those of a new view are, before anything runs.

Promises: a plan is checked once; a plan that this process has created is not checked again. Spark
gives every expression the type that the plan says, and reads it as relstate does.
Does not know: how plans are run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot.errors import SqlglotError

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import Tree, columns_of, parse_expression, text_of
from relstate.storage import CatalogView, StoreState, TableDefinition, TableSchema, errors, types

from .plan.node import Expression, Node, check_names, require, shown, walk
from .plan.recompute import GroupRecompute, WindowRecompute
from .plan.recursion import Recursion
from .plan.stateless import Scan
from .plan.temporal import CLOCK, TemporalFilter
from .planner.analysis import Analysis, StoreTables, as_nullable
from .planner.calls import is_group_call, is_window_call, takes_many_rows
from .planner.expressions import check_expressions, check_resolved, check_time_independent
from .planner.generators import is_generator
from .planner.recursion import check_recursion
from .sessions import Sessions, keep_active_session
from .view_settings import is_complete
from .viewplan import ViewPlan, damaged_plan_error, parse_stored_plan


class StoredPlans:
    """Plans by the ids of their views. For one thread at a time."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._plans: dict[int, tuple[Any, ViewPlan]] = {}
        self._trusted: set[str] = set()

    def trust(self, plan: Any, settings: Mapping[str, str]) -> None:
        """Take a plan's JSON for right: it has just been made of a query."""
        self._trusted.add(_fingerprint(plan, settings))

    def plan_of(self, state: StoreState, view_id: int) -> ViewPlan:
        """Return the plan of a view, the same object each time.

        CorruptionError if the catalog's is not one that CREATE could have stored.
        """
        view, name = state.views[view_id], state.name_of(view_id)
        value = view.definition.plan
        cached = self._plans.get(view_id)
        if cached is not None and (cached[0] is value or cached[0] == value):
            return cached[1]
        plan = read_stored_plan(state, view)
        try:
            self._check_expressions(plan, state, view)
        except ValueError as error:
            raise damaged_plan_error(name, error) from None
        known = {i: plan for i, plan in self._plans.items() if i in state.views}
        self._plans = {**known, view_id: (value, plan)}
        return plan

    def _check_expressions(self, plan: ViewPlan, state: StoreState, view: CatalogView) -> None:
        settings = view.definition.settings
        fingerprint = _fingerprint(view.definition.plan, settings)
        if fingerprint not in self._trusted:
            with keep_active_session(self._sessions.spark):
                check_stored_expressions(
                    plan.root, Analysis(self._sessions.of(settings), StoreTables(state))
                )
            self._trusted.add(fingerprint)


def read_stored_plan(state: StoreState, view: CatalogView) -> ViewPlan:
    """Return the plan of a view, checked but for its expressions.

    CorruptionError if the view, the tables that it reads and its state tables contradict it.
    """
    name = state.name_of(view.view_id)
    plan = parse_stored_plan(name, view.definition.plan)
    try:
        _check_catalog(plan, state, view)
    except ValueError as error:
        raise damaged_plan_error(name, error) from None
    return plan


def _check_catalog(plan: ViewPlan, state: StoreState, view: CatalogView) -> None:
    """ValueError unless a plan fits its view, the tables that it reads and its state tables."""
    definition = view.definition
    require(
        is_complete(definition.settings),
        "the settings of its session are not those that a view has",
    )
    for scan in plan.scans:
        require(scan.table_id in state.tables, f"it reads table {scan.table_id}, which is missing")
        _check_scan(scan, state.tables[scan.table_id].definition)
    scanned = {scan.table_id for scan in plan.scans}
    require(scanned == {read.table_id for read in definition.inputs}, "it reads other tables")
    by_parts = {read.table_id for read in definition.inputs if read.by_parts}
    for scan in plan.scans:
        follows = definition.follows_expiry(scan.table_id), scan.table_id in by_parts
        is_same = (scan.follows_expiry, scan.by_parts) == follows
        require(is_same, f"rows of {scan.table!r} that expire are not what its inputs say")
    require(len(plan.state_schemas) == len(definition.internal), "it has other state tables")
    schemas = (*plan.state_schemas, plan.table_schema)
    for table_id, schema in zip((*definition.internal, view.view_id), schemas, strict=True):
        require(table_id in state.tables, f"its table {table_id} is missing")
        table = state.tables[table_id].definition
        is_same = _layout(table.schema) == _layout(schema)
        require(is_same, f"its table {table.name!r} has other columns or another key")


def _check_scan(scan: Scan, table: TableDefinition) -> None:
    columns = {column.name: column.type for column in table.schema.columns}
    is_named = scan.table == table.name
    require(is_named, f"it reads table {scan.table!r} under the id of {table.name!r}")
    for column in scan.columns:
        is_there = columns.get(column.column) == column.field.type
        require(is_there, f"it reads {column.column!r} of {table.name!r}, which has no such column")
    by_field = {column.field.name: column.column for column in scan.columns}
    key = [by_field[name] for name in scan.primary_key]
    is_key = key == [column.name for column in table.schema.key_columns]
    require(is_key, f"it takes ({', '.join(key)}) for the primary key of {table.name!r}")
    grows = table.properties.append_only or not scan.grows_only
    require(grows, f"it takes {table.name!r} for append-only")


def _layout(schema: TableSchema) -> object:
    """Return what a table's schema shares with its plan's; the ids depend on what it replaced."""
    columns = [(c.name, c.type, c.nullable, c.hidden) for c in schema.columns]
    orders = [(key.descending, key.nulls_first) for key in schema.primary_key]
    keys = [column.name for column in (*schema.key_columns, *schema.distribution_columns)]
    return columns, orders, keys


def _fingerprint(plan: Any, settings: Mapping[str, str]) -> str:
    text = json.dumps([plan, dict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_stored_expressions(root: Node, analysis: Analysis) -> None:
    """ValueError if a view with these expressions could not have been created."""
    builtin = analysis.functions()
    try:
        for node in walk(root):
            _check_evaluated(node, node.input_fields, node.expressions, analysis, builtin)
            if isinstance(node, TemporalFilter):
                bounds = [bound.expression for bound in node.bounds]
                _check_evaluated(node, (CLOCK,), bounds, analysis, builtin)
            if isinstance(node, Recursion):
                _check_recursion(node, analysis, builtin)
            _check_types(node.input_fields, node.aggregate_expressions, analysis)
        check_time_independent(root, analysis)
    except errors.UnsupportedStatementError as error:
        raise ValueError(str(error)) from None


def _check_evaluated(
    node: Node,
    fields: Sequence[types.Field],
    expressions: Sequence[Expression],
    analysis: Analysis,
    builtin: frozenset[str],
) -> None:
    """ValueError unless Spark evaluates these expressions over fields as a view may have them."""
    names = [field.name for field in fields]
    for expression in expressions:
        tree = _tree_of(expression.text)
        _check_reading(expression.text, tree, fields, analysis)
        check_names(sorted(columns_of(tree)), names, f"the expression {expression.text!r}")
        check_expressions(tree, builtin)
        check_resolved(tree)
        _check_rows(expression.text, tree, node)
    _check_types(fields, expressions, analysis)


def _check_recursion(node: Recursion, analysis: Analysis, builtin: frozenset[str]) -> None:
    """ValueError unless Spark runs the query of a recursion as a view may have it."""
    try:
        tree = ParsedQuery.parse(node.query).tree
    except RecursionError:
        raise ValueError(f"{shown(node.query)} is not a query") from None
    check_expressions(tree, builtin)
    try:
        check_recursion(tree, [own.name for own in node.inputs])
    except errors.TableNotFoundError as error:
        raise ValueError(str(error)) from None
    columns = analysis.checked_columns_of_query(node.query, node.relations)
    kinds = [column.type for column in columns]
    is_same = kinds == [field.type for field in node.outputs]
    require(is_same, f"{shown(node.query)} has columns of other types")


def _check_rows(text: str, tree: Tree, node: Node) -> None:
    """ValueError unless an expression reads as many rows as its node may."""
    match node:
        case GroupRecompute():
            is_call = is_group_call(tree)
            require(is_call, f"{shown(text)} is not an aggregate call over fields")
        case WindowRecompute():
            is_call = is_window_call(tree)
            require(is_call, f"{shown(text)} is not a window function over fields")
        case _:
            require(not takes_many_rows(tree), f"{shown(text)} takes more than one row")
            is_one_row = not any(map(is_generator, tree.walk()))
            require(is_one_row, f"{shown(text)} returns more than one row")


def _tree_of(text: str) -> Tree:
    try:
        tree = parse_expression(text)
    except (SqlglotError, IndexError, RecursionError):
        raise ValueError(f"{shown(text)} is not an expression") from None
    return tree


def _check_reading(
    text: str, tree: Tree, fields: Sequence[types.Field], analysis: Analysis
) -> None:
    """ValueError unless the tree, which is what is checked, means to Spark what the text does."""
    written = text_of(tree)
    is_read = written == text or analysis.is_same(fields, text, written)
    require(is_read, f"Spark reads {shown(text)} in another way than relstate does")


def _check_types(
    fields: Sequence[types.Field], expressions: Sequence[Expression], analysis: Analysis
) -> None:
    if not expressions:
        return
    texts = [expression.text for expression in expressions]
    kinds = analysis.checked_types_of(fields, texts)
    for expression, kind in zip(expressions, kinds, strict=True):
        is_same = kind == as_nullable(expression.type)
        require(is_same, f"{shown(expression.text)} is {kind}, and not {expression.type}")
