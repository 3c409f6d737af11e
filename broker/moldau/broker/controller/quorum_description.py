"""DescribeQuorum: the metadata log's leader, its voters, and the progress of each (KIP-595).

The request is for one partition, that of the metadata log. If it names anything else, every
partition in it gets an error, including that one, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.topic_names import METADATA_TOPIC
from moldau.broker.raft.leader import Progress
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.raft.voters import Voter, Voters

_DISKS_SINCE: Final = 2


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The current facts about the quorum that its leader knows."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    voters: Voters
    now_ms: int
    monotonic_ms: int = 0
    progress: Mapping[int, Progress] = field(default_factory=dict)
    """The progress of the other voters. Its times are on the clock of `monotonic_ms`."""
    observers: Mapping[int, Progress] = field(default_factory=dict)


def describe_quorum(
    image: Image, view: QuorumView, request: DescribeQuorumRequest, version: int
) -> DescribeQuorumResponse:
    """Return the description of the quorum; since version 2 with directory ids and addresses
    (KIP-853)."""
    asked = [
        (each.topic_name, [one.partition_index for one in each.partitions])
        for each in request.topics
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return _response(
            (name, [_unknown(number) for number in numbers]) for name, numbers in asked
        )
    partition = _partition(view)
    response = _response([(METADATA_TOPIC, [partition])])
    if version >= _DISKS_SINCE:
        for voter, told in zip(view.voters.voters, partition.current_voters, strict=True):
            told.replica_directory_id = voter.directory_id
            response.nodes.append(_node(image, voter))
    else:
        for each in (*partition.current_voters, *partition.observers):
            each.replica_directory_id = ZERO_UUID  # the version has no place for it
    return response


def _response(
    topics: Iterable[tuple[str, list[DescribeQuorumResponsePartitionData]]],
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[
            DescribeQuorumResponseTopicData(topic_name=name, partitions=partitions)
            for name, partitions in topics
        ],
    )


def _unknown(number: int) -> DescribeQuorumResponsePartitionData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponsePartitionData(
        partition_index=number,
        error_code=code,
        error_message=code.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def _partition(view: QuorumView) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        current_voters=[_replica(view, each) for each in view.voters.voters],
        observers=[
            _progressed(view, replica_id, progress)
            for replica_id, progress in view.observers.items()
        ],
    )


def _replica(view: QuorumView, voter: Voter) -> ReplicaState:
    """Return the state of a voter. The leader counts as having just fetched from itself."""
    if voter.voter_id != view.leader_id:
        known = view.progress.get(voter.voter_id, Progress())
        return _progressed(view, voter.voter_id, known)
    return ReplicaState(
        replica_id=voter.voter_id,
        log_end_offset=view.log_end_offset,
        last_fetch_timestamp=view.now_ms,
        last_caught_up_timestamp=view.now_ms,
    )


def _progressed(view: QuorumView, replica_id: int, progress: Progress) -> ReplicaState:
    """Return the state of another replica, from its fetches."""

    def wall_ms(then_ms: int) -> int:
        return then_ms if then_ms < 0 else view.now_ms - (view.monotonic_ms - then_ms)

    return ReplicaState(
        replica_id=replica_id,
        replica_directory_id=progress.directory_id,
        log_end_offset=progress.log_end_offset if progress.last_fetch_ms >= 0 else -1,
        last_fetch_timestamp=wall_ms(progress.last_fetch_ms),
        last_caught_up_timestamp=wall_ms(progress.last_caught_up_ms),
    )


def _node(image: Image, voter: Voter) -> Node:
    """Return a voter's addresses: those in the quorum's log, else those of its registration."""
    endpoints = voter.endpoints
    registered = image.brokers.controllers.get(voter.voter_id)
    if not endpoints and registered is not None:
        endpoints = tuple((each.name, each.host, each.port) for each in registered.endpoints)
    return Node(
        node_id=voter.voter_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in endpoints],
    )
