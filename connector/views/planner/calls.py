"""Calls of aggregate and window functions: which there are, and their parts.

Promises: a call is found with any clauses after it: FILTER, WITHIN GROUP, IGNORE NULLS.
Does not know: which executor maintains a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, columns_of, comparable_text, text_of

from ..plan.aggregate import Function

AGGREGATES: dict[type[Tree], Function] = {
    exp.Count: Function.COUNT,
    exp.Sum: Function.SUM,
    exp.Avg: Function.AVG,
    exp.Min: Function.MIN,
    exp.Max: Function.MAX,
    exp.Stddev: Function.STDDEV_SAMP,
    exp.StddevSamp: Function.STDDEV_SAMP,
    exp.StddevPop: Function.STDDEV_POP,
    exp.Variance: Function.VAR_SAMP,
    exp.VariancePop: Function.VAR_POP,
}
"""The functions that the aggregate executor maintains, of those that have a type of their own."""
_NAMED_AGGREGATES = {
    str(function): function
    for function in (
        Function.BIT_AND, Function.BIT_OR, Function.BIT_XOR, Function.COVAR_POP,
        Function.COVAR_SAMP, Function.MODE,
    )
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Sketches that are the same for the same rows in one order. KLL sketches draw random numbers.
_SKETCHES = _words("""
    approx_top_k approx_top_k_accumulate approx_top_k_combine count_min_sketch hll_sketch_agg
    hll_union_agg theta_intersection_agg theta_sketch_agg theta_union_agg
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
""")
# Aggregate functions whose value depends on the order in which they get rows that tie, or all rows.
_ORDERED_AGGREGATES = (_SKETCHES - {"count_min_sketch"}) | _words("""
    any_value approx_percentile array_agg collect_list collect_set first first_value
    collect_union histogram_numeric last last_value listagg max_by min_by mode percentile_approx
    string_agg vector_avg vector_sum
""")
RECOMPUTED_AGGREGATES = (
    _ORDERED_AGGREGATES
    | _SKETCHES
    | _words("""
    any approx_count_distinct bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or corr count_if covar_pop covar_samp every kurtosis median
    percentile percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some try_avg try_sum
""")
)
"""The names of the aggregate functions that Spark evaluates again for each group that changes."""

DEVIATIONS = _words("""
    corr covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy stddev_samp var_samp
""")
"""The names of those whose value for one row depends on a setting of the session."""

ZERO_WITHOUT_ROWS = _words("approx_count_distinct count count_if regr_count")
EMPTY_WITHOUT_ROWS = _words("array_agg collect_list collect_set collect_union")
"""The names of those that are 0, or an empty array, over no rows; most others are NULL."""

_SPECIAL_WITHOUT_ROWS = _SKETCHES | _words("""
    bitmap_and_agg bitmap_construct_agg bitmap_or_agg schema_of_variant_agg
""")


def is_special_without_rows(name: str) -> bool:
    """Return whether an aggregate of no rows is anything but NULL, 0 or an empty array."""
    return name in _SPECIAL_WITHOUT_ROWS


def maintained_function(call: Tree) -> Function | None:
    """Return the function of a call if the aggregate executor maintains it; else None."""
    if isinstance(call, exp.Anonymous):
        return _NAMED_AGGREGATES.get(str(call.this).lower())
    return AGGREGATES.get(type(call))


WINDOW_FUNCTIONS = _words("""
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
""")
"""The names of the functions that are only allowed in a window."""

_WINDOW_TYPES = exp.RowNumber, exp.Rank, exp.DenseRank
_WRAPPERS = exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls
# Window functions whose value is the same for all rows that tie in the order.
_PEER_FUNCTIONS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})


def function_of(tree: Tree) -> Tree:
    """Return the function of a call, without FILTER, WITHIN GROUP and IGNORE NULLS around it."""
    while isinstance(tree, _WRAPPERS):
        tree = tree.this
    return tree


def is_aggregate(node: Tree) -> bool:
    """Return whether a node is an aggregate call, with its FILTER if it has one."""
    return _is_aggregate_function(function_of(node))


def _is_aggregate_function(node: Tree) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in RECOMPUTED_AGGREGATES
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Like | exp.ILike)
    return isinstance(node, exp.AggFunc) and not isinstance(node, _WINDOW_TYPES)


def is_aggregate_of_group(node: Tree) -> bool:
    """Return whether a node is an aggregate call, with what is around it, and not of a window."""
    return is_aggregate(node) and not _is_of_window(node)


def is_aggregated(node: Tree) -> bool:
    """Return whether a node is inside an aggregate call."""
    ancestor = node.parent
    while ancestor is not None and not is_aggregate(ancestor):
        ancestor = ancestor.parent
    return ancestor is not None


def has_aggregate(tree: Tree) -> bool:
    """Return whether an expression has an aggregate call, in a window or not."""
    return any(_is_aggregate_function(node) for node in tree.walk())


def takes_many_rows(tree: Tree) -> bool:
    """Return whether an expression has an aggregate call or a window."""
    return has_aggregate(tree) or tree.find(exp.Window) is not None


def find_aggregates(tree: Tree) -> list[Tree]:
    """Return the aggregate calls of an expression that are not window functions themselves."""
    calls = []
    for node in tree.walk(prune=_is_group_function):
        if _is_group_function(node):
            while node is not tree and isinstance(node.parent, _WRAPPERS):
                node = node.parent
            calls.append(node)
    return calls


def _is_group_function(node: Tree) -> bool:
    return _is_aggregate_function(node) and not _is_of_window(node)


def _is_of_window(call: Tree) -> bool:
    """Return whether a call, with what is around it, is the function of a window."""
    while isinstance(call.parent, _WRAPPERS) and call.parent.this is call:
        call = call.parent
    return isinstance(call.parent, exp.Window) and call.parent.this is call


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate call, taken apart.

    ``call``: without DISTINCT, FILTER, IGNORE NULLS and RESPECT NULLS. ``nulls``: the last two.
    """

    call: Tree
    is_distinct: bool
    filter: Tree | None
    nulls: Tree | None

    @classmethod
    def of(cls, tree: Tree) -> AggregateCall:
        """Return the parts of a call."""
        condition, order, nulls = None, None, None
        while isinstance(tree, _WRAPPERS):
            if isinstance(tree, exp.Filter):
                condition = tree.expression.this
            elif isinstance(tree, exp.WithinGroup):
                order = tree.expression
            else:
                nulls = tree
            tree = tree.this
        arguments = list(_arguments(tree))
        is_distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        if is_distinct:
            arguments = [*arguments[0].expressions, *arguments[1:]]
        call: Tree = exp.Anonymous(
            this=name_of(tree), expressions=[argument.copy() for argument in arguments]
        )
        if order is not None:
            call = exp.WithinGroup(this=call, expression=order.copy())
        return cls(call, is_distinct, condition, nulls)

    @property
    def arguments(self) -> list[Tree]:
        """The arguments that read fields, without the order of a WITHIN GROUP."""
        arguments = map(_value_of, function_of(self.call).expressions)
        return [value for value in arguments if columns_of(value)]

    @property
    def values(self) -> list[Tree]:
        """The arguments and sort keys that read fields."""
        return [value for value in values_of(self.call) if columns_of(value)]


