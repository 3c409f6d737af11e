"""The core of a share session: epochs, what is held, and what becomes of acknowledgements."""

from __future__ import annotations

import random

import pytest

from moldau.client.consumer.share.acknowledgements import Acknowledgement, AcknowledgeType, runs
from moldau.client.consumer.share.session import (
    FetchLimits,
    SessionReady,
    SharePartition,
    ShareSession,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import share_acknowledge as acknowledge
from moldau.protocol.messages import share_fetch as fetch
from moldau.runtime.backoff import Backoff

TOPIC = b"t" * 16
ONE, TWO = SharePartition(TOPIC, 0), SharePartition(TOPIC, 1)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
LOCK_S = 30.0


def new_session() -> ShareSession:
    session = ShareSession(FetchLimits("g", "me"), Backoff(100, 1000), random.Random(1))
    session.can_renew = True
    session.want([ONE, TWO])
    return session


def fetched(
    where: SharePartition = ONE, first: int = 0, last: int = 9, *, code: int = 0, refused: int = 0
) -> fetch.ShareFetchResponse:
    nobody = fetch.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    acquired = fetch.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1)
    data = fetch.PartitionData(
        partition_index=where.partition,
        error_code=code,
        acknowledge_error_code=refused,
        current_leader=nobody,
        records=b"",
        acquired_records=[acquired] if last >= first else [],
    )
    topic = fetch.ShareFetchableTopicResponse(topic_id=where.topic_id, partitions=[data])
    return fetch.ShareFetchResponse(
        error_code=0,
        acquisition_lock_timeout_ms=int(LOCK_S * 1000),
        responses=[topic],
        node_endpoints=[],
    )


NOTHING = fetch.ShareFetchResponse(
    error_code=0, acquisition_lock_timeout_ms=30_000, responses=[], node_endpoints=[]
)


def acknowledged(code: int = 0) -> acknowledge.ShareAcknowledgeResponse:
    nobody = acknowledge.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    data = acknowledge.PartitionData(partition_index=0, error_code=code, current_leader=nobody)
    topic = acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC, partitions=[data])
    return acknowledge.ShareAcknowledgeResponse(
        error_code=0, acquisition_lock_timeout_ms=30_000, responses=[topic], node_endpoints=[]
    )


def fetch_of(ready: SessionReady) -> fetch.ShareFetchRequest:
    assert isinstance(ready.request, fetch.ShareFetchRequest)
    return ready.request


def acknowledge_of(ready: SessionReady) -> acknowledge.ShareAcknowledgeRequest:
    assert isinstance(ready.request, acknowledge.ShareAcknowledgeRequest)
    return ready.request


def accept(offset: int, last: int | None = None) -> Acknowledgement:
    return Acknowledgement(offset, offset if last is None else last, ACCEPT)


def holding(now: float = 0.0) -> ShareSession:
    """A session that holds offsets 0 to 9 of the first partition."""
    session = new_session()
    session.ready(now, 10)
    session.on_answer(fetched(), now)
    assert len(session.ready(now, 0).fetched) == 1
    return session


def test_the_first_fetch_names_all_partitions_and_later_ones_only_what_changed() -> None:
    session = new_session()
    first = fetch_of(session.ready(0.0, 10))
    assert (first.share_session_epoch, first.max_records) == (0, 10)
    assert [each.partition_index for each in first.topics[0].partitions] == [0, 1]
    assert session.ready(0.0, 10).request is None, "one request at a time"
    session.on_answer(NOTHING, 0.0)
    second = fetch_of(session.ready(0.0, 10))
    assert (second.share_session_epoch, second.topics, second.forgotten_topics_data) == (1, [], [])
    session.on_answer(NOTHING, 0.0)
    session.want([TWO])
    third = fetch_of(session.ready(0.0, 10))
    assert [each.partitions for each in third.forgotten_topics_data] == [[0]]
    assert third.topics == []


def test_acknowledgements_travel_with_the_next_fetch_or_alone() -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0), 0.0)
    assert session.acknowledge(ONE, accept(1), 0.004)
    ready = session.ready(0.004, 0)
    assert (ready.request, ready.wake) == (None, 0.005), "a fetch may come that takes them along"
    sent = acknowledge_of(session.ready(0.005, 0)).topics[0].partitions[0].acknowledgement_batches
    assert [(each.first_offset, each.last_offset, each.acknowledge_types) for each in sent] == [
        (0, 1, [1])
    ]
    session.on_answer(acknowledged(), 0.0)
    assert session.acknowledge(ONE, accept(2), 0.0)
    ready = session.ready(0.0, 5)
    assert [each.error for each in ready.outcomes] == [None]
    batches = fetch_of(ready).topics[0].partitions[0].acknowledgement_batches
    assert [(each.first_offset, each.last_offset) for each in batches] == [(2, 2)]
    assert session.held_count == 7


