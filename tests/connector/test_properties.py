"""The laws of properties of tables, as text."""

from __future__ import annotations

import pytest

from relstate.connector.sql.properties import creation_arguments
from relstate.storage.errors import OptionError


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("delta.appendOnly", "write 'append_only' = 'true'"),
        ("delta.logRetentionDuration", "VACUUM RETAIN n HOURS"),
        ("DELTA.deletedFileRetentionDuration", "one retention for all its tables"),
    ],
)
def test_what_delta_would_keep_is_not_taken_for_a_users_property(name: str, advice: str) -> None:
    """A property of Delta Lake that relstate would not obey is refused with its own name for it."""
    with pytest.raises(OptionError, match=f"'{name}' of Delta Lake is not offered: .*{advice}"):
        creation_arguments({name: "true"})


def test_other_properties_of_delta_are_the_users_own() -> None:
    """What promises nothing about rows may stay in a statement that is copied."""
    properties = {"delta.enableChangeDataFeed": "true"}
    assert creation_arguments(properties) == {"user_properties": properties}
