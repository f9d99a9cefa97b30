"""The laws of a parsed query: which tables and columns it reads."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import text_of
from relstate.storage.errors import UnsupportedStatementError

TABLES = {"orders", "revenue"}
COLUMNS = ("id", "customer", "amount", "date")


def rewritten(text: str) -> str:
    """Return a query with its references to TABLES replaced by the names r0, r1, …."""
    query = ParsedQuery.parse(text)
    references = query.table_references(lambda name, _: name.lower() in TABLES)
    names = [f"r{number}" for number in range(len(references))]
    return query.replaced(references, names).format(**{name: name for name in names})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM orders", "SELECT id FROM r0 AS `orders`"),
        ("SELECT o.id FROM Orders o", "SELECT o.id FROM r0 o"),
        ("SELECT id FROM `orders`", "SELECT id FROM r0 AS `orders`"),
        (
            "SELECT orders.id FROM orders, revenue AS r",
            "SELECT orders.id FROM r0 AS `orders`, r1 AS r",
        ),
        (
            "SELECT a.id FROM orders a JOIN orders b USING (id)",
            "SELECT a.id FROM r0 a JOIN r1 b USING (id)",
        ),
        ("SELECT '{id}' FROM orders", "SELECT '{id}' FROM r0 AS `orders`"),
        (
            "SELECT 1 FROM x WHERE EXISTS (SELECT 1 FROM orders)",
            "SELECT 1 FROM x WHERE EXISTS (SELECT 1 FROM r0 AS `orders`)",
        ),
        ("SELECT id FROM spark_catalog.default.orders", None),
        ("SELECT id FROM db.orders", None),
        ("SELECT * FROM range(3) AS orders", None),
        ("SELECT * FROM VALUES (1) AS orders(id)", None),
        ("SELECT 'orders' AS orders -- orders", None),
        ("FROM orders SELECT id", "FROM r0 AS `orders` SELECT id"),
        ("FROM orders |> WHERE id > 1", "FROM r0 AS `orders` |> WHERE id > 1"),
        (
            "SELECT /*+ BROADCAST(orders) */ id FROM orders",
            "SELECT /*+ BROADCAST(orders) */ id FROM r0 AS `orders`",
        ),
        ("TABLE orders", "SELECT * FROM r0 AS `orders`"),
        (
            "(table orders) UNION ALL TABLE revenue ORDER BY 1",
            "(SELECT * FROM r0 AS `orders`) UNION ALL SELECT * FROM r1 AS `revenue` ORDER BY 1",
        ),
        ("SELECT table.id FROM table, TABLE(f()) AS f", None),
        (
            "SELECT id FROM orders TABLESAMPLE (5 ROWS) o",
            "SELECT id FROM r0 TABLESAMPLE (5 ROWS) o",
        ),
    ],
)
def test_only_names_of_tables_are_replaced(text: str, expected: str | None) -> None:
    """References keep or get an alias, so that qualified columns still resolve."""
    assert rewritten(text) == (text if expected is None else expected)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(table * 2) FROM w",
        "SELECT DISTINCT table FROM w",
        "SELECT ALL table FROM w",
        "SELECT (table IS NULL), (table DIV 2), (table BETWEEN 1 AND 2) FROM w",
        "SELECT array_agg(table ORDER BY id) FROM w GROUP BY (table)",
    ],
)
def test_a_column_may_be_named_table(text: str) -> None:
    """Where it is no query, the word stays as written."""
    query = ParsedQuery.parse(text)
    assert query.text == text
    assert query.columns_read(("id", "table"))[-1] == "table"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TABLE a.b.`c`", "SELECT * FROM a.b.`c`"),
        ("TABLE `order` ORDER BY k LIMIT 1", "SELECT * FROM `order` ORDER BY k LIMIT 1"),
        (
            "SELECT 1 UNION ALL TABLE u INTERSECT DISTINCT TABLE v LIMIT 2",
            "SELECT 1 UNION ALL SELECT * FROM u INTERSECT DISTINCT SELECT * FROM v LIMIT 2",
        ),
        (
            "SELECT table FROM w WHERE k IN (TABLE u OFFSET 1)",
            "SELECT table FROM w WHERE k IN (SELECT * FROM u OFFSET 1)",
        ),
    ],
)
def test_a_table_may_be_a_query(text: str, expected: str) -> None:
    """Wherever a query may begin, with the clauses of one."""
    assert ParsedQuery.parse(text).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT identifier('id'), IDENTIFIER('t.a b') FROM IDENTIFIER('`a b`.t') t",
            "SELECT `id`, IDENTIFIER('t.a b') FROM `a b`.`t` t",
        ),
        ("SELECT IDENTIFIER('abs')(IDENTIFIER(\"order\")) FROM t", "SELECT abs(`order`) FROM t"),
    ],
)
def test_an_identifier_in_quotes_is_a_name(text: str, expected: str) -> None:
    """Of a column, a table or a function, if Spark reads the text as a name."""
    assert ParsedQuery.parse(text).text == expected


@pytest.mark.parametrize("columns", ["", "(n)"])
def test_the_most_levels_of_a_recursion_are_read_and_written(columns: str) -> None:
    """Also in a copy of the tree; a word in place of the number is an error."""
    body = "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5)"
    text = f"WITH RECURSIVE r{columns} MAX RECURSION LEVEL 7 AS {body} SELECT n FROM r"
    assert text_of(ParsedQuery.parse(text).tree.copy()) == text
    assert text_of(ParsedQuery.parse(text.replace("7 AS", "7")).tree) == text
    with pytest.raises(UnsupportedStatementError, match="Expecting a number"):
        ParsedQuery.parse(text.replace("7", ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "WITH orders AS (SELECT id FROM orders) SELECT id FROM orders",
            "WITH orders AS (SELECT id FROM r0 AS `orders`) SELECT id FROM orders",
        ),
        (
            "WITH a AS (SELECT id FROM orders), orders AS (SELECT id FROM a) SELECT id FROM orders",
            (
                "WITH a AS (SELECT id FROM r0 AS `orders`), orders AS (SELECT id FROM a) "
                "SELECT id FROM orders"
            ),
        ),
        (
            (
                "WITH RECURSIVE orders(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM orders) "
                "SELECT n FROM orders"
            ),
            None,
        ),
        (
            "SELECT * FROM (WITH orders AS (SELECT 1 AS id) SELECT id FROM orders) x, orders",
            (
                "SELECT * FROM (WITH orders AS (SELECT 1 AS id) SELECT id FROM orders) x, "
                "r0 AS `orders`"
            ),
        ),
        (
            "WITH orders AS (SELECT 1 AS id) SELECT (SELECT max(id) FROM orders) FROM revenue",
            (
                "WITH orders AS (SELECT 1 AS id) SELECT (SELECT max(id) FROM orders) "
                "FROM r0 AS `revenue`"
            ),
        ),
    ],
)
def test_a_common_table_hides_a_table_where_it_can_be_seen(text: str, expected: str | None) -> None:
    """Within its own definition, and before it, the name is the table's."""
    assert rewritten(text) == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT id FROM orders", ("id",)),
        ("SELECT ID, o.`Amount` FROM orders o", ("id", "amount")),
        ("SELECT date FROM orders ORDER BY 1", ("date",)),
        ("SELECT count(*) FROM orders", ()),
        ("SELECT count(* EXCEPT (id)) FROM orders", COLUMNS),
        ("SELECT count(id, *) FROM orders", COLUMNS),
        ("SELECT id FROM orders WHERE customer = 'amount'", ("id", "customer")),
        ("SELECT x FROM (SELECT amount AS x FROM orders)", ("amount",)),
        ("SELECT a.id FROM orders a JOIN revenue b USING (customer)", ("id", "customer")),
    ],
)
def test_columns_count_as_read_where_they_are_named(text: str, columns: tuple[str, ...]) -> None:
    """Text in a literal is not a name; a keyword may be a column."""
    assert ParsedQuery.parse(text).columns_read(COLUMNS) == columns


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM orders",
        "SELECT o.* FROM orders o",
        "SELECT id FROM (SELECT * FROM orders)",
        "SELECT count(DISTINCT *) FROM orders",
        "SELECT struct(*) FROM orders",
        "SELECT a FROM orders AS o(a, b, c, d)",
        "SELECT id FROM orders NATURAL JOIN revenue",
        "SELECT id FROM orders PIVOT (sum(amount) FOR customer IN ('a'))",
        "SELECT `(id)?+.+` FROM orders",
        "SELECT IDENTIFIER('am' || 'ount') FROM orders",
        "FROM orders |> WHERE id > 1",
    ],
)
def test_all_columns_count_as_read_where_they_need_not_be_named(text: str) -> None:
    """Stars, positional aliases, natural joins, pivots and patterns read unnamed columns."""
    assert ParsedQuery.parse(text).columns_read(COLUMNS) == COLUMNS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT FROM WHERE", "cannot read"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "not a query"),
        ("SELECT id FROM orders VERSION AS OF id", "VERSION AS OF an epoch"),
        ("SELECT id FROM orders TABLESAMPLE (5 ROWS)", "give the sampled table an alias"),
    ],
)
def test_a_query_that_cannot_be_followed_is_refused(text: str, reason: str) -> None:
    """A table that was missed would be read at another epoch, or not at all."""
    with pytest.raises(UnsupportedStatementError, match=reason):
        rewritten(text)


