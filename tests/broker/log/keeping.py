"""A simulated node that keeps its logs: directories, the periodic work, the cleaner."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from moldau.broker.log.checkpoint_job import CheckpointWriter
from moldau.broker.log.cleaner import Cleaner
from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.group_commit import GroupCommits
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.log_settings import CleanerOptions, UpkeepOptions
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.upkeep import Upkeep
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker import one_node
from tests.broker.log.cleaning import CONFIG
from tests.broker.log.machine import SMALL

T = TypeVar("T")
PATHS: Final = ("/a", "/b")
COMPACTED: Final = replace(
    CONFIG,
    is_deleted=False,
    file_delete_delay_ms=0,
    compaction=CompactionPolicy(min_cleanable_dirty_ratio=0.0),
)
UPKEEP: Final = UpkeepOptions(initial_delay=10_000, retention_interval=20_000)
CLEANER: Final = CleanerOptions(backoff_ms=1000)


@dataclass
class Keeper:
    """What one life of the node has; `lines` is what it wrote to its log."""

    runtime: Runtime
    directories: LogDirectories
    commits: GroupCommits
    upkeep: Upkeep
    cleaner: Cleaner
    lines: list[str]

    @classmethod
    def open(cls, runtime: Runtime, config: LogConfig = SMALL) -> Keeper:
        for number, path in enumerate(PATHS, 1):
            if not runtime.files.exists(f"{path}/meta.properties"):
                runtime.files.make_dirs(path)
                meta = MetaProperties("cluster", 1, bytes(15) + bytes([100 + number]))
                write_meta_properties(runtime.files, path, meta)
        directories = LogDirectories.open(runtime.files, PATHS, "cluster", 1)
        directories.load(lambda partition, topic_id: config, runtime.clock.wall_ms())
        lines: list[str] = []
        log = Loggers(runtime.clock, lines.append).get("test")
        commits, writer = GroupCommits(runtime), CheckpointWriter(runtime, log)
        upkeep = Upkeep(runtime, directories, commits, writer, log, lambda places: None)
        cleaner = Cleaner(runtime, directories, commits, writer, log)
        return cls(runtime, directories, commits, upkeep, cleaner, lines)

    def log(self, topic: str, config: LogConfig = SMALL, path: str = "/a") -> PartitionLog:
        """The log of a topic, made when it is not there."""
        place = TopicPartition(topic, 0)
        found = self.directories.log(place)
        if found is not None:
            return found
        number = 101 + PATHS.index(path)
        return self.directories.create(
            place,
            topic.encode().ljust(16, b"."),
            config,
            self.runtime.clock.wall_ms(),
            directory_id=bytes(15) + bytes([number]),
        )

    async def aclose(self) -> None:
        await self.cleaner.aclose()
        await self.upkeep.aclose()
        await self.commits.idle()


def simulate(
    main: Callable[[Runtime, Node], Coroutine[Any, Any, T]], *, seed: int = 1, within: float = 1e6
) -> T:
    """Run `main` as the only node of a world until it returns."""
    nodes: list[Node] = []
    return one_node.simulate(
        lambda runtime: main(runtime, nodes[0]), seed=seed, within=within, prepare=nodes.append
    )
