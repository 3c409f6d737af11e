"""The first line of a failed task's trace says what to do."""

from __future__ import annotations

import pytest

from moldau.connect.errors import ConnectError
from moldau.connect.task.diagnosis import hint_of
from moldau.errors.codes import ErrorCode, KafkaError


def wrapped(cause: Exception) -> ConnectError:
    """The error of a task's step, as runners raise it."""
    error = ConnectError(str(cause), stage="TASK_PUT")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "hint"),
    [
        (ConnectError("the table is locked by its owner"), "correct what it names"),
        (KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, topic="a b"), "RegexRouter"),
        (PermissionError("/data"), "allow the worker's user"),
        (ZeroDivisionError("division by zero"), "if it names moldau, please report it"),
    ],
)
def test_what_to_do_depends_on_the_first_cause(cause: Exception, hint: str) -> None:
    assert hint in hint_of(wrapped(cause))
