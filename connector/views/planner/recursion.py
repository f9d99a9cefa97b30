"""WITH RECURSIVE: a common table that reads itself becomes an operator that Spark evaluates whole.

Its query stays as it is written; the tables and common tables that it reads are inputs of the
operator, each once, with names of its own in the query. They are planned as in any other FROM.

Promises: the rows of the query follow from those of its inputs: what leaves open which rows it
takes, or reads the present time, is refused within the query. A common table before it may have it.
Does not know: how an operator is maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery, common_tables_around
from relstate.connector.syntax.tokens import quoted
from relstate.connector.syntax.tree import Tree, cast_text, text_of
from relstate.storage import syntax, types

from ..plan.node import Node, free_name
from ..plan.recursion import Recursion, RecursionInput
from ..plan.stateless import Output, Project, Union
from .analysis import table_not_found_error
from .builder import Builder, Item, Relation, check_keyable, pass_through_output
from .calls import depends_on_order, function_of, is_aggregate_of_group, is_same_for_peers
from .clauses import is_all
from .collations import is_collated
from .constants import one_row
from .expressions import function_name, is_clock, unsupported_error
from .generators import is_generator

PlanTable: TypeAlias = Callable[[exp.Table], Relation]
CLAUSE = "WITH RECURSIVE"
_BEFORE = "write it in a common table before the recursive one, and read that in the recursion"


def is_recursive(query: Tree) -> bool:
    """Return whether a query is that of a common table that reads itself."""
    common_table = query.parent
    clause = None if common_table is None else common_table.parent
    if not isinstance(common_table, exp.CTE) or not isinstance(clause, exp.With):
        return False
    name = common_table.alias.lower()
    return bool(clause.args.get("recursive")) and any(
        table.name.lower() == name and not table.args.get("db")
        for table in query.find_all(exp.Table)
    )


def plan_recursion(
    builder: Builder,
    query: Tree,
    names: Sequence[str],
    plan_table: PlanTable,
    *,
    has_all_rows: bool,
) -> Relation:
    """Return the rows of a common table that reads itself.

    ``query``: its query, which `is_recursive`; ``names``: of its columns; ``plan_table``: returns
    the rows of a table or a common table. ``has_all_rows``: whether Spark is not to limit them.
    """
    common_table = query.parent
    assert isinstance(common_table, exp.CTE)
    body = query.copy()
    used = {identifier.name.lower() for identifier in body.find_all(exp.Identifier)}
    name = free_name("recursion", used)
    inputs = _with_inputs(body, {common_table.alias.lower(): name}, used, plan_table)
    check_recursion(body, [name, *inputs])
    level = common_table.meta.get(syntax.MAX_LEVEL)
    text = _text_of_query(body, name, names, level)
    if has_all_rows:
        text += " LIMIT ALL"
    columns = _columns_read(body, inputs)
    node, number = _stack_inputs(builder, list(inputs.values()))
    relations = {
        name: tuple(types.Field(title, node.type_of(field)) for title, field in pairs)
        for name, pairs in columns.items()
    }
    spark_columns = builder.analysis.columns_of_query(text, relations)
    outputs = [replace(own, name=builder.namer.unique_name(own.name)) for own in spark_columns]
    collated = []
    for output in outputs:
        if is_collated(output.type):
            bytes_name = builder.namer.unique_name(output.name)
            collated.append((output.name, types.Field(bytes_name, types.String())))
        else:
            check_keyable(output.type, CLAUSE)
    node, group = builder.with_constant(node, "all_rows")
    recursion = Recursion(
        node,
        (group,),
        text,
        tuple(RecursionInput(name, tuple(pairs)) for name, pairs in columns.items()),
        number,
        tuple(outputs),
        tuple(collated),
        types.Field(builder.namer.unique_name("copy"), types.BigInt()),
        is_global=True,
    )
    pairs = zip(spark_columns, outputs, strict=True)
    return Relation(recursion, tuple(Item(own.name, output.name) for own, output in pairs))


def lifts_row_limit(tree: Tree) -> bool:
    """Return whether a query has a LIMIT ALL, by which Spark returns all rows of a recursion."""
    limits = tree.find_all(exp.Limit)
    return any(limit.expression is not None and is_all(limit.expression) for limit in limits)


def check_keyless_limit(node: Node, tree: Tree) -> None:
    """Refuse a LIMIT without an order over a recursion, which Spark ends after so many rows."""
    match node:
        case Project(child):
            check_keyless_limit(child, tree)
        case Union(inputs):
            for child in inputs:
                check_keyless_limit(child, tree)
        case Recursion():
            raise unsupported_error(
                f"a LIMIT without ORDER BY over {CLAUSE}",
                "Spark ends the recursion after so many rows, and which they are depends on how it "
                "runs; end it by a condition or MAX RECURSION LEVEL, and write ORDER BY",
                tree.args["limit"],
            )


def check_recursion(query: Tree, names: Sequence[str]) -> None:
    """Refuse in a recursive query what its inputs do not determine, and tables besides them.

    ``names``: of the inputs, and of the query itself.
    """
    known = {name.lower() for name in names}
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            if function_name(table.this) != "range" and not is_generator(table.this):
                raise unsupported_error(
                    "this function in FROM", "read tables and subqueries", table.this
                )
        elif table.args.get("db") or not (table.name.lower() in known or _is_inner(table)):
            raise table_not_found_error(_name_of(table))
    for node in query.walk():
        _check_determined(node)


def _check_determined(node: Tree) -> None:
    if is_clock(node):
        raise unsupported_error(
            f"the present time in {CLAUSE}",
            "compare it in a common table before the recursive one, and read that in the "
            "recursion, or in the query over the recursive one",
            node,
        )
    is_limit = isinstance(node, exp.Limit | exp.Offset | exp.Fetch)
    if is_limit and (isinstance(node, exp.Fetch) or not is_all(node.expression)):
        reason = f"which rows it takes depends on their order, which Spark does not keep; {_BEFORE}"
        raise unsupported_error(f"LIMIT in {CLAUSE}", reason, node)
    if isinstance(node, exp.Window):
        spec = node.args.get("spec")
        frame = None if spec is None else text_of(spec)
        is_determined = is_same_for_peers(node.this, frame)
    else:
        is_determined = not is_aggregate_of_group(node) or not depends_on_order(node)
    if not is_determined:
        reason = f"its value depends on the order of rows, which Spark does not keep; {_BEFORE}"
        call = node.this if isinstance(node, exp.Window) else node
        name = text_of(function_of(call)).split("(")[0].lower()
        raise unsupported_error(f"{name}() in {CLAUSE}", reason, node)


def _name_of(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _is_inner(table: exp.Table) -> bool:
    """Return whether a table is a common table of the query that it is in."""
    name = table.name.lower()
    return any(name == common.alias.lower() for common in common_tables_around(table))


def _with_inputs(
    body: Tree, names: dict[str, str], used: set[str], plan_table: PlanTable
) -> Mapping[str, Relation]:
    """Return the inputs of a query by the names that they get in it, each once.

    ``names``: what tables are renamed to; ``used``: names that the query has, in lower case.
    """
    inputs: dict[str, Relation] = {}
    for table in list(body.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or _is_inner(table):
            continue
        if table.args.get("db"):
            raise table_not_found_error(_name_of(table))
        name = table.name.lower()
        if name not in names:
            names[name] = free_name(f"input_{len(names)}", used)
            inputs[names[name]] = plan_table(table)
        if not table.alias:
            alias = table.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(table.name, quoted=True))
            table.set("alias", alias)
        table.set("this", exp.to_identifier(names[name], quoted=True))
    return inputs


def _columns_read(body: Tree, inputs: Mapping[str, Relation]) -> dict[str, list[tuple[str, str]]]:
    """Return for each input the columns that a query reads, each with the field that holds it."""
    query = ParsedQuery.parse(text_of(body))
    columns = {}
    for name, relation in inputs.items():
        pairs = [(own.name or f"_col{n}", own.field) for n, own in enumerate(relation.items)]
        read = set(query.columns_read([title for title, _ in pairs]))
        columns[name] = [pair for pair in pairs if pair[0] in read]
    return columns


def _text_of_query(body: Tree, name: str, names: Sequence[str], level: str | None) -> str:
    columns = f"({', '.join(map(quoted, names))})" if names else ""
    limit = f" MAX RECURSION LEVEL {level}" if level else ""
    own = quoted(name)
    return f"{CLAUSE} {own}{columns}{limit} AS ({text_of(body)}) SELECT * FROM {own}"


def _stack_inputs(builder: Builder, inputs: Sequence[Relation]) -> tuple[Node, str]:
    """Return (the rows of all inputs with the fields of all, the field with the input's number)."""
    number = types.Field(builder.namer.unique_name("input"), types.Int())
    if not inputs:
        node = one_row(builder).node
        outputs = [*map(pass_through_output, node.fields), Output(number, "0")]
        return Project(node, tuple(outputs)), number.name
    nodes = []
    for position, relation in enumerate(inputs):
        outputs = [Output(number, str(position))]
        for other in inputs:
            is_own = other is relation
            outputs += [pass_through_output(f) if is_own else _null(f) for f in other.node.fields]
        nodes.append(Project(relation.node, tuple(outputs)))
    keys = (name for relation in inputs for name in relation.node.key)
    return Union(tuple(nodes), (number.name, *keys)), number.name


def _null(field: types.Field) -> Output:
    return Output(field, cast_text("NULL", field.type))
