"""Everything public says what it is, and every test says what law it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.sources import Source, product_sources, program_sources

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_everything_public_has_a_docstring() -> None:
    """Modules, and the classes, functions and methods whose names have no underscore."""
    assert [finding for source in product_sources() for finding in silent_names(source)] == []


def test_every_test_has_a_docstring() -> None:
    """A test's docstring states the law that its body checks."""
    tests = [source for source in program_sources() if source.path.startswith("tests/")]

    assert len(tests) > 10
    assert [finding for source in tests for finding in silent_tests(source)] == []


def test_silence_is_heard() -> None:
    """The checks find a module, a class, a method, a function and a test without a docstring."""
    text = "class A:\n  def b(self): 0\n  def _c(self): 0\n  def __init__(self): 0\ndef test_d(): 0"

    assert list(silent_names(Source("vnode/x.py", text))) == [
        "vnode/x.py:1: the module",
        "vnode/x.py:1: A",
        "vnode/x.py:2: A.b",
        "vnode/x.py:5: test_d",
    ]
    assert list(silent_tests(Source("tests/test_x.py", text))) == ["tests/test_x.py:5: test_d"]


def silent_names(source: Source) -> Iterator[str]:
    """Yield the public names of a file that have no docstring."""
    if not ast.get_docstring(source.tree):
        yield f"{source.path}:1: the module"
    for name, node in public_nodes(source.tree):
        if not ast.get_docstring(node):
            yield f"{source.path}:{node.lineno}: {name}"


def silent_tests(source: Source) -> Iterator[str]:
    """Yield the tests of a file, in classes or not, that have no docstring."""
    functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)]
    for node in functions:
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield f"{source.path}:{node.lineno}: {node.name}"


def public_nodes(
    parent: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Documented]]:
    """Yield what is public in a module or class; what is inside a function is not."""
    for node in parent.body:
        if isinstance(node, Documented) and not node.name.startswith("_") and not is_overload(node):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_nodes(node, f"{prefix}{node.name}.")


def is_overload(node: Documented) -> bool:
    """Whether the function is one typed shape of another, which has the docstring."""
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)
