"""Rows for the queries whose conditions random rows do not meet together, each a world of its own.

A row has the values that its query asks for; others are random. Keys begin where no other row has
any, and a day stands for its key in ``date_dim``. There are two copies of each world, so that a
change of one leaves a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

Witness = tuple[str, Mapping[str, Any]]
"""A table, and values of some columns of a row; the key of a dimension is among them."""

_US = "United States"
_COPIES = 2
# More than there are keys in one world.
_KEYS = 1000


def all_witnesses() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (query, table, values) of the rows of all queries."""
    for copy in range(_COPIES):
        for query, rows in WITNESSES.items():
            for table, values in rows:
                yield query, table, {name: _copied(name, v, copy) for name, v in values.items()}


def _copied(column: str, value: Any, copy: int) -> Any:
    """Return a value of a row in a copy of its world, which has keys and names of its own."""
    if isinstance(value, str):
        return value.replace("{copy}", str(copy))
    return value + copy * _KEYS if column.endswith(("_sk", "_number")) else value


def is_day(value: object) -> bool:
    """Return whether a value stands for the key of a day."""
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None


def with_values(
    rows: pa.Table, values: Sequence[Mapping[str, Any]], days: Mapping[str, int]
) -> pa.Table:
    """Return rows in which columns have the values of witnesses; ``days``: the keys of days."""
    for name in dict.fromkeys(name for row in values for name in row):
        column = rows[name].to_pylist()
        for number, row in enumerate(values):
            if name in row:
                value = row[name]
                column[number] = days[value] if is_day(value) else value
        field = rows.field(name)
        if pa.types.is_decimal(field.type):
            column = [None if value is None else Decimal(str(value)) for value in column]
        rows = rows.set_column(rows.column_names.index(name), field, pa.array(column, field.type))
    return rows


def _sale(channel: str, item: int, number: int, day: str, **values: Any) -> Witness:
    """Return a sale; ``values`` are named without the prefix of the table."""
    prefix, order = _SALES[channel]
    columns = {"item_sk": item, order: number, "sold_date_sk": day, "quantity": 10, **values}
    return f"{channel}_sales", {f"{prefix}s_{name}": value for name, value in columns.items()}


def _return(channel: str, item: int, number: int, **values: Any) -> Witness:
    """Return what came back of a sale."""
    prefix, order = _SALES[channel]
    columns = {"item_sk": item, order: number, **values}
    return f"{channel}_returns", {f"{prefix}r_{name}": value for name, value in columns.items()}


_SALES = {
    "store": ("s", "ticket_number"),
    "catalog": ("c", "order_number"),
    "web": ("w", "order_number"),
}


def _item(key: int, **values: Any) -> Witness:
    columns = {f"i_{name.rstrip('_')}": value for name, value in values.items()}
    return "item", {"i_item_sk": key, **columns}


def _store(key: int, **values: Any) -> Witness:
    return "store", {"s_store_sk": key, **{f"s_{name}": value for name, value in values.items()}}


def _customer(key: int, **values: Any) -> Witness:
    columns = {f"c_{name}": value for name, value in values.items()}
    return "customer", {"c_customer_sk": key, **columns}


def _address(key: int, **values: Any) -> Witness:
    columns = {f"ca_{name}": value for name, value in values.items()}
    return "customer_address", {"ca_address_sk": key, **columns}


def _demographics(key: int, status: str, education: str) -> Witness:
    values = {"cd_marital_status": status, "cd_education_status": education}
    return "customer_demographics", {"cd_demo_sk": key, **values}


def _household(key: int, **values: Any) -> Witness:
    columns = {f"hd_{name}": value for name, value in values.items()}
    return "household_demographics", {"hd_demo_sk": key, **columns}


def _stock(item: int, warehouse: int, day: str, quantity: int) -> Witness:
    return "inventory", {
        "inv_date_sk": day,
        "inv_item_sk": item,
        "inv_warehouse_sk": warehouse,
        "inv_quantity_on_hand": quantity,
    }


def _cross_sold(item: int) -> list[Witness]:
    """Return an item with sales in the same week of two years, large ones, and the sales."""
    price = {"list_price": 900, "quantity": 50_000_000}
    return [
        _item(item, brand_id=item, class_id=3, category_id=7),
        _sale("store", item, 100_000, "1999-12-11", **price),
        _sale("store", item, 100_001, "2000-12-11", **price),
        _sale("catalog", item, 100_000, "2000-12-11"),
        _sale("web", item, 100_000, "2000-12-11"),
    ]


