"""A coordinator that hears no commits of some members, and commits between rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from tests.client.consumer.numbered_records import fill
from tests.client.world import ClientWorld

COUNT = 50

Seen = list[tuple[int, int]]


async def read_for(reader: Consumer, clock: Any, seconds: float) -> Seen:
    """Partitions and offsets."""
    seen: Seen = []
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        for part in await reader.poll(min(left, 0.2)):
            seen += [(part.partition, offset) for offset in part.offsets()]
    return seen


async def read_ten(reader: Consumer) -> None:
    """Five of each partition."""
    seen = set[int]()
    while len(seen) < 2:
        seen |= {part.partition for part in await reader.poll(1.0)}


class Deaf(ClientWorld):
    """Whose coordinator hears no commits of some members."""

    def __init__(self) -> None:
        super().__init__(3)
        self.unheard: set[str] = set()
        self.is_unheard: Callable[[OffsetCommitRequest], bool] = lambda request: (
            request.member_id in self.unheard
        )
        handle = self.cluster.groups.handle

        def handled(node_id: int, request: Any, reply: Any) -> None:
            if not (isinstance(request, OffsetCommitRequest) and self.is_unheard(request)):
                handle(node_id, request, reply)

        self.cluster.groups.handle = handled  # type: ignore[method-assign]
        for log in self.cluster.add_topic("t", [1, 1]):
            fill(log, COUNT)


class Commits(RebalanceListener):
    """Begins a commit, and waits for none."""

    def __init__(self, event: str) -> None:
        self.event = event
        self.commits: list[asyncio.Task[None]] = []
        self.reader: Consumer

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.event == "revoked":
            self.commits.append(self.reader.commit_soon(dict.fromkeys(partitions, 3)))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if self.event == "assigned" and partitions:
            self.commits.append(self.reader.commit_soon(dict.fromkeys(partitions, 3)))
