"""The project's own files say what is installed, and under which names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the source distribution of a copy of this tree.

    The wheel is built from the source distribution, so what this lacks the wheel lacks, too.
    """
    pytest.importorskip("build", reason="`build` is of the extra dev: install it again")
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("vnode", "storage", "connector", "package", "docs"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return copy / "dist"


def test_the_wheel_holds_exactly_the_files_of_the_packages(dist: Path) -> None:
    """With their contents: the links of package/relstate are followed, and nothing is left out."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}

    installed = {name for name in packed if ".dist-info/" not in name}
    sources = {
        f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder)}": file.read_bytes()
        for folder, package in PACKAGES.items()
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert sorted(installed ^ set(sources)) == []
    assert [name for name in sources if packed[name] != sources[name]] == []
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed)


def test_the_source_distribution_holds_files_instead_of_links(dist: Path) -> None:
    """And what a reader of the source expects beside it."""
    (archive_file,) = dist.glob("*.tar.gz")
    with tarfile.open(archive_file) as archive:
        members = {member.name.split("/", 1)[-1]: member for member in archive}

    assert [name for name, member in members.items() if member.issym() or member.islnk()] == []
    expected = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/format.md",
    }
    assert expected - set(members) == set()


def test_the_changelog_leads_to_the_version() -> None:
    """Its sections are `Unreleased` and releases with their days, newest first, up to this one."""
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)

    releases = headings[1:] if headings[0] == "Unreleased" else headings
    versions = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \(\d{4}-\d\d-\d\d\)", text) for text in releases]
    assert all(versions)
    numbers = [tuple(map(int, version.groups())) for version in versions if version]
    assert numbers == sorted(set(numbers), reverse=True)
    current = tuple(map(int, PROJECT["project"]["version"].split(".")))
    assert all(number <= current for number in numbers)
    assert headings[0] == "Unreleased" or numbers[0] == current
