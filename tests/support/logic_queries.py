"""Random SELECTs in the manner of sqllogictest: arithmetic, NULLs, aggregates and many joins.

Its files (``select1`` to ``select5``, ``random/aggregates``, ``random/groupby``) were made by
programs; this is one of the same kind for Spark's dialect. All columns are integers, and no result
depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

from support.random_tables import Commit, Row, TableSpec
from support.view_cases import Case, Step, View

_LETTERS = "abcde"
_TRIPLES = tuple(
    TableSpec(f"tab{number}", (("col0", "INT"), ("col1", "INT"), ("col2", "INT")))
    for number in range(3)
)
_FIVE = TableSpec("t1", tuple((letter, "INT") for letter in _LETTERS))
_CHAINED = tuple(
    TableSpec(
        f"n{number}",
        ((f"a{number}", "INT"), (f"b{number}", "INT"), (f"x{number}", "STRING")),
        (f"a{number}",),
        (f"a{number}",),
    )
    for number in range(1, 9)
)
_AGGREGATES = ("count", "sum", "avg", "min", "max")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_OPERATIONS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT")


class LogicMaker:
    """Makes SELECTs from a source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def query(self) -> str:
        """Return a SELECT of one of the kinds, whose columns are named c0, c1 and so on."""
        makers = (
            self._plain, self._grouped, self._global, self._five, self._chain, self._compound,
            self._nested,
        )  # fmt: skip
        return self._random.choice(makers)()

    def _plain(self) -> str:
        source, columns = self._source()
        items = self._items([self._number(columns, 2) for _ in range(self._count())])
        where = f" WHERE {self._condition(columns, 2)}" if self._flip(0.6) else ""
        return (
            f"SELECT {self._random.choice(['', 'ALL ', 'DISTINCT '])}{items} FROM {source}{where}"
        )

    def _grouped(self) -> str:
        source, columns = self._source()
        keys = self._random.sample(columns, self._random.randint(1, min(2, len(columns))))
        values = [self._number(keys, 2), *(self._aggregate(columns) for _ in range(self._count()))]
        having = f" HAVING {self._condition([*keys, 'count(*)'], 1)}" if self._flip(0.4) else ""
        distinct = "DISTINCT " if self._flip(0.3) else ""
        return (
            f"SELECT {distinct}{self._items(values)} FROM {source} "
            f"GROUP BY {', '.join(keys)}{having}"
        )

    def _global(self) -> str:
        source, columns = self._source()
        where = f" WHERE {self._condition(columns, 1)}" if self._flip(0.5) else ""
        items = self._items([self._aggregate(columns) for _ in range(self._count())])
        return f"SELECT {items} FROM {source}{where}"

    def _five(self) -> str:
        """Return a SELECT over the table of five columns with subqueries over itself."""
        columns = [f"t1.{letter}" for letter in _LETTERS]
        letter, same = self._random.sample(_LETTERS, 2)
        subqueries = (
            (
                f"CASE WHEN {letter} > (SELECT avg({letter}) FROM t1) "
                f"THEN {self._number(columns, 1)} ELSE {self._number(columns, 1)} END"
            ),
            f"(SELECT count(*) FROM t1 AS x WHERE x.{same} = t1.{same})",
            self._number(columns, 2),
            f"CASE {self._number(columns, 1)} WHEN {letter} THEN 111 WHEN {same} THEN 222 END",
        )
        values = self._random.sample(subqueries, self._random.randint(1, 3))
        exists = self._random.choice(["EXISTS", "NOT EXISTS"])
        condition = self._random.choice(
            [
                f"{exists} (SELECT 1 FROM t1 AS x WHERE x.{letter} < t1.{letter})",
                self._condition(columns, 2),
                f"{letter} BETWEEN {same} - 4 AND {same} + 4",
            ]
        )
        return f"SELECT {self._items(values)} FROM t1 WHERE {condition}"

    def _nested(self) -> str:
        """Return a SELECT over a table with subqueries over another one."""
        outer, inner = ([f"{alias}.col{number}" for number in range(3)] for alias in "ab")
        where = f"FROM tab{self._random.randrange(len(_TRIPLES))} AS b WHERE"
        own = f"{where} {self._condition(inner, 1)}"
        equality = f"{self._random.choice(inner)} = {self._random.choice(outer)}"
        no = self._random.choice(["", "NOT "])
        conditions = (
            f"{no}EXISTS (SELECT 1 {where} {equality} AND {self._comparison(inner, outer)})",
            f"{no}EXISTS (SELECT 1 {where} {self._comparison(inner, outer)})",
            f"{self._random.choice(outer)} {no}IN (SELECT {self._number(inner, 1)} {own})",
            (
                f"{self._number(outer, 1)} {self._random.choice(_COMPARISONS)} "
                f"(SELECT {self._aggregate(inner)} {own})"
            ),
        )
        values = [
            self._number(outer, 2),
            f"(SELECT {self._aggregate(inner)} {where} {equality})",
        ]
        table = self._random.randrange(len(_TRIPLES))
        condition = self._random.choice(conditions)
        return f"SELECT {self._items(values)} FROM tab{table} AS a WHERE {condition}"

    def _comparison(self, left: Sequence[str], right: Sequence[str]) -> str:
        comparison = self._random.choice(_COMPARISONS)
        return f"{self._random.choice(left)} {comparison} {self._random.choice(right)}"

    def _chain(self) -> str:
        """Return a join of tables that are written in any order, as are their conditions."""
        tables = self._random.sample(range(1, len(_CHAINED) + 1), self._random.randint(2, 6))
        conditions = [f"a{left} = b{right}" for left, right in pairwise(tables)]
        conditions.append(f"b{tables[0]} {self._random.choice(['>', '<>', 'IN'])} (3)")
        conditions = self._shuffled(conditions)
        items = self._items([f"x{number}" for number in self._shuffled(tables)])
        source = ", ".join(f"n{number}" for number in self._shuffled(tables))
        return f"SELECT {items} FROM {source} WHERE {' AND '.join(conditions)}"

    def _compound(self) -> str:
        """Return set operations of SELECTs with one column each."""
        parts = []
        for number in self._random.sample(range(1, len(_CHAINED) + 1), self._random.randint(2, 4)):
            columns = [f"a{number}", f"b{number}"]
            column = self._random.choice(columns)
            where = self._condition(columns, 1)
            parts.append(f"SELECT {column} AS c0 FROM n{number} WHERE {where}")
        text = parts[0]
        for part in parts[1:]:
            text = f"{text} {self._random.choice(_OPERATIONS)} {part}"
        return text

    def _source(self) -> tuple[str, list[str]]:
        """Return a FROM clause and its columns."""
        tables = self._random.choices(range(len(_TRIPLES)), k=self._random.choice([1, 1, 1, 2]))
        source = " CROSS JOIN ".join(
            f"tab{table} AS cor{number}" for number, table in enumerate(tables)
        )
        return source, [f"cor{n}.col{i}" for n in range(len(tables)) for i in range(3)]

    def _number(self, columns: Sequence[str], depth: int) -> str:
        random = self._random
        if depth == 0 or self._flip(0.25):
            leaf = random.choice(columns) if self._flip(0.7) else str(random.randrange(100))
            return f"{random.choice(['', '', '+ ', '- ', '+ - '])}{leaf}"
        left, right = (self._number(columns, depth - 1) for _ in range(2))
        return random.choice(
            [
                f"{left} * {right}",
                f"{left} + {right}",
                f"( {left} ) - {right}",
                f"{left} DIV nullif ( {right}, 0 )",
                f"COALESCE ( {left}, {right} )",
                f"NULLIF ( {left}, {right} )",
                f"CASE WHEN {random.choice(columns)} > 40 THEN {left} ELSE {right} END",
                f"- CAST ( {left} AS BIGINT )",
            ]
        )

    def _condition(self, columns: Sequence[str], depth: int) -> str:
        random = self._random
        if depth > 0 and self._flip(0.5):
            left, right = (self._condition(columns, depth - 1) for _ in range(2))
            return random.choice(
                [f"( {left} AND {right} )", f"( {left} OR {right} )", f"NOT ( {left} )"]
            )
        left, right = (self._number(columns, 1) for _ in range(2))
        no = random.choice(["", "", "NOT "])
        return random.choice(
            [
                f"{left} {random.choice(_COMPARISONS)} {right}",
                f"{left} {no}IN ( {right}, {random.randrange(100)} )",
                f"{left} {no}BETWEEN {right} AND {random.randrange(100)}",
                f"{left} IS {no}NULL",
                f"{no}{left} <> NULL",
            ]
        )

    def _aggregate(self, columns: Sequence[str]) -> str:
        name, kind = (
            self._random.choice(_AGGREGATES),
            self._random.choice(["", "ALL ", "DISTINCT "]),
        )
        call = "count(*)" if self._flip(0.2) else f"{name}({kind}{self._number(columns, 1)})"
        return self._random.choice([call, f"- {call}", f"{call} * {self._random.randrange(9)}"])

    def _items(self, values: Sequence[str]) -> str:
        return ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))

    def _count(self) -> int:
        return self._random.choice([1, 1, 2, 3])

    def _flip(self, chance: float) -> bool:
        return self._random.random() < chance

    def _shuffled(self, values: Sequence[Any]) -> list[Any]:
        return self._random.sample(values, len(values))


