"""The table of error codes, and the error that carries one."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode, KafkaError, raise_for


def test_numbers_are_without_gaps_from_minus_one() -> None:
    assert sorted(ErrorCode) == list(range(-1, 137))


def test_every_code_has_words_of_its_own() -> None:
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)
    assert all(code.message.endswith(".") for code in ErrorCode)


def test_a_code_is_found_by_number_and_name() -> None:
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode["NOT_LEADER_OR_FOLLOWER"] == 6


@pytest.mark.parametrize(
    ("code", "retriable", "refreshes"),
    [
        (ErrorCode.NONE, False, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, False),
        (ErrorCode.REQUEST_TIMED_OUT, True, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, True),
        (ErrorCode.PRODUCER_FENCED, False, False),
    ],
)
def test_what_may_be_done_about_it(code: ErrorCode, retriable: bool, refreshes: bool) -> None:
    assert code.retriable is retriable
    assert code.refreshes_metadata is refreshes


def test_an_unknown_number_reads_as_a_server_error() -> None:
    assert ErrorCode(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    error = KafkaError(9999, topic="t")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.context == {"code": 9999, "topic": "t"}
    with pytest.raises(ValueError, match="is not a valid ErrorCode"):
        ErrorCode("NONE")  # type: ignore[arg-type]


def test_an_error_tells_its_name_its_reason_and_its_facts() -> None:
    error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t", partition=3)
    assert error.retriable
    assert str(error) == (
        "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition. "
        "(topic='t', partition=3)"
    )
    assert str(KafkaError(1, "Asked for 5.")) == "OFFSET_OUT_OF_RANGE: Asked for 5."


def test_an_answer_that_holds_errors_shows_all_of_them() -> None:
    """As admin calls give it: printing a dict prints the `repr` of what is in it."""
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "It is there.", topic="t")
    assert str({"t": error}) == (
        "{'t': KafkaError(\"TOPIC_ALREADY_EXISTS: It is there. (topic='t')\")}"
    )


def test_raising_for_a_code_of_a_response() -> None:
    raise_for("Fetch", 0)
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        raise_for("Fetch", 41)
