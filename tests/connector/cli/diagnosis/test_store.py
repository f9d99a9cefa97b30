"""The laws of whether a store can be used here."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from relstate.connector.cli.diagnosis.store import judge_store
from relstate.connector.cli.surroundings import Surroundings
from relstate.storage import Store
from relstate.storage.environment import Disk
from support.machines import machine


def test_a_store_that_works_is_well(shop: Store) -> None:
    """It opens, its file system has hard links, and nothing is left behind."""
    before = sorted(os.listdir(shop.path))

    found = list(judge_store(machine(), shop.path))

    assert [(one.subject, one.status) for one in found[:2]] == [
        ("store", "ok"),
        ("hard links", "ok"),
    ]
    assert "1 tables at epoch 6" in found[0].found
    assert sorted(os.listdir(shop.path)) == before


def test_a_path_that_is_no_store_is_a_problem(tmp_path: Path) -> None:
    """The error is named, and nothing is written there."""
    (tmp_path / "notes.txt").touch()

    found = list(judge_store(machine(), str(tmp_path)))

    assert found[0].status == "problem"
    assert "NotAStoreError" in found[0].found
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(
    ("method", "number", "status"),
    [
        ("link", errno.ENOTSUP, "problem"),
        ("link", errno.EPERM, "problem"),
        ("write", errno.EACCES, "warning"),
        ("write", errno.EROFS, "warning"),
        ("write", errno.EIO, "problem"),
    ],
)
def test_a_file_system_without_links_is_a_problem(
    shop: Store, monkeypatch: pytest.MonkeyPatch, method: str, number: int, status: str
) -> None:
    """Links that are refused are told; a user who may not write cannot try them."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Disk, method, refuse)

    (found,) = [one for one in judge_store(machine(), shop.path) if one.subject == "hard links"]

    assert found.status == status
    assert found.advice


@dataclass(frozen=True, slots=True)
class _Limited(Surroundings):
    limit: int | None = None

    def descriptor_limit(self) -> int | None:
        """Return a limit of the test's choice."""
        return self.limit


@pytest.mark.parametrize(("limit", "status"), [(256, "warning"), (1024, "ok"), (None, "ok")])
def test_few_descriptors_are_a_warning(shop: Store, limit: int | None, status: str) -> None:
    """With less than what systems give, segments are opened and closed all the time."""
    *_, found = judge_store(_Limited({}, limit=limit), shop.path)

    assert (found.subject, found.status) == ("open files", status)
    assert ("ulimit" in found.advice) == (status == "warning")
