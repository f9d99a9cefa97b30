"""Reduction of a failing case of views: smaller SELECTs, fewer steps, fewer rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from support.local import IN_DRIVER, IN_JOB
from support.view_cases import Case, Outcome

_CANDIDATES = 12

Run = Callable[[Case], Outcome]


class Reducer:
    """Reduces the failure of one view of a case. ``run`` runs a case."""

    def __init__(self, run: Run, case: Case, name: str, kind: str, rounds: int = 60) -> None:
        self._run = run
        self._case = case.only([name])
        self._name = name
        self._kind = kind
        self._rounds = rounds

    def reduce(self) -> Case | None:
        """Return the smallest case that fails alike; None if the view alone does not fail."""
        if not self._fails(self._case):
            return None
        for simpler in self._settings():
            self._accept(simpler)
        self._reduce_steps()
        self._reduce_queries()
        self._reduce_rows()
        self._reduce_queries()
        self._reduce_tables()
        for simpler in self._settings():
            self._accept(simpler)
        return self._case

    def _fails(self, case: Case) -> bool:
        self._rounds -= 1
        failure = self._run(case).failures.get(self._name)
        return failure is not None and failure[0] == self._kind

    def _accept(self, case: Case) -> bool:
        if self._rounds > 0 and self._fails(case):
            self._case = case
            return True
        return False

    def _settings(self) -> Iterator[Case]:
        for simplify in _SIMPLIFICATIONS:
            case = simplify(self._case)
            if case != self._case:
                yield case

    # Steps

    def _reduce_steps(self) -> None:
        self._accept(_created_at(self._case, len(self._case.steps) - 1))
        self._accept(_created_at(self._case, 0))
        while len(self._case.steps) > 1 and self._accept(
            replace(self._case, steps=self._case.steps[:-1])
        ):
            pass
        number = 0
        while number < len(self._case.steps) - 1:
            if not self._accept(_merged(self._case, number)):
                number += 1

    # Rows

    def _reduce_rows(self) -> None:
        for number in range(len(self._case.steps)):
            position = 0
            while position < len(self._case.steps[number].commits):
                if not self._accept(_without_commit(self._case, number, position)):
                    self._reduce_commit(number, position)
                    position += 1

    def _reduce_commit(self, number: int, position: int) -> None:
        size = self._case.steps[number].commits[position].size
        length = (size + 1) // 2
        while length and self._rounds > 0:
            first = 0
            while first < self._case.steps[number].commits[position].size and self._rounds > 0:
                commit = self._case.steps[number].commits[position]
                part = commit.part(first, first + length)
                case = _with_commits(self._case, number, position, (part,))
                if not part.size or not self._accept(case):
                    first += length
            length //= 2

    def _reduce_tables(self) -> None:
        used = [
            table
            for table in self._case.tables
            if any(view.reads(table.name) for view in self._case.views)
        ]
        names = {table.name for table in used}
        steps = tuple(
            replace(step, commits=tuple(c for c in step.commits if c.table in names))
            for step in self._case.steps
        )
        self._accept(replace(self._case, tables=tuple(used), steps=steps))

    # Queries

    def _reduce_queries(self) -> None:
        """Try simpler SELECTs, several in one store, and take the shortest that fails alike."""
        while self._rounds > 0:
            texts = sorted(set(_simpler_queries(self._case.views[-1].sql)), key=len)
            chosen = None
            for start in range(0, len(texts), _CANDIDATES):
                chosen = self._shortest_failing(texts[start : start + _CANDIDATES])
                if chosen is not None or self._rounds <= 0:
                    break
            if chosen is None:
                return
            *bases, view = self._case.views
            self._case = replace(self._case, views=(*bases, replace(view, sql=chosen))).only(
                [self._name]
            )

    def _shortest_failing(self, texts: list[str]) -> str | None:
        self._rounds -= 1
        *bases, view = self._case.views
        views = [replace(view, name=f"z{number}", sql=text) for number, text in enumerate(texts)]
        failures = self._run(replace(self._case, views=(*bases, *views))).failures
        for candidate in views:
            if failures.get(candidate.name, ("",))[0] == self._kind:
                return candidate.sql
        return None


def _without_accidents(case: Case) -> Case:
    steps = tuple(replace(step, accident=None, is_compacted=False) for step in case.steps)
    views = tuple(replace(view, accident=None) for view in case.views)
    return replace(case, steps=steps, views=views)


def _without_time(case: Case) -> Case:
    return replace(case, steps=tuple(replace(step, seconds=0) for step in case.steps))


def _without_expiry(case: Case) -> Case:
    tables = tuple(replace(table, ttl=None) for table in case.tables)
    steps = tuple(
        replace(step, commits=tuple(replace(commit, ttl=None) for commit in step.commits))
        for step in case.steps
    )
    return replace(case, tables=tables, steps=steps)


def _without_indexes(case: Case) -> Case:
    return replace(case, tables=tuple(replace(table, index=()) for table in case.tables))


def _without_replacements(case: Case) -> Case:
    views = tuple(replace(view, replacement=None) for view in case.views)
    return replace(case, views=views)


def _without_clusters(case: Case) -> Case:
    return replace(case, views=tuple(replace(view, cluster=()) for view in case.views))


def _in_one_unit(case: Case) -> Case:
    return replace(case, views=tuple(replace(view, units=(1,)) for view in case.views))


_SIMPLIFICATIONS: tuple[Callable[[Case], Case], ...] = (
    _without_accidents,
    _without_time,
    _without_expiry,
    _without_indexes,
    _without_replacements,
    _without_clusters,
    lambda case: replace(case, part_rows=None),
    lambda case: replace(case, many_rows=None),
    lambda case: replace(case, local_rows=IN_JOB),
    lambda case: replace(case, local_rows=IN_DRIVER),
    lambda case: replace(_in_one_unit(case), vnode_count=1),
    _in_one_unit,
    lambda case: replace(case, time_zone="UTC"),
)


def _created_at(case: Case, step: int) -> Case:
    return replace(case, views=tuple(replace(view, step=step) for view in case.views))


def _merged(case: Case, number: int) -> Case:
    """Return a case with two steps in one."""
    first, second = case.steps[number : number + 2]
    seconds = first.seconds + second.seconds
    step = replace(second, commits=first.commits + second.commits, seconds=seconds)
    views = tuple(
        replace(view, step=view.step - 1 if view.step > number else view.step)
        for view in case.views
    )
    steps = (*case.steps[:number], step, *case.steps[number + 2 :])
    return replace(case, steps=steps, views=views)


def _with_commits(case: Case, number: int, position: int, commits: tuple) -> Case:  # type: ignore[type-arg]
    step = case.steps[number]
    commits = (*step.commits[:position], *commits, *step.commits[position + 1 :])
    steps = (*case.steps[:number], replace(step, commits=commits), *case.steps[number + 1 :])
    return replace(case, steps=steps)


def _without_commit(case: Case, number: int, position: int) -> Case:
    return _with_commits(case, number, position, ())


def _simpler_queries(sql: str) -> Iterator[str]:
    """Yield SELECTs with one thing less than another; none where sqlglot cannot read it (ASOF)."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except ParseError:
        return
    count = sum(1 for _ in tree.walk())
    for index in range(count):
        copy = tree.copy()
        node = list(copy.walk())[index]
        yield from _simpler_at(copy, node)


