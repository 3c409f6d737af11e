"""The headers of a dead letter say what failed, by the names that Kafka's tools look for."""

from __future__ import annotations

import pytest

from moldau.client import ConsumerRecord
from moldau.connect.errors import ConnectError, DataError, RetriableError
from moldau.connect.task.dead_letter import context_headers
from moldau.connect.task.tolerance import Failure, Stage


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
