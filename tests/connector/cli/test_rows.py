"""The laws of ``get``, ``scan`` and ``changes``."""

from __future__ import annotations

import pytest

from relstate.storage import Store
from support.commands import run
from support.stores import upsert


def test_a_row_is_got_by_its_key(shop: Store) -> None:
    """The values are those of the row, as JSON or beside the names of their columns."""
    shown = run("get", shop.path, "orders", "3")

    assert run("get", shop.path, "orders", "3", "--json").document == {
        "id": 3,
        "customer": "customer 3",
        "amount": "3.00",
        "note": None,
    }
    assert shown.code == 0
    assert "customer 3" in shown.output
    assert "NULL" in shown.output


def test_a_row_that_is_not_there_is_1(shop: Store) -> None:
    """A missing row is exit code 1 and a message on stderr; as JSON it is null."""
    result = run("get", shop.path, "orders", "2")

    assert (result.code, result.output) == (1, "")
    assert result.errors == "orders has no row with the key 2\n"
    assert run("get", shop.path, "orders", "2", "--json").document is None


def test_an_older_epoch_is_read(shop: Store) -> None:
    """A row that was deleted later is there at an earlier epoch, for both commands."""
    assert run("get", shop.path, "orders", "2", "--at", "3", "--json").document["id"] == 2
    rows = run("scan", shop.path, "orders", "--at", "3", "--json").lines
    assert [row["id"] for row in rows] == [1, 2, 3]

    expired = run("scan", shop.path, "orders", "--at", "99")
    assert expired.code == 2
    assert expired.errors.startswith("relstate: EpochNotFoundError: there is no epoch 99")


def test_a_negative_number_is_a_key(shop: Store) -> None:
    """It is not read as an option."""
    upsert(shop, "orders", [(-5, "customer -5", None, None)])

    assert run("get", shop.path, "orders", "-5", "--json").document["id"] == -5


def test_a_key_that_is_none_is_an_error(shop: Store) -> None:
    """A word that is not a value, one that does not fit, and too many words are errors."""
    assert "ValueRangeError: 'x' is not a BIGINT" in run("get", shop.path, "orders", "x").errors
    assert "ValueRangeError" in run("get", shop.path, "orders", str(2**63)).errors
    assert "SchemaMismatchError" in run("get", shop.path, "orders", "1", "2").errors
    assert run("get", shop.path, "orders", "x").code == 2


def test_rows_are_scanned_in_the_key_s_order(shop: Store) -> None:
    """Rows are stored by vnode and displayed in key order, one object per line."""
    upsert(shop, "orders", [(number, "new", None, None) for number in range(100)])

    rows = run("scan", shop.path, "orders", "--json").lines

    assert [row["id"] for row in rows] == list(range(100))


def test_columns_and_limit_are_kept(shop: Store) -> None:
    """Only the named columns are displayed, in that order, of at most N rows."""
    result = run("scan", shop.path, "orders", "--columns", "amount, ID", "--limit", "1", "--json")

    assert result.lines == [{"amount": "1.00", "id": 1}]
    assert list(result.lines[0]) == ["amount", "id"]
    assert run("scan", shop.path, "orders", "--limit", "0", "--json").output == ""
    unknown = run("scan", shop.path, "orders", "--columns", "nothing")
    assert (unknown.code, unknown.output) == (2, "")
    assert "table orders: 'nothing' is not one of its columns id" in unknown.errors


def test_rows_are_filtered(shop: Store) -> None:
    """Only rows for which the expression is true, whether or not its columns are displayed."""
    command = ("scan", shop.path, "orders", "--json", "--columns", "customer", "--where")

    assert run(*command, "id = 3").lines == [{"customer": "customer 3"}]
    assert run(*command, "amount < 2 OR note IS NOT NULL").lines == [{"customer": "customer 1"}]
    assert run(*command, "id = 2", "--at", "3").lines == [{"customer": "customer 2"}]
    assert run(*command, "id = 2").lines == []


@pytest.mark.parametrize("where", ["id =", "nothing = 1", "id IN (SELECT 1)", "rand() < 0.5"])
def test_an_expression_that_cannot_be_evaluated_is_an_error(shop: Store, where: str) -> None:
    """The error is one line, before any row."""
    result = run("scan", shop.path, "orders", "--where", where)

    assert (result.code, result.output) == (2, "")
    assert result.errors.startswith("relstate: ")
    assert result.errors.count("\n") == 1


def test_rows_are_shown(shop: Store) -> None:
    """The table has the names of the columns and one line per row; without rows, the names."""
    lines = run("scan", shop.path, "orders").output.splitlines()
    nothing = run("scan", shop.path, "orders", "--limit", "0")

    assert lines[0].split() == ["id", "customer", "amount", "note"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "3"]
    assert nothing.output.splitlines()[0].split() == ["id", "customer", "amount", "note"]


def test_changes_are_shown_with_their_epochs(shop: Store) -> None:
    """Inserts and deletes between two epochs, both included, have Delta's names."""
    upsert(shop, "orders", [(3, "other", None, None)])

    changes = run("changes", shop.path, "orders", "--from", "4", "--json").lines

    assert sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in changes) == [
        (4, "delete", 2),
        (7, "update_postimage", 3),
        (7, "update_preimage", 3),
    ]
    assert {row["customer"] for row in changes} == {"customer 2", "customer 3", "other"}
    assert all(row["_commit_timestamp"].endswith("Z") for row in changes)
    first = run("changes", shop.path, "orders", "--from", "3", "--to", "3", "--json").lines
    assert sorted((row["id"], row["amount"]) for row in first) == [
        (1, "1.00"),
        (2, "2.00"),
        (3, "3.00"),
    ]


def test_changes_of_epochs_that_are_not_there_are_an_error(shop: Store) -> None:
    """The first epoch is required, and both must exist."""
    assert "Missing option '--from'" in run("changes", shop.path, "orders").errors
    result = run("changes", shop.path, "orders", "--from", "1", "--to", "99")
    assert (result.code, result.output) == (2, "")
    assert "EpochNotFoundError" in result.errors


def test_changes_are_shown_as_a_table(shop: Store) -> None:
    """The table has the columns of the feed."""
    lines = run("changes", shop.path, "orders", "--from", "4", "--to", "4").output.splitlines()

    assert lines[0].split()[-3:] == ["_change_type", "_commit_version", "_commit_timestamp"]
    assert [line.split()[0] for line in lines[2:]] == ["2"]
