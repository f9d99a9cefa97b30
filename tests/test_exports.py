"""What a package exports is exactly what its ``__all__`` says; one without it exports nothing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from support.sources import package_names


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


def _place(name: str) -> tuple[int, str]:
    if name.isupper():
        return 0, name
    return (1, name) if name[0].isupper() else (2, name)
