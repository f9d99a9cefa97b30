"""Random SELECTs over the tables of `random_tables`: every operator of views, composed.

Each has one result, as `random_expressions` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from support.random_expressions import INEXACT, LITERALS, ExpressionMaker, Typed

_OPERATIONS = (
    "UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL",
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A SELECT, and the name and the kind of each of its columns, which are named alike nowhere."""

    sql: str
    columns: tuple[Typed, ...]


@dataclass
class _From:
    """A FROM clause, the columns that are in its scope, and conditions that go into WHERE."""

    sql: str
    columns: list[Typed]
    where: list[str] = field(default_factory=list)

    @property
    def exact(self) -> list[Typed]:
        return [column for column in self.columns if column[1] != INEXACT]


class QueryMaker(ExpressionMaker):
    """Makes SELECTs over tables, each given with the names and the kinds of its columns."""

    def __init__(self, random: Random, tables: Mapping[str, Sequence[Typed]]) -> None:
        super().__init__(random)
        self._tables = dict(tables)
        self._views: dict[str, Sequence[Typed]] = {}

    def add_view(self, name: str, columns: Sequence[Typed]) -> None:
        """Let later queries read a view."""
        self._views[name] = columns

    def query(self, depth: int = 2) -> Query:
        """Return a query of up to so many levels of nested queries."""
        chance = self._random.random()
        if depth > 0 and chance < 0.12:
            return self._set_operation(depth)
        if depth > 0 and chance < 0.18:
            return self._with(depth)
        return self._select(depth)

    # FROM

    def _from(self, depth: int) -> _From:
        count = self._random.choice([1, 1, 1, 1, 2, 2, 2, 3])
        if count == 1:
            source = self._relation(depth)
        elif self._flip(0.3):
            source = self._comma_join(depth, count)
        else:
            source = self._join_chain(depth, count)
        if self._flip(0.08):
            self._add_generator(source)
        elif self._flip(0.08):
            self._add_lateral(source)
        return source

    def _relation(self, depth: int, *, is_alone: bool = False) -> _From:
        random, chance = self._random, self._random.random()
        alias = self._name("r")
        if depth > 0 and chance < 0.3:
            query = self.query(depth - 1)
            return _From(
                f"({query.sql}) AS {alias}", [(f"{alias}.{name}", k) for name, k in query.columns]
            )
        if chance < 0.34:
            rows = ", ".join(
                f"({random.choice(LITERALS['i'])}, {random.choice(LITERALS['s'])})"
                for _ in range(random.randint(1, 3))
            )
            columns = [(f"{alias}.ci", "i"), (f"{alias}.cs", "s")]
            return _From(f"(VALUES (1, 'a'), {rows}) AS {alias}(ci, cs)", columns)
        if chance < 0.36:
            return _From(f"range(-1, 3) AS {alias}", [(f"{alias}.id", "i")])
        if depth > 0 and chance < 0.4 and (pivoted := self._pivoted(depth, alias)) is not None:
            return pivoted
        known = {**self._tables, **self._views} if self._flip(0.4) else self._tables
        table = random.choice(list(known))
        if self._flip(0.2):
            return _From(table, [(f"{table}.{name}", kind) for name, kind in known[table]])
        return _From(f"{table} AS {alias}", [(f"{alias}.{name}", k) for name, k in known[table]])

    def _pivoted(self, depth: int, alias: str) -> _From | None:
        """Return a query after PIVOT or UNPIVOT; None if it has no columns for them."""
        query = self.query(depth - 1)
        numbers = [name for name, kind in query.columns if kind == "i"]
        keys = [(name, kind) for name, kind in query.columns if kind in ("i", "s", "b")][:3]
        if len(numbers) < 2:
            return None
        first, second = self._random.sample(numbers, 2)
        rest = [(name, kind) for name, kind in keys if name not in (first, second)]
        names = ", ".join([first, second, *(name for name, _ in rest)])
        inner = f"(SELECT {names} FROM ({query.sql}))"
        if self._flip(0.5):
            text = f"PIVOT (sum({first}) FOR {second} IN (1 AS total, 2 AS single))"
            columns = [("total", "i"), ("single", "i"), *rest]
        else:
            text = f"UNPIVOT (amount FOR title IN ({first}, {second}))"
            columns = [("title", "s"), ("amount", "i"), *rest]
        return _From(
            f"(SELECT * FROM {inner} {text}) AS {alias}",
            [(f"{alias}.{name}", kind) for name, kind in columns],
        )

    def _distinct_relations(self, depth: int, count: int) -> list[_From]:
        relations: list[_From] = []
        names: set[str] = set()
        while len(relations) < count:
            relation = self._relation(depth)
            prefix = relation.columns[0][0].split(".")[0] if relation.columns else ""
            if prefix not in names:
                names.add(prefix)
                relations.append(relation)
        return relations

    def _comma_join(self, depth: int, count: int) -> _From:
        relations = self._distinct_relations(depth, count)
        conditions = []
        for number in range(1, count):
            other = relations[self._random.randrange(number)]
            if (pair := self._pair(other.exact, relations[number].exact)) and self._flip(0.9):
                pair = pair if self._flip(0.5) else (pair[1], pair[0])
                conditions.append(self._equality(*pair))
        self._random.shuffle(relations)
        self._random.shuffle(conditions)
        columns = [column for relation in relations for column in relation.columns]
        if self._flip(0.2):
            conditions = self._branches(conditions, columns)
        return _From(", ".join(relation.sql for relation in relations), columns, conditions)

    def _branches(self, conditions: list[str], columns: Sequence[Typed]) -> list[str]:
        """Return an OR of two branches which both have the conditions."""
        exact = [column for column in columns if column[1] != INEXACT]
        branches = [" AND ".join([*conditions, self._condition(exact)]) for _ in range(2)]
        return [f"(({branches[0]}) OR ({branches[1]}))"]

    def _join_chain(self, depth: int, count: int) -> _From:
        relations = self._distinct_relations(depth, count)
        if count == 2 and self._flip(0.12):
            both = self._using(*relations)
            if both is not None:
                return both
        source = relations[0]
        for right in relations[1:]:
            kind = self._random.choice(
                ["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
                 "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN", "ASOF JOIN",
                 "LEFT ASOF JOIN"]
            )  # fmt: skip
            if kind.endswith("ASOF JOIN") and len(right.exact) < len(right.columns):
                kind = "JOIN"
            text = f"{source.sql} {kind} {right.sql}"
            if kind.endswith("ASOF JOIN"):
                text += self._asof(source.exact, right)
            elif kind != "CROSS JOIN":
                text += f" ON {self._on(source.exact, right.exact, depth)}"
            is_pair = "SEMI" not in kind and "ANTI" not in kind
            source = _From(text, source.columns + (right.columns if is_pair else []))
        return source

    def _asof(self, left: Sequence[Typed], right: _From) -> str:
        """Return the conditions of an ASOF JOIN in which no two different rows are equally near."""
        operands = [[self._value(left, kind)[0] for _, kind in right.columns]]
        operands.append([name for name, _ in right.columns])
        sides = (f"({', '.join(texts)}, 0)" for texts in operands)
        text = (
            f" MATCH_CONDITION ({self._random.choice([' >= ', ' > ', ' < ', ' <= ']).join(sides)})"
        )
        pair = self._pair(left, right.exact) if self._flip(0.8) else None
        return f"{text} ON {self._equality(*pair)}" if pair else text

    def _on(self, left: Sequence[Typed], right: Sequence[Typed], depth: int) -> str:
        parts = []
        equal = self._flip(0.8)
        for _ in range(self._random.choice([1, 1, 1, 2])):
            pair = self._pair(left, right)
            if pair is not None:
                parts.append(self._equality(*pair) if equal else self._comparison(*pair))
        if not equal and self._flip(0.4) and (between := self._between(left, right)):
            parts.append(between)
        if self._flip(0.3) and (pair := self._pair(left, right)):
            parts.append(self._comparison(*pair))
        if not parts or self._flip(0.15):
            parts.append(self._condition([*left, *right]))
        if len(parts) > 1 and self._flip(0.1):
            return " OR ".join(parts)
        if depth > 0 and self._flip(0.04):
            parts.append(self._subquery_condition([*left, *right], depth))
        return " AND ".join(parts)

    def _between(self, left: Sequence[Typed], right: Sequence[Typed]) -> str | None:
        """Return a range of one side in which a value of the other must be."""
        value, bound = (left, right) if self._flip(0.5) else (right, left)
        pair = self._pair(value, bound)
        if pair is None:
            return None
        kind = next(kind for text, kind in bound if text == pair[1])
        other, _ = self._value(bound, kind)
        low, high = (pair[1], other) if self._flip(0.5) else (other, pair[1])
        return f"{pair[0]} BETWEEN {low} AND {high}"

    def _using(self, left: _From, right: _From) -> _From | None:
        """Return a join of two relations by the columns that are named alike in both."""
        names = [{text.split(".")[1]: kind for text, kind in side.exact} for side in (left, right)]
        common = [name for name in names[0] if name in names[1]]
        if not common or any("." in text.split(".", 1)[1] for text, _ in left.columns):
            return None
        is_natural = self._flip(0.25) and len(left.exact) == len(left.columns)
        used = (
            common
            if is_natural
            else self._random.sample(common, self._random.randint(1, len(common)))
        )
        if is_natural and len(right.exact) < len(right.columns):
            return None
        kind = self._random.choice(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN"]
        )
        if is_natural:
            text = f"{left.sql} NATURAL {kind} {right.sql}"
        else:
            text = f"{left.sql} {kind} {right.sql} USING ({', '.join(used)})"
        if "SEMI" in kind:
            return _From(text, left.columns)
        merged = [(name, names[0][name]) for name in used]
        sides = left.columns + right.columns
        unmerged = [c for c in sides if c[0].split(".")[1] not in used]
        return _From(text, merged + (sides if self._flip(0.3) else unmerged))

    def _add_generator(self, source: _From) -> None:
        arrays = [text for text, kind in source.columns if kind == "a"]
        numbers = [text for text, kind in source.columns if kind == "i"]
        strings = [text for text, kind in source.columns if kind == "s"]
        alias, name = self._name("l"), self._name("e")
        if arrays and self._flip(0.7):
            argument = self._random.choice(arrays)
        elif numbers:
            argument = f"array({', '.join(self._random.choices(numbers, k=2))}, 1)"
        else:
            return
        outer = "OUTER " if self._flip(0.4) else ""
        form = self._random.choice(["explode", "explode", "posexplode", "inline"])
        if form == "inline" and numbers and strings:
            number, text = self._random.choice(numbers), self._random.choice(strings)
            other = self._name("e")
            call = f"inline(array(struct({number} AS p, {text} AS q), struct(5 AS p, 'z' AS q)))"
            source.sql += f" LATERAL VIEW {outer}{call} {alias} AS {name}, {other}"
            source.columns += [(f"{alias}.{name}", "i"), (f"{alias}.{other}", "s")]
        elif form == "posexplode":
            other = self._name("e")
            source.sql += f" LATERAL VIEW {outer}posexplode({argument}) {alias} AS {name}, {other}"
            source.columns += [(f"{alias}.{name}", "i"), (f"{alias}.{other}", "i")]
        else:
            source.sql += f" LATERAL VIEW {outer}explode({argument}) {alias} AS {name}"
            source.columns.append((f"{alias}.{name}", "i"))

    def _add_lateral(self, source: _From) -> None:
        inner = self._relation(0)
        pair = self._pair(source.exact, inner.exact)
        prefixes = {text.split(".")[0] for text, _ in source.columns}
        if pair is None or inner.columns[0][0].split(".")[0] in prefixes:
            return
        alias, values = self._name("l"), self._some(inner.exact, 1, 2)
        if self._flip(0.3):
            values = [("count(*)", "i"), self._call(inner.exact)]
        outputs, columns = self._outputs(values)
        order = ""
        if "(" not in values[0][0] and self._flip(0.3):
            order = f" ORDER BY {self._order(columns)} LIMIT {self._random.choice([1, 2])}"
        query = f"SELECT {outputs} FROM {inner.sql} WHERE {self._equality(*pair)}{order}"
        if self._flip(0.5):
            source.sql = f"{source.sql} LEFT JOIN LATERAL ({query}) AS {alias} ON TRUE"
        else:
            source.sql = f"{source.sql} JOIN LATERAL ({query}) AS {alias}"
        source.columns += [(f"{alias}.{name}", kind) for name, kind in columns]

    # Subqueries in expressions

    def _inner(self, depth: int) -> tuple[_From, str]:
        """Return the FROM of a subquery, and a condition of its own, if any."""
        source = self._relation(depth - 1 if self._flip(0.5) else 0)
        while not source.exact:
            source = self._relation(0)
        return source, self._condition(source.exact) if self._flip(0.35) else ""

    def _subquery_condition(self, columns: Sequence[Typed], depth: int) -> str:
        random = self._random
        source, own = self._inner(depth)
        where = [own] if own else []
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
            condition = f"{is_not}EXISTS (SELECT {value} FROM {source.sql}{_where(where)}{tail})"
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
        if chance < 0.26:
            return f"({condition}) IS NOT TRUE"
        return condition

    def _in_condition(
        self, columns: Sequence[Typed], source: _From, where: list[str], is_not: str
    ) -> str:
        pair = self._pair(columns, source.exact)
        if pair is None:
            return f"{is_not}EXISTS (SELECT 1 FROM {source.sql}{_where(where)})"
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
        text = f"SELECT {distinct}{select} FROM {source.sql}{_where(where)}{tail}"
        return f"{left} {is_not}IN ({text})"

    def _union_input(self, columns: Sequence[Typed], kind: str) -> str:
        """Return a SELECT of one value of a kind, which may be compared with columns around it."""
        source, own = self._inner(0)
        where = [own] if own else []
        if self._flip(0.5) and (pair := self._pair(columns, source.exact)):
            where.append(self._equality(*pair))
        return f"SELECT {self._value(source.exact, kind)[0]} FROM {source.sql}{_where(where)}"

    def _scalar(self, columns: Sequence[Typed], depth: int, kind: str) -> str:
        """Return a scalar subquery of a kind."""
        source, own = self._inner(depth)
        where = [own] if own else []
        if self._flip(0.12) and kind != "a":
            value, _ = self._value(source.exact, kind)
            return f"(SELECT {value} FROM {source.sql}{_where(where)} ORDER BY 1 DESC LIMIT 1)"
        if self._flip(0.6) and (pair := self._pair(columns, source.exact)):
            where.append(self._equality(*pair))
            if self._flip(0.2) and (pair := self._pair(columns, source.exact)):
                where.append(self._equality(*pair))
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
        return f"(SELECT {call} FROM {source.sql}{_where(where)})"

    # SELECT

    def _select(self, depth: int) -> Query:
        source = self._from(depth)
        while not source.exact:
            source = self._from(depth)
        conditions = list(source.where)
        if self._flip(0.35):
            conditions.append(self._condition(source.exact))
        if depth > 0 and self._flip(0.3):
            conditions.append(self._subquery_condition(source.exact, depth))
        self._random.shuffle(conditions)
        makers: list[Callable[[_From, str, int], Query]] = [
            self._projected, self._projected, self._projected, self._grouped, self._grouped,
            self._grouped, self._distinct, self._windowed, self._windowed, self._top,
            self._generated,
        ]  # fmt: skip
        return self._random.choice(makers)(source, _where(conditions), depth)

    def _outputs(self, values: Sequence[Typed]) -> tuple[str, tuple[Typed, ...]]:
        columns = tuple((self._name(), kind) for _, kind in values)
        texts = (f"{text} AS {name}" for (text, _), (name, _) in zip(values, columns, strict=True))
        return ", ".join(texts), columns

    def _projected(self, source: _From, where: str, depth: int) -> Query:
        values = self._some(source.columns, 1, 5)
        values += [self._value(source.columns) for _ in range(self._random.randint(0, 2))]
        if depth > 0 and self._flip(0.2):
            kind = self._random.choice(source.exact)[1]
            values.append((self._scalar(source.exact, depth, kind), kind))
        if depth > 0 and self._flip(0.1):
            values.append((f"({self._subquery_condition(source.exact, depth)})", "b"))
        outputs, columns = self._outputs(values)
        return Query(f"SELECT {outputs} FROM {source.sql}{where}", columns)

    def _distinct(self, source: _From, where: str, depth: int) -> Query:
        values = [self._value(source.exact) for _ in range(self._random.randint(1, 3))]
        outputs, columns = self._outputs(values)
        return Query(f"SELECT DISTINCT {outputs} FROM {source.sql}{where}", columns)

    def _generated(self, source: _From, where: str, depth: int) -> Query:
        arrays = [text for text, kind in source.columns if kind == "a"]
        numbers = [text for text, kind in source.columns if kind == "i"]
        if not arrays and not numbers:
            return self._projected(source, where, depth)
        outputs, columns = self._outputs(self._some(source.columns, 1, 3))
        form = self._random.choice(["explode", "explode_outer", "posexplode", "stack"])
        name, other = self._name(), self._name()
        if form == "stack" and numbers:
            first, second = self._random.choice(numbers), self._random.choice(numbers)
            call, names = f"stack(2, 'p', {first}, 'q', {second})", (name, other)
            return Query(
                f"SELECT {outputs}, {call} AS ({name}, {other}) FROM {source.sql}{where}",
                (*columns, (name, "s"), (other, "i")),
            )
        argument = (
            self._random.choice(arrays) if arrays else f"array({self._random.choice(numbers)}, 2)"
        )
        if form == "posexplode":
            call, names = f"posexplode({argument}) AS ({name}, {other})", (name, other)
        else:
            form = "explode" if form == "stack" else form
            call, names = f"{form}({argument}) AS {name}", (name,)
        return Query(
            f"SELECT {outputs}, {call} FROM {source.sql}{where}",
            (*columns, *((name, "i") for name in names)),
        )

    def _top(self, source: _From, where: str, depth: int) -> Query:
        outputs, columns = self._outputs(self._some(source.exact, 1, 4))
        limit = f"LIMIT {self._random.choice([1, 3, 8])}"
        offset = self._random.choice(["", "", " OFFSET 2"])
        text = f"SELECT {outputs} FROM {source.sql}{where} ORDER BY {self._order(columns)} {limit}"
        return Query(text + offset, columns)

    # GROUP BY

    def _grouped(self, source: _From, where: str, depth: int) -> Query:
        random = self._random
        groups = [
            self._value(source.exact)
            for _ in range(0 if self._flip(0.12) else random.choice([1, 1, 2]))
        ]
        values = [group for group in groups if self._flip(0.9)]
        calls = [self._call(source.exact) for _ in range(random.randint(1, 3))]
        values += calls
        if self._flip(0.15):
            values.append((f"{calls[0][0]} IS NULL OR count(*) > 2", "b"))
        if groups and self._flip(0.12):
            order = random.choice(["count(*)", *(text for text, _ in groups)])
            form = random.choice(["rank()", "dense_rank()", "sum(count(*))"])
            values.append((f"{form} OVER (ORDER BY {order})", "i"))
        outputs, columns = self._outputs(values)
        by = f" GROUP BY {', '.join(text for text, _ in groups)}" if groups else ""
        if groups and groups == values[: len(groups)] and self._flip(0.15):
            by = f" GROUP BY {', '.join(str(number + 1) for number in range(len(groups)))}"
        elif groups and all("." in text for text, _ in groups) and self._flip(0.12):
            texts = ", ".join(dict.fromkeys(text for text, _ in groups))
            sets = [f"ROLLUP ({texts})", f"CUBE ({texts})", f"GROUPING SETS (({texts}), ())"]
            by = f" GROUP BY {random.choice(sets)}"
        having = ""
        if self._flip(0.25):
            having = f" HAVING {self._having(source, groups, depth)}"
        return Query(f"SELECT {outputs} FROM {source.sql}{where}{by}{having}", columns)

    def _having(self, source: _From, groups: Sequence[Typed], depth: int) -> str:
        if groups and depth > 0 and self._flip(0.2):
            return self._subquery_condition([("count(*)", "i"), *groups], depth)
        call, kind = self._call(source.exact)
        if kind == INEXACT:
            return "count(*) > 1"
        return self._condition([(call, kind), ("count(*)", "i"), *groups])

    # Windows

    def _windowed(self, source: _From, where: str, depth: int) -> Query:
        random = self._random
        chosen = [c for c in self._some(source.exact, 2, 5) if c[1] != "a"]
        if not chosen:
            return self._projected(source, where, depth)
        partition = [name for name, _ in self._some(chosen, 0, 1 if self._flip(0.8) else 2)]
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        window = f"({by}ORDER BY {self._order(chosen)})"
        chance = random.random()
        if chance < 0.25:
            return self._group_top(source, where, chosen, window)
        calls = [self._window_call(chosen, by, window) for _ in range(random.choice([1, 1, 2]))]
        values = [*chosen, *calls]
        outputs, columns = self._outputs(values)
        tail = ""
        if chance < 0.45:
            ranks = [name for (name, kind) in columns[len(chosen) :] if kind == "i"]
            bound = (
                f"{ranks[0]} <= {random.choice([1, 2])}"
                if ranks
                else f"count(*) OVER ({by.strip()}) > 1"
            )
            tail = f" QUALIFY {bound}"
        return Query(f"SELECT {outputs} FROM {source.sql}{where}{tail}", columns)

    def _group_top(self, source: _From, where: str, chosen: Sequence[Typed], window: str) -> Query:
        rank = self._name()
        outputs, columns = self._outputs(chosen)
        count = self._random.choice([1, 2, 4])
        call = f"row_number() OVER {window}"
        if self._flip(0.4):
            # Rows that tie have one rank: the order need not tell them apart.
            by, order = window.split("ORDER BY")[0], self._random.choice(list(chosen))[0]
            call = f"{self._random.choice(['rank', 'dense_rank'])}() OVER {by}ORDER BY {order})"
        if self._flip(0.5):
            text = f"SELECT {outputs} FROM {source.sql}{where}"
            return Query(f"{text} QUALIFY {call} <= {count}", columns)
        names = ", ".join(name for name, _ in columns)
        inner = f"SELECT {outputs}, {call} AS {rank} FROM {source.sql}{where}"
        if self._flip(0.5):
            return Query(f"SELECT {names} FROM ({inner}) WHERE {rank} <= {count}", columns)
        text = f"SELECT {names}, {rank} FROM ({inner}) WHERE {rank} <= {count}"
        return Query(text, (*columns, (rank, "i")))

    # Set operations and WITH

    def _set_operation(self, depth: int) -> Query:
        left, right = self.query(depth - 1), self.query(depth - 1)
        exact = [column for column in left.columns if column[1] != INEXACT]
        if not exact:
            return left
        pairs = [(name, kind) for name, kind in exact if self._flip(0.7)][:4] or exact[:1]
        values = [self._value(right.columns, kind) for _, kind in pairs]
        operation = self._random.choice(_OPERATIONS)
        first = ", ".join(name for name, _ in pairs)
        second = ", ".join(text for text, _ in values)
        text = f"SELECT {first} FROM ({left.sql}) AS {self._name('q')} {operation} "
        text += f"SELECT {second} FROM ({right.sql}) AS {self._name('q')}"
        if self._flip(0.25):
            source = self._relation(0)
            while not source.exact:
                source = self._relation(0)
            third = ", ".join(self._value(source.exact, kind)[0] for _, kind in pairs)
            text += f" {self._random.choice(_OPERATIONS)} SELECT {third} FROM {source.sql}"
        return Query(text, tuple(pairs))

    def _with(self, depth: int) -> Query:
        common = self.query(depth - 1)
        name = self._name("w")
        self._tables[name] = common.columns
        weighted = dict(self._tables)
        if self._flip(0.5):
            self._tables = {name: common.columns, **self._random_part(weighted)}
        body = self._select(depth - 1)
        self._tables = {table: columns for table, columns in weighted.items() if table != name}
        return Query(f"WITH {name} AS ({common.sql}) {body.sql}", body.columns)

    def _random_part(self, tables: Mapping[str, Sequence[Typed]]) -> dict[str, Sequence[Typed]]:
        names = self._random.sample(list(tables), 1)
        return {name: tables[name] for name in names}


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
