"""Nexmark's online auction: persons, auctions and bids, of which some change or are withdrawn.

An event has a number, and everything in it follows from a seed and the number of the block of
events that it is in. Of 50 events one is a new person, three are new auctions and 46 are bids; two
events are a tenth of a second apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..workload import FOLDER as _ROOT
from ..workload import Change, Picks, Rows, Table, Workload, read_queries, read_tables

EVENTS = 1_000_000
"""Events at scale 1."""

_SEED = 20
_CYCLE = 50
_AUCTIONS_PER_CYCLE = 3
_BIDS_PER_CYCLE = _CYCLE - 1 - _AUCTIONS_PER_CYCLE
_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_START = 1_436_918_400_000_000  # 2015-07-15
_GAP = 100_000
_MINUTE = 60_000_000
# So many of the latest persons and auctions take part; one in _HOT_RATIO is a hot one.
_ACTIVE_PERSONS, _ACTIVE_AUCTIONS = 1000, 100
_HOT_RATIO = 100

_FIRST_NAMES = [
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
]
_LAST_NAMES = [
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_OTHER_CHANNELS = 1000
_WORDS = ["vase", "clock", "lamp", "coin", "chair", "stamp", "record", "camera", "ring", "map"]

Numbers = NDArray[np.int64]

_REFUSED = {"q12": "the present time"}

_TABLES = read_tables("nexmark")
_BY_NAME = {table.name: table for table in _TABLES}


def workload() -> Workload:
    """Return Nexmark; scale 1 has a million events."""
    queries = read_queries(_ROOT / "nexmark" / "queries")
    return Workload("Nexmark", _TABLES, queries, _generate, _changes, _REFUSED)


def _generate(scale: float) -> Rows:
    rows = _events(0, max(round(EVENTS * scale) // _CYCLE, 1))
    numbers = np.arange(0, 10_000, 2, dtype=np.int64)
    side = {"key": numbers, "value": [f"side {number}" for number in numbers]}
    return {**rows, "side_input": pa.table(side, _BY_NAME["side_input"].schema)}


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    """Yield steps: new events, changed persons and auctions, withdrawn bids and auctions.

    Of the changed bids three quarters are new, the others withdrawn.
    """
    picks = {name: Picks(rows[name].num_rows, _SEED) for name in ("person", "auction", "bid")}
    cycle = rows["person"].num_rows
    for step in range(1, 1 << 30):
        random = np.random.default_rng((_SEED, step))
        cycles = max(round(cycle * share * 3 / 4), 1)
        new = _events(cycle, cycle + cycles)
        cycle += cycles
        counts = {name: max(round(rows[name].num_rows * share / 4), 1) for name in picks}
        persons = rows["person"].take(pa.array(picks["person"].take(counts["person"])))
        auctions = rows["auction"].take(pa.array(picks["auction"].take(counts["auction"])))
        withdrawn = rows["bid"].take(pa.array(picks["bid"].take(counts["bid"])))
        kept = len(auctions) - len(auctions) // 8
        yield [
            _change("person", new, _moved(persons, random), persons.slice(0, 0)),
            _change(
                "auction", new, _revised(auctions.slice(0, kept), random), auctions.slice(kept)
            ),
            _change("bid", new, rows["bid"].slice(0, 0), withdrawn),
        ]


def _change(name: str, new: Rows, updated: pa.Table, deleted: pa.Table) -> Change:
    return Change(name, pa.concat_tables([new[name], updated]), deleted)


def _moved(persons: pa.Table, random: np.random.Generator) -> pa.Table:
    """Return persons who live in another city."""
    for name, values in (("city", _CITIES), ("state", _STATES)):
        index = persons.schema.get_field_index(name)
        persons = persons.set_column(index, persons.field(name), _choice(random, values, persons))
    return persons


def _revised(auctions: pa.Table, random: np.random.Generator) -> pa.Table:
    """Return auctions that end later, in another category and with another reserve."""
    count = auctions.num_rows
    later = auctions["expires"].cast(pa.int64()).to_numpy() + random.integers(_MINUTE, size=count)
    changed = {
        "expires": pa.array(later, pa.int64()),
        "category": pa.array(_FIRST_CATEGORY + random.integers(_CATEGORIES, size=count)),
        "reserve": pa.array(_prices(random, count)),
    }
    for name, values in changed.items():
        index = auctions.schema.get_field_index(name)
        field = auctions.field(name)
        auctions = auctions.set_column(index, field, values.cast(field.type))
    return auctions


def _events(first: int, last: int) -> dict[str, pa.Table]:
    """Return the rows of the events of some cycles, from ``first`` to before ``last``."""
    random = np.random.default_rng((_SEED, first, last))
    cycles = np.arange(first, last, dtype=np.int64)
    in_cycle = cycles[:, None] * _CYCLE
    auctions = np.arange(_AUCTIONS_PER_CYCLE, dtype=np.int64)[None, :]
    bids = np.arange(_BIDS_PER_CYCLE, dtype=np.int64)[None, :]
    return {
        "person": _persons(cycles, in_cycle[:, 0], random),
        "auction": _auctions(
            (cycles[:, None] * _AUCTIONS_PER_CYCLE + auctions).ravel(),
            (in_cycle + 1 + auctions).ravel(),
            random,
        ),
        "bid": _bids((in_cycle + 1 + _AUCTIONS_PER_CYCLE + bids).ravel(), random),
    }


def _persons(numbers: Numbers, events: Numbers, random: np.random.Generator) -> pa.Table:
    count = len(numbers)
    first, last = (_choice(random, names, numbers) for names in (_FIRST_NAMES, _LAST_NAMES))
    join = _joined
    cards = [_text(random.integers(1000, 10_000, size=count)) for _ in range(4)]
    columns = {
        "id": pa.array(_FIRST_ID + numbers),
        "name": join(first, last, " "),
        "email_address": join(last, first, "@"),
        "credit_card": join(join(cards[0], cards[1], " "), join(cards[2], cards[3], " "), " "),
        "city": _choice(random, _CITIES, numbers),
        "state": _choice(random, _STATES, numbers),
        "date_time": _times(events),
        "extra": _extra(random, count),
    }
    return _table("person", columns)


def _auctions(numbers: Numbers, events: Numbers, random: np.random.Generator) -> pa.Table:
    count = len(numbers)
    words = [_choice(random, _WORDS, numbers) for _ in range(3)]
    lasting = random.integers(_MINUTE // 6, 5 * _MINUTE, size=count)
    columns = {
        "id": pa.array(_FIRST_ID + numbers),
        "item_name": _joined(words[0], words[1], " "),
        "description": _joined(words[1], words[2], " with "),
        "initial_bid": pa.array(_prices(random, count)),
        "reserve": pa.array(_prices(random, count)),
        "date_time": _times(events),
        "expires": pa.array(_START + events * _GAP + lasting),
        "seller": pa.array(_FIRST_ID + _latest(events // _CYCLE, _ACTIVE_PERSONS, 4, random)),
        "category": pa.array(_FIRST_CATEGORY + random.integers(_CATEGORIES, size=count)),
        "extra": _extra(random, count),
    }
    return _table("auction", columns)


def _bids(events: Numbers, random: np.random.Generator) -> pa.Table:
    count = len(events)
    cycles = events // _CYCLE
    last_auction = cycles * _AUCTIONS_PER_CYCLE + _AUCTIONS_PER_CYCLE - 1
    number = _text(random.integers(_OTHER_CHANNELS, size=count))
    is_hot = pa.array(random.random(count) < 0.5)
    columns = {
        "id": pa.array(events),
        "auction": pa.array(_FIRST_ID + _latest(last_auction, _ACTIVE_AUCTIONS, 2, random)),
        "bidder": pa.array(_FIRST_ID + _latest(cycles, _ACTIVE_PERSONS, 4, random)),
        "price": pa.array(_prices(random, count)),
        "channel": pc.if_else(
            is_hot, _choice(random, _CHANNELS, events), _joined("channel", number, "-")
        ),
        "url": pc.if_else(is_hot, _url(random, events, None), _url(random, events, number)),
        "date_time": _times(events),
        "extra": _extra(random, count),
    }
    return _table("bid", columns)


def _url(random: np.random.Generator, rows: Numbers, channel: pa.Array | None) -> pa.Array:
    """Return addresses of items below three directories, some with the id of a channel."""
    folders = [_choice(random, _WORDS, rows) for _ in range(3)]
    item = pa.scalar("item.htm?query=1")
    if channel is not None:
        item = _joined(item, channel, "&channel_id=")
    return pc.binary_join_element_wise("https://www.nexmark.com", *folders, item, "/")


def _latest(last: Numbers, active: int, ratio: int, random: np.random.Generator) -> Numbers:
    """Return numbers up to the last ones: one in ``ratio`` any active one, the others a hot one."""
    hot = last // _HOT_RATIO * _HOT_RATIO
    cold = last - (random.random(len(last)) * np.minimum(last + 1, active)).astype(np.int64)
    return np.where(random.integers(ratio, size=len(last)) > 0, hot, cold)


def _prices(random: np.random.Generator, count: int) -> Numbers:
    """Return prices in cents, from 1 to 10,000,000 dollars; small ones are as frequent as large."""
    return np.round(10 ** (random.random(count) * 6) * 100).astype(np.int64)


def _times(events: Numbers) -> pa.Array:
    return pa.array(_START + events * _GAP)


def _choice(
    random: np.random.Generator, values: Sequence[str], rows: pa.Table | Numbers
) -> pa.Array:
    """Return one of the values for each row."""
    return pa.array(values).take(pa.array(random.integers(len(values), size=len(rows))))


def _extra(random: np.random.Generator, count: int) -> pa.Array:
    """Return filling text, of letters from a to h."""
    letters = (random.integers(ord("a"), ord("i"), size=(count, 20))).astype(np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * 20
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())]
    return pa.StringArray.from_buffers(count, buffers[1], buffers[2])


def _text(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _joined(left: pa.Array | pa.Scalar | str, right: pa.Array, separator: str) -> pa.Array:
    return pc.binary_join_element_wise(left, right, separator)


def _table(name: str, columns: dict[str, pa.Array]) -> pa.Table:
    table: Table = _BY_NAME[name]
    arrays = [columns[field.name].cast(field.type) for field in table.schema]
    return pa.Table.from_arrays(arrays, schema=table.schema)
