"""Writing the markers of transactions that end, on this node and on others.

Invariants: a marker is written again until its partition has it, unless the shard that wants it is
closed: then the next coordinator of the transaction writes it. A report goes to the shard that
wanted the marker, and to no later one. The last report is repeated if the shard's log refused the
record that completes the transaction.

Partitions on this node are written in the same turn of the event loop in which the decision is
committed, so a transaction on one node ends without a task or a pause. Another broker has one
request in flight. The markers that it is to write meanwhile are in the next one, of all
transactions: the more transactions end, the fewer requests each of them costs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.joining import exists
from moldau.broker.api.write_txn_markers import write_marker
from moldau.broker.coordinator.transaction.effects import WriteMarkers
from moldau.broker.coordinator.transaction.ending import on_markers_written
from moldau.broker.log.marker import Marker
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.broker.api.node import Node
    from moldau.broker.coordinator.outcome import Effect
    from moldau.broker.coordinator.running_shard import RunningShard
    from moldau.broker.coordinator.transaction.state import TopicPartition
    from moldau.protocol.declare import Response

LANE: Final = "markers"
BACKOFF: Final = Backoff(100, 2000)
"""The pause before the next attempt, by the attempts without progress."""
TOGETHER_MAX: Final = 1000
"""The number of transactions in one request to another broker."""
_NOBODY: Final = -1


class MarkerWriter:
    """Carries out the effects of the transaction coordinator of this node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tasks: set[asyncio.Task[None]] = set()
        self.timers: set[asyncio.TimerHandle] = set()
        self._waiting: dict[int, list[tuple[_Ending, list[TopicPartition]]]] = {}
        """By broker: the markers for its next request."""
        self._asking: set[int] = set()
        """The brokers with a request in flight."""

    def carry_out(self, effects: tuple[Effect, ...], shell: RunningShard[Any]) -> None:
        """Write the markers of transactions of this shard."""
        for effect in effects:
            assert isinstance(effect, WriteMarkers)
            _Ending(self, effect, shell).write()

    def send(self, leader: int, ending: _Ending, partitions: list[TopicPartition]) -> None:
        """Let another broker write markers, with the next request to it."""
        waiting = self._waiting.setdefault(leader, [])
        waiting.append((ending, partitions))
        if leader not in self._asking:
            self._asking.add(leader)
            task = self.node.runtime.spawn(self._ask(leader), name=f"markers-{leader}")
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _ask(self, leader: int) -> None:
        """Send what waits for this broker, one request after the other."""
        try:
            while self._waiting.get(leader):
                asked = _next_request(self._waiting[leader])
                codes = await self._answer(leader, list(asked.values()))
                for producer_id, (ending, partitions) in asked.items():
                    for each in partitions:
                        code = codes.get((producer_id, *each), ErrorCode.NETWORK_EXCEPTION)
                        ending.take(each, ErrorCode(code))
        finally:
            self._asking.discard(leader)

    async def _answer(
        self, leader: int, asked: list[tuple[_Ending, list[TopicPartition]]]
    ) -> dict[tuple[int, str, int], int]:
        """Return the codes by producer id, topic and partition; none if there is no answer."""
        markers = [ending.request(partitions) for ending, partitions in asked]
        try:
            peers = self.node.peers
            if peers is None:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
            request = WriteTxnMarkersRequest(markers=markers)
            response = await peers.request(leader, request, WriteTxnMarkersResponse, lane=LANE)
        except KafkaError as error:
            self.node.log.debug("a broker writes no markers", broker=leader, why=str(error))
            return {}
        return {
            (marker.producer_id, topic.name, row.partition_index): row.error_code
            for marker in response.markers
            for topic in marker.topics
            for row in topic.partitions
        }

    def close(self) -> None:
        """Stop: the shards are closed."""
        self._waiting.clear()
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        for task in self.tasks:
            task.cancel()


