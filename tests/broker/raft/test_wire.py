"""What voters say to each other survives the wire, in every version; what is meant for others is
refused."""

from __future__ import annotations

import pytest

from moldau.broker.raft import wire
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
from moldau.protocol.messages.fetch import FetchRequest, FetchResponse

CLUSTER = "cluster"
STANDING = EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 7, 2)
ASKED: list[tuple[PeerRequest, PeerAnswer]] = [
    (VoteAsk(5, 1, 4, 99, is_pre_vote=True), VoteAnswer(STANDING, is_granted=True)),
    (VoteAsk(5, 1, 4, 99, is_pre_vote=False), VoteAnswer(STANDING, is_granted=False)),
    (BeginEpoch(5, 1), STANDING),
    (EndEpoch(5, 1, (3, 2)), STANDING),
]


@pytest.mark.parametrize(("asked", "answer"), ASKED)
def test_a_request_and_its_answer(asked: PeerRequest, answer: PeerAnswer) -> None:
    request, response_class = wire.request_of(CLUSTER, 2, asked)
    last = type(request).spec.versions.last
    came = type(request).decode(request.encode(last), last)
    assert wire.asked_by(came, CLUSTER, 2) == asked  # type: ignore[arg-type]
    response = wire.response_to(asked, answer)
    assert isinstance(response, response_class)
    assert wire.answer_of(response_class.decode(response.encode(last), last)) == answer


def test_a_new_leader_names_its_endpoints() -> None:
    endpoints = (("PLAIN", "a", 1), ("TLS", "b", 2))
    request, _ = wire.request_of(CLUSTER, 2, BeginEpoch(5, 1), endpoints)
    came = type(request).decode(request.encode(1), 1)
    for listener, address in (("TLS", ("b", 2)), ("PLAIN", ("a", 1)), ("OTHER", ("a", 1))):
        assert wire.leader_address(came, listener) == address  # type: ignore[arg-type]
    for asked, _ in ASKED:
        request, _ = wire.request_of(CLUSTER, 2, asked)
        assert wire.leader_address(request, "TLS") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "_"), ASKED)
def test_a_request_for_another_cluster_is_refused(asked: PeerRequest, _: PeerAnswer) -> None:
    request, response_class = wire.request_of("other", 2, asked)
    with pytest.raises(KafkaError) as refused:
        wire.asked_by(request, CLUSTER, 2)  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    response = wire.refusal_of(request, refused.value)  # type: ignore[arg-type]
    assert isinstance(response, response_class)
    with pytest.raises(KafkaError):
        wire.answer_of(response)


def test_a_request_for_another_voter_is_refused() -> None:
    request, _ = wire.request_of(CLUSTER, 2, ASKED[0][0])
    with pytest.raises(KafkaError) as refused:
        wire.asked_by(request, CLUSTER, 3)  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_VOTER_KEY


@pytest.mark.parametrize(
    "verdict",
    [
        FetchVerdict(EpochAnswer(ErrorCode.NONE, 7, 2), 40),
        FetchVerdict(EpochAnswer(ErrorCode.NONE, 7, 2), 40, Divergence(3, 12)),
        FetchVerdict(EpochAnswer(ErrorCode.NONE, 7, 2), 40, None, SnapshotId(30, 6)),
        FetchVerdict(STANDING),
    ],
)
def test_a_fetch_and_its_verdict(verdict: FetchVerdict) -> None:
    ask = FetchAsk(3, 7, 41, 6)
    version = FetchRequest.spec.stable_versions.last
    request = wire.fetch_request(CLUSTER, ask, (500, 1 << 20))
    came = FetchRequest.decode(request.encode(version), version)
    assert wire.fetch_ask_of(came, version, CLUSTER)[0] == ask
    response = wire.fetch_response(verdict, 0, b"")
    told = FetchResponse.decode(response.encode(version), version)
    assert wire.fetched_of(told)[0] == verdict


def test_a_consumer_does_not_read_the_metadata_log() -> None:
    request = wire.fetch_request(CLUSTER, FetchAsk(-1, 7, 0, 0), (500, 1 << 20))
    with pytest.raises(KafkaError):
        wire.fetch_ask_of(request, FetchRequest.spec.stable_versions.last, CLUSTER)
