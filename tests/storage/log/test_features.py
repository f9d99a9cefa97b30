"""The features of a store: who does not know one neither reads nor changes it, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    CorruptionError,
    FormatVersionError,
    RelstateError,
    UnknownOutcomeError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log import features as feature_list
from relstate.storage.log.append import append
from relstate.storage.log.checkpoint import decode_checkpoint, encode_checkpoint
from relstate.storage.log.entry import decode_entry, encode_entry
from relstate.storage.log.features import READERS, WRITERS, Feature, united
from relstate.storage.log.file_frame import canonical, parse, seal, unseal
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.manifest import name_of
from relstate.storage.log.manifest_files import ManifestCache, ManifestFiles
from relstate.storage.log.proposal import Proposal
from relstate.storage.log.state import StoreState, fold
from relstate.storage.log.transaction import commit
from relstate.storage.paths import manifest_path
from support.commits import SETTINGS, new_store
from support.divided_logs import Writer
from support.histories import FIRST, following
from support.later_version import commit_as_later_version
from support.stores import contents

SPARSE = Feature("sparse pages")
HINTS = Feature("hints", WRITERS)
UNKNOWN = r"a later version .* uses the feature '{}', which this version does not know.*: update"


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    """A store with a row, in a folder of its own: it is not checked when the test is over."""
    store = Store.create(str(tmp_path / "shop"), vnode_count=4, shards=1)
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    for value in (0, 1):
        store.write("t", [{"k": 1, "v": value}])
    return store


def later_entry(**fields: Any) -> bytes:
    """Return an entry, as a later version writes it."""
    entry = following(StoreState.first(FIRST))
    return seal("entry", entry.to_json() | fields)


def test_an_entry_names_the_features_of_its_store() -> None:
    """Only where it has any; they come back as they were."""
    entry = following(StoreState.first(FIRST))
    assert b"features" not in encode_entry(entry)

    data = encode_entry(replace(entry, features=(HINTS,)))

    assert b'"features":{"hints":"writers"}' in data
    assert decode_entry(data, entry.epoch, "file").features == (HINTS,)


def test_a_feature_is_told_before_what_it_makes_unreadable() -> None:
    """Whatever else the file holds, and whoever a later version says must know it."""
    for needed_by in (READERS, "those who compact"):
        data = later_entry(features={"sparse pages": needed_by, "hints": WRITERS}, added={"no": 1})
        with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")) as caught:
            decode_entry(data, 2, "/shop/_log/2.json")
        assert str(caught.value).startswith("/shop/_log/2.json: ")
    checkpoint = seal("checkpoint", {"format": 1, "features": {"a": READERS, "b": READERS}})
    with pytest.raises(FormatVersionError, match="the features 'a', 'b', which"):
        decode_checkpoint(checkpoint, 3, "file")


@pytest.mark.parametrize("value", [[], ["a"], {"a": 1}, {"a": None}, "a", 1, None])
def test_features_that_are_none_are_corrupt(value: object) -> None:
    """Wrong content under a right checksum is an error that names the file."""
    with pytest.raises(CorruptionError, match="file: "):
        decode_entry(later_entry(features=value), 2, "file")


def test_a_feature_stays_in_every_state_and_checkpoint() -> None:
    """From the entry that names it first, also if one after it names none."""
    first = StoreState.first(replace(FIRST, features=(HINTS,)))
    assert first.features == (HINTS,)
    more = Feature("marks", WRITERS)
    entries = [following(first, features=(HINTS, more))]
    entries.append(following(first.apply(entries[0])))

    state = fold(first, entries)

    assert state.features == (HINTS, more)
    restored = decode_checkpoint(encode_checkpoint(state), state.epoch, "file")
    assert restored == state
    assert b"features" not in encode_checkpoint(StoreState.first(FIRST))


def test_of_one_name_the_last_list_decides() -> None:
    """Features of several lists are sorted by their names."""
    assert united((SPARSE,), (HINTS,), ()) == (HINTS, SPARSE)
    assert united((HINTS,), (Feature("hints"),)) == (Feature("hints"),)


def test_a_commit_announces_what_it_needs_for_ever(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own entry names the feature, and so does every one after it."""
    monkeypatch.setattr(feature_list, "KNOWN", frozenset({"sparse pages"}))
    log, state = new_store(environment, "orders")
    started = environment.now()
    proposals = [
        Proposal(operation="vacuum", started=started, oldest_epoch=1, features=features)
        for features in ((SPARSE,), ())
    ]

    for proposal in proposals:
        state = commit(log, state, proposal).state
        assert state.features == (SPARSE,)
        assert log.files.entry(state.epoch).features == (SPARSE,)
    monkeypatch.undo()
    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")):
        Log(environment, EntryCache()).load()