def _frequent(item: int) -> list[Witness]:
    """Return the best customer, who buys an item again and again."""
    paid = {"sales_price": 900, "quantity": 30_000_000, "customer_sk": item}
    return [
        _item(item, item_desc="a frequent item {copy}"),
        _customer(item, last_name="Best", first_name="Ann"),
        *(_sale("store", item, 100_010 + number, "2000-02-10", **paid) for number in range(4)),
        _sale("catalog", item, 100_010, "2000-02-11", bill_customer_sk=item, list_price=5),
        _sale("web", item, 100_010, "2000-02-11", bill_customer_sk=item, list_price=5),
    ]


def _returned_nearby(first: int) -> list[Witness]:
    """Return customers who brought back items of two colours to a store near an address."""
    rows = [
        _store(first, market_id=8, zip="35709", store_name="able"),
        _customer(first, birth_country=_US.upper(), last_name="Lee", first_name="Bo"),
        _address(first, zip="35709", country=_US, state="TN"),
    ]
    for number, colour in enumerate(["pale", "chiffon"]):
        item, ticket = first + number, 100_020 + number
        buyer = {"customer_sk": first, "store_sk": first, "net_paid": 100}
        rows += [
            _item(item, color=colour),
            _sale("store", item, ticket, "2001-05-05", **buyer),
            _return("store", item, ticket),
        ]
    return rows


def _large_returns(item: int) -> list[Witness]:
    """Return a return of more than 10,000 in each of the three channels."""
    rows = [_item(item)]
    for channel, amount in (
        ("web", "return_amt"),
        ("catalog", "return_amount"),
        ("store", "return_amt"),
    ):
        rows += [
            _sale(channel, item, 100_030, "2001-12-05", net_profit=10, net_paid=100),
            _return(channel, item, 100_030, return_quantity=5, **{amount: 20_000}),
        ]
    return rows


def _sold_in_both_years(key: int) -> list[Witness]:
    """Return sales of one item in 1999 and 2000, with all that is known of the buyers."""
    buyer = {"customer_sk": key, "store_sk": key, "cdemo_sk": key, "hdemo_sk": key, "addr_sk": key}
    refund = {"refunded_cash": 1, "reversed_charge": 1, "store_credit": 1}
    rows = [
        _item(key, color="purple", current_price=70, product_name="a purple item {copy}"),
        _store(key, store_name="ese", zip="31904"),
        _customer(
            key,
            current_cdemo_sk=key + 1,
            current_hdemo_sk=key,
            current_addr_sk=key,
            first_sales_date_sk="1999-09-10",
            first_shipto_date_sk="1999-10-10",
        ),
        _demographics(key, "M", "College"),
        _demographics(key + 1, "S", "College"),
        _household(key, income_band_sk=key),
        ("income_band", {"ib_income_band_sk": key}),
        ("promotion", {"p_promo_sk": key}),
        _address(key, city="Midway", zip="31904"),
        _sale("catalog", key, 100_040, "2000-05-05", ext_list_price=500),
        _return("catalog", key, 100_040, **refund),
    ]
    for number, day in enumerate(["1999-09-10", "2000-05-05"]):
        rows += [
            _sale("store", key, 100_040 + number, day, promo_sk=key, **buyer),
            _return("store", key, 100_040 + number),
        ]
    return rows