def test_a_query_nested_too_deeply_is_refused() -> None:
    """The parser's recursion ends in an error with a sentence."""
    with pytest.raises(UnsupportedStatementError, match="nested too deeply"):
        ParsedQuery.parse("SELECT " + "(" * 5000 + "1" + ")" * 5000)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT v, _k FROM t", ("v", "_k")),
        ("SELECT v FROM t", ("v",)),
        ("SELECT * FROM t", ("v",)),
    ],
)
def test_hidden_columns_are_read_where_they_are_named(text: str, columns: tuple[str, ...]) -> None:
    """A star stands for the visible columns."""
    assert ParsedQuery.parse(text).columns_read(("v",), ("_k",)) == columns


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("SELECT 1 FROM orders WHERE id = 1", True),
        ("SELECT 1 FROM orders o WHERE O.ID = 1", True),
        ("SELECT 1 FROM orders o, revenue r WHERE r.id = 1", False),
        ("SELECT 'id', customer AS id FROM orders", False),
        ("SELECT 1 FROM orders o WHERE customer IN (SELECT id FROM revenue)", True),
        ("FROM orders |> WHERE id > 1", True),
    ],
)
def test_a_column_is_named_unless_it_is_of_another_table(text: str, is_named: bool) -> None:
    """By its own name, or with a table before it."""
    assert ParsedQuery.parse(text).names_column("id", {"r"}) == is_named


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("SELECT t.id AS id FROM orders AS t WHERE id = 1 OR (id + 1) = 3", False),
        ("SELECT t.id AS id FROM orders AS t WHERE id IN (SELECT amount FROM revenue)", False),
        ("SELECT t.id AS id FROM orders AS t WHERE amount IN (SELECT id FROM revenue)", True),
    ],
)
def test_a_target_has_the_names_outside_of_subqueries(text: str, is_named: bool) -> None:
    """Those of a subquery may be of its own tables."""
    assert ParsedQuery.parse(text).names_column("id", has_target=True) == is_named