READS: dict[str, Callable[[Store], Any]] = {
    "get": lambda store: store.table("t").get(1),
    "scan": lambda store: contents(store, "t"),
    "check": lambda store: store.check(),
    "history": lambda store: list(store.history()),
}
WRITES: dict[str, Callable[[Store], Any]] = {
    "write": lambda store: store.write("t", [{"k": 2, "v": 2}]),
    "compact": lambda store: store.compact("t"),
    "vacuum": lambda store: store.vacuum(0),
    "erase": lambda store: store.erase("t", [{"k": 1}]),
    "create": lambda store: store.create_table("u", "k INT", primary_key=["k"]),
    "alter": lambda store: store.add_columns("t", "w INT"),
}


@pytest.mark.parametrize("call", [*READS, *WRITES])
def test_a_feature_of_readers_refuses_whoever_has_the_store_open(shop: Store, call: str) -> None:
    """The next call that looks at the store says it, and so does the next open."""
    table = shop.table("t")
    assert table.get(1) == (1, 1)
    commit_as_later_version(shop.environment, features={"sparse pages": READERS})
    files = {name: shop.environment.list(name) for name in ("_log", "segments")}

    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")) as caught:
        (READS | WRITES)[call](shop)
    assert shop.path in str(caught.value)
    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")):
        Store.open(shop.path)
    assert {name: shop.environment.list(name) for name in ("_log", "segments")} == files


def test_a_table_that_is_read_meets_the_feature_too(shop: Store) -> None:
    """Not only a call that begins at the store."""
    table = shop.table("t")
    assert table.get(1) == (1, 1)
    commit_as_later_version(shop.environment, features={"sparse pages": READERS})

    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")):
        shop.table("t").get(1)
    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")):
        table.get(1)


@pytest.mark.parametrize("call", WRITES)
def test_a_feature_of_writers_lets_others_read(shop: Store, call: str) -> None:
    """Every write is refused before it changes a file; reads and checks go on."""
    commit_as_later_version(shop.environment, features={"hints": WRITERS})
    files = {name: shop.environment.list(name) for name in ("_log", "segments")}

    with Store.open(shop.path) as store:
        for read in READS.values():
            read(store)
        with pytest.raises(FormatVersionError, match=UNKNOWN.format("hints")) as caught:
            WRITES[call](store)
        assert contents(store, "t") == [(1, 1)]
        assert store.check().ok

    assert shop.path in str(caught.value)
    assert "this version can read it" in str(caught.value)
    assert {name: shop.environment.list(name) for name in ("_log", "segments")} == files


def test_who_loses_a_race_to_a_later_version_says_so(environment: LocalEnvironment) -> None:
    """Nothing of the loser was committed, and nothing is in doubt."""
    log, state = new_store(environment, "orders")
    commit_as_later_version(environment, features={"sparse pages": READERS})

    with pytest.raises(FormatVersionError, match=UNKNOWN.format("sparse pages")):
        append(log, following(state))