def logic_case(seed: int, count: int) -> Case:
    """Return a case of so many views; every second one is created when rows are there."""
    random = Random(seed)
    maker = LogicMaker(random)
    tables = (*_TRIPLES, _FIVE, *_CHAINED)
    rows = {table.name: _rows(table, random) for table in tables}
    steps = (
        _step(tables, {name: pairs[::2] for name, pairs in rows.items()}),
        _step(tables, {name: pairs[1::2] for name, pairs in rows.items()}),
        _later_step(tables, rows, random),
    )
    views = tuple(View(f"v{number}", maker.query(), step=number % 2) for number in range(count))
    return Case(tables, steps, views, vnode_count=7)


def _rows(table: TableSpec, random: Random) -> list[tuple[object, Row]]:
    """Return rows, each with its key or its number."""
    count = 10 if table.key else 8
    rows: list[tuple[object, Row]] = []
    for number in range(count):
        values = [random.choice([None, *range(12), *range(90, 99)]) for _ in table.columns]
        if table.key:
            values = [number, random.randrange(count), f"table {table.name} row {number}"]
        rows.append(((number,) if table.key else number, tuple(values)))
    return rows


def _step(tables: Sequence[TableSpec], rows: dict[str, list[tuple[object, Row]]]) -> Step:
    return Step(tuple(Commit(table.name, tuple(rows[table.name])) for table in tables))


def _later_step(
    tables: Sequence[TableSpec], rows: dict[str, list[tuple[object, Row]]], random: Random
) -> Step:
    """Return a step that deletes a third of the rows of each table and changes another."""
    commits = []
    for table in tables:
        pairs = random.sample(rows[table.name], len(rows[table.name]))
        third = len(pairs) // 3
        changed = [
            (key, row if table.key else (*row[1:], row[0])) for key, row in pairs[third : 2 * third]
        ]
        if table.key:
            changed = [(key, (row[0], random.randrange(10), row[2])) for key, row in changed]
        commits.append(Commit(table.name, tuple(changed), tuple(pairs[:third])))
    return Step(tuple(commits))
