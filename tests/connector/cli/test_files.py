"""The laws of ``load`` and ``export``."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from relstate.storage import Store
from support.commands import run
from support.stores import contents, stored_row

_HEADER = "id,customer,amount,note\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for files of rows."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.jsonl", "o.parquet", "o.arrow"])
def test_what_is_exported_is_loaded(shop: Store, folder: Path, name: str) -> None:
    """All rows, whatever the format; --overwrite leaves no other rows."""
    before = contents(shop, "orders")
    file = str(folder / name)

    exported = run("export", shop.path, "orders", "-o", file)
    shop.write("orders", [{"id": 77, "customer": "of later"}])
    loaded = run("load", shop.path, "orders", file, "--overwrite", "--json")

    assert (exported.code, exported.output) == (0, "")
    assert exported.errors == f"2 rows of orders are in {file}\n"
    assert loaded.document == {"epoch": shop.epoch, "rows": 2, "files": 1}
    assert contents(shop, "orders") == before


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.parquet"])
def test_columns_that_files_lack_are_computed(store: Store, folder: Path, name: str) -> None:
    """What is exported has the generated columns; what is loaded may have them as they are."""
    store.create_table(
        "t",
        "id INT, a INT, twice BIGINT",
        primary_key=["id"],
        defaults={"a": "5"},
        generated={"twice": "a * 2"},
    )
    (folder / "a.csv").write_text("id,a\n1,2\n2,\n")
    (folder / "b.json").write_text('[{"id": 3}]')
    (folder / "wrong.csv").write_text("id,a,twice\n4,1,3\n")
    assert run("load", store.path, "t", str(folder / "a.csv"), str(folder / "b.json")).code == 0
    rows = [(1, 2, 4), (2, None, None), (3, 5, 10)]
    assert contents(store, "t") == rows

    file = str(folder / name)
    assert run("export", store.path, "t", "-o", file).code == 0
    assert run("load", store.path, "t", file, "--overwrite").code == 0
    assert contents(store, "t") == rows
    refused = run("load", store.path, "t", str(folder / "wrong.csv"))
    assert refused.code != 0
    assert "a = 1 is 2, but 3 was given" in refused.errors


def test_files_are_one_epoch(shop: Store, folder: Path) -> None:
    """Rows are upserted; columns are found by name, in any case; those that lack are NULL."""
    (folder / "a.csv").write_text('AMOUNT,id,customer\n 1.5 ,1,Ann\n,9,""\n')
    (folder / "b.json").write_text(
        '[{"id": 10, "customer": "x", "note": ""}, {"id": 11, "customer": "y", "amount": 2.25}]'
    )
    epoch = shop.epoch

    result = run("load", shop.path, "orders", str(folder / "a.csv"), str(folder / "b.json"))

    assert (result.code, result.errors) == (0, "")
    assert shop.epoch == epoch + 1
    assert [line.split() for line in result.output.splitlines()[2:]] == [
        ["epoch", str(epoch + 1)],
        ["rows", "4"],
        ["files", "2"],
    ]
    assert contents(shop, "orders") == [
        (1, "Ann", Decimal("1.50"), None),
        (3, "customer 3", Decimal("3.00"), None),
        (9, "", None, None),
        (10, "x", None, ""),
        (11, "y", Decimal("2.25"), None),
    ]


def test_bad_rows_are_named_and_nothing_is_written(shop: Store, folder: Path) -> None:
    """The message has the file, the row, the value and the column, of several rows."""
    file = folder / "bad.csv"
    file.write_text(f"{_HEADER}1,x,1.00,\nfour,x,1.00,\n5,x,1.005,\n")
    epoch = shop.epoch

    result = run("load", shop.path, "orders", str(file))

    assert (result.code, result.output, shop.epoch) == (2, "", epoch)
    assert (
        f"ValueRangeError: {file}, row 3: 'four' is not a BIGINT, the type of the column 'id'"
        in (result.errors)
    )
    assert "row 4: '1.005' is not a DECIMAL(12,2)" in result.errors
    assert result.errors.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "id,colour\n1,red\n", "a.csv has the column 'colour', and the table has only id"),
        ("a.csv", f"{_HEADER}1,x\n", "Row #2: Expected 4 columns, got 2"),
        ("a.csv", "", "cannot be read as csv"),
        ("a.csv", f"{_HEADER}1,x,1,\n,x,1,\n", "a.csv, row 3: the primary key column 'id' is NULL"),
        ("a.csv", f'{_HEADER}1,x,1,"open\n2,y,2,\n', "row 2 ends with a quote that is not closed"),
        ("a.csv", f'{_HEADER}1,x,1,"', "row 2 ends with a quote that is not closed"),
        ("a.json", "{}\n{}\n", "NullKeyError"),
        ("a.json", '{"id": 1}\n{"id": 2\n', "line 2 is not a JSON object"),
        ("a.json", '{"id": 1}\n3\n', "line 2 is not a JSON object: it is 3"),
        ("a.json", '{"id": 1}\n{"id": 1.5}\n', "line 2: '1.5' is not a BIGINT"),
        ("a.json", '{"id": true}\n', "'true' is not a BIGINT"),
        ("a.json", "[1]", "not an array of JSON objects"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.arrow", "no arrow", "cannot be read as arrow"),
        ("a.txt", "", "OptionError"),
        ("-", "", "--format is missing"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    shop: Store, folder: Path, name: str, text: str, message: str
) -> None:
    """One line says why; no epoch comes to be."""
    epoch = shop.epoch
    (folder / name).write_text(text)

    result = run("load", shop.path, "orders", name if name == "-" else str(folder / name))

    assert (result.code, result.output, shop.epoch) == (2, "", epoch)
    assert message in result.errors
    assert result.errors.count("\n") == 1


def test_a_file_that_is_missing_is_named(shop: Store, folder: Path) -> None:
    """The message is relstate's, not that of the operating system."""
    result = run("load", shop.path, "orders", str(folder / "missing.csv"))

    assert (result.code, result.output) == (2, "")
    message = f"relstate: UsageError: there is no file '{folder}/missing.csv': nothing was read\n"
    assert result.errors == message


