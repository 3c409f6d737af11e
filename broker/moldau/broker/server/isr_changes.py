"""Requests to the controller to change the ISR of partitions that this node leads (AlterPartition).

Invariants: one request is in flight at a time, and each partition has one proposal. A proposal
stays until the controller has answered it, since it is unknown before whether it was accepted. A
replica is proposed only if its broker is alive in the metadata. The proposal has the broker epoch
of the replica's last fetch at the time of the proposal, even if it is sent again (KIP-841,
KIP-903): a broker that has restarted since may have lost the records. An answer settles the
proposal that was sent, and no later one of the same partition. The race behind that:

1. The leader proposes a follower on partition epoch 2, and the request is on its way.
2. The controller has changed the partition to epoch 3 already. The leader learns this from the
   metadata and forgets its proposal, which was based on epoch 2.
3. The follower fetches, and the leader proposes it again, on partition epoch 3.
4. The answer to the first request comes: INVALID_UPDATE_VERSION. If it removed the proposal of step
   3, that one would never be sent and never be answered, and the ISR would not change again as long
   as this leader leads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.broker.decision.context import of_node
from moldau.broker.settings.replication import replica_lag_time_max_ms
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.broker.api.node import Node
    from moldau.broker.replication.leader import Leader
    from moldau.broker.replication.partition import Partition
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.protocol.declare import Response

Name = tuple["Uuid", int]

VERSION: Final = AlterPartitionRequest.spec.versions.last
PARTITIONS_MAX: Final = 2000
"""The limit for one request."""
PAUSE_SECONDS: Final = 0.1
_REFUSED_FOR_GOOD: Final = frozenset(
    (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
)
_AGAIN: Final = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT))


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR that this leader requests from the controller."""

    partition: Partition
    leader: Leader
    isr: frozenset[int]
    broker_epochs: Mapping[int, int]
    """The broker epochs of the replicas in `isr` except the leader, at the time of the proposal."""
    partition_epoch: int
    """The partition epoch that the proposal is based on."""

    @property
    def is_open(self) -> bool:
        """Whether the leader still waits for it: it still leads, and the metadata has not
        superseded the proposal."""
        leader, partition = self.leader, self.partition
        is_same = leader.proposed == self.isr and leader.partition_epoch == self.partition_epoch
        return is_same and partition.is_leader and partition.leadership is leader


Proposals = dict[Name, Proposal]


class IsrChanges:
    """The ISR changes of this broker, from start to exit."""

    def __init__(self, node: Node, log: Logger) -> None:
        self._node = node
        self._log = log
        self._proposals: Proposals = {}
        self._task: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None

    def live(self) -> None:
        """Start to check for lagging followers."""
        self._ticking = self._node.runtime.spawn(self._tick(), name="broker-isr-lag")

    async def aclose(self) -> None:
        """Stop: send no more requests."""
        tasks = [each for each in (self._task, self._ticking) if each is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def on_caught_up(self, partition: Partition, replica_id: int) -> None:
        """Propose a follower for the ISR if its broker is alive: it has all committed records."""
        node = self._node
        broker = node.image.brokers.by_id.get(replica_id)
        leader = partition.leadership
        if broker is None or not broker.is_active:
            return
        if leader.broker_epoch(replica_id) not in (-1, broker.broker_epoch):
            return
        self._propose(partition, leader, leader.isr | {replica_id})

    async def _tick(self) -> None:
        while True:
            lag_ms = self._node.settings[replica_lag_time_max_ms]
            await asyncio.sleep(lag_ms / 2000)
            now_ms = self._node.runtime.clock.monotonic_ns() // 1_000_000
            for partition in list(self._node.replicas):
                if partition.is_leader and not partition.leadership.is_alone:
                    self._shrink(partition, now_ms, lag_ms)

    def _shrink(self, partition: Partition, now_ms: int, lag_ms: int) -> None:
        leader = partition.leadership
        if leader.proposed is not None:
            return
        late = leader.lagging(partition.log_end_offset, now_ms, lag_ms)
        if late:
            self._log.info(
                "followers lag and shall leave the ISR",
                topic=partition.topic,
                partition=partition.index,
                followers=sorted(late),
            )
            self._propose(partition, leader, leader.isr - late)

    # Requests.

    def _propose(self, partition: Partition, leader: Leader, isr: frozenset[int]) -> None:
        leader.propose(isr)
        epochs = {each: leader.broker_epoch(each) for each in isr - {leader.replica_id}}
        proposal = Proposal(partition, leader, isr, epochs, leader.partition_epoch)
        self._proposals[partition.topic_id, partition.index] = proposal
        if self._task is None or self._task.done():
            self._task = self._node.runtime.spawn(self._ask(), name="broker-isr")

    async def _ask(self) -> None:
        await asyncio.sleep(0)  # proposals of one turn of the event loop go together
        while self._proposals:
            asked = dict(list(self._proposals.items())[:PARTITIONS_MAX])
            for name, proposal in list(asked.items()):
                if not proposal.is_open:  # settled by the metadata
                    del asked[name], self._proposals[name]
            if asked and not await self._ask_some(asked):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask_some(self, asked: Proposals) -> bool:
        """Send one request. Return whether all its proposals are settled."""
        answered: asyncio.Future[Response | KafkaError] = asyncio.Future()

        def on_answer(answer: Response | KafkaError) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._node.controller.submit(
            self._request(asked), of_node(self._node.node_id, VERSION), on_answer
        )
        answer = await answered
        if isinstance(answer, KafkaError):
            return False
        assert isinstance(answer, AlterPartitionResponse)
        if answer.error_code:
            self._log.debug("no change of an ISR", error=ErrorCode(answer.error_code).name)
            return False
        is_settled = True
        for topic in answer.topics:
            for row in topic.partitions:
                name = topic.topic_id, row.partition_index
                if name not in asked:
                    continue
                if row.error_code in _AGAIN:
                    is_settled = False
                    continue
                self._take(asked[name], row)
                if self._proposals.get(name) is asked[name]:
                    del self._proposals[name]
        return is_settled

    def _take(self, proposal: Proposal, row: AlterPartitionResponsePartitionData) -> None:
        """Apply the controller's answer. After an error that is not final, the change may have been
        accepted before: the metadata will show it. Until then the proposed replicas may be elected,
        so they hold the high watermark back."""
        if row.error_code in _REFUSED_FOR_GOOD:
            if proposal.is_open:
                proposal.partition.withdraw(proposal.leader)
        elif not row.error_code:
            proposal.partition.on_isr(row.isr, row.leader_epoch, row.partition_epoch)

    def _request(self, asked: Mapping[Name, Proposal]) -> AlterPartitionRequest:
        node = self._node
        topics: dict[Uuid, list[AlterPartitionRequestPartitionData]] = {}
        for (topic_id, index), proposal in asked.items():
            epochs = proposal.broker_epochs
            row = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=proposal.partition.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=each, broker_epoch=epochs.get(each, node.broker_epoch))
                    for each in sorted(proposal.isr)
                ],
                partition_epoch=proposal.partition_epoch,
            )
            topics.setdefault(topic_id, []).append(row)
        return AlterPartitionRequest(
            broker_id=node.node_id,
            broker_epoch=node.broker_epoch,
            topics=[
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=rows)
                for topic_id, rows in topics.items()
            ],
        )
