"""Random SELECTs over the tables of `random_tables`: every operator of views, composed.

Each has one result, as `random_expressions` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from support.random_expressions import TIMED, UNORDERED, Typed
from support.random_from import GENERATORS, From, Query, where_clause
from support.random_groups import GroupMaker

_OPERATIONS = (
    "UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL",
)  # fmt: skip


class QueryMaker(GroupMaker):
    """Makes SELECTs over tables, each given with the names and the kinds of its columns."""

    def query(self, depth: int = 2) -> Query:
        """Return a query of up to so many levels of nested queries."""
        chance = self._random.random()
        if depth > 0 and chance < 0.12:
            return self._set_operation(depth)
        if depth > 0 and chance < 0.18:
            return self._with(depth)
        if depth > 0 and chance < 0.24:
            return self._piped(depth)
        return self._select(depth)

    # SELECT

    def _select(self, depth: int) -> Query:
        source = self._from(depth)
        conditions = list(source.where)
        if self._flip(0.35):
            conditions.append(self._condition(source.exact))
        if depth > 0 and self._flip(0.3):
            conditions.append(self._subquery_condition(source.exact, depth))
        if self._flip(0.15) and (clock := self._clock_condition(source.exact)) is not None:
            if self._flip(0.25):
                clock = f"({self._condition(source.exact)} OR {clock})"
            conditions.append(clock)
        self._random.shuffle(conditions)
        if self._flip(0.03):
            return self._limited_count(source, where_clause(conditions), source.exact)
        makers: list[Callable[[From, str, int], Query]] = [
            self._projected, self._projected, self._projected, self._grouped, self._grouped,
            self._grouped, self._distinct, self._windowed, self._windowed, self._top,
            self._generated, self._time_windowed, self._ordered,
        ]  # fmt: skip
        return self._random.choice(makers)(source, where_clause(conditions), depth)

    def _projected(self, source: From, where: str, depth: int) -> Query:
        values = self._some(source.columns, 1, 5)
        values += [self._value(source.columns) for _ in range(self._random.randint(0, 2))]
        if depth > 0 and self._flip(0.25):
            values.append(self._subquery_value(source.exact, depth))
        if self._flip(0.08) and (clock := self._clock_condition(source.exact)) is not None:
            values.append((f"({clock})", "b"))
        outputs, columns = self._outputs(values)
        if self._flip(0.1):  # a name of the SELECT, in the SELECT
            more, named = self._outputs([self._value(columns)])
            outputs, columns = f"{outputs}, {more}", (*columns, *named)
        elif self._flip(0.08):
            star, starred = self._star(source)
            outputs, columns = f"{star}, {outputs}", (*starred, *columns)
        return Query(f"SELECT {outputs} FROM {source.sql}{where}", columns)

    def _star(self, source: From) -> tuple[str, list[Typed]]:
        """Return all columns of one relation, or all but one, and their names."""
        alias = self._random.choice(sorted(source.prefixes))
        columns = [
            (text.split(".")[1], kind)
            for text, kind in source.columns
            if text.startswith(f"{alias}.")
        ]
        if len(columns) < 2 or self._flip(0.6):
            return f"{alias}.*" if columns else f"1 AS {self._name()}", columns
        left_out = self._random.choice(columns)
        star = f"{alias}.* EXCEPT ({left_out[0]})"
        return star, [column for column in columns if column != left_out]

    def _distinct(self, source: From, where: str, depth: int) -> Query:
        values = [self._value(source.exact) for _ in range(self._random.randint(1, 3))]
        outputs, columns = self._outputs(values)
        return Query(f"SELECT DISTINCT {outputs} FROM {source.sql}{where}", columns)

    def _generated(self, source: From, where: str, depth: int) -> Query:
        arrays, numbers = map(source.of_kind, "ai")
        forms = [form for form in GENERATORS if source.of_kind(form[2])]
        if forms and self._flip(0.6):
            outputs, columns = self._outputs(self._some(source.columns, 1, 3))
            call, kinds, own = self._random.choice(forms)
            made = tuple((self._name(), kind) for kind in kinds)
            call = call.format(self._random.choice(source.of_kind(own)))
            call = call.replace("explode(", self._random.choice(["explode(", "explode_outer("]))
            names = ", ".join(name for name, _ in made)
            text = f"SELECT {outputs}, {call} AS ({names}) FROM {source.sql}{where}"
            return Query(text, (*columns, *made))
        if not arrays and not numbers:
            return self._projected(source, where, depth)
        outputs, columns = self._outputs(self._some(source.columns, 1, 3))
        form = self._random.choice(["explode", "explode_outer", "posexplode", "stack"])
        name, second = self._name(), self._name()
        if form == "stack" and numbers:
            values = self._random.choices(numbers, k=2)
            call = f"stack(2, 'p', {values[0]}, 'q', {values[1]})"
            return Query(
                f"SELECT {outputs}, {call} AS ({name}, {second}) FROM {source.sql}{where}",
                (*columns, (name, "s"), (second, "i")),
            )
        argument = (
            self._random.choice(arrays) if arrays else f"array({self._random.choice(numbers)}, 2)"
        )
        own_columns: tuple[str, ...] = (name,)
        if form == "posexplode":
            call, own_columns = f"posexplode({argument}) AS ({name}, {second})", (name, second)
        else:
            call = f"{'explode' if form == 'stack' else form}({argument}) AS {name}"
        return Query(
            f"SELECT {outputs}, {call} FROM {source.sql}{where}",
            (*columns, *((name, "i") for name in own_columns)),
        )

    def _top(self, source: From, where: str, depth: int) -> Query:
        values = self._some(source.exact, 1, 4)
        if depth > 0 and self._flip(0.08):
            values.append(self._subquery_value(source.exact, depth))
        outputs, columns = self._outputs(values)
        limit = f"LIMIT {self._random.choice([1, 3, 8])}"
        offset = self._random.choice(["", "", " OFFSET 2"])
        order = self._order(columns)
        if self._flip(0.2):
            order = f"{self._value(source.exact)[0]}, {order}"
        elif depth > 0 and self._flip(0.06):
            order = f"{self._subquery_value(source.exact, depth)[0]}, {order}"
        elif self._flip(0.1):
            order = "ALL"
        text = f"SELECT {outputs} FROM {source.sql}{where} ORDER BY {order} {limit}{offset}"
        return Query(text, columns)

    def _ordered(self, source: From, where: str, depth: int) -> Query:
        """Return a query with an ORDER BY alone, by some columns: a view's key begins with them."""
        query = self._projected(source, where, depth)
        if query.columns and self._flip(0.25):
            names = ", ".join(name for name, kind in query.columns if kind not in UNORDERED)
            clause = self._random.choice(["SORT BY", "CLUSTER BY", "DISTRIBUTE BY"])
            return Query(f"{query.sql} {clause} {names or '1 + 1'}", query.columns)
        keys = [column for column in query.columns if column[1] not in UNORDERED]
        order = self._order(self._some(keys, 1, 2)) if keys else "1 + 1"
        return Query(f"{query.sql} ORDER BY {order}", query.columns)

    # Windows

    def _windowed(self, source: From, where: str, depth: int) -> Query:
        random = self._random
        chosen = [column for column in self._some(source.exact, 2, 5) if column[1] != "a"]
        if not chosen:
            return self._projected(source, where, depth)
        partition = self._some(chosen, 0, 1 if self._flip(0.8) else 2)
        names = ", ".join(self._compared(name) for name, _ in partition)
        by = f"PARTITION BY {names} " if partition else ""
        window = f"({by}ORDER BY {self._order(chosen)})"
        chance = random.random()
        if chance < 0.25:
            return self._group_top(source, where, chosen, window)
        calls = [
            self._over_call(self._window_call(chosen, by, window))
            for _ in range(random.choice([1, 1, 2]))
        ]
        outputs, columns = self._outputs([*chosen, *calls])
        if chance < 0.45:
            bound = self._qualify(columns[len(chosen) :], by)
            return Query(f"SELECT {outputs} FROM {source.sql}{where} QUALIFY {bound}", columns)
        if f"OVER {window}" in outputs and self._flip(0.3):
            named = outputs.replace(f"OVER {window}", "OVER w")
            text = f"SELECT {named} FROM {source.sql}{where} WINDOW w AS {window}"
            return Query(text, columns)
        return Query(f"SELECT {outputs} FROM {source.sql}{where}", columns)

    def _qualify(self, columns: Sequence[Typed], by: str) -> str:
        """Return a condition of windows; ``columns``: those of the windows of the SELECT."""
        timed = [column for column in columns if column[1] in TIMED]
        if timed and (clock := self._clock_condition(timed)) is not None:
            return clock
        ranks = [name for name, kind in columns if kind == "i"]
        if ranks:
            return f"{ranks[0]} <= {self._random.choice([1, 2])}"
        return f"count(*) OVER ({by.strip()}) > 1"

    def _group_top(self, source: From, where: str, chosen: Sequence[Typed], window: str) -> Query:
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
        exact = [column for column in left.columns if column[1] not in UNORDERED]
        if not exact:
            return left
        pairs = [(name, kind) for name, kind in exact if self._flip(0.7)][:4] or exact[:1]
        values = [self._value(right.columns, kind) for _, kind in pairs]
        operation = self._random.choice(_OPERATIONS)
        first = ", ".join(name for name, _ in pairs)
        second = ", ".join(text for text, _ in values)
        text = f"SELECT {first} FROM ({left.sql}) AS {self._name('q')}"
        if self._flip(0.1):
            text = f"({text} ORDER BY {self._order(pairs)} LIMIT 2)"
        text += f" {operation} "
        text += f"SELECT {second} FROM ({right.sql}) AS {self._name('q')}"
        if self._flip(0.25):
            source = self._exact_relation(0)
            third = ", ".join(self._value(source.exact, kind)[0] for _, kind in pairs)
            text += f" {self._random.choice(_OPERATIONS)} SELECT {third} FROM {source.sql}"
        if self._flip(0.12):
            text += f" ORDER BY {self._order(pairs)} LIMIT {self._random.choice([1, 4])}"
        return Query(text, tuple(pairs))

    def _with(self, depth: int) -> Query:
        common = self.query(depth - 1)
        name, before = self._name("w"), dict(self._tables)
        if self._flip(0.15):  # the name of a table, which is not seen after that
            name = self._random.choice(list(before))
        elif self._flip(0.15) and (recursive := self._recursive(name)) is not None:
            return recursive
        self._tables[name] = common.columns
        weighted = dict(self._tables)
        if self._flip(0.5):
            self._tables = {name: common.columns, **self._random_part(weighted)}
        body = self._select(depth - 1)
        names = ""
        if self._flip(0.3):
            names = f"({', '.join(column for column, _ in common.columns)})"
        self._tables = before
        return Query(f"WITH {name}{names} AS ({common.sql}) {body.sql}", body.columns)

    def _recursive(self, name: str) -> Query | None:
        """Return a query over a recursion along equal numbers; None without columns for it."""
        first, second = self._exact_relation(0), self._exact_relation(0)
        starts, froms, tos = first.of_kind("i"), second.of_kind("i"), second.of_kind("i")
        if not starts or not froms or not first.prefixes.isdisjoint(second.prefixes):
            return None
        alias, step = self._name("r"), self._random.choice(["", " + 1", " - 1"])
        chosen = [self._random.choice(texts) for texts in (starts, froms, tos)]
        number, level = self._name(), self._name()
        text = (
            f"WITH RECURSIVE {name}({number}, {level}) AS ("
            f"SELECT CAST({chosen[0]} AS BIGINT), 0 FROM {first.sql} "
            f"WHERE {self._condition(first.exact)} UNION ALL "
            f"SELECT CAST({chosen[2]} AS BIGINT), {alias}.{level} + 1 FROM {name} AS {alias} "
            f"JOIN {second.sql} ON {alias}.{number} = {chosen[1]}{step} "
            f"WHERE {alias}.{level} < 3)"
        )
        columns: tuple[Typed, ...] = ((number, "i"), (level, "i"))
        if self._flip(0.5):
            return Query(f"{text} SELECT {number}, {level} FROM {name}", columns)
        extreme = f"max({level}) AS {level}, count(*) AS {self._name()}"
        made = (*columns, (f"c{self._names}", "i"))
        return Query(f"{text} SELECT {number}, {extreme} FROM {name} GROUP BY {number}", made)

    def _random_part(self, tables: Mapping[str, Sequence[Typed]]) -> dict[str, Sequence[Typed]]:
        names = self._random.sample(list(tables), 1)
        return {name: tables[name] for name in names}