def test_objects_without_names_are_rows(shop: Store, folder: Path) -> None:
    """All that such a row lacks is NULL."""
    shop.create_table("notes", "note STRING, stars INT")
    (folder / "a.json").write_text("{}\n{}\n")

    result = run("load", shop.path, "notes", str(folder / "a.json"), "--json")

    assert (result.code, result.document["rows"]) == (0, 2)
    assert shop.table("notes").to_arrow().to_pylist() == [{"note": None, "stars": None}] * 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b'id,customer,amount,"no\nte"\n1,x,1,\n'),
        ("a.csv", b"\nid,customer\n1,x\n"),
        ("a.json", b'{"id": ' + b"[" * 100_000),
        ("a.json", b'{"id": 1, "customer": "\\ud800"}\n'),
        ("a.csv.gz", gzip.compress(b"id,customer\n" + b"1,x\n" * 1000, mtime=0)[:-12]),
    ],
)
def test_an_error_of_a_parser_names_the_file(
    shop: Store, folder: Path, name: str, content: bytes
) -> None:
    """As one line; no epoch comes to be."""
    epoch = shop.epoch
    (folder / name).write_bytes(content)

    result = run("load", shop.path, "orders", str(folder / name))

    assert (result.code, result.output, shop.epoch) == (2, "", epoch)
    assert f"{folder / name}" in result.errors
    assert "Error: " in result.errors
    assert result.errors.count("\n") == 1


def test_digits_of_json_are_all_kept(shop: Store, folder: Path) -> None:
    """A number that no float holds is the decimal that it is written as."""
    (folder / "a.json").write_text(
        '{"id": 1, "customer": "x", "amount": 1234567890.12}\n'
        '{"id": 9007199254740993, "customer": "y"}'
    )

    assert run("load", shop.path, "orders", str(folder / "a.json"), "--overwrite").code == 0
    assert [row[0] for row in contents(shop, "orders")] == [1, 9007199254740993]
    assert contents(shop, "orders")[0][2] == Decimal("1234567890.12")


def test_a_table_is_created_with_the_columns_of_a_file(shop: Store, folder: Path) -> None:
    """In the commit of its rows; of text formats the types are those that the values show."""
    rows = pa.table({"k": [1, 2], "day": pa.array([None, 20_000], pa.date32()), "s": ["a", "b"]})
    pyarrow.parquet.write_table(rows, folder / "a.parquet")
    (folder / "a.csv").write_bytes(b"k,day,s\n1,,a\n2,2024-10-04,b\n")
    (folder / "a.json").write_text('{"k": 1, "day": null, "s": "a"}\n{"k": 2, "s": "b"}')
    epoch = shop.epoch
    for name in ("parquet", "csv", "json"):
        words = ("--create", "--primary-key", "k")
        result = run("load", shop.path, f"of_{name}", str(folder / f"a.{name}"), *words)
        assert (result.code, result.errors) == (0, "")
    assert shop.epoch == epoch + 3

    shown = {n: str(shop.table(f"of_{n}").schema.column("day").type) for n in ("parquet", "csv")}
    assert shown == {"parquet": "DATE", "csv": "DATE"}
    assert contents(shop, "of_parquet") == contents(shop, "of_csv")
    assert [row[::2] for row in contents(shop, "of_json")] == [(1, "a"), (2, "b")]


