"""Random queries with pipes, and those that count the rows of a LIMIT without ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_expressions import Typed, exact_of
from support.random_from import From, Query
from support.random_subqueries import SubqueryMaker


class PipeMaker(SubqueryMaker):
    """Makes queries whose clauses are operators after |>."""

    def _piped(self, depth: int) -> Query:
        """Return a query with some operators after it."""
        query = self.query(depth - 1)
        text, columns = f"FROM ({query.sql}) AS {self._name('p')}", list(query.columns)
        for _ in range(self._random.randint(1, 3)):
            operator, columns = self._operator(columns, depth)
            text += f" |> {operator}"
        return Query(text, tuple(columns))

    def _operator(self, columns: list[Typed], depth: int) -> tuple[str, list[Typed]]:
        """Return an operator over columns, and the columns after it."""
        random, exact = self._random, exact_of(columns)
        plain = [column for column in columns if column in exact]
        operators = ["SELECT", "EXTEND", "SET"]
        operators += ["DROP"] if len(columns) > 1 else []
        operators += ["WHERE", "WHERE", "AGGREGATE"] if exact else []
        operators += ["LIMIT"] if plain and plain == columns else []
        operators += ["UNION", "JOIN"] if plain and plain == columns and depth > 0 else []
        match random.choice(operators):
            case "WHERE":
                if depth > 1 and self._flip(0.2):
                    return f"WHERE {self._subquery_condition(exact, depth - 1)}", columns
                return f"WHERE {self._condition(exact)}", columns
            case "AGGREGATE":
                calls, made = self._outputs(
                    [self._call(exact) for _ in range(random.choice([1, 2]))]
                )
                keys, groups = self._outputs(self._some(plain, 0, 1))
                by = f" GROUP BY {keys}" if groups else ""
                return f"AGGREGATE {calls}{by}", [*groups, *made]
            case "DROP":
                name, kind = random.choice(columns)
                return f"DROP {name}", [column for column in columns if column != (name, kind)]
            case "SET":
                name, kind = random.choice(columns)
                return f"SET {name} = {self._value(columns, kind)[0]}", columns
            case "UNION":
                source = self._exact_relation(0)
                values = ", ".join(self._value(source.exact, kind)[0] for _, kind in columns)
                operation = random.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"])
                return f"{operation} (SELECT {values} FROM {source.sql})", columns
            case "JOIN":
                return self._joined(columns)
            case "LIMIT":
                count = random.choice([2, 5])
                return f"ORDER BY {self._order(columns)} |> LIMIT {count}", columns
            case "EXTEND":
                value, made = self._outputs([self._value(columns)])
                return f"EXTEND {value}", [*columns, *made]
        outputs, made = self._outputs([*self._some(columns, 1, 4), self._value(columns)])
        return f"SELECT {outputs}", list(made)

    def _joined(self, columns: list[Typed]) -> tuple[str, list[Typed]]:
        """Return a join by columns of one name, as USING has it, or a filter without them."""
        source = self._exact_relation(0)
        sides = [
            (text.split(".")[1], kind) for text, kind in source.columns if text.count(".") == 1
        ]
        common = [column for column in columns if column in sides]
        names = {name for name, _ in columns}
        if not common or any(name in names for name, _ in sides if (name, _) not in common[:1]):
            return f"WHERE {self._condition(exact_of(columns))}", columns
        key = self._random.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
        text = f"{key} {source.sql} USING ({common[0][0]})"
        if "ANTI" in key:
            return text, columns
        rest = [column for column in columns if column != common[0]]
        return text, [common[0], *rest, *(side for side in sides if side != common[0])]

    def _limited_count(self, source: From, where: str, columns: Sequence[Typed]) -> Query:
        """Return how many rows a LIMIT without ORDER BY leaves: which they are is not seen."""
        value, _ = self._random.choice(list(columns))
        limit = self._random.choice([" LIMIT 3", " LIMIT 6 OFFSET 2", " OFFSET 2"])
        name, distinct = self._name(), self._random.choice(["", "DISTINCT "])
        rows = f"SELECT {distinct}{value} AS {self._name()} FROM {source.sql}{where}{limit}"
        return Query(f"SELECT count(*) AS {name} FROM ({rows})", ((name, "i"),))
