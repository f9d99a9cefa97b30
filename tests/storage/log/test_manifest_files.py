"""Manifests are read once, when they are needed; what differs from its checkpoint is damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from relstate.storage.check import check
from relstate.storage.errors import CorruptionError
from relstate.storage.log.file_frame import seal, unseal
from relstate.storage.log.folding import Division
from relstate.storage.log.history import EntryCache
from relstate.storage.log.live_segments import file_names
from relstate.storage.log.log import Log
from relstate.storage.log.manifest import name_of
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.paths import checkpoint_path, manifest_path
from support.commits import quick_environment
from support.divided_logs import FINE, Writer, divided_log
from support.faulty_environment import FaultyEnvironment

Forgery: TypeAlias = Callable[[dict[str, Any], dict[str, Any], list[bytes]], None]


def test_a_manifest_is_read_once(tmp_path: Path) -> None:
    """The next look at the same segments takes them from the cache."""
    writer = Writer.of(quick_environment(tmp_path / "store"))
    writer.advance(33)
    watched = FaultyEnvironment(tmp_path / "store")
    state = divided_log(watched).load()
    first = state.segments_of(1)
    count = len(watched.touches)

    assert [*state.segments.values()]
    assert state.apply is not None
    assert state.segments_of(1) == first == writer.state.segments_of(1)
    reads = [touch for touch in watched.touches[count:] if "manifest" in touch]
    assert len(reads) == len(set(reads))


def test_a_forgotten_manifest_is_read_again(tmp_path: Path) -> None:
    """The cache is bounded, whatever the size of the store."""
    writer = Writer.of(quick_environment(tmp_path / "store"))
    writer.advance(40)
    cache = ManifestCache(5)
    log = Log(writer.environment, EntryCache(), cache, FINE)
    state = log.load()

    assert state == writer.state
    assert sum(len(content.segments) for content in cache._contents.values()) <= 12
    assert set(state.segments.values()) == set(writer.state.segments.values())


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    """By the read that needs it and by check, whatever byte is another, and if it is missing."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.advance(33)
    name = min(file_names(writer.log.files.checkpoint(32).segments.manifests))
    path = Path(environment.location(manifest_path(name)))
    data = path.read_bytes()
    damaged = [data[:-1], b"", *(_flipped(data, at) for at in range(0, len(data), 97))]
    for content in damaged:
        path.write_bytes(content)
        segments = divided_log(environment).load().segments
        with pytest.raises(CorruptionError, match=str(path)):
            list(segments)
    report = check(environment, divided_log(environment).load())
    assert any(str(path) in problem for problem in report.problems)
    path.unlink()
    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{path}: this file is missing"):
        list(segments)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_a_manifest_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    """Its own checksum is right, its name is not."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.advance(33)
    first, second = sorted(file_names(writer.log.files.checkpoint(32).segments.manifests))[:2]
    environment.remove(manifest_path(first))
    other = environment.read(manifest_path(second))
    environment.put_if_absent(manifest_path(first), other)

    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{first}.*it holds another manifest"):
        list(segments)


def swap(values: list[Any]) -> None:
    """Exchange the first two values."""
    values[0], values[1] = values[1], values[0]


def say_first_again(line: dict[str, Any], content: dict[str, Any], records: list[bytes]) -> None:
    """Let the second segment be the first one, under another sequence number."""
    content["segments"]["names"][1] = content["segments"]["names"][0]
    records[1] = records[0]


def swap_segments(line: dict[str, Any], content: dict[str, Any], records: list[bytes]) -> None:
    """Let the first two segments come in the other order."""
    for values in (*content["segments"].values(), records):
        swap(values)


FORGERIES: dict[str, Forgery] = {
    "other shard in the file": lambda line, content, records: content.update(shard=7),
    "other shard in the checkpoint": lambda line, content, records: line.update(shard=7),
    "segment twice": say_first_again,
    "not sorted": swap_segments,
    "fewer segments": lambda line, content, records: line.update(count=line["count"] + 1),
    "another last one": lambda line, content, records: line["last"].__setitem__(0, 99),
    "a record too many": lambda line, content, records: records.append(records[0]),
    "no segments": lambda line, content, records: content.update(segments={}),
    "a table less": lambda line, content, records: content.update(segments_by_table=[]),
    "a table more": lambda line, content, records: content["segments_by_table"].append([9, [0]]),
    "no number": lambda line, content, records: content["segments"]["epochs"].__setitem__(0, "1"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_manifest_is_damage(tmp_path: Path, forgery: str) -> None:
    """Its checksums and names are right, but it is not what the checkpoint says: it is named."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.write(*(writer.segment([shard], 1) for shard in (2, 2, 2, 2, 2, 2)))
    divided_log(environment, Division(most=0, size=1000)).folding.put_checkpoint(writer.state)
    path = checkpoint_path(writer.state.epoch)
    value, lines = unseal("checkpoint", environment.read(path), path)
    assert not lines
    (line,) = value["manifests"]
    old = manifest_path(line["name"])
    content, records = unseal("manifest", environment.read(old), old)
    FORGERIES[forgery](line, content, records)
    data = seal("manifest", content, records)
    line |= {"name": name_of(data), "size": len(data)}
    environment.remove(path)
    environment.remove(old)
    environment.put_if_absent(path, seal("checkpoint", value))
    environment.put_if_absent(manifest_path(line["name"]), data)

    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{line['name']}.manifest.json"):
        list(segments)
    report = check(environment, divided_log(environment).load())
    assert any(line["name"] in problem for problem in report.problems)


def test_a_forged_line_of_a_manifest_is_damage(tmp_path: Path) -> None:
    """Wherever it is no line that is written, the checkpoint is named; check compares the sums."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.write(*(writer.segment([shard], 1) for shard in (1, 2, 2, 3)))
    writer.log.folding.put_checkpoint(writer.state)
    path = checkpoint_path(writer.state.epoch)
    original = environment.read(path)

    def forge(change: Callable[[list[Any]], None]) -> None:
        value, _ = unseal("checkpoint", original, path)
        change(value["manifests"])
        environment.remove(path)
        environment.put_if_absent(path, seal("checkpoint", value))

    changes: list[Callable[[list[Any]], None]] = [
        lambda lines: lines[0].update(shard=99),
        lambda lines: lines[0].update(name="../../etc"),
        lambda lines: lines[0].update(count="1"),
        lambda lines: lines[0].update(period=-1),
        lambda lines: lines[0]["tables"].append(lines[0]["tables"][0]),
        lambda lines: lines[0]["tables"][0].__setitem__(8, [[99, 1]]),
        lambda lines: lines[0]["tables"][0].__setitem__(9, "ff"),
        lambda lines: lines.append(lines[-1]),
    ]
    for change in changes:
        forge(change)
        with pytest.raises(CorruptionError, match=r"checkpoint\.json"):
            divided_log(environment).load()
    forge(lambda lines: lines[0]["tables"][0].__setitem__(4, 1234))
    (manifest,) = divided_log(environment).load().segments.manifests[1]
    assert manifest.file is not None
    report = check(environment, divided_log(environment).load())
    assert any(manifest.file.name in problem and "sums" in problem for problem in report.problems)