def test_acknowledgements_leave_at_once_where_a_call_waits_for_them() -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0), 0.0)
    assert session.ready(0.0, 0).request is None
    session.hurry()
    acknowledge_of(session.ready(0.0, 0))
    session.on_answer(acknowledged(), 0.0)
    assert session.acknowledge(ONE, accept(1), 0.0)
    assert session.ready(0.0, 0).request is None, "the hurry was for those before"


def test_what_is_not_held_cannot_be_acknowledged() -> None:
    session = holding()
    assert not session.acknowledge(TWO, accept(0), 0.0)
    assert not session.acknowledge(ONE, accept(9, 10), 0.0)
    assert session.acknowledge(ONE, accept(0), 0.0)
    assert not session.acknowledge(ONE, accept(0), 0.0), "once"


def test_a_record_is_not_held_after_the_end_of_its_lock() -> None:
    session = holding()
    session.can_renew = False
    assert session.acknowledge(ONE, accept(0), LOCK_S - 1)
    session.hurry()
    acknowledge_of(session.ready(LOCK_S - 1, 0))
    session.on_answer(acknowledged(), LOCK_S - 1)
    assert session.ready(LOCK_S - 1, 0).wake == LOCK_S
    assert not session.acknowledge(ONE, accept(1), LOCK_S)
    assert (session.held_count, session.held) == (0, {})
    ready = session.ready(LOCK_S, 0)
    assert (ready.request, ready.wake) == (None, None)


def test_a_partition_with_held_records_is_forgotten_only_when_they_are_done() -> None:
    session = holding()
    session.want([TWO])
    assert fetch_of(session.ready(0.0, 5)).forgotten_topics_data == []
    session.on_answer(NOTHING, 0.0)
    assert session.acknowledge(ONE, accept(0, 9), 0.0)
    assert fetch_of(session.ready(0.0, 5)).forgotten_topics_data == []
    session.on_answer(NOTHING, 0.0)
    assert [each.partitions for each in fetch_of(session.ready(0.0, 5)).forgotten_topics_data] == [
        [0]
    ]


def test_locks_are_renewed_after_half_of_their_time() -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0, 7), 0.0)
    acknowledge_of(session.ready(1.0, 0))
    session.on_answer(acknowledged(), 1.0)
    assert session.ready(1.0, 0).wake == LOCK_S / 2
    request = acknowledge_of(session.ready(LOCK_S / 2, 0))
    assert request.is_renew_ack
    batches = request.topics[0].partitions[0].acknowledgement_batches
    assert [(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches] == [
        (8, 9, [4])
    ]
    session.on_answer(acknowledged(), LOCK_S / 2)
    ready = session.ready(LOCK_S / 2, 0)
    assert (ready.outcomes, ready.wake) == ((), LOCK_S)
    assert session.held[ONE][8] > LOCK_S + 1


def test_a_broker_that_refuses_to_renew_is_not_asked_again_and_locks_end() -> None:
    session = holding()
    assert acknowledge_of(session.ready(LOCK_S / 2, 0)).is_renew_ack
    session.on_answer(acknowledged(ErrorCode.INVALID_REQUEST), LOCK_S / 2)
    assert session.ready(LOCK_S / 2 + 5, 0).request is None
    session.can_renew = True  # as the shell says with each request
    assert session.ready(LOCK_S / 2 + 5, 0).request is None
    assert session.held[ONE][0] == LOCK_S
    session.end_locks(LOCK_S)
    assert session.held_count == 0


def test_locks_of_later_records_are_renewed_after_a_refusal() -> None:
    session = holding()
    assert acknowledge_of(session.ready(LOCK_S / 2, 0)).is_renew_ack
    session.on_answer(acknowledged(ErrorCode.INVALID_RECORD_STATE), LOCK_S / 2)
    session.end_locks(LOCK_S)
    fetch_of(session.ready(LOCK_S, 5))
    session.on_answer(fetched(), LOCK_S)
    assert session.ready(LOCK_S, 0).wake == 1.5 * LOCK_S
    assert acknowledge_of(session.ready(1.5 * LOCK_S, 0)).is_renew_ack


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.NETWORK_EXCEPTION),
        KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND),
        KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ],
)
def test_a_lost_session_loses_what_was_held_and_begins_again(error: KafkaError) -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0), 0.0)
    session.hurry()
    acknowledge_of(session.ready(0.0, 0))
    assert session.acknowledge(ONE, accept(1), 0.0)
    session.on_answer(error, 0.0)
    ready = session.ready(5.0, 10)
    assert [(each.acknowledgements, each.error and each.error.code) for each in ready.outcomes] == [
        ((accept(0), accept(1)), error.code)
    ]
    assert session.held_count == 0
    assert not session.acknowledge(ONE, accept(2), 0.0)
    assert fetch_of(ready).share_session_epoch == 0


