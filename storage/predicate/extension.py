"""Conditions that another package makes, reached without importing it.

Does not know: which these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..instant import Zone
from ..schema.schema import TableSchema
from .condition import Condition

if TYPE_CHECKING:
    from ..syntax import Tree


class Extension(Protocol):
    """Reads conditions that are not on columns as they are, and sends them as JSON."""

    def read(self, node: Tree, schema: TableSchema, zone: Zone) -> Condition | None:
        """Return the condition of an expression; None if it is on columns as they are."""

    def to_json(self, condition: Condition) -> Any:
        """Return a condition as JSON values."""

    def from_json(self, value: Any, schema: TableSchema) -> Condition:
        """Return the condition that `to_json` made JSON of; ValueError for anything else."""


_installed: list[Extension] = []


def install(extension: Extension) -> None:
    """Use an extension from now on, in place of another one."""
    _installed[:] = [extension]


def extension() -> Extension:
    """Return the extension in use, which `relstate.storage` installs when it is imported."""
    return _installed[0]
