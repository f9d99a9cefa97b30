"""Print the least version of every requirement of pyproject.toml, as constraints for pip.

    python scripts/oldest.py > constraints.txt

Those of the package and of the extras that users install; tools of the development are the newest.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_PROJECT = Path(__file__).parent.parent / "pyproject.toml"
_EXTRAS = ("cli", "ui", "redis", "object-store")


def least_versions(project: dict[str, object]) -> Iterator[str]:
    """Yield ``name==version`` for each requirement with a lower bound."""
    optional = project["optional-dependencies"]
    required = project["dependencies"]
    assert isinstance(optional, dict)
    assert isinstance(required, list)
    for requirement in [*required, *(line for extra in _EXTRAS for line in optional[extra])]:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)(?:,<[\d.]+)?", requirement)
        if match is not None:
            yield f"{match[1]}=={match[2]}"
        elif not requirement.startswith("relstate["):
            raise ValueError(f"{requirement!r} has no lower bound")


if __name__ == "__main__":
    print("\n".join(least_versions(tomllib.loads(_PROJECT.read_text("utf-8"))["project"])))
