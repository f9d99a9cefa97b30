"""The laws of partial rows: added up, they are what their rows are."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from relstate.storage import Predicate, TableSchema, errors
from relstate.storage.aggregate import adding
from relstate.storage.aggregate.adding import merged_partials, partial_rows
from relstate.storage.aggregate.measure import Function
from relstate.storage.aggregate.partial import PartialAggregate
from relstate.storage.schema.ddl import parse_columns
from support.examples import Seeds

SCHEMA = TableSchema.build(
    parse_columns(
        "id BIGINT, g INT, t STRING, l BIGINT, i TINYINT, f FLOAT, d DOUBLE, n DECIMAL(12,2), "
        "dt DATE, ts TIMESTAMP, b BINARY, bo BOOLEAN, w DECIMAL(30,2), c STRING COLLATE UTF8_LCASE"
    ),
    ["id"],
)
READ = ["id", "g", "t", "l", "i", "f", "d", "n", "dt", "ts", "b", "bo"]
NAN = math.nan
DAY = datetime.datetime(2020, 2, 29, tzinfo=ZoneInfo("UTC"))
VALUES: dict[str, Sequence[Any]] = {
    "g": range(4),
    "t": ["", "a", "A", "é", "😀"],
    "l": [-(2**63), -1, 0, 1, 7, 2**62, 2**63 - 1],
    "i": [-128, -1, 0, 1, 127],
    "f": [0.0, -0.0, 1.5, -1.5, math.inf, NAN],
    "d": [0.0, -0.0, 1.5, -3.0, 1e300, -math.inf, NAN],
    "n": [Decimal("-9999999999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999999.99")],
    "dt": [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)],
    "ts": [DAY, DAY + datetime.timedelta(microseconds=1)],
    "b": [b"", b"\x00", b"\xff"],
    "bo": [True, False],
}
MEASURES = [
    (Function.ROWS, ""),
    *((Function.COUNT, name) for name in ("t", "d", "b", "bo")),
    *((Function.SUM, name) for name in ("l", "i", "n")),
    *((Function.FLOAT_SUM, name) for name in ("i",)),
    *((function, name) for function in (Function.MIN, Function.MAX) for name in READ[2:]),
]


def random_rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Return rows of few values, some NULL."""
    return [
        {"id": number}
        | {
            name: None if chance.random() < 0.2 else chance.choice(pool)
            for name, pool in VALUES.items()
        }
        for number in range(count)
    ]


