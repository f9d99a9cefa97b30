"""Conditions that another package makes, which is imported when the first of them is met.

Does not know: which these are.
"""

from __future__ import annotations

from importlib import import_module
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


# Installs its extension when it is imported. It is above this package, and most reads need none.
_EXTENDING = "relstate.storage.expression.binding"

_installed: list[Extension] = []


def install(extension: Extension) -> None:
    """Use an extension from now on, in place of another one."""
    _installed[:] = [extension]


def extension() -> Extension:
    """Return the extension in use."""
    if not _installed:
        import_module(_EXTENDING)
    return _installed[0]
