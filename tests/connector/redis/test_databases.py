"""Databases: those of YugabyteDB's commands are the tables."""

from __future__ import annotations

import pytest

from relstate.storage import Store
from support.redis_servers import Connection, Served, before_next_commit


def test_databases_are_created_listed_and_deleted(client: Connection, store: Store) -> None:
    """With the first write too; a deleted one has no table."""
    assert client("LISTDB") == [b"0"]
    assert client("CREATEDB", 3) == b"OK"
    assert client("CREATEDB", 3) == b"OK"
    client.pipeline([["SELECT", 5], ["SET", "a", "x"]])
    assert client("LISTDB") == [b"0", b"3", b"5"]
    assert store.tables() == ("redis_0", "redis_3", "redis_5")
    assert client("DELETEDB", 5) == b"OK"
    assert client("DELETEDB", 9) == b"OK"
    assert client("LISTDB") == [b"0", b"3"]
    assert store.tables() == ("redis_0", "redis_3")


def test_a_deleted_database_may_be_written_again(client: Connection, store: Store) -> None:
    """In the same transaction or later; nothing older is there."""
    client.pipeline([["SELECT", 2], ["MSET", "a", 1, "b", 2]])
    client.pipeline([["MULTI"], ["DELETEDB", 2], ["SET", "a", 3], ["EXEC"]])
    assert client("KEYS", "*") == [b"a"]
    client("DELETEDB", 2)
    assert client("GET", "a") is None
    client("SET", "b", 4)
    assert client("KEYS", "*") == [b"b"]
    assert [row["key"] for row in store.table("redis_2").to_dicts()] == [b"b"]


def test_a_database_is_listed_as_the_commands_before_left_it(
    server: Served, client: Connection
) -> None:
    """Also while a commit is made."""
    replies: list[object] = []

    def look() -> None:
        keyspace = server.server.service.keyspace
        replies.append(server.run(lambda: [keyspace.exists(number) for number in (1, 2)]))

    client("CREATEDB", 2)
    before_next_commit(server, look)
    client.pipeline([["MULTI"], ["CREATEDB", 1], ["DELETEDB", 2], ["EXEC"]])
    assert replies == [[True, False]]


@pytest.mark.parametrize("name", ["16", "-1", "second", "03", ""])
def test_names_are_numbers(client: Connection, name: str) -> None:
    """As SELECT takes them."""
    for command in ("CREATEDB", "DELETEDB"):
        assert str(client(command, name)).startswith("ERR a database has a number from 0 to 15")
    assert str(client("DELETEDB", 0)).startswith("ERR database 0 is always there")
