"""No variable of a comprehension has the name of what the function around it takes of its module.

The first releases of Python 3.12 make such a name a local variable of the whole function: what the
module has by that name is then "not associated with a value".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.sources import Source, product_sources, program_sources

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


def shadowing(source: Source) -> Iterator[str]:
    """Yield where a comprehension hides a name that its function needs, and which."""
    known = set(_module_names(source.tree))
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, _COMPREHENSIONS):
                own = {id(part) for part in ast.walk(node)}
                hidden = known & _targets(node)
                needed = {
                    name.id
                    for name in ast.walk(function)
                    if isinstance(name, ast.Name) and id(name) not in own
                }
                for name in sorted(hidden & needed):
                    yield f"{source.path}:{node.lineno}: {name}"


def _module_names(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        match statement:
            case ast.Import(names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name).split(".")[0] for alias in names)
            case ast.FunctionDef(name) | ast.ClassDef(name):
                yield name


def _targets(node: ast.ListComp | ast.SetComp | ast.DictComp) -> set[str]:
    return {
        name.id
        for generator in node.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }


def test_no_comprehension_hides_a_name_of_the_module() -> None:
    """Of the packages, the examples and the benchmarks."""
    programs = (source for source in program_sources() if source.folder != "tests")
    sources = [*product_sources(), *programs]
    assert [place for source in sources for place in shadowing(source)] == []


def test_the_check_sees_what_it_forbids() -> None:
    """A variable of a list, a set or a dict; a generator has a scope of its own."""
    begin = "from m import size\ndef f(xs):\n    "
    for made in ("[size for size in xs]", "{size for size in xs}", "{size: 1 for size in xs}"):
        assert list(shadowing(Source("a.py", f"{begin}return {made}, size(1)"))) == ["a.py:3: size"]
    assert (
        list(shadowing(Source("a.py", f"{begin}return list(size for size in xs), size(1)"))) == []
    )
    assert list(shadowing(Source("a.py", f"{begin}return [s for s in xs], size(1)"))) == []
