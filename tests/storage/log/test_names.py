"""The names that tables may have."""

from __future__ import annotations

import pytest

from relstate.storage.errors import TableNameError
from relstate.storage.log.names import check_table_name


@pytest.mark.parametrize("name", ["orders", "_x", "A" * 128, "t1", "internal_x"])
def test_identifiers_are_table_names(name: str) -> None:
    """Letters, digits and underscores, as Spark has them."""
    check_table_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a b", "../x", "a.b", "a/b", "é", "A" * 129, "a\n", "__internal_x", "__INTERNAL_"],
)
def test_other_names_are_refused(name: str) -> None:
    """Names that could be paths, or names of relstate's own tables."""
    with pytest.raises(TableNameError):
        check_table_name(name)