def batches_of(rows: list[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    """Return rows as batches of a size."""
    schema = pa.schema([SCHEMA.arrow_schema.field(name) for name in READ])
    return [
        pa.RecordBatch.from_pylist(rows[start : start + size], schema)
        for start in range(0, len(rows), size)
    ]


def spark_order(value: Any) -> Any:
    """Return what values compare by: NaN is greatest."""
    return (math.isnan(value), value) if isinstance(value, float) else value


ADD_UP: dict[Function, Callable[[list[Any]], Any]] = {
    Function.ROWS: len,
    Function.COUNT: lambda values: sum(value is not None for value in values),
    Function.SUM: lambda values: None if not present(values) else sum(present(values)),
    Function.FLOAT_SUM: lambda values: None if not present(values) else sum(present(values)),
    Function.MIN: lambda values: min(present(values), key=spark_order, default=None),
    Function.MAX: lambda values: max(present(values), key=spark_order, default=None),
}


def present(values: list[Any]) -> list[Any]:
    """Return the values that are not NULL."""
    return [value for value in values if value is not None]


def aggregated(
    rows: list[dict[str, Any]], group: Sequence[str], names: Sequence[tuple[Function, str]]
) -> dict[tuple[Any, ...], list[Any]]:
    """Return what each measure is in each group, row by row in Python."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in group), []).append(row)
    return {
        key: [ADD_UP[function]([row.get(name) for row in members]) for function, name in names]
        for key, members in groups.items()
    }


SUMS = (Function.ROWS, Function.COUNT, Function.FLOAT_SUM)


def batches_of_partials(
    aggregate: PartialAggregate, batches: list[pa.RecordBatch], are_merged: bool
) -> list[pa.RecordBatch]:
    """Return the partial rows of batches, as they are or those of one group added up."""
    partials = list(partial_rows(aggregate, batches))
    if not are_merged or not partials:
        return partials
    merged: list[pa.RecordBatch] = merged_partials(
        aggregate, pa.Table.from_batches(partials)
    ).to_batches()
    return merged


def added_up(
    aggregate: PartialAggregate, batches: list[pa.RecordBatch], are_merged: bool = False
) -> Any:
    """Return the partial rows of batches, added up as Spark would."""
    names = [field.name for field in aggregate.fields]
    size = len(aggregate.group)
    rows = [
        dict(zip(names, values, strict=True))
        for batch in batches_of_partials(aggregate, batches, are_merged)
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    functions = [
        Function.SUM if measure.function in SUMS else measure.function
        for measure in aggregate.measures
    ]
    return aggregated(rows, names[:size], list(zip(functions, names[size:], strict=True)))


@pytest.mark.parametrize("group", [[], ["g"], ["t", "bo"], ["g", "dt", "b"]])
def test_partial_rows_add_up(
    group: list[str], monkeypatch: pytest.MonkeyPatch, seeds: Seeds
) -> None:
    """To what all rows are: every function and type, however rows gather and are merged."""
    aggregate = PartialAggregate.of(SCHEMA, group, MEASURES)
    for seed in seeds(20):
        chance = random.Random(seed)
        monkeypatch.setattr(adding, "_ROWS_AT_ONCE", chance.choice([1, 10, 1000]))
        monkeypatch.setattr(adding, "_MOST_PARTIALS", chance.choice([1, 20, 1000]))
        monkeypatch.setattr(adding, "_MOST_GROUPS", chance.choice([0, 5, 1000]))
        monkeypatch.setattr(adding, "_MOST_PARTIAL_BYTES", chance.choice([0, 1000, 1 << 20]))
        monkeypatch.setattr(adding, "_MOST_GROUP_BYTES", chance.choice([0, 500, 1 << 20]))
        monkeypatch.setattr(adding, "_LEAST_ROWS_PER_GROUP", chance.choice([0, 2]))
        rows = random_rows(chance, chance.choice([0, 1, 7, 100]))

        batches = batches_of(rows, chance.choice([1, 30, 1000]))

        expected = repr_of(aggregated(rows, group, MEASURES))
        for are_merged in (False, True):
            assert repr_of(added_up(aggregate, batches, are_merged)) == expected, seed


def test_merged_partial_rows_are_one_of_each_group() -> None:
    """Whatever sums and extremes there are; those whose sums might not fit stay as they are."""
    rows = [{"id": n, "g": n % 5, "l": n, "d": n / 2, "n": Decimal(n)} for n in range(100)]
    measures = [
        (Function.ROWS, ""),
        *((Function.SUM, name) for name in ("l", "d", "n")),
        (Function.FLOAT_SUM, "l"),
        (Function.MIN, "d"),
        (Function.MOMENTS, "d"),
    ]
    aggregate = PartialAggregate.of(SCHEMA, ["g"], measures)
    partials = pa.Table.from_batches(
        [batch for part in batches_of(rows, 10) for batch in partial_rows(aggregate, [part])]
    )

    merged = merged_partials(aggregate, partials)

    assert (partials.num_rows, merged.num_rows) == (50, 5)
    assert merged.schema == partials.schema
    large = [{"id": n, "l": 2**62} for n in range(3)]
    sums = PartialAggregate.of(SCHEMA, ["g"], [(Function.SUM, "l")])
    partials = pa.Table.from_batches(partial_rows(sums, batches_of(large, 1)))
    assert merged_partials(sums, partials) is partials


def repr_of(groups: dict[tuple[Any, ...], list[Any]]) -> dict[str, list[str]]:
    """Return groups as texts, so that NaN equals NaN; of zeros either sign."""
    texts = {
        str(key): [repr(value + 0.0 if isinstance(value, float) else value) for value in values]
        for key, values in groups.items()
    }
    # A sum of whole numbers as a DOUBLE.
    return {key: [text.removesuffix(".0") for text in values] for key, values in texts.items()}


@pytest.mark.parametrize("group", [[], ["g"], ["g", "bo"]])
def test_moments_are_of_all_values(
    group: list[str], monkeypatch: pytest.MonkeyPatch, seeds: Seeds
) -> None:
    """However values gather and are merged; large values near to each other do not cancel."""
    names = ["l", "i", "f", "d", "n"]
    aggregate = PartialAggregate.of(SCHEMA, group, [(Function.MOMENTS, name) for name in names])
    for seed in seeds(20):
        chance = random.Random(seed)
        monkeypatch.setattr(adding, "_ROWS_AT_ONCE", chance.choice([1, 10, 1000]))
        monkeypatch.setattr(adding, "_MOST_PARTIALS", chance.choice([1, 20, 1000]))
        monkeypatch.setattr(adding, "_MOST_GROUPS", chance.choice([0, 5, 1000]))
        monkeypatch.setattr(adding, "_LEAST_ROWS_PER_GROUP", chance.choice([0, 2]))
        rows = random_rows(chance, chance.choice([0, 1, 7, 100]))
        for row in rows:
            row["d"] = chance.choice([row["d"], 1e9 + chance.random()])

        batches = batches_of(rows, chance.choice([1, 30, 1000]))
        partials = moments_of(aggregate, batches, chance.choice([False, True]))
        expected = aggregated(rows, group, [(Function.COUNT, name) for name in names])

        assert set(partials) == set(expected), seed
        for key, values in partials.items():
            members = [row for row in rows if tuple(row[name] for name in group) == key]
            for name, parts in zip(names, values, strict=True):
                assert_moments(
                    parts, [float(row[name]) for row in members if row[name] is not None]
                )


def moments_of(
    aggregate: PartialAggregate, batches: list[pa.RecordBatch], are_merged: bool = False
) -> Any:
    """Return the moments that the partial rows of each group have."""
    size = len(aggregate.group)
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    for batch in batches_of_partials(aggregate, batches, are_merged):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            measures = groups.setdefault(row[:size], [[] for _ in row[size:]])
            for parts, part in zip(measures, row[size:], strict=True):
                parts += [part] if part is not None else []
    return groups


def assert_moments(parts: list[dict[str, float]], values: list[float]) -> None:
    """Assert that parts are together the moments of values."""
    assert sum(part["count"] for part in parts) == len(values)
    if not values:
        return
    mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
    merged = sum(part["count"] * (part["mean"] / len(values)) for part in parts)
    means = [(part["count"], part["mean"] - mean) for part in parts]
    deviations = sum(part["deviations"] for part in parts) + sum(n * m * m for n, m in means)
    if math.isnan(mean):
        assert math.isnan(deviations)
        return
    largest = max(map(abs, values))
    assert merged == pytest.approx(mean, rel=1e-9, abs=1e-12 * largest)
    if largest < 1e150:
        assert deviations == pytest.approx(
            math.fsum((value - mean) ** 2 for value in values), rel=1e-6, abs=1e-20 * largest**2
        )


def test_means_of_the_largest_values_are_finite() -> None:
    """Values whose sum leaves the range of a DOUBLE are passed on one by one."""
    aggregate = PartialAggregate.of(SCHEMA, [], [(Function.MOMENTS, "d")])
    rows = [{"id": number, "d": 1.7e308} for number in range(3)] + [{"id": 3, "d": math.inf}]

    (parts,) = moments_of(aggregate, batches_of(rows, 10)).values()
    assert [part["mean"] for part in parts[0]] == [1.7e308, 1.7e308, 1.7e308, math.inf]
    assert [part["deviations"] for part in parts[0][:3]] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rows_per_group", [0, 2])
def test_a_measure_is_of_the_rows_of_its_condition(
    monkeypatch: pytest.MonkeyPatch, rows_per_group: int
) -> None:
    """Others of the same group are of all rows; also where each row goes on by itself."""
    monkeypatch.setattr(adding, "_LEAST_ROWS_PER_GROUP", rows_per_group * 1000)
    measures = [(Function.ROWS, ""), *MEASURES[:9], (Function.MAX, "d")]
    condition = Predicate.parse("bo", SCHEMA).condition
    aggregate = PartialAggregate.of(
        SCHEMA, ["g"], measures, [condition] * (len(measures) - 2) + [None, condition]
    )
    rows = random_rows(random.Random(3), 200)
    batches = batches_of(rows, 30)
    matching = aggregated([row for row in rows if row["bo"]], ["g"], measures)
    everything = aggregated(rows, ["g"], measures)

    expected = {
        key: [*values[:-2], everything[key][-2], values[-1]] for key, values in matching.items()
    }
    assert repr_of(added_up(aggregate, batches)) == repr_of(expected)


def test_columns_may_have_the_names_of_results() -> None:
    """Those that Arrow gives to aggregates, and to their columns."""
    schema = TableSchema.build(
        parse_columns("count_all INT, g0 INT, m0 INT, m0_count INT"), ["count_all"]
    )
    aggregate = PartialAggregate.of(
        schema,
        ["m0", "count_all", "m0_count", "g0"],
        [(Function.ROWS, ""), (Function.SUM, "g0"), (Function.COUNT, "m0")],
    )
    names = [column.name for column in schema.columns]
    batch = pa.RecordBatch.from_pydict(
        dict(zip(names, ([1, 1], [2, 2], [3, 3], [4, 4]), strict=True)), schema.arrow_schema
    )

    assert list(added_up(aggregate, [batch, batch]).items()) == [((3, 1, 4, 2), [4, 8, 4])]


def test_a_table_may_not_have_the_names_of_measures() -> None:
    """They would be those of two columns of the partial rows, in any case."""
    schema = TableSchema.build(parse_columns("k INT, __Relstate_Measure_0 INT"), ["k"])
    with pytest.raises(errors.SchemaError, match=r"'__Relstate_Measure_0' .*reserved by"):
        PartialAggregate.of(schema, [], [(Function.ROWS, "")])


def test_groups_are_few_rows() -> None:
    """One partial row per group where groups are few, one per row where they are nearly rows."""
    rows = random_rows(random.Random(1), 1000)
    few = PartialAggregate.of(SCHEMA, ["g"], [(Function.ROWS, "")])
    many = PartialAggregate.of(SCHEMA, ["id"], [(Function.ROWS, "")])

    assert sum(batch.num_rows for batch in partial_rows(few, batches_of(rows, 10))) == 5
    assert sum(batch.num_rows for batch in partial_rows(many, batches_of(rows, 10))) == 1000


def test_memory_is_bounded_by_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial rows leave the task as soon as there are too many groups, in batches."""
    monkeypatch.setattr(adding, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(adding, "_MOST_PARTIALS", 60)
    monkeypatch.setattr(adding, "_MOST_GROUPS", 50)
    aggregate = PartialAggregate.of(SCHEMA, ["id"], [(Function.ROWS, "")])
    rows = [{"id": number // 3} for number in range(3000)]
    taken: list[int] = []

    def source() -> Any:
        for batch in batches_of(rows, 100):
            taken.append(1)
            yield batch

    next(partial_rows(aggregate, source()))
    assert len(taken) < 5


def test_memory_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial rows of few groups with large values leave the task, and are not added up again."""
    monkeypatch.setattr(adding, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(adding, "_MOST_PARTIAL_BYTES", 1 << 20)
    monkeypatch.setattr(adding, "_MOST_GROUP_BYTES", 1 << 19)
    aggregate = PartialAggregate.of(SCHEMA, ["id"], [(Function.MAX, "t")])
    taken: list[int] = []

    def source() -> Any:
        for start in range(0, 3000, 100):
            rows = [{"id": (start + number) // 4, "t": "x" * 10_000} for number in range(100)]
            yield from batches_of(rows, 100)
            taken.append(1)

    sizes: list[int] = []
    for batch in partial_rows(aggregate, source()):
        assert len(taken) <= 5 * (len(sizes) + 1)
        sizes.append(batch.nbytes)
    assert max(sizes) < 2 << 20


def test_json_is_the_aggregate() -> None:
    """What travels as text is checked against the table when it arrives."""
    condition = Predicate.parse("l > 5 AND t LIKE 'a%'", SCHEMA).condition
    conditions = [condition, *[None] * (len(MEASURES) - 1)]
    aggregate = PartialAggregate.of(SCHEMA, ["g", "t"], MEASURES, conditions)

    assert PartialAggregate.from_json(aggregate.json, SCHEMA) == aggregate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"group":["g"]}',
        '{"group":[],"measures":[]}',
        '{"group":["nope"],"measures":[]}',
        '{"group":["c"],"measures":[]}',
        '{"group":[],"measures":[["nope","l",null]]}',
        '{"group":[],"measures":[["sum","t",null]]}',
        '{"group":[],"measures":[["sum","w",null]]}',
        '{"group":[],"measures":[["float_sum","d",null]]}',
        '{"group":[],"measures":[["min","c",null]]}',
        '{"group":[],"measures":[["moments","t",null]]}',
        '{"group":[1],"measures":[]}',
        '{"group":[],"measures":[["sum"]]}',
        '{"group":[],"measures":[["sum","l"]]}',
        '{"group":[],"measures":[["sum","l",{}]]}',
    ],
)
def test_other_json_is_refused(text: str) -> None:
    """Unknown columns, functions, and those that do not exist for a type."""
    with pytest.raises(errors.OptionError, match="partial aggregate is not one"):
        PartialAggregate.from_json(text, SCHEMA)
