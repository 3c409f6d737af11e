"""An error that is kept holds no frames of the calls that raised it."""

from __future__ import annotations

import gc
import weakref

import pytest

from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError


class Large:
    """Stands for the bytes of a request."""


def refuse(large: Large) -> None:
    try:
        raise MoldauError("the cause")
    except MoldauError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "refused") from error


def kept(large: Large) -> KafkaError:
    try:
        refuse(large)
    except KafkaError as error:
        refusal = without_frames(error)
    return refusal


def test_what_the_calls_had_is_free_at_once() -> None:
    large = Large()
    held = weakref.ref(large)
    gc.disable()
    try:
        error = kept(large)
        del large
        assert held() is None
    finally:
        gc.enable()
    assert error.code is ErrorCode.CORRUPT_MESSAGE


def test_the_cause_stays_as_a_fact() -> None:
    error = kept(Large())

    assert isinstance(error.__cause__, MoldauError)
    assert error.__cause__.__traceback__ is None
    assert error.__context__ is error.__cause__


def test_an_error_that_was_raised_from_nothing_has_no_context() -> None:
    given = KeyError()
    given.__context__, given.__suppress_context__ = ValueError(), True

    error = without_frames(given)

    assert error.__context__ is None
    assert error.__suppress_context__


def test_errors_that_cause_each_other_are_no_endless_walk() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert without_frames(first) is first


def test_the_errors_of_a_group_lose_their_frames_too() -> None:
    with pytest.raises(KafkaError) as caught:
        refuse(Large())

    group = without_frames(ExceptionGroup("both", [caught.value]))

    assert group.exceptions[0].__traceback__ is None


def test_what_is_no_error_is_returned_as_it_is() -> None:
    assert without_frames(None) is None
    assert without_frames(7) == 7


def test_an_error_that_is_raised_again_and_again_has_one_row_each_time() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST)
    for _ in range(10):
        with pytest.raises(KafkaError):
            raise without_frames(error)

    rows, traceback = 0, error.__traceback__
    while traceback is not None:
        rows, traceback = rows + 1, traceback.tb_next
    assert rows == 1
