"""Random FROM clauses: tables, nested queries, joins of every kind, generators, LATERAL.

Relations, and joins by equalities and by other conditions, come in every order and nesting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from support.random_expressions import (
    LITERALS,
    UNORDERED,
    ExpressionMaker,
    Typed,
    exact_of,
)

_JOINS = (
    "JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN",
    "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN", "ASOF JOIN", "LEFT ASOF JOIN",
)  # fmt: skip
# Spark compares values of one type alone there.
_ASOF_CASTS = {
    "i": "CAST({0} AS BIGINT)",
    "m": "CAST({0} AS DECIMAL(18,3))",
    "a": "CAST({0} AS ARRAY<BIGINT>)",
}
GENERATORS = (
    ("explode({0})", "si", "p"), ("posexplode({0})", "isi", "p"), ("inline(array({0}))", "is", "r"),
    ("variant_explode({0})", "isj", "j"), ("json_tuple(to_json({0}), 'u', 'w')", "ss", "r"),
    ("json_tuple(to_json({0}), 'n', 'g')", "ss", "j"), ("inline(map_entries({0}))", "si", "p"),
)  # fmt: skip
"""Functions that return rows, the kinds of their columns, and the kind of {0}."""
# Names of columns of tables, which outputs sometimes have, too.
_NAMES: Mapping[str, Sequence[str]] = {
    "i": ("n", "k", "v"), "s": ("g", "h"), "m": ("m",), "t": ("ts",), "b": ("ok",),
}  # fmt: skip
_USING_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


@dataclass(frozen=True)
class Query:
    """A SELECT, and the name and the kind of each of its columns, which are named alike nowhere."""

    sql: str
    columns: tuple[Typed, ...]


@dataclass
class From:
    """A FROM clause, the columns that are in its scope, and conditions that go into WHERE."""

    sql: str
    columns: list[Typed]
    where: list[str] = field(default_factory=list)

    @property
    def exact(self) -> list[Typed]:
        """The columns by which rows may be chosen, and parts of columns."""
        return exact_of(self.columns)

    @property
    def is_exact(self) -> bool:
        """Whether rows may be chosen by each of the columns."""
        return all(kind not in UNORDERED for _, kind in self.columns)

    @property
    def prefixes(self) -> set[str]:
        """The aliases that are in scope."""
        return {text.split(".")[0] for text, _ in self.columns}

    def of_kind(self, kind: str) -> list[str]:
        """Return the columns of a kind."""
        return [text for text, own in self.columns if own == kind]


class FromMaker(ExpressionMaker, ABC):
    """Makes FROM clauses over tables, each given with the names and the kinds of its columns."""

    def __init__(self, random: Random, tables: Mapping[str, Sequence[Typed]]) -> None:
        super().__init__(random)
        self._tables = dict(tables)
        self._views: dict[str, Sequence[Typed]] = {}

    def add_view(self, name: str, columns: Sequence[Typed]) -> None:
        """Let later queries read a view."""
        self._views[name] = columns

    @abstractmethod
    def query(self, depth: int = 2) -> Query:
        """Return a query of up to so many levels of nested queries."""

    @abstractmethod
    def _subquery_condition(self, columns: Sequence[Typed], depth: int) -> str:
        """Return a condition with a subquery."""

    def _from(self, depth: int) -> From:
        """Return a FROM clause with a column by which rows may be chosen."""
        source = self._any_from(depth)
        while not source.exact:
            source = self._any_from(depth)
        return source

    def _any_from(self, depth: int) -> From:
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

    # Relations

    def _exact_relation(self, depth: int) -> From:
        """Return a relation with a column by which rows may be chosen."""
        source = self._relation(depth)
        while not source.exact:
            source = self._relation(0)
        return source

    def _relation(self, depth: int) -> From:
        random, chance = self._random, self._random.random()
        alias = self._name("r")
        if depth > 0 and chance < 0.3:
            query = self.query(depth - 1)
            return From(f"({query.sql}) AS {alias}", _qualified(alias, query.columns))
        if chance < 0.34:
            rows = ", ".join(
                f"({random.choice(LITERALS['i'])}, {random.choice(LITERALS['s'])})"
                for _ in range(random.randint(1, 3))
            )
            columns = _qualified(alias, [("ci", "i"), ("cs", "s")])
            return From(f"(VALUES (1, 'a'), {rows}) AS {alias}(ci, cs)", columns)
        if chance < 0.36:
            return From(f"range(-1, 3) AS {alias}", [(f"{alias}.id", "i")])
        if chance < 0.37:
            constants = [(random.choice(LITERALS[kind]), kind) for kind in "is"]
            outputs, named = self._outputs(constants)
            return From(f"(SELECT {outputs}) AS {alias}", _qualified(alias, named))
        if depth > 0 and chance < 0.4 and (pivoted := self._pivoted(depth, alias)) is not None:
            return pivoted
        known = {**self._tables, **self._views} if self._flip(0.4) else self._tables
        table = random.choice(list(known))
        if self._flip(0.2):
            return From(table, _qualified(table, known[table]))
        return From(f"{table} AS {alias}", _qualified(alias, known[table]))

    def _pivoted(self, depth: int, alias: str) -> From | None:
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
            if self._flip(0.3):
                calls = f"max({first}) AS m, count(*) AS n"
                text = f"PIVOT ({calls} FOR {second} IN (1 AS total, NULL AS none))"
                cells = [f"{value}_{call}" for value in ("total", "none") for call in "mn"]
                columns = [*((cell, "i") for cell in cells), *rest]
        else:
            nulls = self._random.choice(["", " INCLUDE NULLS"])
            text = f"UNPIVOT{nulls} (amount FOR title IN ({first}, {second}))"
            columns = [("title", "s"), ("amount", "i"), *rest]
        return From(f"(SELECT * FROM {inner} {text}) AS {alias}", _qualified(alias, columns))

    def _distinct_relations(self, depth: int, count: int) -> list[From]:
        relations: list[From] = []
        while len(relations) < count:
            relation = self._relation(depth)
            if all(relation.prefixes.isdisjoint(chosen.prefixes) for chosen in relations):
                relations.append(relation)
        return relations

    # Joins

    def _comma_join(self, depth: int, count: int) -> From:
        relations = self._distinct_relations(depth, count)
        conditions = []
        for number in range(1, count):
            partner = relations[self._random.randrange(number)]
            if (pair := self._pair(partner.exact, relations[number].exact)) and self._flip(0.9):
                pair = pair if self._flip(0.5) else (pair[1], pair[0])
                conditions.append(self._equality(*pair))
        self._random.shuffle(relations)
        self._random.shuffle(conditions)
        columns = [column for relation in relations for column in relation.columns]
        if self._flip(0.2):
            conditions = self._branches(conditions, columns)
        return From(", ".join(relation.sql for relation in relations), columns, conditions)

    def _branches(self, conditions: list[str], columns: Sequence[Typed]) -> list[str]:
        """Return an OR of two branches which both have the conditions."""
        exact = exact_of(columns)
        branches = [" AND ".join([*conditions, self._condition(exact)]) for _ in range(2)]
        return [f"(({branches[0]}) OR ({branches[1]}))"]

    def _join_chain(self, depth: int, count: int) -> From:
        relations = self._distinct_relations(depth, count)
        if count > 2 and self._flip(0.2):
            left, right = relations[1:]
            relations[1:] = [self._in_parentheses(left, right, depth)]
        if self._flip(0.12):
            joined = self._using(*relations) if len(relations) == 2 else self._chain(relations)
            if joined is not None:
                return joined
        source = relations[0]
        for right in relations[1:]:
            kind = self._random.choice(_JOINS)
            if kind.endswith("ASOF JOIN") and not right.is_exact:
                kind = "JOIN"
            text = f"{source.sql} {kind} {right.sql}"
            if kind.endswith("ASOF JOIN"):
                text += self._asof(source.exact, right)
            elif kind != "CROSS JOIN":
                text += f" ON {self._on(source.exact, right.exact, depth)}"
            is_pair = "SEMI" not in kind and "ANTI" not in kind
            source = From(text, source.columns + (right.columns if is_pair else []))
        return source

    def _in_parentheses(self, left: From, right: From, depth: int) -> From:
        """Return a join that is one input of another."""
        kind = self._random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = self._on(left.exact, right.exact, depth)
        return From(f"({left.sql} {kind} {right.sql} ON {on})", left.columns + right.columns)

    def _asof(self, left: Sequence[Typed], right: From) -> str:
        """Return the conditions of an ASOF JOIN in which no two different rows are equally near."""
        pairs = [(self._value(left, kind)[0], name, kind) for name, kind in right.columns]
        casts = [_ASOF_CASTS.get(kind, "{0}") for _, _, kind in pairs]
        operands = [
            [cast.format(pair[side]) for cast, pair in zip(casts, pairs, strict=True)]
            for side in (0, 1)
        ]
        # The next tuple is refused. Rows of a single column are the same if they are equally near.
        is_tuple = len(pairs) > 1
        sides = [f"({', '.join(texts)})" if is_tuple else texts[0] for texts in operands]
        operators = [" >= ", " > "] if is_tuple else [" >= ", " > ", " < ", " <= "]
        # No equality in ON: beside right rows whose key is NULL, Spark 4.3 then loses matches.
        return f" MATCH_CONDITION ({self._random.choice(operators).join(sides)})"

    def _on(self, left: Sequence[Typed], right: Sequence[Typed], depth: int) -> str:
        parts = []
        equal = self._flip(0.75)
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
        side = left if self._flip(0.5) else right
        if self._flip(0.04) and (clock := self._clock_condition(side)) is not None:
            parts.append(clock)
        return " AND ".join(parts)

    def _between(self, left: Sequence[Typed], right: Sequence[Typed]) -> str | None:
        """Return a range of one side in which a value of the other must be."""
        value, bound = (left, right) if self._flip(0.5) else (right, left)
        pair = self._pair(value, bound)
        if pair is None:
            return None
        kind = next(kind for text, kind in bound if text == pair[1])
        limit, _ = self._value(bound, kind)
        low, high = (pair[1], limit) if self._flip(0.5) else (limit, pair[1])
        return f"{pair[0]} BETWEEN {low} AND {high}"

    def _using(self, left: From, right: From) -> From | None:
        """Return a join of two relations by the columns that are named alike in both."""
        names = [
            {text.split(".")[1]: kind for text, kind in side.columns if kind not in UNORDERED}
            for side in (left, right)
        ]
        common = [name for name in names[0] if name in names[1]]
        if not common or any("." in text.split(".", 1)[1] for text, _ in left.columns):
            return None
        is_natural = self._flip(0.25) and left.is_exact
        used = common
        if not is_natural:
            used = self._random.sample(common, self._random.randint(1, len(common)))
        if is_natural and not right.is_exact:
            return None
        kind = self._random.choice(_USING_JOINS)
        if is_natural:
            text = f"{left.sql} NATURAL {kind} {right.sql}"
        else:
            text = f"{left.sql} {kind} {right.sql} USING ({', '.join(used)})"
        if "SEMI" in kind or "ANTI" in kind:
            return From(text, left.columns)
        merged = [(name, names[0][name]) for name in used]
        sides = left.columns + right.columns
        unmerged = [column for column in sides if column[0].split(".")[1] not in used]
        return From(text, merged + (sides if self._flip(0.3) else unmerged))

    def _chain(self, relations: Sequence[From]) -> From | None:
        """Return joins of several relations by one column that is named alike in all of them."""
        sides = [
            {text.split(".")[1]: kind for text, kind in side.columns if kind not in UNORDERED}
            for side in relations
        ]
        common = [name for name in sides[0] if all(name in side for side in sides)]
        if not common:
            return None
        name, text = self._random.choice(common), relations[0].sql
        for right in relations[1:]:
            text += f" {self._random.choice(_USING_JOINS[:4])} {right.sql} USING ({name})"
        columns = [column for side in relations for column in side.columns]
        unmerged = [column for column in columns if column[0].split(".")[1] != name]
        return From(text, [(name, sides[0][name]), *unmerged])

    # What follows relations

    def _add_generator(self, source: From) -> None:
        arrays, numbers, strings = map(source.of_kind, "ais")
        alias, name = self._name("l"), self._name("e")
        forms = [form for form in GENERATORS if source.of_kind(form[2])]
        if forms and self._flip(0.6):
            self._add_table_function(source, alias, self._random.choice(forms))
            return
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
            second = self._name("e")
            call = f"inline(array(struct({number} AS p, {text} AS q), struct(5 AS p, 'z' AS q)))"
            source.sql += f" LATERAL VIEW {outer}{call} {alias} AS {name}, {second}"
            source.columns += [(f"{alias}.{name}", "i"), (f"{alias}.{second}", "s")]
        elif form == "posexplode":
            second = self._name("e")
            source.sql += f" LATERAL VIEW {outer}posexplode({argument}) {alias} AS {name}, {second}"
            source.columns += [(f"{alias}.{name}", "i"), (f"{alias}.{second}", "i")]
        else:
            source.sql += f" LATERAL VIEW {outer}explode({argument}) {alias} AS {name}"
            source.columns.append((f"{alias}.{name}", "i"))

    def _add_table_function(self, source: From, alias: str, form: tuple[str, str, str]) -> None:
        """Add a function that returns rows of a map, a variant or JSON, in one of its places."""
        call, kinds, own = form
        names = [self._name("e") for _ in kinds]
        text = call.format(self._random.choice(source.of_kind(own)))
        if self._flip(0.5):
            outer = "OUTER " if self._flip(0.4) else ""
            source.sql += f" LATERAL VIEW {outer}{text} {alias} AS {', '.join(names)}"
        else:
            join = self._random.choice(["CROSS JOIN LATERAL", "LEFT JOIN LATERAL"])
            # With ON TRUE Spark refuses maps and variants from the left side.
            on = " ON TRUE" if join.startswith("LEFT") and own not in UNORDERED else ""
            source.sql += f" {join} {text} AS {alias}({', '.join(names)}){on}"
        source.columns += [
            (f"{alias}.{name}", kind) for name, kind in zip(names, kinds, strict=True)
        ]

    def _add_lateral(self, source: From) -> None:
        inner = self._relation(0)
        pair = self._pair(source.exact, inner.exact)
        if pair is None or not inner.prefixes.isdisjoint(source.prefixes):
            return
        alias, values = self._name("l"), self._some(inner.exact, 1, 2)
        if self._flip(0.1):
            outputs, columns = self._outputs([self._value(source.exact)])
            source.sql += f" JOIN LATERAL (SELECT {outputs}) AS {alias} ON TRUE"
            source.columns += _qualified(alias, columns)
            return
        group = ""
        if self._flip(0.3):
            key = self._random.choice(values)
            values = [("count(*)", "i"), self._call(inner.exact)]
            if self._flip(0.3):
                values, group = [key, *values], f" GROUP BY {self._compared(key[0])}"
        outputs, columns = self._outputs(values)
        order = ""
        if "(" not in values[0][0] and not group and self._flip(0.3):
            order = f" ORDER BY {self._order(columns)} LIMIT {self._random.choice([1, 2])}"
        condition = self._equality(*pair)
        if order:
            # LIMIT after another comparison of columns is refused.
            condition = condition.replace("<=>", "=")
        if not order and self._flip(0.25):
            condition = self._comparison(*pair)
        query = f"SELECT {outputs} FROM {inner.sql} WHERE {condition}{group}"
        if not order and not group and self._flip(0.3):
            query = self._lateral_variant(query, source, inner, columns)
        made, on = _qualified(alias, columns), "TRUE"
        if self._flip(0.15) and (pair := self._pair(source.exact, made)):
            on = self._equality(*pair)
        join = "LEFT JOIN" if self._flip(0.5) else "JOIN"
        source.sql = f"{source.sql} {join} LATERAL ({query}{order}) AS {alias} ON {on}"
        source.columns += made

    def _lateral_variant(
        self, query: str, source: From, inner: From, columns: Sequence[Typed]
    ) -> str:
        """Return another query with the columns of one, in a set operation or below a window."""
        names = ", ".join(name for name, _ in columns)
        if self._flip(0.4):
            values = ", ".join(f"max({name}) OVER () AS {name}" for name, _ in columns)
            return f"SELECT {values} FROM ({query})"
        if self._flip(0.2):
            return f"SELECT DISTINCT {names} FROM ({query})"
        pair = self._pair(source.exact, inner.exact)
        operation = self._random.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT ALL"])
        head = query.split(" WHERE ")[0]
        condition = f" WHERE {self._equality(*pair)}" if pair else ""
        return f"{query} {operation} {head}{condition}"

    def _outputs(self, values: Sequence[Typed]) -> tuple[str, tuple[Typed, ...]]:
        """Return a list of values under new names, and the columns that it makes."""
        columns: tuple[Typed, ...] = ()
        for _, kind in values:
            names = [name for name in _NAMES.get(kind, ()) if (name, kind) not in columns]
            is_known = bool(names) and self._flip(0.06)
            name = self._random.choice(names) if is_known else self._name()
            columns = (*columns, (name, kind))
        texts = (f"{text} AS {name}" for (text, _), (name, _) in zip(values, columns, strict=True))
        return ", ".join(texts), columns


def _qualified(alias: str, columns: Sequence[Typed]) -> list[Typed]:
    return [(f"{alias}.{name}", kind) for name, kind in columns]


def where_clause(conditions: Sequence[str]) -> str:
    """Return a WHERE of conditions, with a space before it; nothing without any."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