WITNESSES: Mapping[str, Sequence[Witness]] = {
    "q8": [
        _address(5008, zip="24128"),
        _customer(5008, current_addr_sk=5008, preferred_cust_flag="Y"),
        _store(5008, zip="24128", store_name="ation"),
        _sale("store", 5008, 100_000, "1998-05-05", store_sk=5008, net_profit=10),
    ],
    "q14b": _cross_sold(5014),
    "q21": [
        _item(5021, current_price=1.2, item_id="an item of q21 {copy}"),
        ("warehouse", {"w_warehouse_sk": 5021, "w_warehouse_name": "a warehouse {copy}"}),
        _stock(5021, 5021, "2000-03-01", 100),
        _stock(5021, 5021, "2000-03-21", 110),
    ],
    "q23b": _frequent(5023),
    "q24a": _returned_nearby(5024),
    "q29": [
        _item(5029),
        _store(5029),
        _sale("store", 5029, 100_000, "1999-09-10", customer_sk=5029, store_sk=5029),
        _return("store", 5029, 100_000, customer_sk=5029, returned_date_sk="1999-10-10"),
        _sale("catalog", 5029, 100_000, "2000-05-05", bill_customer_sk=5029),
    ],
    "q34": [
        _household(5034, buy_potential=">10000", vehicle_count=1, dep_count=4),
        _store(5034, county="Williamson County"),
        _customer(5034, last_name="Day", first_name="Cy"),
        _sale("store", 5034, 100_000, "2000-12-02", customer_sk=5034, store_sk=5034, hdemo_sk=5034),
    ],
    "q37": [
        _item(5037, current_price=70, manufact_id=677, item_id="an item of q37 {copy}"),
        _stock(5037, 5021, "2000-02-11", 200),
        _sale("catalog", 5037, 100_000, "2000-02-11"),
    ],
    "q39a": [
        _item(5039),
        ("warehouse", {"w_warehouse_sk": 5039, "w_warehouse_name": "another warehouse {copy}"}),
        *(
            _stock(5039, 5039, f"2001-{month}-{day:02d}", 1000 if day == 4 else 1)
            for month in ("01", "02")
            for day in range(1, 5)
        ),
    ],
    "q41": [
        _item(
            5041,
            manufact_id=740,
            manufact="a manufacturer of q41 {copy}",
            category="Women",
            color="powder",
            units="Ounce",
            size="medium",
            product_name="a product of q41 {copy}",
        )
    ],
    "q47": [
        _item(5047, category="Books", class_="computers", brand="a brand of q47 {copy}"),
        _store(5047, store_name="bar", company_name="Unknown"),
        *(
            _sale("store", 5047, 100_000 + number, day, store_sk=5047, sales_price=price)
            for number, (day, price) in enumerate(
                [("1999-09-10", 10), ("1999-10-10", 50), ("1999-11-11", 12)]
            )
        ),
    ],
    "q49": _large_returns(5049),
    "q54": [
        _item(5054, category="Women", class_="maternity"),
        _address(5054, county="Fairview County", state="TN"),
        _store(5054, county="Fairview County", state="TN"),
        _customer(5054, current_addr_sk=5054),
        _sale("catalog", 5054, 100_000, "1998-12-05", bill_customer_sk=5054),
        _sale("store", 5054, 100_000, "1999-02-05", customer_sk=5054, ext_sales_price=120),
    ],
    "q58": [
        _item(5058, item_id="an item of q58 {copy}"),
        _sale("store", 5058, 100_000, "2000-01-03", ext_sales_price=100),
        _sale("catalog", 5058, 100_000, "2000-01-03", ext_sales_price=104),
        _sale("web", 5058, 100_000, "2000-01-03", ext_sales_price=98),
    ],
    "q64": _sold_in_both_years(5064),
    "q65": [
        _store(5065, store_name="eing"),
        *(_item(5065 + number, item_desc=f"item {number} of q65") for number in range(3)),
        *(
            _sale("store", 5065 + number, 100_000, "1998-05-05", store_sk=5065, sales_price=price)
            for number, price in enumerate([1, 100, 100])
        ),
    ],
    "q82": [
        _item(5082, current_price=65, manufact_id=129, item_id="an item of q82 {copy}"),
        _stock(5082, 5021, "2000-06-10", 200),
        _sale("store", 5082, 100_000, "2000-06-10"),
    ],
    "q85": [
        ("web_page", {"wp_web_page_sk": 5085}),
        ("reason", {"r_reason_sk": 5085, "r_reason_desc": "a reason of q85 {copy}"}),
        _demographics(5085, "M", "Advanced Degree"),
        _demographics(5086, "M", "Advanced Degree"),
        _address(5085, country=_US, state="IN"),
        _sale(
            "web", 5085, 100_000, "2000-05-05", web_page_sk=5085, sales_price=120, net_profit=150
        ),
        _return(
            "web",
            5085,
            100_000,
            refunded_cdemo_sk=5085,
            returning_cdemo_sk=5086,
            refunded_addr_sk=5085,
            reason_sk=5085,
        ),
    ],
}
"""The rows for queries, by name; those of q24a, q39a and q47 are for q24b, q39b and q89, too."""
