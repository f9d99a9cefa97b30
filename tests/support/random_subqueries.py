"""Random subqueries in expressions: EXISTS, IN, NOT IN, and scalar ones, correlated or not."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_expressions import Typed
from support.random_from import From, FromMaker, where_clause


class SubqueryMaker(FromMaker):
    """Makes conditions and values with a subquery."""

    def _inner(self, depth: int) -> tuple[From, list[str]]:
        """Return the FROM of a subquery, and conditions of its own."""
        source = self._exact_relation(depth - 1 if self._flip(0.5) else 0)
        where = [self._condition(source.exact)] if self._flip(0.35) else []
        if self._flip(0.06) and (clock := self._clock_condition(source.exact)) is not None:
            where.append(clock)
        if depth > 1 and self._flip(0.2):
            where.append(self._subquery_condition(source.exact, depth - 1))
        return source, where

    def _rows(self, source: From, where: Sequence[str]) -> str:
        """Return the FROM and WHERE of a subquery; sometimes both are in a query within it."""
        rows = f"FROM {source.sql}{where_clause(where)}"
        if where and len(source.prefixes) == 1 and self._flip(0.15):
            (alias,) = source.prefixes
            return f"FROM (SELECT * {rows}) AS {alias}"
        return rows

    def _subquery_condition(self, columns: Sequence[Typed], depth: int) -> str:
        random = self._random
        source, where = self._inner(depth)
        inner = source.exact
        chance = random.random()
        is_not = "NOT " if self._flip(0.45) else ""
        if chance < 0.35:
            if self._flip(0.85) and (pair := self._pair(columns, inner)):
                where.append(self._equality(*pair) if self._flip(0.75) else self._comparison(*pair))
            if self._flip(0.25) and (pair := self._pair(columns, inner)):
                where.append(self._comparison(*pair))
            value, tail = "1", ""
            if self._flip(0.2):
                value, tail = "count(*)", " HAVING count(*) > 1" if self._flip(0.7) else ""
            elif self._flip(0.1):
                tail = f" GROUP BY {random.choice(inner)[0]} HAVING count(*) > 1"
            elif self._flip(0.06):
                tail = random.choice([" OFFSET 1", " LIMIT 1 OFFSET 2", " LIMIT 1"])
            text = f"SELECT {value} {self._rows(source, where)}{tail}"
            condition = f"{is_not}EXISTS ({text})"
        elif chance < 0.7:
            condition = self._in_condition(columns, source, where, is_not)
        else:
            outer, kind = random.choice(list(columns))
            value = self._scalar(columns, depth, kind)
            condition = f"{outer} {random.choice(['=', '>', '<=', '<=>'])} {value}"
            if self._flip(0.2):
                condition = f"{outer} BETWEEN {value} AND {self._scalar(columns, depth, kind)}"
        chance = random.random()
        if chance < 0.15:
            return f"({self._condition(columns)} OR {condition})"
        if chance < 0.22:
            return f"NOT ({condition})"
        if depth > 0 and chance > 0.94:
            second = self._subquery_condition(columns, depth - 1)
            return random.choice(["({0} OR {1})", "NOT ({0} OR {1})", "({0} OR NOT ({1}))"]).format(
                condition, second
            )
        if chance < 0.26:
            return f"({condition}) IS NOT TRUE"
        return condition

    def _in_condition(
        self, columns: Sequence[Typed], source: From, where: list[str], is_not: str
    ) -> str:
        pair = self._pair(columns, source.exact)
        if pair is None:
            return f"{is_not}EXISTS (SELECT 1 FROM {source.sql}{where_clause(where)})"
        outer, inner = [pair[0]], [pair[1]]
        if self._flip(0.2) and (pair := self._pair(columns, source.exact)):
            outer, inner = [*outer, pair[0]], [*inner, pair[1]]
        if self._flip(0.25) and (pair := self._pair(columns, source.exact)):
            where.append(self._equality(*pair) if self._flip(0.7) else self._comparison(*pair))
        select = ", ".join(inner)
        left = outer[0] if len(outer) == 1 else f"({', '.join(outer)})"
        tail = ""
        if len(inner) == 1 and self._flip(0.15):
            tail = f" GROUP BY {select} HAVING count(*) > 1"
        elif self._flip(0.12):
            select = ", ".join(f"{self._random.choice(['min', 'max'])}({text})" for text in inner)
        elif len(inner) == 1 and self._flip(0.12):
            tail = f" UNION ALL {self._union_input(columns, dict(source.exact)[inner[0]])}"
        distinct = "DISTINCT " if not tail and self._flip(0.1) else ""
        text = f"SELECT {distinct}{select} {self._rows(source, where)}{tail}"
        return f"{left} {is_not}IN ({text})"

    def _union_input(self, columns: Sequence[Typed], kind: str) -> str:
        """Return a SELECT of one value of a kind, which may be compared with columns around it."""
        source, where = self._inner(0)
        if self._flip(0.5) and (pair := self._pair(columns, source.exact)):
            where.append(self._equality(*pair))
        return f"SELECT {self._value(source.exact, kind)[0]} FROM {source.sql}{where_clause(where)}"

    def _scalar(self, columns: Sequence[Typed], depth: int, kind: str) -> str:
        """Return a scalar subquery of a kind."""
        source, where = self._inner(depth)
        if self._flip(0.12) and kind != "a":
            value, _ = self._value(source.exact, kind)
            text = f"SELECT {value} FROM {source.sql}{where_clause(where)}"
            return f"({text} ORDER BY 1 DESC LIMIT 1)"
        if self._flip(0.6) and (pair := self._pair(columns, source.exact)):
            where.append(self._equality(*pair) if self._flip(0.8) else self._comparison(*pair))
            if self._flip(0.2) and (pair := self._pair(columns, source.exact)):
                where.append(self._equality(*pair) if self._flip(0.7) else self._comparison(*pair))
        calls = [self._call(source.exact) for _ in range(6)]
        matching = [call for call, call_kind in calls if call_kind == kind]
        if matching and self._flip(0.6):
            call = matching[0]
        elif kind == "i" and self._flip(0.4):
            call = "count(*)"
        else:
            value, _ = self._value(source.exact, kind)
            call = f"{self._random.choice(['max', 'min'])}({value})"
            if self._flip(0.15):
                value, _ = self._value([], kind)
                call = f"coalesce({call}, {value})"
        if self._flip(0.08):
            outer, _ = self._value(columns, kind)
            call = f"coalesce({call}, {outer})"
        return f"(SELECT {call} {self._rows(source, where)})"

    def _subquery_value(self, columns: Sequence[Typed], depth: int) -> Typed:
        """Return a value with a subquery in it, wherever in an expression it may be."""
        kind = self._random.choice([kind for _, kind in columns])
        text, _ = self._value(columns, kind)
        chance = self._random.random()
        if chance < 0.5:
            return self._scalar(columns, depth, kind), kind
        if chance < 0.65:
            return f"coalesce({self._scalar(columns, depth, kind)}, {text})", kind
        condition = self._subquery_condition(columns, depth)
        if chance < 0.8:
            return f"({condition})", "b"
        return f"CASE WHEN {condition} THEN {text} END", kind
