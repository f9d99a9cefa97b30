"""The SELECT that a DataFrame means, if it is made of relstate's tables by the DataFrame API.

Spark's analysed plan of the frame is walked, operator by operator, and each one becomes a SELECT
over a subquery. Spark writes the expressions itself (`Expression.sql`), in which every column has a
name of its own. In the end Spark plans the text over the same relations, and has to come to the
plan of the frame: what this module does not understand is refused, and never read otherwise.

Promises: the text has the columns and rows of the frame, with each table at whatever epoch it is
read. This is the only module that looks into Spark's plans; Spark Connect, which hides them, is
refused.
Does not know: which SELECTs can be maintained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from relstate.connector.failure import describe_error
from relstate.connector.options import FOLLOWS_LATEST
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors, local_folder

# Objects of Spark's JVM, through py4j.
_Plan: TypeAlias = Any
_Expression: TypeAlias = Any

_JOINS = {
    "Inner": "JOIN",
    "Cross": "CROSS JOIN",
    "LeftOuter": "LEFT JOIN",
    "RightOuter": "RIGHT JOIN",
    "FullOuter": "FULL JOIN",
    "LeftSemi": "LEFT SEMI JOIN",
    "LeftAnti": "LEFT ANTI JOIN",
}
_PRECEDING = re.compile(r"-(\d+) FOLLOWING\b")


def query_of(frame: DataFrame, path: str) -> str:
    """Return the SELECT, over tables of the store at ``path``, that a DataFrame means.

    UnsupportedStatementError for a frame that cannot be written as one, UsageError for what is not
    a DataFrame.
    """
    if not isinstance(frame, DataFrame):
        raise errors.UsageError(f"a view is made of a DataFrame, not of {type(frame).__name__}")
    if not isinstance(frame, ClassicDataFrame):
        raise _refusal("Spark Connect does not show its plan")
    writer = _QueryWriter(frame, path)
    text = writer.named_query()
    _check_same(frame, writer.relations, text)
    return text


def _refusal(reason: str) -> errors.UnsupportedStatementError:
    return errors.UnsupportedStatementError(
        f"a view cannot be made of this DataFrame: {reason}. Write it as text, CREATE MATERIALIZED "
        "VIEW … AS SELECT …"
    )


class _QueryWriter:
    """Writes the plan of one frame as text.

    ``relations``: the plans of the tables that it reads, in the order of the text.
    """

    def __init__(self, frame: ClassicDataFrame, path: str) -> None:
        session: Any = frame.sparkSession
        self._jvm = session._jvm
        self._frame = frame
        self._path = local_folder(path)
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self.relations: list[_Plan] = []

    def named_query(self) -> str:
        """Return the query of the frame, whose columns have their names."""
        plan = self._frame._jdf.queryExecution().analyzed()
        columns = self._frame.columns
        # The columns of the result are named first, so that they have their names as they are.
        names = [self._name(attribute) for attribute in _items(plan.output())]
        text = self.query(plan)
        if names == columns:
            return text
        renamed = zip(names, columns, strict=True)
        selected = ", ".join(f"{quoted(name)} AS {quoted(column)}" for name, column in renamed)
        return f"SELECT {selected} FROM ({text})"

    def query(self, plan: _Plan) -> str:
        """Return a query whose columns are those of a plan, under names of their own."""
        kind = _class_name(plan)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, plan)
        if plan.children().isEmpty():
            raise _refusal(f"it reads {kind}, not a table of the store; use db.table")
        raise _refusal(f"its plan has the operator {kind}, which relstate does not read")

    def _name(self, attribute: _Expression) -> str:
        """Return the name of a column in the text: its own, with a number if that is taken."""
        number = int(attribute.exprId().id())
        if number not in self._names:
            name, count = attribute.name(), 1
            while name.lower() in self._taken:
                count += 1
                name = f"{attribute.name()}_{count}"
            self._taken.add(name.lower())
            self._names[number] = name
        return self._names[number]

    # Expressions

    def _text(self, expression: _Expression) -> str:
        # Spark writes the start of a frame of rows as a negative number that follows.
        return _PRECEDING.sub(r"\1 PRECEDING", str(self._renamed(expression).sql()))

    def _texts(self, expressions: Any) -> str:
        return ", ".join(map(self._text, _items(expressions)))

    def _renamed(self, expression: _Expression) -> _Expression:
        """Return an expression whose columns have their names in the text, without qualifiers."""
        kind = _class_name(expression)
        if kind == "AttributeReference":
            name = self._name(expression)
            return expression.withName(name).withQualifier(self._sequence([]))
        if hasattr(expression, "exprs") and kind.endswith("Subquery"):
            raise _refusal(f"it has a subquery within an expression ({expression.sql()})")
        if "parameters" in dir(expression):
            # A function that Spark defines by others: only its parameters are what was written.
            parameters = self._sequence(map(self._renamed, _items(expression.parameters())))
            return self._function.apply(expression.prettyName(), parameters, False)
        children = _items(expression.children())
        if not children:
            return expression
        return expression.withNewChildren(self._sequence(map(self._renamed, children)))

    @property
    def _function(self) -> Any:
        """The class of calls that Spark has not resolved yet."""
        classes = self._jvm.org.apache.spark.sql.catalyst.analysis
        return getattr(getattr(classes, "UnresolvedFunction$"), "MODULE$")

    def _sequence(self, items: Iterable[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))

    def _column(self, expression: _Expression) -> str:
        """Return an expression of a SELECT list, under its name in the text."""
        if _class_name(expression) == "AttributeReference":
            return quoted(self._name(expression))
        if _class_name(expression) != "Alias":
            raise _refusal(f"it has a column without a name ({expression.sql()})")
        return f"{self._text(expression.child())} AS {quoted(self._name(expression))}"

    def _columns(self, expressions: Any) -> str:
        return ", ".join(map(self._column, _items(expressions)))

    # Operators

    def relation(self, plan: _Plan) -> str:
        """Return the query of a table of the store."""
        options = {key.lower(): value for key, value in _entries(plan.options())}
        if _class_name(plan) != "DataSourceV2Relation" or "table" not in options:
            raise _refusal("it does not read a table of the store; use db.table")
        if local_folder(options.get("path", "")) != self._path:
            raise _refusal(f"it reads a table of the store at {options.get('path')!r}")
        if not options.keys() <= _TABLE_OPTIONS:
            unknown = min(options.keys() - _TABLE_OPTIONS)
            raise _refusal(f"it reads the table {options['table']!r} with the option {unknown}")
        if options.keys() & _EPOCH_OPTIONS and FOLLOWS_LATEST.lower() not in options:
            raise _refusal(
                f"it reads the table {options['table']!r} at a fixed epoch, and a view follows its "
                "tables: leave out version and timestamp"
            )
        self.relations.append(plan)
        outputs = _items(plan.output())
        columns = ", ".join(self._aliased(attribute) for attribute in outputs)
        return f"SELECT {columns} FROM {quoted(options['table'])}"

    def _aliased(self, attribute: _Expression) -> str:
        own, name = attribute.name(), self._name(attribute)
        return quoted(own) if own == name else f"{quoted(own)} AS {quoted(name)}"

    def child(self, plan: _Plan) -> str:
        """Return the query of an operator that changes no row: an alias, a hint, a shuffle."""
        return self.query(plan.child())

    def project(self, plan: _Plan) -> str:
        """Return the query of a projection; a function that returns rows is in its SELECT list."""
        # Spark lists a column twice that a window function has added.
        columns = {self._output_id(item): item for item in _items(plan.projectList())}
        selected = ", ".join(map(self._column, columns.values()))
        return f"SELECT {selected} FROM ({self.query(plan.child())})"

    def _output_id(self, expression: _Expression) -> int:
        return int(expression.exprId().id())

    def filter(self, plan: _Plan) -> str:
        """Return the query of a filter."""
        child = self.query(plan.child())
        return f"SELECT * FROM ({child}) WHERE {self._text(plan.condition())}"

    def aggregate(self, plan: _Plan) -> str:
        """Return the query of an aggregation."""
        child = self.query(plan.child())
        text = f"SELECT {self._columns(plan.aggregateExpressions())} FROM ({child})"
        groups = self._texts(plan.groupingExpressions())
        return f"{text} GROUP BY {groups}" if groups else text

    def join(self, plan: _Plan) -> str:
        """Return the query of a join."""
        kind = plan.joinType().toString()
        left, right = self.query(plan.left()), self.query(plan.right())
        condition = plan.condition()
        if kind not in _JOINS:
            raise _refusal(f"it has a join of the kind {kind}")
        if condition.isEmpty() and kind == "Inner":
            kind = "Cross"
        text = f"SELECT * FROM ({left}) {_JOINS[kind]} ({right})"
        return text if condition.isEmpty() else f"{text} ON {self._text(condition.get())}"

    def union(self, plan: _Plan) -> str:
        """Return the query of a union, whose columns may be others than those of its inputs."""
        return self._set_operation(plan, _items(plan.children()), "UNION ALL")

    def set_operation(self, plan: _Plan) -> str:
        """Return the query of INTERSECT or EXCEPT."""
        words = _class_name(plan).upper() + (" ALL" if plan.isAll() else "")
        return self._set_operation(plan, [plan.left(), plan.right()], words)

    def _set_operation(self, plan: _Plan, inputs: list[_Plan], words: str) -> str:
        text = f" {words} ".join(f"({self.query(child)})" for child in inputs)
        names = [self._name(attribute) for attribute in _items(inputs[0].output())]
        outputs = [self._name(attribute) for attribute in _items(plan.output())]
        if names == outputs:
            return f"SELECT * FROM ({text})"
        renamed = zip(names, outputs, strict=True)
        columns = ", ".join(f"{quoted(name)} AS {quoted(output)}" for name, output in renamed)
        return f"SELECT {columns} FROM ({text})"

    def distinct(self, plan: _Plan) -> str:
        """Return the query of DISTINCT."""
        return f"SELECT DISTINCT * FROM ({self.query(plan.child())})"

    def deduplicate(self, plan: _Plan) -> str:
        """Return the query of dropDuplicates of all columns."""
        keys = {int(key.exprId().id()) for key in _items(plan.keys())}
        columns = {int(column.exprId().id()) for column in _items(plan.child().output())}
        if keys != columns:
            raise _refusal(
                "dropDuplicates of some columns keeps any row of those with equal ones; take a row "
                "by row_number over a window that is ordered"
            )
        return self.distinct(plan)

    def sort(self, plan: _Plan) -> str:
        """Return the query of a sort."""
        if not getattr(plan, "global")():
            return self.query(plan.child())
        orders = self._texts(plan.order())
        return f"SELECT * FROM ({self.query(plan.child())}) ORDER BY {orders}"

    def limit(self, plan: _Plan) -> str:
        """Return the query of the first rows, right after their order."""
        child = plan.child()
        if _class_name(child) == "LocalLimit":
            child = child.child()
        limit = self._text(plan.limitExpr())
        if _class_name(child) == "Offset":
            offset = self._text(child.offsetExpr())
            return f"{self.query(child.child())} LIMIT {limit} OFFSET {offset}"
        return f"{self.query(child)} LIMIT {limit}"

    def window(self, plan: _Plan) -> str:
        """Return the query of window functions."""
        child = self.query(plan.child())
        return f"SELECT *, {self._columns(plan.windowExpressions())} FROM ({child})"

    def generate(self, plan: _Plan) -> str:
        """Return the query of a function that returns rows."""
        child, generator = self.query(plan.child()), plan.generator()
        columns = ", ".join(quoted(self._name(item)) for item in _items(plan.generatorOutput()))
        name = generator.prettyName() + ("_outer" if plan.outer() else "")
        arguments = self._texts(generator.children())
        return f"SELECT *, {name}({arguments}) AS ({columns}) FROM ({child})"


_WRITERS: dict[str, Callable[[_QueryWriter, _Plan], str]] = {
    "DataSourceV2Relation": _QueryWriter.relation,
    "SubqueryAlias": _QueryWriter.child,
    "ResolvedHint": _QueryWriter.child,
    "Repartition": _QueryWriter.child,
    "RepartitionByExpression": _QueryWriter.child,
    "Project": _QueryWriter.project,
    "Filter": _QueryWriter.filter,
    "Aggregate": _QueryWriter.aggregate,
    "Join": _QueryWriter.join,
    "Union": _QueryWriter.union,
    "Intersect": _QueryWriter.set_operation,
    "Except": _QueryWriter.set_operation,
    "Distinct": _QueryWriter.distinct,
    "Deduplicate": _QueryWriter.deduplicate,
    "Sort": _QueryWriter.sort,
    "GlobalLimit": _QueryWriter.limit,
    "Window": _QueryWriter.window,
    "Generate": _QueryWriter.generate,
}
_EPOCH_OPTIONS = frozenset({"versionasof", "timestampasof"})
_TABLE_OPTIONS = frozenset({"path", "table", "expiresby", FOLLOWS_LATEST.lower()}) | _EPOCH_OPTIONS


def _check_same(frame: ClassicDataFrame, relations: Sequence[_Plan], text: str) -> None:
    """UnsupportedStatementError unless Spark plans a text as it plans the frame."""
    query = ParsedQuery.parse(text)
    references = query.table_references(lambda name, as_of: True)
    frames = {
        f"relation_{number}": _frame_of(frame.sparkSession, plan)
        for number, plan in enumerate(relations)
    }
    try:
        written = frame.sparkSession.sql(query.replaced(references, list(frames)), **frames)
    except Exception as error:
        raise _refusal(
            f"Spark does not read the text that it writes itself, {text}: {describe_error(error)}"
        ) from None
    if frame.columns != written.columns or not _are_same(_optimized(frame), _optimized(written)):
        raise _refusal(f"the text {text}, as which Spark writes it, means something else")


def _frame_of(spark: SparkSession, plan: _Plan) -> Any:
    session: Any = spark
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset
    return ClassicDataFrame(dataset.ofRows(session._jsparkSession, plan), spark)


def _optimized(frame: DataFrame) -> _Plan:
    plan: Any = frame
    return plan._jdf.queryExecution().optimizedPlan().canonicalized()


def _are_same(plan: _Plan, written: _Plan) -> bool:
    """Return whether two canonical plans are the same, but for the names of columns."""
    if plan.getClass() != written.getClass():
        return False
    if _class_name(plan) == "DataSourceV2ScanRelation":
        # The objects that will read the rows differ.
        return bool(plan.relation().equals(written.relation())) and bool(
            plan.output().equals(written.output())
        )
    children, written_children = _items(plan.children()), _items(written.children())
    if len(children) != len(written_children):
        return False
    if not all(map(_are_same, children, written_children)):
        return False
    if _class_name(plan) == "Project":
        columns = map(_unnamed, _items(plan.projectList()))
        written_columns = map(_unnamed, _items(written.projectList()))
        return all(x.equals(y) for x, y in zip(columns, written_columns, strict=True))
    return bool(plan.equals(written.withNewChildren(plan.children())))


def _unnamed(expression: _Expression) -> _Expression:
    """Return a column that only gets another name; any other expression as it is."""
    is_renamed = _class_name(expression) == "Alias" and (
        _class_name(expression.child()) == "AttributeReference"
    )
    return expression.child() if is_renamed else expression


def _class_name(value: Any) -> str:
    return str(value.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def _entries(options: Any) -> Iterator[tuple[str, str]]:
    for entry in options.asCaseSensitiveMap().entrySet():
        yield entry.getKey(), entry.getValue()
