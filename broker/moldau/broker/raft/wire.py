"""Translate the core's messages to Kafka's requests and responses, and back.

Each of them could name many logs; here it names one, the metadata log. A request for another log
gets INVALID_REQUEST, a request of another cluster INCONSISTENT_CLUSTER_ID.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from moldau.broker.raft.messages import (
    BeginEpoch,
    Divergence,
    EndEpoch,
    EpochAnswer,
    FetchAsk,
    FetchVerdict,
    PeerAnswer,
    PeerRequest,
    VoteAnswer,
    VoteAsk,
)
from moldau.broker.raft.snapshots import SnapshotId
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import METADATA_TOPIC_ID
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import begin_quorum_epoch as begin
from moldau.protocol.messages import end_quorum_epoch as end
from moldau.protocol.messages import fetch, fetch_snapshot, vote

TOPIC: Final = "__cluster_metadata"

RaftRequest: TypeAlias = (
    vote.VoteRequest | begin.BeginQuorumEpochRequest | end.EndQuorumEpochRequest
)


# Requests to other voters.


def request_of(
    cluster_id: str,
    peer: int,
    asked: PeerRequest,
    endpoints: Sequence[tuple[str, str, int]] = (),
) -> tuple[Request, type[Response]]:
    """Return the request to `peer`, and the class of its response. `endpoints` are those of this
    voter: a new leader names them, as a voter whose log is older may not know it (KIP-853)."""
    if isinstance(asked, VoteAsk):
        return _vote_request(cluster_id, peer, asked), vote.VoteResponse
    if isinstance(asked, BeginEpoch):
        row = begin.BeginQuorumEpochRequestPartitionData(
            partition_index=0, leader_id=asked.leader_id, leader_epoch=asked.epoch
        )
        topic = begin.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[row])
        told = begin.BeginQuorumEpochRequest(
            cluster_id=cluster_id,
            voter_id=peer,
            topics=[topic],
            leader_endpoints=[
                begin.LeaderEndpoint(name=name, host=host, port=port)
                for name, host, port in endpoints
            ],
        )
        return told, begin.BeginQuorumEpochResponse
    ended = end.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=asked.leader_id,
        leader_epoch=asked.epoch,
        preferred_successors=list(asked.successors),
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=each, candidate_directory_id=bytes(16))
            for each in asked.successors
        ],
    )
    ends = end.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[ended])
    return end.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[ends]), (
        end.EndQuorumEpochResponse
    )


def _vote_request(cluster_id: str, peer: int, ask: VoteAsk) -> vote.VoteRequest:
    row = vote.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=ask.epoch,
        replica_id=ask.candidate_id,
        replica_directory_id=ask.candidate_directory_id,
        last_offset_epoch=ask.last_epoch,
        last_offset=ask.log_end_offset,
        pre_vote=ask.is_pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=TOPIC, partitions=[row])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=peer, topics=[topic])


def answer_of(response: Response) -> PeerAnswer:
    """Return the peer's answer. Raise KafkaError if the peer rejects the request as a whole."""
    assert isinstance(
        response, vote.VoteResponse | begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse
    )
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the answer is not about the metadata log")
    row = response.topics[0].partitions[0]
    epoch_answer = EpochAnswer(ErrorCode(row.error_code), row.leader_epoch, row.leader_id)
    if isinstance(row, vote.VoteResponsePartitionData):
        return VoteAnswer(epoch_answer, row.vote_granted)
    return epoch_answer


# Requests of other voters.


def asked_by(request: RaftRequest, cluster_id: str, node_id: int) -> PeerRequest:
    """Return a peer's message. Raise KafkaError if it is for another log, cluster or voter."""
    _check_cluster(request.cluster_id, cluster_id)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the request is not about the metadata log")
    topic = request.topics[0]
    row = topic.partitions[0]
    if topic.topic_name != TOPIC or row.partition_index != 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, topic=topic.topic_name)
    if isinstance(request, vote.VoteRequest | begin.BeginQuorumEpochRequest) and (
        request.voter_id not in (-1, node_id)
    ):
        raise KafkaError(ErrorCode.INVALID_VOTER_KEY, asked=request.voter_id, voter=node_id)
    if isinstance(row, vote.VoteRequestPartitionData):
        return VoteAsk(
            row.replica_epoch,
            row.replica_id,
            row.last_offset_epoch,
            row.last_offset,
            row.pre_vote,
            row.replica_directory_id,
        )
    if isinstance(row, begin.BeginQuorumEpochRequestPartitionData):
        return BeginEpoch(row.leader_epoch, row.leader_id)
    candidates = tuple(each.candidate_id for each in row.preferred_candidates)
    return EndEpoch(row.leader_epoch, row.leader_id, candidates or tuple(row.preferred_successors))


def leader_address(request: RaftRequest, listener: str) -> tuple[str, int] | None:
    """Return the address of a new leader at this listener, or else its first one; None if the
    request names none."""
    if not isinstance(request, begin.BeginQuorumEpochRequest):
        return None
    known = {each.name: (each.host, each.port) for each in request.leader_endpoints}
    return known.get(listener) or next(iter(known.values()), None)


