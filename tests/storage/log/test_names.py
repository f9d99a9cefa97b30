"""The names that tables may have."""

from __future__ import annotations

import pytest

from relstate.storage.errors import TableNameError
from relstate.storage.log.names import (
    check_table_name,
    is_quarantine_name,
    quarantine_name,
)


@pytest.mark.parametrize(
    "name",
    ["orders", "_x", "A" * 128, "t1", "internal_x", "quarantine", "t__quarantined"],
)
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


@pytest.mark.parametrize("name", ["orders", "A" * 128])
def test_the_name_of_a_quarantine_is_reserved(name: str) -> None:
    """Nobody gives a table the name that the quarantine of another one has, in any case."""
    reserved = quarantine_name(name)
    assert is_quarantine_name(reserved)
    assert is_quarantine_name(reserved.upper())
    assert not is_quarantine_name(name)
    for unusable in (quarantine_name("t"), "T__Quarantine"):
        with pytest.raises(TableNameError, match=r"is reserved: .* take another name"):
            check_table_name(unusable)