def name_of(function: Tree) -> str:
    """Return the name of an aggregate or window function, in lower case."""
    if isinstance(function, exp.Anonymous):
        return str(function.this).lower()
    aggregate = AGGREGATES.get(type(function))
    return str(aggregate) if aggregate is not None else text_of(function).split("(")[0].lower()


def _arguments(function: Tree) -> Iterator[Tree]:
    if isinstance(function, exp.Any):
        yield function.this.this if isinstance(function.this, exp.Paren) else function.this
    elif isinstance(function, exp.Anonymous):
        yield from function.expressions
    else:
        if function.this is not None:
            yield function.this
        yield from function.expressions


def values_of(call: Tree) -> Iterator[Tree]:
    """Yield the arguments of a call, the sort keys of its WITHIN GROUP, its FILTER's condition."""
    while isinstance(call, _WRAPPERS):
        if isinstance(call, exp.WithinGroup):
            for key in call.expression.expressions:
                yield key.this
        elif isinstance(call, exp.Filter):
            yield call.expression.this
        call = call.this
    yield from map(_value_of, _arguments(call))


def _value_of(argument: Tree) -> Tree:
    """Return the value of an argument, which may be given by its name."""
    return argument.expression if isinstance(argument, exp.Kwarg) else argument


def is_group_call(tree: Tree) -> bool:
    """Return whether an expression is an aggregate call without FILTER over fields."""
    call = tree.this if isinstance(tree, exp.WithinGroup | exp.RespectNulls) else tree
    return _is_aggregate_function(call) and all(map(_is_simple, values_of(tree)))


def is_window_call(tree: Tree) -> bool:
    """Return whether an expression is a window function over fields."""
    if not isinstance(tree, exp.Window):
        return False
    function = function_of(tree.this)
    is_known = _is_aggregate_function(function) or name_of(function) in WINDOW_FUNCTIONS
    return is_known and all(map(_is_simple, values_of(tree.this)))


def _is_simple(value: Tree) -> bool:
    """Return whether a value is a field, or reads none and is no call of many rows."""
    return isinstance(value, exp.Column) or not (columns_of(value) or takes_many_rows(value))


def with_fields_for_values(call: Tree, fields: Mapping[str, str]) -> Tree:
    """Return a call over fields: ``fields`` has, by its meaning, the field of each value."""
    copied = call.copy()
    for value in list(values_of(copied)):
        name = fields.get(comparable_text(value)) if columns_of(value) else None
        if name is not None:
            value.replace(column(name))
    return copied


def depends_on_order(call: Tree) -> bool:
    """Return whether an aggregate call may give another value for another order of its rows."""
    function = function_of(call)
    match name_of(function):
        case "listagg" | "string_agg" if isinstance(call, exp.WithinGroup):
            # Strings that tie in an order by themselves are equal.
            keys = {comparable_text(key.this) for key in call.expression.expressions}
            return comparable_text(next(_arguments(function))) not in keys
        case "mode":
            flag = [text_of(argument).upper() for argument in list(_arguments(function))[1:]]
            return not isinstance(call, exp.WithinGroup) and flag != ["TRUE"]
        case name:
            return name in _ORDERED_AGGREGATES


def is_by_value(frame: str | None) -> bool:
    """Return whether the frame of a window has all of the rows that tie, or none of them."""
    return frame is None or frame.upper().startswith("RANGE")


def is_same_for_peers(function: Tree, frame: str | None) -> bool:
    """Return whether a window function has one value for rows that tie, whatever their order."""
    inner = function_of(function)
    if not _is_aggregate_function(inner):
        return name_of(inner) in _PEER_FUNCTIONS
    return is_by_value(frame) and not depends_on_order(function)