def response_to(asked: PeerRequest, answer: PeerAnswer) -> Response:
    """Return the response with the answer."""
    if isinstance(answer, VoteAnswer):
        told = answer.epoch_answer
        row = vote.VoteResponsePartitionData(
            partition_index=0,
            error_code=told.error,
            leader_id=told.leader_id,
            leader_epoch=told.epoch,
            vote_granted=answer.is_granted,
        )
        topic = vote.VoteResponseTopicData(topic_name=TOPIC, partitions=[row])
        return vote.VoteResponse(error_code=ErrorCode.NONE, topics=[topic])
    fields = {
        "partition_index": 0,
        "error_code": answer.error,
        "leader_id": answer.leader_id,
        "leader_epoch": answer.epoch,
    }
    if isinstance(asked, BeginEpoch):
        begun = begin.BeginQuorumEpochResponsePartitionData(**fields)
        topics = [begin.BeginQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[begun])]
        return begin.BeginQuorumEpochResponse(error_code=ErrorCode.NONE, topics=topics)
    ended = end.EndQuorumEpochResponsePartitionData(**fields)
    ends = [end.EndQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[ended])]
    return end.EndQuorumEpochResponse(error_code=ErrorCode.NONE, topics=ends)


def refusal_of(request: RaftRequest, error: KafkaError) -> Response:
    """Return the response to a request that is rejected as a whole."""
    if isinstance(request, vote.VoteRequest):
        return vote.VoteResponse(error_code=error.code, topics=[])
    if isinstance(request, begin.BeginQuorumEpochRequest):
        return begin.BeginQuorumEpochResponse(error_code=error.code, topics=[])
    return end.EndQuorumEpochResponse(error_code=error.code, topics=[])


# Fetch.


def fetch_request(cluster_id: str, ask: FetchAsk, bounds: tuple[int, int]) -> fetch.FetchRequest:
    """Return a fetch request; `bounds` are the longest wait (ms) and the maximum bytes."""
    row = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=ask.epoch,
        fetch_offset=ask.offset,
        last_fetched_epoch=ask.last_epoch,
        partition_max_bytes=bounds[1],
        replica_directory_id=ask.directory_id,
        high_watermark=ask.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=ask.replica_id),
        max_wait_ms=bounds[0],
        min_bytes=0,
        max_bytes=bounds[1],
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[row])],
    )


def fetch_ask_of(
    request: fetch.FetchRequest, version: int, cluster_id: str
) -> tuple[FetchAsk, fetch.FetchPartition]:
    """Return a replica's fetch. Raise KafkaError if it is for another log or cluster."""
    if request.cluster_id is not None:
        _check_cluster(request.cluster_id, cluster_id)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the fetch is not of the metadata log")
    topic = request.topics[0]
    is_known = topic.topic_id == METADATA_TOPIC_ID if version >= 13 else topic.topic == TOPIC
    row = topic.partitions[0]
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    if not is_known or row.partition != 0 or replica_id < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the fetch is not of the metadata log")
    asked = FetchAsk(
        replica_id,
        row.current_leader_epoch,
        row.fetch_offset,
        row.last_fetched_epoch,
        row.replica_directory_id,
        row.high_watermark,
    )
    return asked, row


def fetch_response(
    verdict: FetchVerdict,
    log_start_offset: int,
    records: object,
    leader_at: tuple[str, int] | None = None,
) -> Response:
    """Return the response; `records` are those from the requested offset on, or none. `leader_at`
    is the leader's address, for a node that knows none of the voters."""
    told = verdict.epoch_answer
    data = fetch.PartitionData(
        partition_index=0,
        error_code=told.error,
        high_watermark=verdict.high_watermark,
        last_stable_offset=verdict.high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=None,
        records=records,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=told.leader_id, leader_epoch=told.epoch),
    )
    if verdict.diverging is not None:
        data.diverging_epoch = fetch.EpochEndOffset(
            epoch=verdict.diverging.epoch, end_offset=verdict.diverging.end_offset
        )
    if verdict.snapshot is not None:
        data.snapshot_id = fetch.SnapshotId(
            end_offset=verdict.snapshot.end_offset, epoch=verdict.snapshot.epoch
        )
    topic = fetch.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
    response = fetch.FetchResponse(responses=[topic])
    if leader_at is not None:
        host, port = leader_at
        response.node_endpoints = [fetch.NodeEndpoint(node_id=told.leader_id, host=host, port=port)]
    return response


def fetched_of(response: fetch.FetchResponse) -> tuple[FetchVerdict, object]:
    """Return the verdict and the records. Raise KafkaError if the fetch was rejected as a whole."""
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the answer is not of the metadata log")
    data = response.responses[0].partitions[0]
    told = data.current_leader
    diverging = snapshot = None
    if data.diverging_epoch.epoch >= 0:
        diverging = Divergence(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    if data.snapshot_id.end_offset >= 0:
        snapshot = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
    epoch_answer = EpochAnswer(ErrorCode(data.error_code), told.leader_epoch, told.leader_id)
    verdict = FetchVerdict(epoch_answer, data.high_watermark, diverging, snapshot)
    return verdict, data.records


# Snapshots.


def snapshot_request(
    cluster_id: str, ask: FetchAsk, snapshot_id: SnapshotId, place: tuple[int, int]
) -> fetch_snapshot.FetchSnapshotRequest:
    """Return a request for a piece of the leader's snapshot; `place` is its position and size."""
    row = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=ask.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=place[0],
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[row])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=ask.replica_id, max_bytes=place[1], topics=[topic]
    )


def snapshot_response(
    epoch_answer: EpochAnswer, snapshot_id: SnapshotId, size: int, piece: tuple[int, bytes]
) -> Response:
    """Return a response with a piece, and the size of the whole snapshot."""
    row = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=0,
        error_code=epoch_answer.error,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=epoch_answer.leader_id, leader_epoch=epoch_answer.epoch
        ),
        size=size,
        position=piece[0],
        unaligned_records=piece[1],
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=TOPIC, partitions=[row])
    return fetch_snapshot.FetchSnapshotResponse(error_code=ErrorCode.NONE, topics=[topic])


def _check_cluster(told: str | None, cluster_id: str) -> None:
    if told is not None and told != cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, expected=cluster_id, found=told)
