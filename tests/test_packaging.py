"""The project's own files say what is installed, and under which names."""

from __future__ import annotations

import re
import tomllib

from support.sources import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_package_carries_its_types() -> None:
    """Mypy takes a package's annotations only where ``py.typed`` stands in its root."""
    for folder, name in PACKAGES.items():
        if name.startswith("relstate"):
            assert (ROOT / folder / "py.typed").is_file()


def test_few_packages_are_required() -> None:
    """`pip install relstate` brings what every documented call needs, and nothing else."""
    required = {re.split(r"[<>=\[ ]", line)[0] for line in PROJECT["project"]["dependencies"]}

    arrow_functions_need = {"pandas"}
    imported = {"pyspark", "pyarrow", "numpy", "lmdb", "xxhash", "sqlglot"}
    assert required == imported | arrow_functions_need


def test_what_breaks_often_has_an_upper_bound() -> None:
    """A new release of these must not break an installation that works."""
    for line in PROJECT["project"]["dependencies"]:
        bounded = "<" in line
        assert bounded or line.startswith(("pyarrow", "numpy")), line
