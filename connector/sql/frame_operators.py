"""The operators of a DataFrame as text: its analysed plan is walked, and becomes a SELECT.

Tables, joins and filters are written into one FROM and WHERE, so that a subquery names the columns
around it where a view may have them; every other operator is a SELECT over a subquery.

Does not know: whether the text means the frame; that is checked afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from relstate.connector.options import FOLLOWS_LATEST
from relstate.connector.storage_options import is_storage_option
from relstate.connector.syntax.tokens import quoted
from relstate.storage import location_of

from . import frame_grouping as grouping
from .frame_expressions import ExpressionWriter
from .frame_names import FrameNames, identifier
from .frame_plan import (
    Expression,
    Jvm,
    Plan,
    class_name,
    entries,
    id_of,
    ids_of,
    is_ordered,
    items,
    refusal,
)
from .frame_text import FrameText
from .frame_time_window import TimeWindow, time_window

_JOINS = {
    "Inner": "JOIN",
    "Cross": "CROSS JOIN",
    "LeftOuter": "LEFT JOIN",
    "RightOuter": "RIGHT JOIN",
    "FullOuter": "FULL JOIN",
    "LeftSemi": "LEFT SEMI JOIN",
    "LeftAnti": "LEFT ANTI JOIN",
}
# Operators whose text ends with more than a SELECT has before ORDER BY.
_ENDED = frozenset({"Sort", "GlobalLimit", "Union", "Intersect", "Except"})
_WHOLE_NUMBERS = frozenset({"ByteType", "ShortType", "IntegerType", "LongType"})
_EPOCH_OPTIONS = frozenset({"versionasof", "timestampasof"})
_TABLE_OPTIONS = frozenset({"path", "table", "expiresby", FOLLOWS_LATEST.lower()}) | _EPOCH_OPTIONS


@dataclass(frozen=True)
class _Rows:
    """The rows that a SELECT is over: what is after FROM, and the conditions of its WHERE."""

    source: str
    conditions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The clauses of these rows."""
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"FROM {self.source}{where}"


