"""What a package exports is exactly what its ``__all__`` says; one without it exports nothing."""

from __future__ import annotations

import ast
from importlib import import_module
from types import ModuleType

import pytest

from relstate import storage
from support.sources import ROOT, package_names


@pytest.mark.parametrize("package", package_names().values())
def test_all_is_exactly_the_public_names(package: str) -> None:
    """Every public name is listed, every listed name is there, none twice."""
    module = import_module(package)
    listed = getattr(module, "__all__", [])
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "annotations" and not isinstance(value, ModuleType)
    }

    assert [name for name in listed if not hasattr(module, name)] == []
    assert sorted(public - set(listed)) == []
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("package", package_names().values())
def test_all_is_sorted(package: str) -> None:
    """Constants, then classes, then functions, each by the alphabet."""
    listed = list(getattr(import_module(package), "__all__", []))

    assert listed == sorted(listed, key=_place)


def test_the_storage_looks_names_up_where_type_checkers_find_them() -> None:
    """The imports that only type checkers see, and where the package finds each name, agree."""
    file = ROOT / "storage" / "__init__.py"
    imports = [
        node
        for statement in ast.parse(file.read_text("utf-8")).body
        if isinstance(statement, ast.If)
        for node in statement.body
        if isinstance(node, ast.ImportFrom)
    ]
    checked = {
        alias.asname or alias.name: {f"{node.module}:{alias.name}", f"{node.module}.{alias.name}:"}
        if node.module
        else {f"{alias.name}:"}
        for node in imports
        for alias in node.names
    }

    assert sorted(checked) == sorted(storage.__all__) == sorted(storage._PLACES)
    assert {
        name for name, places in checked.items() if storage._PLACES[name] not in places
    } == set()
    assert [name for name in storage.__all__ if getattr(storage, name) is None] == []


def test_no_name_of_the_storage_is_hidden_by_a_module_of_it() -> None:
    """Importing a module sets its name in its package: a function of that name would be gone."""
    modules = {
        path.stem for path in (ROOT / "storage").iterdir() if path.suffix == ".py" or path.is_dir()
    }

    hidden = {
        name for name in modules & set(storage._PLACES) if storage._PLACES[name] != f"{name}:"
    }

    assert hidden == set()


def test_an_unknown_name_of_the_storage_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Stores'"):
        storage.Stores  # noqa: B018


def _place(name: str) -> tuple[int, str]:
    if name.isupper():
        return 0, name
    return (1, name) if name[0].isupper() else (2, name)
