"""The headers of a dead letter say what failed, by the names that Kafka's tools look for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from moldau.client import ConsumerRecord, KafkaError
from moldau.client.sync import Producer
from moldau.connect.errors import ConnectError, DataError, RetriableError
from moldau.connect.task.dead_letter import DeadLetters, context_headers
from moldau.connect.task.tolerance import Failure, Stage
from moldau.errors.codes import ErrorCode


class OwnError(DataError):
    """An error of a plugin."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ConnectError("x"), "org.apache.kafka.connect.errors.ConnectException"),
        (DataError("x"), "org.apache.kafka.connect.errors.DataException"),
        (RetriableError("x"), "org.apache.kafka.connect.errors.RetriableException"),
        (OwnError("x"), f"{__name__}.OwnError"),
        (ValueError("x"), "builtins.ValueError"),
    ],
)
def test_the_class_of_an_error_has_javas_name_where_there_is_one(
    error: Exception, name: str
) -> None:
    record = ConsumerRecord("t", 0, 7, 0, None, b"x")
    failure = Failure(Stage.VALUE_CONVERTER, "Json", error, record)

    headers = dict(context_headers(failure, record, ("sink", 0)))

    assert headers["__connect.errors.exception.class.name"] == name.encode()
    assert headers["__connect.errors.offset"] == b"7"


class _Rejecting:
    """A producer of records that the cluster rejects."""

    def send(self, *given: Any, **more: Any) -> _Rejecting:
        return self

    def result(self, timeout_s: float) -> None:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)


def test_a_letter_that_is_not_in_the_queue_fails_each_settle() -> None:
    # 1. A sink reports a record. 2. It catches the error, and raises RetriableError. 3. It reports
    # the record again; its offset is known. The offset after it must not be committed.
    letters = DeadLetters(cast(Producer, _Rejecting()), "queue", ("sink", 0), has_context=False)
    failure = Failure(Stage.TASK_PUT, "X", DataError("x"), ConsumerRecord("t", 0, 7, 0, None, b"x"))
    for _ in range(2):
        letters.report(failure)
        with pytest.raises(ConnectError, match="takes no records"):
            letters.settle()