def test_texts_of_json_show_their_types(shop: Store, folder: Path) -> None:
    """Dates and times as of CSV, if all values under a name are such; else they are text."""
    first: dict[str, int | str | None]
    first = {"k": 1, "day": "2024-10-04", "local": "2024-10-04T12:30:00", "at": "2024-10-04 12:00Z"}
    second: dict[str, int | str | None]
    second = {"k": 2, "day": None, "local": "2024-10-04 12:30:00.5", "at": "2024-10-04T14:00+02:00"}
    texts = [{"no": "2024-10-04", "odd": "2024-13-04"}, {"no": "later", "odd": "2024-12-04"}]
    rows = [{**row, **text} for row, text in zip((first, second), texts, strict=True)]
    (folder / "a.json").write_text("\n".join(map(json.dumps, rows)))

    result = run("load", shop.path, "new", str(folder / "a.json"), "--create", "--primary-key", "k")

    assert (result.code, result.errors) == (0, "")
    columns = shop.table("new").schema.columns
    assert {column.name: str(column.type) for column in columns} == {
        "k": "BIGINT",
        "day": "DATE",
        "local": "TIMESTAMP_NTZ",
        "at": "TIMESTAMP",
        "no": "STRING",
        "odd": "STRING",
    }
    moments = [row[3] for row in contents(shop, "new")]
    assert moments[0] == moments[1] == datetime(2024, 10, 4, 12, tzinfo=UTC)


def test_creating_what_is_there_is_refused(shop: Store, folder: Path) -> None:
    """As are options that do not go together."""
    file = folder / "a.json"
    file.write_text("{}")

    assert "TableExistsError" in run("load", shop.path, "orders", str(file), "--create").errors
    assert "orders. To create it" in run("load", shop.path, "order", str(file)).errors
    wrong = [("--primary-key", "id"), ("--create", "--overwrite"), ("--delimiter", "::")]
    for words in wrong:
        assert "UsageError" in run("load", shop.path, "orders", str(file), *words).errors
    created = run("load", shop.path, "new", "-", "--format", "json", "--create")
    assert "standard input" in created.errors
    for name in ("empty.csv", "empty.json"):
        (folder / name).write_bytes(b"")
        empty = run("load", shop.path, "new", str(folder / name), "--create").errors
        assert f"{name} is empty, so it does not show the columns" in empty


def test_rows_are_chosen_for_an_export(shop: Store, folder: Path) -> None:
    """By columns, an expression, an epoch or a time."""
    file = folder / "o.json"
    words: tuple[str, ...] = ("--where", "id > 1", "--columns", "customer", "--version", "3")

    assert run("export", shop.path, "orders", "-o", str(file), *words).code == 0
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"customer": "customer 2"},
        {"customer": "customer 3"},
    ]
    time = shop.state_at(3).time / 1_000_000
    moment = pa.scalar(int(time * 1_000_000), pa.timestamp("us", "UTC")).as_py().isoformat()
    words = ("--timestamp", moment, "--format", "json")
    assert len(run("export", shop.path, "orders", "-o", "-", *words).lines) == 3
    both = run("export", shop.path, "orders", "-o", "-", "--at", "3", *words)
    assert "--version and --timestamp both name an epoch" in both.errors


def test_csv_has_a_header_and_an_end_of_its_own(shop: Store, folder: Path) -> None:
    """Also without rows; another delimiter is read."""
    file = folder / "o.csv.gz"
    run("export", shop.path, "orders", "-o", str(file), "--where", "id > 99")
    assert gzip.decompress(file.read_bytes()) == b'"id","customer","amount","note"\n'
    (folder / "a.csv").write_text("id;customer\n50;a,b\n")

    assert run("load", shop.path, "orders", str(folder / "a.csv"), "--delimiter", ";").code == 0
    assert stored_row(shop.table("orders"), 50).customer == "a,b"


def test_an_export_that_fails_leaves_no_file(shop: Store, folder: Path) -> None:
    """An expression that cannot be evaluated, and a format that cannot be streamed."""
    file = folder / "o.csv"

    assert run("export", shop.path, "orders", "-o", str(file), "--where", "rand() > 1").code == 2
    assert run("export", shop.path, "nothing", "-o", str(file)).code == 2
    assert list(folder.iterdir()) == []
    words = ("-o", "-", "--format", "parquet")
    assert "OptionError" in run("export", shop.path, "orders", *words).errors