def _simpler_at(tree: exp.Expr, node: exp.Expr) -> Iterator[str]:
    def text() -> str:
        return tree.sql(dialect="spark")

    if isinstance(node, exp.Select):
        for name in (
            "where",
            "having",
            "qualify",
            "distinct",
            "limit",
            "offset",
            "order",
            "with_",
            "with",
        ):
            # A LIMIT without ORDER BY takes any rows.
            is_limited = any(node.args.get(limit) for limit in ("limit", "offset"))
            if name == "order" and is_limited:
                continue
            if (removed := node.args.get(name)) is not None:
                node.set(name, None)
                yield text()
                node.set(name, removed)
        for name in ("joins", "laterals"):
            items = node.args.get(name) or []
            for number in range(len(items)):
                node.set(name, items[:number] + items[number + 1 :])
                yield text()
                node.set(name, items)
        if len(node.expressions) > 1:
            outputs = node.expressions
            for number in range(len(outputs)):
                node.set("expressions", outputs[:number] + outputs[number + 1 :])
                yield text()
            node.set("expressions", outputs)
        group = node.args.get("group")
        if group is not None and len(group.expressions) > 1:
            outputs = group.expressions
            for number in range(len(outputs)):
                group.set("expressions", outputs[:number] + outputs[number + 1 :])
                yield text()
            group.set("expressions", outputs)
    if isinstance(node, exp.Select | exp.SetOperation) and node is not tree:
        # A nested query alone.
        yield node.sql(dialect="spark")
    if isinstance(node, exp.SetOperation | exp.And | exp.Or):
        for side in (node.this, node.expression):
            yield from _replaced(tree, node, side)
    elif isinstance(
        node, exp.Filter | exp.Not | exp.Paren | exp.Coalesce | exp.Is | exp.Neg | exp.Abs
    ):
        yield from _replaced(tree, node, node.this)
    elif isinstance(node, exp.Case | exp.If | exp.Func | exp.Binary) and not isinstance(
        node, exp.AggFunc | exp.Struct
    ):
        columns = list(node.find_all(exp.Column))
        if columns:
            yield from _replaced(tree, node, columns[0])
    if isinstance(node, exp.Join) and (node.side or node.kind):
        side, kind = node.args.get("side"), node.args.get("kind")
        node.set("side", None)
        if kind in ("SEMI", "ANTI"):
            node.set("kind", None)
        yield text()
        node.set("side", side)
        node.set("kind", kind)


def _replaced(tree: exp.Expr, node: exp.Expr, value: exp.Expr) -> Iterator[str]:
    if node is tree:
        yield value.sql(dialect="spark")
        return
    copy = value.copy()
    node.replace(copy)
    yield tree.sql(dialect="spark")
    copy.replace(node)