class QueryWriter:
    """Writes the plan of one frame over the tables of the store at ``path``. For one thread."""

    def __init__(self, frame: ClassicDataFrame, path: str, jvm: Jvm) -> None:
        self._jvm = jvm
        self._columns = frame.columns
        self._plan = frame._jdf.queryExecution().analyzed()
        self._path = location_of(path)
        self._names = FrameNames(is_qualified=_reads_several(self._plan))
        self._expressions = ExpressionWriter(self._jvm, self._names, self.query, self.existing_rows)
        self._relations: list[tuple[str, str, Plan]] = []

    def frame_text(self) -> FrameText:
        """Return the query of the frame, whose columns have their names."""
        lowered = [name.lower() for name in self._columns]
        for name in self._columns:
            if lowered.count(name.lower()) > 1:
                raise refusal(f"it has two columns named {name!r}", "Name one of them by alias")
        # The columns of the result are named first, so that they have their names as they are.
        names = self._names.names(items(self._plan.output()))
        text = self.query(self._plan)
        if names != self._columns:
            text = f"SELECT {_renamed(names, self._columns)} FROM ({text})"
        return FrameText(text, tuple(self._relations))

    def query(self, plan: Plan) -> str:
        """Return a SELECT whose columns are those of a plan, under names of their own."""
        source = self._jvm.skip_selections(plan)
        write = None if self._jvm.marked_query(source) else _WRITERS.get(class_name(source))
        is_whole = ids_of(source.output()) == ids_of(plan.output())
        if write is not None and is_whole and time_window(source) is None:
            return write(self, source)
        return self._selection(plan, self._rows(plan))

    def existing_rows(self, plan: Plan) -> str:
        """Return a SELECT with the rows of a plan, of which only their number counts."""
        if class_name(self._jvm.skip_selections(plan)) in _WRITERS:
            return self.query(plan)
        return f"SELECT * {self._rows(plan).text}"

    def _selection(self, plan: Plan, rows: _Rows) -> str:
        """Return the SELECT of the columns of a plan, over rows that have them."""
        columns = {id_of(column): column for column in items(plan.output())}
        return f"SELECT {', '.join(map(self._names.selected, columns.values()))} {rows.text}"

    # FROM and WHERE

    def _rows(self, plan: Plan) -> _Rows:
        """Return the rows of a plan, and refer to its columns as an expression over them does."""
        plan = self._jvm.skip_selections(plan)
        query = self._jvm.marked_query(plan)
        if query is not None:
            return self._marked(plan, query)
        match class_name(plan):
            case "DataSourceV2Relation":
                return self._table(plan)
            case "Filter" | "Project" if (window := time_window(plan)) is not None:
                return self._windowed(window)
            case "Filter":
                return self._filtered(plan)
            case "Join":
                return self._joined(plan)
            case "LateralJoin":
                return self._laterally_joined(plan)
            case kind if kind in _WRITERS:
                return self._subquery(plan)
            case kind if plan.children().isEmpty():
                raise refusal(
                    f"it reads {kind}, not a table of the store",
                    "Use db.table(name); write other rows to a table first, by db.write",
                )
            case kind:
                raise refusal(f"its plan has the operator {kind}, which relstate does not read")

    def _ordered_rows(self, plan: Plan) -> _Rows:
        """Return the rows of a plan, whose columns are in its order for what Spark makes of all."""
        return self._subquery(plan) if self._jvm.reorders(plan) else self._rows(plan)

    def _subquery(self, plan: Plan) -> _Rows:
        """Return the rows of a plan as a subquery of FROM."""
        text, alias = self.query(plan), self._names.alias("q")
        columns = items(plan.output())
        self._names.refer_to_input(columns, self._names.names(columns), alias)
        return _Rows(f"({text}) AS {alias}")

    def _table(self, plan: Plan) -> _Rows:
        table = self._table_name(plan)
        alias = self._names.alias(table)
        columns = items(plan.output())
        self._names.names(columns)
        self._names.refer_to_input(columns, [column.name() for column in columns], alias)
        source = identifier(table) + ("" if alias == table else f" AS {identifier(alias)}")
        return self._relation(source, identifier(alias), plan)

    def _marked(self, plan: Plan, query: str) -> _Rows:
        """Return the rows of a SELECT that `db.sql` has run."""
        self._jvm.check_marked_settings(plan)
        alias = self._names.alias("q")
        columns = items(plan.output())
        self._names.names(columns)
        self._names.refer_to_input(columns, [column.name() for column in columns], alias)
        # The newline ends a comment.
        end = "\n" if "--" in query else ""
        return self._relation(f"({query}{end}) AS {alias}", alias, plan)

    def _relation(self, source: str, alias: str, plan: Plan) -> _Rows:
        self._relations.append((source, alias, plan))
        return _Rows(FrameText.mark(len(self._relations) - 1))

    def _table_name(self, plan: Plan) -> str:
        """Return the name of the table that a relation reads as a view would read it."""
        options = {
            key.lower(): value
            for key, value in entries(plan.options())
            if not is_storage_option(key)
        }
        if "table" not in options:
            raise refusal("it does not read a table of the store; use db.table")
        if location_of(options.get("path", "")) != self._path:
            raise refusal(f"it reads a table of the store at {options.get('path')!r}")
        table = options["table"]
        if not options.keys() <= _TABLE_OPTIONS:
            unknown = min(options.keys() - _TABLE_OPTIONS).replace("boundcondition", "where")
            raise refusal(
                f"it reads the table {table!r} with the option {unknown}",
                "Use db.table(name), and select and where of the DataFrame",
            )
        if options.keys() & _EPOCH_OPTIONS and FOLLOWS_LATEST.lower() not in options:
            raise refusal(
                f"it reads the table {table!r} at a fixed epoch, and a view follows its tables",
                "Leave out version and timestamp",
            )
        return table

    def _filtered(self, plan: Plan) -> _Rows:
        rows = self._rows(plan.child())
        return replace(
            rows, conditions=(*rows.conditions, self._expressions.text(plan.condition()))
        )

    def _windowed(self, window: TimeWindow) -> _Rows:
        """Return the rows of a window of time, which is a function of the SELECT over them."""
        rows = self._ordered_rows(window.child)
        self._names.refer(window.column, window.call(self._expressions))
        return rows

    def _joined(self, plan: Plan) -> _Rows:
        kind, condition = plan.joinType().toString(), plan.condition()
        if kind not in _JOINS:
            raise refusal(f"it has a join of the kind {kind}")
        if condition.isEmpty() and kind == "Inner":
            kind = "Cross"
        left = self._joined_input(plan.left(), is_left=True)
        right = self._joined_input(plan.right())
        source = f"{left} {_JOINS[kind]} {right}"
        if condition.isEmpty():
            return _Rows(source)
        return _Rows(f"{source} ON {self._expressions.text(condition.get())}")

    def _joined_input(self, plan: Plan, *, is_left: bool = False) -> str:
        """Return an input of a join: a table or a subquery, on the left a join, too."""
        is_in_place = self._jvm.is_joined_in_place(plan, is_left=is_left)
        return (self._rows(plan) if is_in_place else self._subquery(plan)).source

    def _laterally_joined(self, plan: Plan) -> _Rows:
        kind, condition = plan.joinType().toString(), plan.condition()
        left = self._joined_input(plan.left(), is_left=True)
        right = self._subquery(plan.right().plan()).source
        if condition.isEmpty() and kind in ("Inner", "Cross"):
            return _Rows(f"{left}, LATERAL {right}")
        on = "TRUE" if condition.isEmpty() else self._expressions.text(condition.get())
        return _Rows(f"{left} {_JOINS[kind]} LATERAL {right} ON {on}")

    # SELECT

    def project(self, plan: Plan) -> str:
        """Return the query of a projection."""
        pivot = grouping.pivot(plan, self._value)
        if pivot is not None:
            return self._pivot(pivot)
        rows = self._rows(plan.child())
        return f"SELECT {self._list(plan.projectList())} {rows.text}"

    def _list(self, columns: Sequence[Expression]) -> str:
        # Spark lists a column twice that a window function has added.
        unique = {id_of(column): column for column in items(columns)}
        return ", ".join(map(self._expressions.column, unique.values()))

    def aggregate(self, plan: Plan) -> str:
        """Return the query of an aggregation."""
        sets = grouping.grouping_sets(plan)
        if sets is not None:
            return self._grouping_sets(plan, sets)
        grouping.check_no_pivot(plan)
        grouping.check_no_order(items(plan.aggregateExpressions()), plan.child())
        rows = self._rows(plan.child())
        text = f"SELECT {self._list(plan.aggregateExpressions())} {rows.text}"
        groups = self._expressions.texts(plan.groupingExpressions())
        return f"{text} GROUP BY {groups}" if groups else text

    def _grouping_sets(self, plan: Plan, sets: grouping.GroupingSets) -> str:
        grouping.check_no_order(items(plan.aggregateExpressions()), sets.child)
        for column, expression in zip(sets.columns, sets.expressions, strict=True):
            if class_name(expression) == "AttributeReference":
                self._names.share_name(expression, column)
        rows = self._ordered_rows(sets.child)
        groups = [self._expressions.text(expression) for expression in sets.expressions]
        for column, text in zip(sets.columns, groups, strict=True):
            self._names.refer(column, text)
        self._names.refer(sets.number, "grouping_id()")
        selected = self._list(plan.aggregateExpressions())
        return f"SELECT {selected} {rows.text} GROUP BY {sets.clause(groups)}"

    def _pivot(self, pivot: grouping.Pivot) -> str:
        """Return the query of a pivot: its columns, named by Spark, from PIVOT over a SELECT."""
        grouping.check_no_order(pivot.aggregates, pivot.child)
        rows = self._rows(pivot.child)
        needed = pivot.inputs
        inner = f"SELECT {', '.join(map(self._names.selected, needed))} {rows.text}"
        self._names.refer_to_result(needed)
        calls = [
            f"{self._expressions.text(call)} AS a{number}"
            for number, call in enumerate(pivot.aggregates)
        ]
        values = ", ".join(f"{value} AS v{number}" for number, value in enumerate(pivot.values))
        clause = f"{', '.join(calls)} FOR {self._names.reference(pivot.column)} IN ({values})"
        selected = [self._names.selected(column) for column in pivot.groups]
        for column, (value, call) in pivot.results:
            source = f"v{value}" if len(calls) == 1 else f"v{value}_a{call}"
            selected.append(f"{source} AS {identifier(self._names.name(column))}")
        return f"SELECT {', '.join(selected)} FROM ({inner}) PIVOT ({clause})"

    def _value(self, value: object, column: Expression) -> str:
        """Return a value of a column that Spark pivots by, as text."""
        if value is None:
            return "NULL"
        if class_name(column.dataType()).rstrip("$") in _WHOLE_NUMBERS:
            return str(value)
        return str(self._jvm.typed_literal(value, column).sql())

    def unpivot(self, plan: Plan) -> str:
        """Return the query of an unpivot."""
        unpivot = grouping.unpivot(plan)
        rows = self._rows(plan.child())
        needed = unpivot.inputs
        inner = f"SELECT {', '.join(map(self._names.selected, needed))} {rows.text}"
        self._names.refer_to_result(needed)
        columns = ", ".join(
            "(" * (len(values) > 1)
            + ", ".join(map(self._names.reference, values))
            + ")" * (len(values) > 1)
            + f" AS {quoted(name)}"
            for name, values in unpivot.values
        )
        names = [identifier(self._names.name(column)) for column in unpivot.results]
        result = names[0] if len(names) == 1 else f"({', '.join(names)})"
        variable = identifier(self._names.name(unpivot.variable))
        self._names.refer_to_result([unpivot.variable, *unpivot.results])
        selected = ", ".join(map(self._names.selected, items(plan.output())))
        return (
            f"SELECT {selected} FROM ({inner}) "
            f"UNPIVOT INCLUDE NULLS ({result} FOR {variable} IN ({columns}))"
        )

    def union(self, plan: Plan) -> str:
        """Return the query of a union, whose columns may be others than those of its inputs."""
        return self._set_operation(plan, items(plan.children()), "UNION ALL")

    def set_operation(self, plan: Plan) -> str:
        """Return the query of INTERSECT or EXCEPT."""
        words = class_name(plan).upper() + (" ALL" if plan.isAll() else "")
        return self._set_operation(plan, [plan.left(), plan.right()], words)

    def _set_operation(self, plan: Plan, inputs: list[Plan], words: str) -> str:
        text = f" {words} ".join(f"({self.query(child)})" for child in inputs)
        names = self._names.names(items(inputs[0].output()))
        outputs = self._names.names(items(plan.output()))
        return f"SELECT {_renamed(names, outputs)} FROM ({text})"

    def distinct(self, plan: Plan) -> str:
        """Return the query of DISTINCT."""
        return f"SELECT DISTINCT * FROM ({self.query(plan.child())})"

    def deduplicate(self, plan: Plan) -> str:
        """Return the query of dropDuplicates, which takes the first row of each key."""
        keys = ids_of(plan.keys())
        if keys == ids_of(plan.child().output()):
            return self.distinct(plan)
        if not keys:
            raise refusal("it drops duplicates by no columns", "Name columns, or leave it out")
        if is_ordered(plan.child()):
            raise refusal(
                "it drops duplicates after orderBy, and a view does not take the first in that "
                "order",
                "Number the rows by row_number() over a window with this order, and keep those "
                "with 1 by where",
            )
        rows = self._ordered_rows(plan.child())
        columns = items(plan.output())
        groups = ", ".join(self._names.reference(key) for key in items(plan.keys()))
        selected = ", ".join(
            self._names.selected(column)
            if id_of(column) in keys
            else f"first({self._names.reference(column)}) AS {identifier(self._names.name(column))}"
            for column in columns
        )
        return f"SELECT {selected} {rows.text} GROUP BY {groups}"

    def sort(self, plan: Plan) -> str:
        """Return the query of a sort."""
        child = plan.child()
        if class_name(self._jvm.skip_selections(child)) in _ENDED:
            text = self._selection(child, self._subquery(child))
        else:
            text = self.query(child)
        self._names.refer_to_result(items(child.output()))
        return f"{text} ORDER BY {self._expressions.texts(plan.order())}"

    def limit(self, plan: Plan) -> str:
        """Return the query of the first rows, right after their order."""
        child = plan.child()
        if class_name(child) == "LocalLimit":
            child = child.child()
        end = f" LIMIT {self._expressions.text(plan.limitExpr())}"
        if class_name(child) == "Offset":
            end += f" OFFSET {self._expressions.text(child.offsetExpr())}"
            child = child.child()
        if class_name(child) != "Project":
            return self.query(child) + end
        ordered = self._jvm.skip_selections(child.child())
        if class_name(ordered) != "Sort":
            return self.query(child) + end
        # A projection of the first rows is that of all rows, of which the first are taken.
        text, alias = self.query(ordered) + end, self._names.alias("q")
        columns = items(ordered.output())
        self._names.refer_to_input(columns, self._names.names(columns), alias)
        return f"SELECT {self._list(child.projectList())} FROM ({text}) AS {alias}"

    def window(self, plan: Plan) -> str:
        """Return the query of window functions."""
        child = plan.child()
        rows = self._rows(child)
        columns = [*map(self._names.selected, items(child.output()))]
        return f"SELECT {', '.join(columns)}, {self._list(plan.windowExpressions())} {rows.text}"

    def generate(self, plan: Plan) -> str:
        """Return the query of a function that returns rows."""
        child, generator = plan.child(), plan.generator()
        rows = self._rows(child)
        selected = ", ".join(map(self._names.selected, items(child.output())))
        output_names = ", ".join(map(identifier, self._names.names(items(plan.generatorOutput()))))
        name = generator.prettyName() + ("_outer" if plan.outer() else "")
        arguments = self._expressions.texts(generator.children())
        return f"SELECT {selected}, {name}({arguments}) AS ({output_names}) {rows.text}"


_WRITERS: dict[str, Callable[[QueryWriter, Plan], str]] = {
    "Project": QueryWriter.project,
    "Aggregate": QueryWriter.aggregate,
    "Expand": QueryWriter.unpivot,
    "Union": QueryWriter.union,
    "Intersect": QueryWriter.set_operation,
    "Except": QueryWriter.set_operation,
    "Distinct": QueryWriter.distinct,
    "Deduplicate": QueryWriter.deduplicate,
    "Sort": QueryWriter.sort,
    "GlobalLimit": QueryWriter.limit,
    "Window": QueryWriter.window,
    "Generate": QueryWriter.generate,
}


def _renamed(names: Sequence[str], results: Sequence[str]) -> str:
    """Return a SELECT list of columns under other names."""
    return ", ".join(
        identifier(name) + ("" if name == result else f" AS {identifier(result)}")
        for name, result in zip(names, results, strict=True)
    )


def _reads_several(plan: Plan) -> bool:
    """Return whether a plan reads several inputs, so that a name alone may not say which."""
    return plan.collectLeaves().size() > 1 or not plan.subqueriesAll().isEmpty()
