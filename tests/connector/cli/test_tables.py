"""The laws of ``create``, ``tables`` and ``describe``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from relstate.storage import Store
from support.commands import run


def test_a_store_is_created(tmp_path: Path) -> None:
    """With a retention in words; a second time only with --exist-ok, which changes nothing."""
    path = str(tmp_path / "new")

    created = run("create", path, "--retention", "2 days", "--json")

    assert created.document == {"path": path, "epoch": 1, "retention": 2 * 86_400}
    assert "StoreExistsError" in run("create", path).errors
    again = run("create", path, "--exist-ok")
    assert again.output == f"{path}: epoch 1; epochs stay readable for 2 days\n"
    assert again.errors == ""
    other = run("create", path, "--exist-ok", "--retention", "7 days")
    assert "stay readable for 2 days" in other.errors
    assert "not for 7 days" in other.errors
    missing = run("tables", str(tmp_path / "nowhere")).errors
    assert "relstate create" in missing


def test_tables_are_listed_with_estimates(shop: Store) -> None:
    """Without ``--count``, rows are estimated from statistics, and marked as estimates."""
    result = run("tables", shop.path, "--json")

    (table,) = result.document
    assert result.code == 0
    assert {name: table[name] for name in ("name", "rows", "rows_estimated", "segments")} == {
        "name": "orders",
        "rows": 2,
        "rows_estimated": True,
        "segments": 2,
    }
    assert table["data_epoch"] == 4
    assert table["stored_bytes"] > 0


def test_rows_are_counted_when_asked(shop: Store) -> None:
    """An upsert over a row makes the estimate wrong, not the count."""
    state = shop.state_table("orders")
    state.update([1, "customer 1", None, None], [1, "other", None, None])
    state.commit()

    (estimated,) = run("tables", shop.path, "--json").document
    (counted,) = run("tables", shop.path, "--json", "--count").document

    assert (estimated["rows"], estimated["rows_estimated"]) == (3, True)
    assert (counted["rows"], counted["rows_estimated"]) == (2, False)


def test_an_estimate_is_marked(shop: Store) -> None:
    """The table has ~ before an estimate, and stderr explains it."""
    estimated, counted = run("tables", shop.path), run("tables", shop.path, "--count")

    assert "~2" in estimated.output
    assert "--count" in estimated.errors
    assert "~" not in counted.output + counted.errors


def test_an_empty_store_has_no_tables(store: Store) -> None:
    """A store without tables has an empty list."""
    assert run("tables", store.path, "--json").document == []
    assert run("tables", store.path).code == 0


def test_a_table_is_described(store: Store) -> None:
    """Columns with their positions in both keys, properties, and the shards with data."""
    store.create_table(
        "ticks",
        "at TIMESTAMP, price DECIMAL(12,2), symbol STRING, day DATE",
        primary_key=["symbol", "at desc"],
        distribution_key=["symbol"],
        defaults={"price": "9.5"},
        generated={"day": "CAST(at AS DATE)"},
    )
    state = store.state_table("ticks")
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    state.insert([at, None, "x", at.date()])
    state.commit()

    description = run("describe", store.path, "TICKS", "--json").document

    at_column, price, symbol, day = description["columns"]
    assert at_column == {
        "name": "at",
        "type": "TIMESTAMP",
        "nullable": False,
        "primary_key_place": 2,
        "primary_key_order": "DESC NULLS LAST",
        "distribution_key_place": None,
        "default": None,
        "generated": None,
    }
    assert (price["default"], day["generated"]) == ("9.5", "CAST(at AS DATE)")
    assert "GENERATED ALWAYS AS (CAST(at AS DATE))" in run("describe", store.path, "ticks").output
    assert (price["type"], price["nullable"]) == ("DECIMAL(12,2)", True)
    assert (symbol["primary_key_place"], symbol["distribution_key_place"]) == (1, 1)
    assert description["properties"]["merge"] == "overwrite"
    (shard,) = description["shards"]
    assert shard["segments"] == 1
    assert shard["last_vnode"] - shard["first_vnode"] == 15
    assert description["name"] == "ticks"
    assert (description["created_epoch"], description["data_epoch"]) == (2, 3)


def test_a_description_is_shown(shop: Store) -> None:
    """The tables of columns, properties and shards follow one another."""
    result = run("describe", shop.path, "orders")

    assert result.code == 0
    for part in ("customer", "DECIMAL(12,2)", "tombstone_retention", "vnodes"):
        assert part in result.output


def test_an_unknown_table_is_one_line(shop: Store) -> None:
    """The error of a missing table names the tables there are."""
    result = run("describe", shop.path, "gone")

    assert (result.code, result.output) == (2, "")
    assert result.errors.startswith("relstate: TableNotFoundError: there is no table 'gone'")
    assert result.errors.count("\n") == 1


def test_all_durations_of_a_table_are_described(store: Store) -> None:
    """In seconds as JSON, as text for people; None is for ever."""
    store.create_table("t", "id INT", primary_key=["id"])
    properties = run("describe", store.path, "t", "--json").document["properties"]
    assert properties["transaction_retention"] is None

    store.set_transaction_retention("t", "30 days")

    properties = run("describe", store.path, "t", "--json").document["properties"]
    assert properties["transaction_retention"] == 30 * 24 * 3600
    (line,) = (
        line
        for line in run("describe", store.path, "t").output.splitlines()
        if "transaction_retention" in line
    )
    assert "30 days" in line