def test_refused_acknowledgements_have_their_error() -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0), 0.0)
    fetch_of(session.ready(0.0, 5))
    answer = fetched(ONE, 0, -1, refused=ErrorCode.INVALID_RECORD_STATE)
    session.on_answer(answer, 0.0)
    outcome = session.ready(0.0, 0).outcomes[0]
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INVALID_RECORD_STATE
    assert session.held_count == 9


def test_a_leader_that_has_moved_loses_what_is_held_of_its_partition_alone() -> None:
    session = holding()
    fetch_of(session.ready(0.0, 5))
    session.on_answer(fetched(TWO, 0, 4), 0.0)
    session.ready(0.0, 0)
    assert session.acknowledge(ONE, accept(0), 0.0)
    fetch_of(session.ready(0.0, 5))
    assert session.acknowledge(ONE, accept(1), 0.0)
    session.on_answer(fetched(ONE, 0, -1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0.0)
    ready = session.ready(0.0, 0)
    assert [each.code for each in ready.moved] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert session.held.keys() == {TWO}
    assert {each for outcome in ready.outcomes for each in outcome.acknowledgements} == {
        accept(0),
        accept(1),
    }


def test_a_renewal_that_failed_for_now_is_sent_again_later() -> None:
    session = holding()
    assert acknowledge_of(session.ready(LOCK_S / 2, 0)).is_renew_ack
    session.on_answer(acknowledged(ErrorCode.COORDINATOR_NOT_AVAILABLE), LOCK_S / 2)
    ready = session.ready(LOCK_S / 2, 0)
    assert ready.request is None
    assert ready.wake is not None
    assert LOCK_S / 2 < ready.wake < LOCK_S
    assert acknowledge_of(session.ready(ready.wake, 0)).is_renew_ack


@pytest.mark.parametrize(
    ("code", "is_for_the_user"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
    ],
)
def test_a_partition_that_is_refused_is_asked_for_again_later(
    code: ErrorCode, is_for_the_user: bool
) -> None:
    session = new_session()
    fetch_of(session.ready(0.0, 5))
    session.on_answer(fetched(ONE, 0, -1, code=code), 0.0)
    ready = session.ready(0.0, 5)
    assert (ready.request, [each.code for each in ready.moved]) == (None, [code])
    assert ready.wake is not None
    assert ready.wake > 0.0
    assert (session.error is not None) is is_for_the_user
    fetch_of(session.ready(ready.wake, 5))


def test_closing_sends_what_was_acknowledged_with_the_last_epoch() -> None:
    session = holding()
    assert session.acknowledge(ONE, accept(0), 0.0)
    session.close()
    request = acknowledge_of(session.ready(0.0, 10))
    assert request.share_session_epoch == -1
    assert len(request.topics) == 1
    session.on_answer(acknowledged(), 0.0)
    ready = session.ready(0.0, 10)
    assert (ready.request, session.is_closed, session.held_count) == (None, True, 0)
    assert [each.error for each in ready.outcomes] == [None]


def test_a_session_that_was_never_opened_needs_no_request_to_close() -> None:
    session = new_session()
    session.close()
    assert session.ready(0.0, 10).request is None
    assert session.is_closed


def test_an_error_that_no_retry_heals_is_for_the_user() -> None:
    session = new_session()
    session.ready(0.0, 10)
    session.on_answer(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0.0)
    assert session.error is not None


def test_runs_join_neighbours_of_one_kind() -> None:
    given = [
        Acknowledgement(3, 3, RELEASE, 1000),
        accept(1),
        accept(0),
        accept(2),
        Acknowledgement(4, 4, RELEASE, 1000),
        Acknowledgement(5, 5, RELEASE),
        accept(7),
    ]
    assert runs(given) == [
        accept(0, 2),
        Acknowledgement(3, 4, RELEASE, 1000),
        Acknowledgement(5, 5, RELEASE),
        accept(7),
    ]
