"""The laws of what a shell completes."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from relstate.connector.cli.program import program
from relstate.storage import Store
from support.views import new_view


def completed(*words: str) -> list[str]:
    """Return what the last word can become."""
    shell = ShellComplete(program, {}, "relstate", "_RELSTATE_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands_are_completed() -> None:
    """And the names of their options."""
    assert completed("re") == ["redis", "repair", "report", "restore"]
    assert "--timestamp" in completed("export", "--ti")


@pytest.mark.parametrize("command", ["describe", "get", "scan", "changes", "load", "export"])
def test_tables_are_completed(shop: Store, command: str) -> None:
    """Those of the store that is named before, in any case."""
    assert completed(command, shop.path, "OR") == ["orders"]
    assert completed(command, shop.path, "x") == []


def test_columns_are_completed(shop: Store) -> None:
    """After a comma, too, and whether the option is before the end or not."""
    assert completed("scan", shop.path, "orders", "--columns", "") == [
        "id", "customer", "amount", "note",
    ]  # fmt: skip
    assert completed("scan", shop.path, "orders", "--columns", "id,c") == ["id,customer"]
    assert completed("scan", shop.path, "orders", "--columns", "x") == []


def test_views_are_completed(shop: Store) -> None:
    """For the check of views; a view is a table, too."""
    shop.view_catalog.create(new_view(shop, "best_orders", "orders"))

    assert completed("check", shop.path, "") == ["best_orders"]
    assert completed("scan", shop.path, "") == ["orders", "best_orders"]


def test_a_store_that_is_none_completes_nothing(shop: Store) -> None:
    """No error reaches the shell."""
    assert completed("scan", f"{shop.path}/nowhere", "o") == []
    assert completed("scan", shop.path, "nothing", "--columns", "o") == []
