"""SELECTs made at random over the tables of `moving`: operators over operators.

A *shape* is a SELECT whose columns have names of their own. Each column has a kind: of integers,
strings, decimals, doubles, dates, timestamps or booleans; or *inexact*, a double that Spark and
relstate may compute in another order: nothing is ordered, grouped, joined or chosen by it. So a
SELECT that takes the first rows has one result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

_TABLES = {
    "t": {"k": "i", "g": "s", "n": "i", "v": "i", "m": "m", "x": "x", "d": "d", "ts": "t"},
    "u": {"i": "i", "s": "s", "g": "s", "n": "i", "x": "x", "m": "m"},
    "w": {"g": "s", "name": "s", "ok": "b", "r": "m", "d": "d"},
}
INEXACT = "inexact"
_EXPRESSIONS: dict[str, Sequence[str]] = {
    "i": ("{0} + 1", "{0} % 3", "coalesce({0}, 0)", "CASE WHEN {0} > 1 THEN {0} END", "-{0}"),
    "s": ("upper({0})", "concat({0}, '!')", "coalesce({0}, '?')", "nullif({0}, 'a')"),
    "m": ("coalesce({0}, 0)", "CAST({0} AS DECIMAL(10,1))", "-{0}"),
    "x": ("coalesce({0}, 1.5D)", "abs({0})", "{0} * 2"),
    "d": ("date_add({0}, 1)", "coalesce({0}, DATE'2024-03-01')"),
    "t": ("date_trunc('HOUR', {0})",),
    "b": ("NOT {0}", "coalesce({0}, true)"),
    INEXACT: ("{0}",),
}
_CONDITIONS: dict[str, Sequence[str]] = {
    "i": ("{0} > 0", "{0} % 2 = 0", "{0} IS NULL OR {0} < 3", "{0} IN (0, 1, 2)"),
    "s": ("{0} <> 'a'", "{0} LIKE 'a%'", "{0} IS NOT NULL", "length({0}) < 2"),
    "m": ("{0} > 0", "{0} <= 99.5"),
    "x": ("{0} > 0", "isnan({0}) OR {0} IS NULL OR {0} < 1"),
    "d": ("{0} > DATE'2024-02-28'", "month({0}) = 2"),
    "t": ("hour({0}) > 22", "{0} IS NOT NULL"),
    "b": ("{0}", "{0} IS NULL"),
}
_COMPARED = ("{0} < {1}", "{0} <> {1}", "coalesce({0} > {1}, false)")


@dataclass(frozen=True)
class Shape:
    """A SELECT, and the name and the kind of each of its columns."""

    sql: str
    columns: tuple[tuple[str, str], ...]

    @property
    def exact(self) -> list[tuple[str, str]]:
        """The columns whose values can be compared exactly."""
        return [(name, kind) for name, kind in self.columns if kind != INEXACT]


class Grammar:
    """Makes SELECTs from what `random` draws."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0

    def select(self, depth: int = 3) -> str:
        """Return a SELECT with up to so many operators on top of each other."""
        return self._shape(depth).sql

    def _name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def _shape(self, depth: int) -> Shape:
        if depth == 0:
            return self._table()
        makers: list[Callable[[int], Shape]] = [
            self._projected, self._grouped, self._grouped, self._joined, self._joined,
            self._distinct, self._united, self._united, self._top, self._group_top,
            self._chosen_by_subquery, self._chosen_by_subquery, self._exploded,
        ]  # fmt: skip
        return self._random.choice(makers)(depth)

    def _table(self) -> Shape:
        table = self._random.choice(list(_TABLES))
        columns = list(_TABLES[table].items())
        taken = self._some(columns, 3, len(columns))
        named = [(name, self._name(), kind) for name, kind in taken]
        outputs = ", ".join(f"{name} AS {new}" for name, new, _ in named)
        return Shape(f"SELECT {outputs} FROM {table}", tuple((new, kind) for _, new, kind in named))

    def _projected(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        outputs, columns = [], []
        for name, kind in self._some(below.columns, 1, len(below.columns)):
            forms = ("{0}", *_EXPRESSIONS[kind])
            new = self._name()
            outputs.append(f"{self._random.choice(forms).format(name)} AS {new}")
            columns.append((new, kind))
        where = self._where(below)
        return Shape(f"SELECT {', '.join(outputs)} FROM ({below.sql}){where}", tuple(columns))

    def _grouped(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        group = self._some(below.exact, 0 if self._random.random() < 0.15 else 1, 2)
        columns = [(self._name(), kind) for _, kind in group]
        outputs = [f"{old} AS {new}" for (old, _), (new, _) in zip(group, columns, strict=True)]
        for _ in range(self._random.randint(1, 4)):
            call, kind = self._call(below)
            columns.append((self._name(), kind))
            outputs.append(f"{call} AS {columns[-1][0]}")
        by = f" GROUP BY {', '.join(name for name, _ in group)}" if group else ""
        having = " HAVING count(*) > 1" if group and self._random.random() < 0.2 else ""
        text = f"SELECT {', '.join(outputs)} FROM ({below.sql}){self._where(below)}{by}{having}"
        return Shape(text, tuple(columns))

    def _call(self, below: Shape) -> tuple[str, str]:
        random = self._random
        exact = below.exact
        if not exact or random.random() < 0.25:
            call, kind = "count(*)", "i"
        else:
            name, of = random.choice(exact)
            distinct = "DISTINCT " if random.random() < 0.2 else ""
            functions = ["count", "min", "max"]
            functions += ["sum", "avg"] if of in "imx" else []
            functions += ["stddev", "var_pop"] if of in "im" and not distinct else []
            function = random.choice(functions)
            kinds = {"count": "i", "min": of, "max": of, "sum": INEXACT if of == "x" else of}
            call, kind = f"{function}({distinct}{name})", kinds.get(function, INEXACT)
        if exact and random.random() < 0.25:
            call += f" FILTER (WHERE {self._condition(below)})"
        return call, kind

    def _joined(self, depth: int) -> Shape:
        left, right = self._shape(depth - 1), self._shape(self._random.randint(0, 1))
        pairs = [(a, b) for a, kind in left.exact for b, other in right.exact if kind == other]
        if not pairs:
            return left
        a, b = self._random.choice(pairs)
        kind = self._random.choice(
            ["INNER", "INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"]
        )
        # Pairs of all rows stay few: only of tables.
        operators = ["=", "=", "<=>", *(["<"] if depth == 1 else [])]
        condition = f"{a} {self._random.choice(operators)} {b}"
        if self._random.random() < 0.5:
            c, d = self._random.choice(pairs)
            condition += " AND " + self._random.choice(_COMPARED).format(c, d)
        both = left.columns if "LEFT " in kind else (*left.columns, *right.columns)
        text = (
            f"SELECT {', '.join(name for name, _ in both)} FROM ({left.sql}) AS l_{a} {kind} JOIN "
        )
        return Shape(text + f"({right.sql}) AS r_{b} ON {condition}", both)

    def _distinct(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        if not below.exact:
            return below
        columns = tuple(self._some(below.exact, 1, 3))
        names = ", ".join(name for name, _ in columns)
        return Shape(f"SELECT DISTINCT {names} FROM ({below.sql}){self._where(below)}", columns)

    def _united(self, depth: int) -> Shape:
        left, right = self._shape(depth - 1), self._shape(self._random.randint(0, depth - 1))
        kinds = dict(right.columns)
        pairs = []
        for name, kind in left.columns:
            namesake = next((n for n, right_kind in kinds.items() if right_kind == kind), None)
            if namesake is not None:
                pairs.append((name, namesake, kind))
                del kinds[namesake]
        if not pairs:
            return left
        first = ", ".join(name for name, _, _ in pairs)
        second = ", ".join(name for _, name, _ in pairs)
        operators = ["UNION ALL", "UNION ALL"]
        if all(kind != INEXACT for _, _, kind in pairs):
            operators += ["UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
        operator = self._random.choice(operators)
        text = f"SELECT {first} FROM ({left.sql}) {operator} SELECT {second} FROM ({right.sql})"
        return Shape(text, tuple((name, kind) for name, _, kind in pairs))

    def _chosen_by_subquery(self, depth: int) -> Shape:
        below, right = self._shape(depth - 1), self._shape(self._random.randint(0, 1))
        pairs = [(a, b) for a, kind in below.exact for b, other in right.exact if kind == other]
        if not pairs:
            return below
        a, b = self._random.choice(pairs)
        c, d = self._random.choice(pairs)
        rows = f"({right.sql}) AS s_{b}"
        form = self._random.choice(
            (
                "{a} IN (SELECT {b} FROM {rows})",
                "{a} NOT IN (SELECT {b} FROM {rows})",
                "({a}, {c}) IN (SELECT {b}, {d} FROM {rows})",
                "EXISTS (SELECT 1 FROM {rows} WHERE {b} = {a})",
                "NOT EXISTS (SELECT 1 FROM {rows} WHERE {b} = {a} AND {d} <> {c})",
                "EXISTS (SELECT 1 FROM {rows} WHERE {b} = {a}) OR {other}",
                "{a} NOT IN (SELECT {b} FROM {rows}) OR {other}",
                "{a} >= (SELECT max({b}) FROM {rows})",
                "{a} <= (SELECT max({b}) FROM {rows} WHERE {d} = {c})",
                "2 > (SELECT count({b}) FROM {rows} WHERE {d} = {c})",
            )
        )
        condition = form.format(a=a, b=b, c=c, d=d, rows=rows, other=self._condition(below))
        names = ", ".join(name for name, _ in below.columns)
        return Shape(f"SELECT {names} FROM ({below.sql}) WHERE {condition}", below.columns)

    def _exploded(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        if not below.exact:
            return below
        _, kind = self._random.choice(below.exact)
        parts = ", ".join(name for name, other in below.exact if other == kind)
        columns = (*self._some(below.exact, 1, 3), (self._name(), kind))
        names = ", ".join(name for name, _ in columns[:-1])
        outer = self._random.choice(["", "_outer"])
        call = f"explode{outer}(filter(array({parts}), e -> e IS NOT NULL))"
        text = f"SELECT {names}, {call} AS {columns[-1][0]} FROM ({below.sql})"
        return Shape(text, columns)

    def _top(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        if not below.exact:
            return below
        names = ", ".join(name for name, _ in below.exact)
        limit = f"LIMIT {self._random.choice([1, 3, 8])}"
        offset = self._random.choice(["", "", " OFFSET 2"])
        text = f"SELECT {names} FROM ({below.sql}) ORDER BY {self._order(below)} {limit}{offset}"
        return Shape(text, tuple(below.exact))

    def _group_top(self, depth: int) -> Shape:
        below = self._shape(depth - 1)
        if not below.exact:
            return below
        names = ", ".join(name for name, _ in below.exact)
        by, _ = self._random.choice(below.exact)
        rank_name = self._name()
        rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {self._order(below)}) AS {rank_name}"
        has_rank = self._random.random() < 0.5
        outputs = f"{names}, {rank_name}" if has_rank else names
        text = f"SELECT {outputs} FROM (SELECT {names}, {rank} FROM ({below.sql})) "
        text += f"WHERE {rank_name} <= {self._random.choice([1, 2, 4])}"
        return Shape(text, (*below.exact, *([(rank_name, "i")] if has_rank else [])))

    def _order(self, below: Shape) -> str:
        """Return an order by all columns that are exact, so that only equal rows are tied."""
        forms = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        shuffled = self._some(below.exact, len(below.exact), len(below.exact))
        return ", ".join(name + self._random.choice(forms) for name, _ in shuffled)

    def _where(self, below: Shape) -> str:
        if not below.exact or self._random.random() < 0.6:
            return ""
        return f" WHERE {self._condition(below)}"

    def _condition(self, below: Shape) -> str:
        name, kind = self._random.choice(below.exact)
        return self._random.choice(_CONDITIONS[kind]).format(name)

    def _some(
        self, columns: Sequence[tuple[str, str]], least: int, most: int
    ) -> list[tuple[str, str]]:
        most = min(most, len(columns))
        return self._random.sample(list(columns), self._random.randint(min(least, most), most))
