"""Functions that are made of source, for what is known only when a table is opened.

A loop over columns takes twice as long as statements that name them. So the source of what runs
for every row is made of the columns' positions and formats, as `collections.namedtuple` does it.
No text of a user, such as a column's name, may be in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any


def compiled_function(name: str, lines: Sequence[str], names: Mapping[str, Any]) -> Any:
    """Return the function ``name`` that some lines of source define.

    ``names``: the objects that the source refers to.
    """
    namespace = dict(names)
    exec(_compiled("\n".join(lines)), namespace)
    return namespace[name]


@lru_cache(maxsize=512)
def _compiled(source: str) -> CodeType:
    return compile(source, "<function of a table's columns>", "exec")
