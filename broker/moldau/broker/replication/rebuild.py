"""How a log begins anew behind remote records: what the leader and the remote segments say.

Only reads: `follower` decides, `leader_fetch` takes the result if it still holds, and `fetcher`
carries it out. So an attempt that is given up, or whose replica has another leader meanwhile, has
changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from moldau.broker.log.leader_epochs import NO_EPOCH, NO_OFFSET, EpochEnd, LogPoint
from moldau.broker.log.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
)
from moldau.broker.replication import follower
from moldau.broker.replication.follower import Action, LeaderEnds, Marks
from moldau.broker.replication.leader_fetch import RemoteStart
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.tiered.rebuild import RemoteHistory
    from moldau.link import Peers
    from moldau.protocol.declare import Request, Response

    A = TypeVar("A", bound=Response)

_NO_EPOCH_END: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


class OffsetOfLeader(NamedTuple):
    """An offset that a leader told, and the epoch of the record there."""

    offset: int
    epoch: int


class LeaderQueries:
    """Questions about one partition to its leader, in the leader epoch of the follower."""

    def __init__(self, peers: Peers, node_id: int, leader_id: int, partition: Partition) -> None:
        self._peers = peers
        self._node_id = node_id
        self._leader_id = leader_id
        self._partition = partition
        self._leader_epoch = partition.leader_epoch

    async def offset(self, timestamp: int) -> OffsetOfLeader:
        """Return the answer of ListOffsets. Raise KafkaError if there is none."""
        partition = self._partition
        row = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=self._leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[row])],
        )
        response = await self._ask(request, ListOffsetsResponse)
        found = response.topics[0].partitions[0]
        _check(found.error_code)
        return OffsetOfLeader(found.offset, found.leader_epoch)

    async def epoch_end(self, epoch: int) -> EpochEnd:
        """Return the answer of OffsetForLeaderEpoch. Raise KafkaError if there is none."""
        partition = self._partition
        row = OffsetForLeaderPartition(
            partition=partition.index,
            current_leader_epoch=self._leader_epoch,
            leader_epoch=epoch,
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._node_id,
            topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[row])],
        )
        response = await self._ask(request, OffsetForLeaderEpochResponse)
        found = response.topics[0].partitions[0]
        _check(found.error_code)
        return EpochEnd(found.leader_epoch, found.end_offset)

    async def ends(self, *, with_pending: bool) -> LeaderEnds:
        """Return where the leader's log begins and ends."""
        start = await self.offset(EARLIEST)
        local = await self.offset(EARLIEST_LOCAL)
        pending = OffsetOfLeader(NO_OFFSET, NO_EPOCH)
        if with_pending:
            pending = await self.offset(EARLIEST_PENDING_UPLOAD)
        end = await self.offset(LATEST)
        return LeaderEnds(start.offset, *local, end.offset, *pending)

    async def _ask(self, request: Request, answer: type[A]) -> A:
        return await self._peers.request(self._leader_id, request, answer)


async def find_start(
    leader: LeaderQueries,
    marks: Marks,
    history: RemoteHistory | None,
    *,
    is_remote_skipped: bool,
) -> RemoteStart | int | None:
    """Return how a log with these marks begins anew: behind remote records, or at an offset. None:
    it goes on as it is. Raise KafkaError, CorruptLog or StoreError if that cannot be known now."""
    ends = await leader.ends(with_pending=is_remote_skipped)
    step = follower.on_leader_ends(marks, ends, is_remote_skipped=is_remote_skipped)
    if step.action is Action.FETCH:
        return None
    if step.action is Action.START_AT:
        return step.offset
    if step.action is Action.PAUSE:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE, "the leader does not know yet what is remote"
        )
    if history is None or not history.is_ready:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE, "this node does not know yet what is remote"
        )
    point = await _point_at(leader, step.offset, follower.epoch_at(ends, step.offset))
    end = history.segment_end(point)
    if (
        end is not None
        and end != point
        and follower.has_point(end, await leader.epoch_end(end.epoch))
    ):
        point = end
    found = await history.history_at(point)
    if not found.covers(ends.log_start_offset):
        raise CorruptLog(
            "the epochs of the remote segments do not reach back to the start of the log",
            log_start_offset=ends.log_start_offset,
            epochs=[tuple(entry) for entry in found.epochs],
        )
    return RemoteStart(found, ends.log_start_offset)


async def _point_at(leader: LeaderQueries, offset: int, epoch: int) -> LogPoint:
    earlier = await leader.epoch_end(epoch - 1) if epoch > 0 else _NO_EPOCH_END
    return follower.point_before(offset, epoch, earlier)


def _check(error_code: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code))
