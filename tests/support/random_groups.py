"""Random SELECTs with GROUP BY: grouping sets, windows over groups, windows of time, sessions."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_expressions import INEXACT, UNORDERED, Typed
from support.random_from import From, Query
from support.random_pipes import PipeMaker

_TIME_WINDOWS = (
    ("window", "'1 hour'"), ("window", "'80 minutes', '40 minutes'"),
    ("window", "'1 hour', '1 hour', '10 minutes'"), ("session_window", "'50 minutes'"),
)  # fmt: skip
# A session whose gap is none has no row.
_GAP = "CASE WHEN {0} > 1 THEN '20 minutes' WHEN {0} < 0 THEN '0 minutes' ELSE '90 minutes' END"


class GroupMaker(PipeMaker):
    """Makes SELECTs with GROUP BY, and all that may follow it."""

    def _grouped(self, source: From, where: str, depth: int) -> Query:
        random = self._random
        groups = [
            self._value(source.exact)
            for _ in range(0 if self._flip(0.12) else random.choice([1, 1, 2]))
        ]
        if groups and depth > 0 and self._flip(0.05):
            groups[0] = self._subquery_value(source.exact, depth)
        values = [group for group in groups if self._flip(0.9)]
        calls = [self._over_call(self._call(source.exact)) for _ in range(random.randint(1, 3))]
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
        by = ""
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
        elif groups:
            by = f" GROUP BY {', '.join(self._compared(text) for text, _ in groups)}"
        having = f" HAVING {self._having(source, groups, depth)}" if self._flip(0.25) else ""
        outputs, columns = self._outputs(values)
        if self._flip(0.08):  # a name of the SELECT, in the SELECT
            more, named = self._outputs([self._value(columns)])
            outputs, columns = f"{outputs}, {more}", (*columns, *named)
        text = f"SELECT {outputs} FROM {source.sql}{where}{by}{having}"
        return self._finished(Query(text, columns), [] if has_sets else groups, calls)

    def _finished(self, query: Query, groups: Sequence[Typed], calls: Sequence[Typed]) -> Query:
        """Return a query over groups, sometimes with what is done to the groups at the end.

        ``groups``: what tells the groups apart.
        """
        chance, columns = self._random.random(), query.columns
        if groups and chance < 0.06:
            rank, _ = self._window_over_groups(groups, is_total=True)
            return Query(f"{query.sql} QUALIFY {rank} <= {self._random.choice([1, 2])}", columns)
        if any(kind in UNORDERED for _, kind in columns):
            return query
        if chance < 0.1:
            return Query(query.sql.replace("SELECT ", "SELECT DISTINCT ", 1), columns)
        if groups and chance < 0.2:
            hidden = [text for text, kind in calls if kind not in UNORDERED][:1]
            order = ", ".join([*hidden, self._order(columns)])
            limit = self._random.choice(["LIMIT 1", "LIMIT 3", "LIMIT 2 OFFSET 1", "OFFSET 1"])
            return Query(f"{query.sql} ORDER BY {order} {limit}", columns)
        return query

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
        numbers = [text for text, kind in source.exact if kind == "i"]
        if function == "session_window" and numbers and self._flip(0.4):
            duration = _GAP.format(self._random.choice(numbers))
        group = f"{function}({time}, {duration})"
        keys = [self._value(source.exact)] if self._flip(0.5) else []
        calls = [self._call(source.exact) for _ in range(self._random.randint(1, 2))]
        bound = self._random.choice(["start", "end"])
        values = [(f"{function}.{bound}", time_kind), *keys, *calls]
        outputs, columns = self._outputs(values)
        by = ", ".join([group, *(text for text, _ in keys)])
        return Query(f"SELECT {outputs} FROM {source.sql}{where} GROUP BY {by}", columns)
