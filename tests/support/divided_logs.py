"""Logs whose checkpoints are divided among manifests, and a writer of segments without rows."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from pathlib import Path

from relstate.storage.environment import Environment
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.folding import Division
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.proposal import Proposal
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState
from relstate.storage.log.store_creation import create_store
from relstate.storage.paths import segment_path
from support.clock import ManualClock
from support.commits import SETTINGS, committed, creation, truncation

# Everything is divided, four segments to a manifest.
FINE = Division(most=0, size=4)


def divided_log(environment: Environment, division: Division = FINE) -> Log:
    """Return the log of a store as a new process has it: nothing was read before."""
    return Log(environment, EntryCache(), ManifestCache(), division)


@dataclass
class Writer:
    """Commits segments without rows, as drawn from a seed."""

    environment: Environment
    log: Log
    state: StoreState
    random: random.Random

    @classmethod
    def of(cls, environment: Environment, division: Division = FINE, seed: int = 0) -> Writer:
        """Return the writer of a new store with two tables."""
        log = divided_log(environment, division)
        state = create_store(log, SETTINGS)
        for name in ("orders", "items"):
            state = committed(log, state, creation(environment, name))
        return cls(environment, log, state, random.Random(seed))

    def segment(self, shards: list[int], *tables: int, size: int = 100) -> SegmentRecord:
        """Put a file in place of a segment with rows in some shards."""
        name = f"{self.random.getrandbits(128):032x}-0"
        path = Path(self.environment.local_path(segment_path(name)))
        path.write_bytes(b"x" * size)
        bytes_by_shard = tuple(9 * (shard in shards) for shard in range(SETTINGS.shards))
        statistics = (
            TableStatistics(table_id, 1, 0, b"a", b"b", bytes_by_shard, b"a", b"b")
            for table_id in tables
        )
        return SegmentRecord(name, size, "0123456789abcdef", tuple(statistics))

    def write(self, *segments: SegmentRecord) -> None:
        """Commit new segments."""
        started = self.environment.now()
        proposal = Proposal(operation="write", started=started, segments=segments)
        self.state = committed(self.log, self.state, proposal)

    def merge(self, inputs: list[SequencedSegment]) -> None:
        """Replace segments by one in a single shard."""
        number = max((segment.epoch, segment.rank) for segment in inputs)
        (shard,) = {segment.shard for segment in inputs}
        shards = list(range(SETTINGS.shards)) if shard is None else [shard]
        output = replace(self.segment(shards, 1), sequence_number=number)
        proposal = Proposal(
            operation="compact",
            started=self.environment.now(),
            data_change=False,
            segments=(output,),
            removed=tuple(inputs),
        )
        self.state = committed(self.log, self.state, proposal)

    def step(self) -> None:
        """Commit something."""
        draw = self.random
        kind = draw.random()
        live = [*self.state.segments.values()]
        if kind < 0.03:
            self.state = committed(self.log, self.state, truncation(self.environment, 2))
        elif kind < 0.35 and live:
            shard = draw.choice(live).shard
            of_shard = [segment for segment in live if segment.shard == shard]
            self.merge(draw.sample(of_shard, min(len(of_shard), draw.randint(1, 4))))
        else:
            tables = draw.choice([(1,), (2,), (1, 2)])
            shards = draw.sample(range(3), draw.choice([1, 1, 1, 2]))
            self.write(*(self.segment(shards, *tables) for _ in range(draw.randint(1, 2))))

    def advance(self, epoch: int) -> None:
        """Commit until the store is at an epoch."""
        while self.state.epoch < epoch:
            self.step()


def manifests_of(environment: Environment) -> set[str]:
    """Return the names of the manifests that there are."""
    return {
        name.removesuffix(".manifest.json")
        for name in environment.list("_archive")
        if name.endswith(".manifest.json")
    }


def age(environment: LocalEnvironment, clock: ManualClock) -> None:
    """Let the files of the archive that are younger than the clock says be as old as it says."""
    for name in environment.list("_archive"):
        path = environment.location(f"_archive/{name}")
        now = clock.now() / 1e6
        if os.stat(path).st_mtime > now:
            os.utime(path, (now, now))
