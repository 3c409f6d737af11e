"""The pure core, step by step: no clock, no socket, no disk."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from examples.replicated_log.messages import (
    NO_OFFSET,
    AppendRequest,
    AppendResponse,
    PeerMessage,
    Record,
    VoteRequest,
    VoteResponse,
)
from examples.replicated_log.replica import Replica, Role, Timing, Vote

TIMING = Timing(heartbeat_ms=100, election_ms=1000)


def log(*epochs: int) -> list[Record]:
    return [Record(epoch=epoch, value=b"%d" % offset) for offset, epoch in enumerate(epochs)]


def replica(
    number: int = 1,
    epoch: int = 0,
    records: Sequence[Record] = (),
    voters: Sequence[int] = (1, 2, 3),
) -> Replica:
    made = Replica(number, voters, (Vote(epoch), records), Random(number), TIMING)
    made.start(0)
    return made


def leader(epoch: int = 1, records: Sequence[Record] = ()) -> Replica:
    """Node 1 of 3, elected in `epoch` with the vote of node 2; its first record is not sent yet."""
    made = replica(1, epoch - 1, records)
    made.on_tick(made.deadline_ms)
    made.on_message(VoteResponse(epoch=epoch, voter=2, is_granted=True), 1000)
    assert made.role is Role.LEADER
    return made


def accepted(epoch: int, follower: int, base: int, end: int) -> AppendResponse:
    return AppendResponse(
        epoch=epoch, follower=follower, base_offset=base, is_accepted=True, log_end=end
    )


def append(epoch: int, base: int, before: int, *epochs: int, kept: int = 0) -> AppendRequest:
    return AppendRequest(
        epoch=epoch,
        leader=2,
        base_offset=base,
        previous_epoch=before,
        high_watermark=kept,
        records=[Record(epoch=each, value=b"%d" % at) for at, each in enumerate(epochs, base)],
    )


def sent(made: Replica) -> list[PeerMessage]:
    return [message for _, message in made.take_ready().messages]


def test_a_node_that_hears_nothing_asks_for_votes() -> None:
    made = replica(1, 4, log(2, 4))
    made.on_tick(made.deadline_ms - 1)
    assert made.take_ready().messages == []
    made.on_tick(made.deadline_ms)
    ready = made.take_ready()
    assert made.role is Role.CANDIDATE
    assert ready.vote == Vote(5, 1)
    request = VoteRequest(epoch=5, candidate=1, last_epoch=4, log_end=2)
    assert ready.messages == [(2, request), (3, request)]


def test_alone_it_elects_itself_and_keeps_what_it_takes() -> None:
    made = replica(voters=[1])
    made.on_tick(made.deadline_ms)
    made.on_produce("client", b"x", 0)
    ready = made.take_ready()
    assert (made.role, made.high_watermark) == (Role.LEADER, 2)
    assert [answer.offset for _, answer in ready.answers] == [1]


@pytest.mark.parametrize(
    ("last_epoch", "log_end", "is_granted"),
    [(3, 2, True), (4, 1, True), (3, 3, True), (3, 1, False), (2, 9, False)],
)
def test_a_vote_goes_to_a_log_that_is_as_good(
    last_epoch: int, log_end: int, is_granted: bool
) -> None:
    made = replica(1, 4, log(1, 3))
    request = VoteRequest(epoch=5, candidate=2, last_epoch=last_epoch, log_end=log_end)
    made.on_message(request, 10)
    ready = made.take_ready()
    assert ready.messages == [(2, VoteResponse(epoch=5, voter=1, is_granted=is_granted))]
    assert ready.vote == Vote(5, 2 if is_granted else -1)


def test_an_epoch_has_one_vote_and_it_can_be_repeated() -> None:
    made = replica()
    answers = []
    for candidate in (2, 3, 2):
        request = VoteRequest(epoch=1, candidate=candidate, last_epoch=0, log_end=0)
        made.on_message(request, 10)
        answers += sent(made)
    assert [answer.is_granted for answer in answers if isinstance(answer, VoteResponse)] == [
        True,
        False,
        True,
    ]


def test_a_record_is_kept_when_a_majority_has_it() -> None:
    made = leader()
    made.on_produce("client", b"x", 0)
    assert made.take_ready().answers == []
    made.on_message(accepted(1, 2, 0, 2), 1001)
    ready = made.take_ready()
    assert made.high_watermark == 2
    assert [(client, answer.offset) for client, answer in ready.answers] == [("client", 1)]


def test_who_has_just_heard_of_a_record_needs_no_heartbeat() -> None:
    made = leader()
    for number in (2, 3):
        made.on_message(accepted(1, number, 0, 1), 1001)
    sent(made)
    due_ms = made.deadline_ms
    made.on_produce("client", b"x", 1100)
    assert made.deadline_ms == due_ms + 100
    assert len(sent(made)) == 2
    made.on_produce("client", b"y", 1150)
    assert made.deadline_ms == due_ms + 100, "both are busy and have heard nothing of this"
    made.on_tick(due_ms + 100)
    assert len(sent(made)) == 2, "what was not answered is said again"


def test_records_of_earlier_epochs_are_kept_only_with_one_of_ours() -> None:
    made = leader(epoch=4, records=log(1, 2))
    made.on_message(accepted(4, 2, 0, 2), 1001)
    assert made.high_watermark == 0
    made.on_message(accepted(4, 2, 2, 3), 1002)
    assert made.high_watermark == 3


def test_a_leader_that_steps_down_tells_those_who_wait() -> None:
    made = leader()
    made.on_produce("client", b"x", 0)
    made.on_message(VoteRequest(epoch=2, candidate=3, last_epoch=1, log_end=9), 1001)
    ready = made.take_ready()
    assert made.role is Role.FOLLOWER
    assert [answer.offset for _, answer in ready.answers] == [NO_OFFSET]


def test_a_follower_takes_what_continues_its_log() -> None:
    made = replica(1, 1, log(1, 1))
    made.on_message(append(1, 2, 1, 1, 1, kept=3), 10)
    ready = made.take_ready()
    assert len(ready.records) == 2
    assert ready.truncate_to is None
    assert made.high_watermark == 3
    assert ready.messages == [(2, accepted(1, 1, 2, 4))]


def test_a_follower_cuts_what_the_leader_does_not_have() -> None:
    made = replica(1, 2, log(1, 2, 2))
    made.on_message(append(3, 1, 1, 3), 10)
    ready = made.take_ready()
    assert ready.truncate_to == 1
    assert [record.epoch for record in ready.records] == [3]
    assert [record.epoch for record in made.log.records] == [1, 3]


def test_a_late_request_cuts_nothing() -> None:
    made = replica(1, 1, log(1, 1, 1))
    made.on_message(append(1, 0, 0, 1), 10)
    ready = made.take_ready()
    assert ready.truncate_to is None
    assert made.log.end == 3
    assert ready.messages == [(2, accepted(1, 1, 0, 1))]


def test_a_follower_says_from_where_to_try_again() -> None:
    made = replica(1, 2, log(1, 2, 2))
    made.on_message(append(3, 9, 1), 10)
    made.on_message(append(3, 3, 1), 10)
    retries = [
        message.log_end
        for message in sent(made)
        if isinstance(message, AppendResponse) and not message.is_accepted
    ]
    assert retries == [3, 1]


def test_a_leader_of_an_old_epoch_is_told_so() -> None:
    made = replica(1, 5, log(1))
    made.on_message(append(4, 1, 1, 4), 10)
    (answer,) = sent(made)
    assert isinstance(answer, AppendResponse)
    assert (answer.is_accepted, answer.epoch) == (False, 5)
    assert made.log.end == 1


def test_answers_to_earlier_requests_make_nobody_send() -> None:
    made = leader()
    made.on_produce("client", b"x", 0)
    made.take_ready()
    made.on_message(accepted(1, 2, 0, 1), 1001)
    first = sent(made)
    made.on_message(accepted(1, 2, 0, 1), 1002)
    assert (len(first), sent(made)) == (1, [])


def test_readers_see_only_what_is_kept() -> None:
    made = leader()
    made.on_produce("client", b"x", 0)
    assert made.read(0) == []
    made.on_message(accepted(1, 3, 0, 1), 1001)
    assert len(made.read(0)) == 1
    assert made.read(1) == []
    assert len(made.read(-5)) == 1