class _Ending:
    """One transaction whose markers are being written."""

    def __init__(
        self, writer: MarkerWriter, effect: WriteMarkers, shell: RunningShard[Any]
    ) -> None:
        self._writer = writer
        self._node = writer.node
        self._effect = effect
        self.producer_id = effect.producer_id
        self._shell = shell
        self._left = set(effect.partitions)
        self._written: set[TopicPartition] = set()
        self._unanswered: set[TopicPartition] = set()
        self._is_asking = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self._marker = Marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.is_commit,
            shell.partition.leader_epoch,
            effect.transaction_version,
        )

    def write(self) -> None:
        """Write the markers that are not written yet, each once."""
        if self._timer is not None:
            self._writer.timers.discard(self._timer)
        if self._shell.is_closed():
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in sorted(self._left):
            by_leader.setdefault(self._leader_of(each), []).append(each)
        self._unanswered = set(self._left)
        self._is_asking = True
        for leader, partitions in by_leader.items():
            if leader == self._node.node_id:
                for each in partitions:
                    self._write_here(each)
            elif leader == _NOBODY:
                for each in partitions:
                    self.take(each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._writer.send(leader, self, partitions)
        self._is_asking = False
        self._report_if_answered()

    def _write_here(self, partition: TopicPartition) -> None:
        try:
            write_marker(self._node, *partition, self._marker, self._on_code(partition))
        except MoldauError as error:
            what = "writing a marker of a transaction failed"
            self._node.log.failure(what, error, **partition._asdict())
            self.take(partition, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _leader_of(self, partition: TopicPartition) -> int:
        topic = self._node.image.topics.by_name(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return _NOBODY if known is None else known.leader

    def _on_code(self, partition: TopicPartition) -> Any:
        return lambda code: self.take(partition, code)

    def take(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Note the result for one partition. Only the first result of an attempt counts."""
        if partition not in self._unanswered:
            return
        self._unanswered.discard(partition)
        node = self._node
        # Its topic was deleted, and perhaps made again with fewer partitions.
        is_gone = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not exists(node, partition)
        # The partition has seen a newer epoch of the producer. The coordinator gives one only after
        # all markers of the transaction were written, so this one is there. (Brokers of Kafka say
        # so by an error.)
        is_old = code is ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.NONE or is_gone or is_old:
            self._left.discard(partition)
            self._written.add(partition)
        else:
            facts = {"topic": partition.topic, "partition": partition.partition}
            node.log.debug("a marker is not written yet", error=code.name, **facts)
        self._report_if_answered()

    def _report_if_answered(self) -> None:
        if self._is_asking or self._unanswered:
            return
        written, self._written = frozenset(self._written), set()
        effect = self._effect
        if written:
            self._failures = 0
        if self._left:
            self._retry_later()
        if written or not self._left:
            self._shell.run(
                lambda shard, now_ms: on_markers_written(
                    shard, effect, written, self._on_refused, now_ms
                ),
                self._on_refused,
                name="markers",
            )

    def _on_refused(self, answer: Response | KafkaError) -> None:
        """Report again: the log has refused that the transaction is complete. What is written is
        noted in the shard."""
        assert isinstance(answer, KafkaError), answer
        if not self._left:
            self._node.log.debug("a transaction is not complete yet", error=answer.code.name)
            self._retry_later()

    def _retry_later(self) -> None:
        if self._shell.is_closed():
            return
        self._failures += 1
        pause_s = BACKOFF.plain_ms(self._failures) / 1000
        self._timer = asyncio.get_running_loop().call_later(pause_s, self.write)
        self._writer.timers.add(self._timer)

    def request(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        """Return the marker for these partitions, as another broker gets it."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        marker = self._marker
        return WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=ids)
                for name, ids in by_topic.items()
            ],
        )


def _next_request(
    waiting: list[tuple[_Ending, list[TopicPartition]]],
) -> dict[int, tuple[_Ending, list[TopicPartition]]]:
    """Take what the next request has out of `waiting`, by producer id. Two markers of one producer,
    as before and after a move of its coordinator, are in two requests: answers name producers."""
    taken: dict[int, tuple[_Ending, list[TopicPartition]]] = {}
    left = []
    for ending, partitions in waiting:
        producer_id = ending.producer_id
        if producer_id in taken or len(taken) == TOGETHER_MAX:
            left.append((ending, partitions))
        else:
            taken[producer_id] = ending, partitions
    waiting[:] = left
    return taken
