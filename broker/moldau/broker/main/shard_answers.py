"""What a shard answers the process that started it: its figures, its load, and the next step of a
move of one of its host's partitions.

A step is taken by the target of the move, with the node's own right: the request goes to the active
controller as those of a broker do, wherever that is and whatever logins the listeners ask for.

Invariants: no answer waits for a controller, because answers come one at a time and health is one
of them. A step looks at the metadata and requests what is missing, so it may be repeated, also by
another run of this process. The pace of a copy ends when steps are no longer asked for.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.assignment import goal_of, is_moving
from moldau.broker.decision.context import of_node
from moldau.broker.main.hot_shards import LedPartition, Place, Progress, ShardLoad
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.election import Election
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.runtime.process_figures import process_figures

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.exposition.health import Observable
    from moldau.broker.exposition.server import Sampled
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Clock

LOAD: Final = "load"
STEP: Final = "step"
LED_MAX: Final = 100
"""The partitions in an answer; the others have less work."""
PACE_SECONDS: Final = 10.0
_AT_ONCE: Final = 500
_REASSIGNMENT_VERSION: Final = 1
_ELECTION_VERSION: Final = 2


class ShardAnswers:
    """The answers of the shard in this process."""

    def __init__(
        self,
        clock: Clock,
        sampled: Sampled | None = None,
        busy_s: Callable[[], float] = lambda: process_figures().thread_seconds,
    ) -> None:
        """`sampled` has the figures; None if they are not served. `busy_s` returns the CPU time of
        the event loop so far."""
        self._sampled = sampled
        self._clock = clock
        self._busy_s = busy_s
        self._observable: Observable | None = None
        self._before: dict[Partition, int] = {}
        self._before_s = (clock.monotonic(), busy_s())
        self._paced_at = clock.monotonic()
        self._asked: tuple[Place, list[int]] | None = None
        """The move whose steps are taken."""
        self._refusal = ""

    def watch(self, node: Observable) -> None:
        """Begin: the node is started."""
        self._observable = node
        self._before_s = (self._clock.monotonic(), self._busy_s())
        if self._sampled is not None:
            self._sampled.watch(node)

    async def answer(self, question: str) -> AsyncIterator[bytes]:
        """Yield the answer in pieces."""
        kind, _, rest = question.partition(" ")
        node = None if self._observable is None else self._observable.observed().node
        if kind == LOAD:
            yield json.dumps(None if node is None else await self._load(node)).encode()
        elif kind == STEP:
            yield json.dumps(
                None if node is None else self._step(node, **json.loads(rest))
            ).encode()
        elif self._sampled is not None:
            from moldau.broker.exposition.server import answers_of

            async for piece in answers_of(self._sampled.figures)(question):
                yield piece

    # The load.

    async def _load(self, node: Node) -> ShardLoad:
        now, busy_s = self._clock.monotonic(), self._busy_s()
        before, before_busy_s = self._before_s
        self._before_s = now, busy_s
        if now - self._paced_at >= PACE_SECONDS:
            node.replicas.quotas.fetched.pace(None)
        works: list[tuple[int, Partition]] = []
        counted, total = {}, 0
        for number, partition in enumerate(list(node.replicas.hosted.values())):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if not partition.work:
                continue
            counted[partition] = partition.work
            work = partition.work - self._before.get(partition, 0)
            if work and partition.is_leader:
                works.append((work, partition))
                total += work
        self._before = counted
        most = heapq.nlargest(LED_MAX, works, key=itemgetter(0))
        led = (_led(node, partition, work) for work, partition in most)
        elapsed_s = max(now - before, 1e-9)
        own = node.image.brokers.by_id.get(node.node_id)
        is_open = own is not None and own.takes_new_replicas
        return ShardLoad(
            node.node_id,
            elapsed_s,
            (busy_s - before_busy_s) / elapsed_s,
            total,
            is_open and not node.directories.is_short_of_room,
            await self._is_any_moving(node),
            tuple(each for each in led if each is not None),
        )

    async def _is_any_moving(self, node: Node) -> bool:
        for topic in list(node.image.topics.by_id.values()):
            if any(map(is_moving, topic.partitions.values())):
                return True
            await asyncio.sleep(0)
        return False

    # The steps of a move.

    def _step(
        self,
        node: Node,
        place: list[str | int],
        before: list[int],
        goal: list[int],
        bytes_per_second: int,
        is_first: bool,
    ) -> tuple[str, str]:
        """Take the next step towards the replicas `goal`; return how far the move is, and the
        reason why the controller rejected it."""
        topic, index = str(place[0]), int(place[1])
        if self._asked != ((topic, index), goal):
            self._asked, self._refusal = ((topic, index), goal), ""
        known = node.image.topics.by_name(topic)
        found = None if known is None else known.partitions.get(index)
        progress, request = Progress.OVERTAKEN, None
        if found is not None and list(goal_of(found)) == goal:
            is_done = not is_moving(found) and found.leader == goal[0]
            progress = Progress.DONE if is_done else Progress.GOES_ON
            if not is_done and not is_moving(found):
                request = _election(topic, index)
        elif found is not None and list(found.replicas) == before and not is_moving(found):
            progress = Progress.UNCHANGED
            request = _reassignment(topic, index, goal) if is_first else None
        quota = node.replicas.quotas.fetched
        if progress is Progress.GOES_ON or request is not None:
            self._paced_at = self._clock.monotonic()
            quota.pace((topic, index), bytes_per_second)
        elif progress is not Progress.UNCHANGED:  # it may have been requested a moment ago
            quota.pace(None)
        if request is not None:
            message, version = request
            on_answer = partial(self._on_answer, self._asked)
            node.controller.submit(message, of_node(node.node_id, version), on_answer)
        return progress.name, self._refusal

    def _on_answer(
        self, asked: tuple[Place, list[int]] | None, answer: Response | KafkaError
    ) -> None:
        if asked != self._asked:
            return
        if isinstance(answer, KafkaError):
            self._refusal = str(answer)
        elif isinstance(answer, AlterPartitionReassignmentsResponse):
            rows = [(answer.error_code, answer.error_message)] + [
                (each.error_code, each.error_message)
                for topic in answer.responses
                for each in topic.partitions
            ]
            self._refusal = next(
                (f"{ErrorCode(code).name}: {reason}" for code, reason in rows if code), ""
            )


def _led(node: Node, partition: Partition, work: int) -> LedPartition | None:
    topic = node.image.topics.by_name(partition.topic)
    known = None if topic is None else topic.partitions.get(partition.index)
    if known is None or known.leader != node.node_id:
        return None
    return LedPartition(
        partition.topic,
        partition.index,
        work,
        partition.size_bytes,
        known.replicas,
        known.isr,
    )


def _reassignment(topic: str, index: int, goal: list[int]) -> tuple[Request, int]:
    row = ReassignablePartition(partition_index=index, replicas=goal)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=False,
        topics=[ReassignableTopic(name=topic, partitions=[row])],
    )
    return request, _REASSIGNMENT_VERSION


def _election(topic: str, index: int) -> tuple[Request, int]:
    request = ElectLeadersRequest(
        election_type=Election.PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
    )
    return request, _ELECTION_VERSION
