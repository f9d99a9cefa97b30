"""Random SELECTs over the tables of `random_tables`: every operator of views, composed.

Each has one result, as `random_expressions` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from support.random_expressions import INEXACT, TIMED, UNORDERED, Typed
from support.random_from import GENERATORS, From, Query, where_clause
from support.random_pipes import PipeMaker

_OPERATIONS = (
    "UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL",
)  # fmt: skip
_TIME_WINDOWS = (
    ("window", "'1 hour'"), ("window", "'80 minutes', '40 minutes'"),
    ("window", "'1 hour', '1 hour', '10 minutes'"), ("session_window", "'50 minutes'"),
)  # fmt: skip


class QueryMaker(PipeMaker):
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
        outputs, columns = self._outputs(values)
        return Query(f"SELECT {outputs} FROM {source.sql}{where}", columns)

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
        text = f"SELECT {outputs} FROM {source.sql}{where} ORDER BY {self._order(columns)} {limit}"
        return Query(text + offset, columns)

    def _ordered(self, source: From, where: str, depth: int) -> Query:
        """Return a query with an ORDER BY alone, by some columns: a view's key begins with them."""
        query = self._projected(source, where, depth)
        keys = [column for column in query.columns if column[1] not in UNORDERED]
        order = self._order(self._some(keys, 1, 2)) if keys else "1 + 1"
        return Query(f"{query.sql} ORDER BY {order}", query.columns)

    # GROUP BY

    def _grouped(self, source: From, where: str, depth: int) -> Query:
        random = self._random
        groups = [
            self._value(source.exact)
            for _ in range(0 if self._flip(0.12) else random.choice([1, 1, 2]))
        ]
        if groups and depth > 0 and self._flip(0.05):
            groups[0] = self._subquery_value(source.exact, depth)
        values = [group for group in groups if self._flip(0.9)]
        calls = [self._call(source.exact) for _ in range(random.randint(1, 3))]
        if depth > 0 and self._flip(0.08):
            text, kind = self._subquery_value(source.exact, depth)
            calls.append((f"{random.choice(['min', 'max'])}({text})", kind))
        values += calls
        is_of_all = groups == values[: len(groups)] and self._flip(0.1)
        if self._flip(0.15):
            values.append((f"{calls[0][0]} IS NULL OR count(*) > 2", "b"))
        has_sets = bool(groups) and self._flip(0.2)
        if groups and self._flip(0.12):
            values.append(self._window_over_groups(groups, is_total=not has_sets))
        by = f" GROUP BY {', '.join(text for text, _ in groups)}" if groups else ""
        if is_of_all and len(values) == len(groups) + len(calls):
            by = " GROUP BY ALL"
        elif has_sets:
            by = f" GROUP BY {self._grouping_sets([text for text, _ in groups])}"
            if self._flip(0.4):
                values.append((f"grouping({random.choice(groups)[0]})", "i"))
            if self._flip(0.2):
                names = ", ".join(text for text, _ in groups)
                values.append(
                    (self._random.choice(["grouping_id()", f"grouping_id({names})"]), "i")
                )
        elif groups and groups == values[: len(groups)] and self._flip(0.15):
            by = f" GROUP BY {', '.join(str(number + 1) for number in range(len(groups)))}"
        having = f" HAVING {self._having(source, groups, depth)}" if self._flip(0.25) else ""
        outputs, columns = self._outputs(values)
        return Query(f"SELECT {outputs} FROM {source.sql}{where}{by}{having}", columns)

    def _grouping_sets(self, keys: Sequence[str]) -> str:
        """Return what stands after GROUP BY for several sets of some keys."""
        names = ", ".join(keys)
        forms = [f"ROLLUP ({names})", f"CUBE ({names})", f"{names} WITH ROLLUP"]
        if len(keys) > 1:
            forms.append(f"{keys[0]}, ROLLUP ({', '.join(keys[1:])})")
        sets = [self._random.sample(keys, self._random.randint(0, len(keys))) for _ in range(2)]
        texts = ", ".join(f"({', '.join(chosen)})" for chosen in [*sets, list(keys)])
        return self._random.choice([*forms, f"GROUPING SETS ({texts})"])

    def _window_over_groups(self, groups: Sequence[Typed], *, is_total: bool) -> Typed:
        """Return a window over the rows of a GROUP BY that has one value for those that tie.

        ``is_total``: whether the groups tell the rows apart.
        """
        keys = [text for text, _ in groups]
        if is_total and self._flip(0.4):
            form = self._random.choice(["row_number()", "lag(count(*))", "ntile(2)"])
            return f"{form} OVER (ORDER BY {', '.join(self._random.sample(keys, len(keys)))})", "i"
        order = self._random.choice(["count(*)", *keys])
        by = f"PARTITION BY {self._random.choice(keys)} " if self._flip(0.3) else ""
        form = self._random.choice(["rank()", "dense_rank()", "sum(count(*))", "max(count(*))"])
        return f"{form} OVER ({by}ORDER BY {order}{self._random.choice(['', ' DESC'])})", "i"

    def _having(self, source: From, groups: Sequence[Typed], depth: int) -> str:
        if groups and depth > 0 and self._flip(0.2):
            return self._subquery_condition([("count(*)", "i"), *groups], depth)
        extremes = [(f"max({text})", kind) for text, kind in source.exact]
        if self._flip(0.2) and (clock := self._clock_condition(extremes)) is not None:
            return clock
        call, kind = self._call(source.exact)
        if kind == INEXACT:
            return "count(*) > 1"
        return self._condition([(call, kind), ("count(*)", "i"), *groups])

    def _time_windowed(self, source: From, where: str, depth: int) -> Query:
        """Return an aggregate by windows of time or by sessions."""
        times = [(text, kind) for text, kind in source.exact if kind in "tz"]
        if not times:
            return self._grouped(source, where, depth)
        function, duration = self._random.choice(_TIME_WINDOWS)
        time, time_kind = self._random.choice(times)
        group = f"{function}({time}, {duration})"
        keys = [self._value(source.exact)] if self._flip(0.5) else []
        calls = [self._call(source.exact) for _ in range(self._random.randint(1, 2))]
        bound = self._random.choice(["start", "end"])
        values = [(f"{function}.{bound}", time_kind), *keys, *calls]
        outputs, columns = self._outputs(values)
        by = ", ".join([group, *(text for text, _ in keys)])
        return Query(f"SELECT {outputs} FROM {source.sql}{where} GROUP BY {by}", columns)

    # Windows

    def _windowed(self, source: From, where: str, depth: int) -> Query:
        random = self._random
        chosen = [column for column in self._some(source.exact, 2, 5) if column[1] != "a"]
        if not chosen:
            return self._projected(source, where, depth)
        partition = [name for name, _ in self._some(chosen, 0, 1 if self._flip(0.8) else 2)]
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        window = f"({by}ORDER BY {self._order(chosen)})"
        chance = random.random()
        if chance < 0.25:
            return self._group_top(source, where, chosen, window)
        calls = [self._window_call(chosen, by, window) for _ in range(random.choice([1, 1, 2]))]
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
        text = f"SELECT {first} FROM ({left.sql}) AS {self._name('q')} {operation} "
        text += f"SELECT {second} FROM ({right.sql}) AS {self._name('q')}"
        if self._flip(0.25):
            source = self._exact_relation(0)
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
