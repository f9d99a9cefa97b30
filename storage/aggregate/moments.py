"""Central moments of the values of groups: how many, their mean, and their squared deviations.

A variance cannot be had from sums of squares, which cancel where values are large and near to each
other; so each partial value is a struct of these three, as in Spark's own partial aggregation.
Two of them are merged as by Chan, Golub and LeVeque (1979).

Promises: values that are not finite make the deviations NaN, as in Spark.
Does not know: tables, or which rows are of a group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..schema import types as t

COUNT, MEAN, DEVIATIONS = "count", "mean", "deviations"
TYPE = t.Struct(tuple(t.Field(name, t.Double()) for name in (COUNT, MEAN, DEVIATIONS)))
"""The type of a partial value; NULL for a group without values."""

OF_VALUES = ("count", "mean", "variance")
"""The aggregates of Arrow over values of which `of_groups` makes partial values."""

_ARROW = pa.struct([(field.name, pa.float64()) for field in TYPE.fields])
_MOST = np.finfo(np.float64).max


def of_groups(counts: pa.Array, means: pa.Array, variances: pa.Array) -> pa.Array:
    """Return the partial values of groups, of Arrow's aggregates over their values."""
    count = counts.to_numpy(zero_copy_only=False).astype(np.float64)
    deviations = pc.multiply(variances, pa.array(count))
    return _structs(count, _numbers(means), _numbers(deviations))


def of_single(values: pa.Array) -> pa.Array:
    """Return the partial value of each DOUBLE by itself."""
    count = values.is_valid().to_numpy(zero_copy_only=False).astype(np.float64)
    numbers = _numbers(values)
    with np.errstate(invalid="ignore"):
        return _structs(count, numbers, numbers - numbers)


def merged(partials: pa.Array, members: pa.ListArray) -> pa.Array:
    """Return the partial values of groups of partial values.

    ``members``: the positions of those of each group; none is empty.
    """
    order = members.flatten().to_numpy(zero_copy_only=False)
    sizes = members.value_lengths().to_numpy(zero_copy_only=False)
    starts = np.cumsum(sizes) - sizes
    columns = (_numbers(column)[order] for column in partials.flatten())
    if not len(order):
        return pa.array([], _ARROW)
    count, mean, deviations = columns
    with np.errstate(all="ignore"):
        total = np.add.reduceat(count, starts)
        means = np.add.reduceat(count * mean, starts) / total
        between = count * (mean - np.repeat(means, sizes)) ** 2
        return _structs(total, means, np.add.reduceat(deviations + between, starts))


def are_summable(values: pa.ChunkedArray) -> bool:
    """Return whether no sum of values, or of counts times means, can leave the range of a DOUBLE.

    Infinities and NaN do not count: their groups have no finite result anyway.
    """
    numbers = pc.struct_field(values, MEAN) if pa.types.is_struct(values.type) else values
    rows = pc.sum(pc.struct_field(values, COUNT)).as_py() if numbers is not values else len(values)
    finite = _numbers(pa.concat_arrays(numbers.chunks) if numbers.num_chunks else None)
    finite = np.abs(finite[np.isfinite(finite)])
    return not len(finite) or float(finite.max()) < _MOST / max(rows or 0, 1)


def _numbers(column: pa.Array | None) -> NDArray[np.float64]:
    """Return the values of a column; 0 for NULL."""
    if column is None:
        return np.empty(0)
    numbers: NDArray[np.float64] = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    return numbers


def _structs(
    count: NDArray[np.float64], mean: NDArray[np.float64], deviations: NDArray[np.float64]
) -> pa.Array:
    fields = [pa.array(values) for values in (count, mean, deviations)]
    empty = count == 0
    mask = pa.array(empty) if empty.any() else None
    return pa.StructArray.from_arrays(fields, fields=list(_ARROW), mask=mask)
