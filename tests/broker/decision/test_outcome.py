"""Answers that wait: given once, and only in the leadership that wrote their records."""

from __future__ import annotations

from moldau.broker.decision.outcome import Outcome, ParkedOutcome
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.heartbeat import HeartbeatResponse

FINE = HeartbeatResponse(error_code=0)
GONE = KafkaError(ErrorCode.NOT_COORDINATOR)


def parked(heard: list[tuple[str, Response | KafkaError]]) -> ParkedOutcome[int]:
    answers = tuple(
        (lambda answer, name=name: heard.append((name, answer)), FINE) for name in ("a", "b")
    )
    return ParkedOutcome(3, 10, (1, 2), answers)


def test_it_is_committed_when_all_below_its_end_is_in_its_own_leadership() -> None:
    waiting = parked([])
    assert not waiting.is_committed(3, 9)
    assert waiting.is_committed(3, 10)
    assert waiting.is_committed(3, 11)
    assert not waiting.is_committed(4, 11), "other records may have the offsets"


def test_each_answer_is_given_once_in_order() -> None:
    heard: list[tuple[str, Response | KafkaError]] = []
    waiting = parked(heard)
    waiting.release()
    waiting.release()
    waiting.refuse(GONE)
    assert heard == [("a", FINE), ("b", FINE)]


def test_the_error_takes_the_place_of_every_answer() -> None:
    heard: list[tuple[str, Response | KafkaError]] = []
    waiting = parked(heard)
    waiting.refuse(GONE)
    waiting.release()
    assert heard == [("a", GONE), ("b", GONE)]


def test_an_outcome_of_nothing_appends_and_answers_nothing() -> None:
    nothing: Outcome[int] = Outcome()
    assert (nothing.records, nothing.answers, nothing.on_failure) == ((), (), None)
