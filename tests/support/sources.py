"""The project's own source files, and what they import and call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The folders at the top and the packages they are installed as, lowest first.
PACKAGES = {
    "vnode": "relstate.vnode",
    "storage": "relstate.storage",
    "connector": "relstate.connector",
    "package/relstate": "relstate",
    "package/pyspark_relstate": "pyspark_relstate",
}
PROGRAMS = ("tests", "examples", "benchmarks", "scripts")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path below the root, and its text."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        """The package's folder at the top, or the path's first part for a program."""
        inside = [folder for folder in PACKAGES if self.path.startswith(f"{folder}/")]
        return inside[0] if inside else self.path.split("/", 1)[0]

    @property
    def tree(self) -> ast.Module:
        """The file, parsed once."""
        return _parse(self)


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: ``from module import name``, or ``import module`` (no name)."""

    module: str
    name: str | None
    line: int


def package_names() -> dict[str, str]:
    """Return every folder that is a package, those inside others too, and its installed name."""
    names = {}
    for folder, name in PACKAGES.items():
        for file in sorted((ROOT / folder).rglob("__init__.py")):
            inner = file.parent.relative_to(ROOT / folder).parts
            names[file.parent.relative_to(ROOT).as_posix()] = ".".join([name, *inner])
    return names


@cache
def _parse(source: Source) -> ast.Module:
    return ast.parse(source.text, source.path)


def product_sources() -> list[Source]:
    """Return the files of the packages."""
    return [source for folder in PACKAGES for source in _sources_below(folder)]


def program_sources() -> list[Source]:
    """Return the files that use the packages: tests, examples, benchmarks, scripts."""
    return [source for folder in PROGRAMS for source in _sources_below(folder)]


@cache
def imports_of(source: Source) -> list[Import]:
    """Return every absolute import of a file, wherever in it; relative ones stay in the package."""
    imports: list[Import] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            imports += [Import(alias.name, None, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            imports += [Import(node.module, alias.name, node.lineno) for alias in node.names]
    return imports


def files_imported(source: Source) -> Iterator[tuple[str, int]]:
    """Yield the paths of the project's files that a file of a package imports, with the line.

    ``from .log.state import StoreState`` imports ``storage/log/state.py``; the name of a package
    imports its ``__init__.py``.
    """
    package = [PACKAGES[source.folder], *source.path[len(source.folder) + 1 :].split("/")[:-1]]
    inside = ".".join(package).split(".")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                file = _file_of(f"{module}.{alias.name}") or _file_of(module)
                if file:
                    yield file, node.lineno


def _file_of(module: str) -> str | None:
    """Return the path of a module of the project; None for others."""
    for folder, package in PACKAGES.items():
        if module == package or module.startswith(f"{package}."):
            path = "/".join([folder, *module[len(package) + 1 :].split(".")]).rstrip("/")
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if (ROOT / file).exists():
                    return file
    return None


def names_used(source: Source) -> Iterator[tuple[str, int]]:
    """Yield every imported or built-in name that a file mentions, in full, with its line.

    ``np.random.rand`` is ``numpy.random.rand`` where numpy was imported as np, and so is what
    ``from numpy.random import rand`` imports. The file's own names are left out.
    """
    known = {"open": "builtins.open"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".", 1)[0]
                known[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                known[alias.asname or alias.name] = f"{module}.{alias.name}"
                yield f"{module}.{alias.name}", node.lineno
        elif isinstance(node, ast.FunctionDef):
            known.pop(node.name, None)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in known:
                yield ".".join([known[first], *rest]), node.lineno


@cache
def _sources_below(folder: str) -> list[Source]:
    files = sorted((ROOT / folder).rglob("*.py"))
    return [Source(file.relative_to(ROOT).as_posix(), file.read_text("utf-8")) for file in files]