def test_a_commit_whose_fate_is_in_a_later_log_is_in_doubt(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request may have succeeded before a later version went on: its files must stay."""
    log, state = new_store(environment, "orders")
    commit_as_later_version(environment, features={"sparse pages": READERS})

    def failing(*_: object, **__: object) -> None:
        raise UnknownOutcomeError("no answer")

    monkeypatch.setattr(environment, "put_if_absent", failing)
    with pytest.raises(UnknownOutcomeError, match=r"may or may not have happened.*sparse pages"):
        append(log, following(state))


# Fields that this version does not know are ignored: a change that must not be has a feature.

LATER: dict[str, Any] = {"later": {"x": [1, None]}}


def with_later_fields(value: Any) -> Any:
    """Return a JSON value with a field more in each of its objects but those of plans."""
    if isinstance(value, dict):
        free = {"plan", "settings", "backfill", "type", "mapping"}
        return {
            name: item if name in free else with_later_fields(item) for name, item in value.items()
        } | LATER
    return [with_later_fields(item) for item in value] if isinstance(value, list) else value


def test_fields_of_a_later_version_are_ignored(shop: Store) -> None:
    """In entries and in the definitions, statistics and batches that they hold."""
    shop.create_index("t", "by_v", ["v"])
    state = shop.state
    for epoch in range(1, state.epoch + 1):
        entry = Log(shop.environment, EntryCache()).files.entry(epoch)
        data = seal("entry", with_later_fields(entry.to_json()))
        assert b'"later"' in data
        assert decode_entry(data, epoch, "file") == entry
    value, lines = unseal("checkpoint", encode_checkpoint(state), "file")
    data = seal("checkpoint", with_later_fields(value), lines)
    assert decode_checkpoint(data, state.epoch, "file") == state


def test_fields_of_a_later_version_in_manifests_are_ignored(environment: LocalEnvironment) -> None:
    """Also in the records of segments, and in what a checkpoint says of a manifest."""
    writer = Writer.of(environment)
    writer.write(*(writer.segment([shard], 1) for shard in (1, 1, 1, 2, 2)))
    writer.log.folding.put_checkpoint(writer.state)
    state = writer.log.files.checkpoint(writer.state.epoch)
    manifests = [manifest for part in state.segments.manifests.values() for manifest in part]
    assert manifests
    for manifest in manifests:
        assert manifest.file is not None
        value, lines = unseal("manifest", environment.read(manifest_path(manifest.file.name)), "")
        records = [canonical(with_later_fields(parse(line))) for line in lines]
        data = seal("manifest", with_later_fields(value), records)
        named = with_later_fields(manifest.to_json())
        named |= {"name": name_of(data), "size": len(data)}
        environment.put_if_absent(manifest_path(named["name"]), data)

        files = ManifestFiles(environment, SETTINGS.shards, ManifestCache())
        assert files.from_json(named).content == manifest.content


def test_an_entry_with_fields_of_a_later_version_is_followed(shop: Store) -> None:
    """A store that a later version wrote without a new feature is read and written."""
    commit_as_later_version(shop.environment, **LATER)

    shop.write("t", [{"k": 2, "v": 2}])
    with Store.open(shop.path) as store:
        assert contents(store, "t") == [(1, 1), (2, 2)]
        assert store.check().ok


def test_the_first_entry_may_name_features(tmp_path: Path) -> None:
    """A store that a later version has created is refused by them, not as damaged."""
    path = str(tmp_path / "later")
    Store.create(path).close()
    file = next((tmp_path / "later" / "_log").glob("*.json"))
    value, _ = unseal("entry", file.read_bytes(), "file")
    value["settings"] = {"hash": "another"}
    file.write_bytes(seal("entry", value | {"features": {"another hash": READERS}}))

    with pytest.raises(FormatVersionError, match=UNKNOWN.format("another hash")):
        Store.open(path)
    with pytest.raises(RelstateError, match="there is a store already"):
        Store.create(path)
