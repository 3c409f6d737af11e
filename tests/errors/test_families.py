"""What an error says, to people and to programs."""

from __future__ import annotations

import pickle

import pytest

from moldau.errors import (
    BadData,
    ConfigError,
    CorruptLog,
    CorruptRecord,
    MalformedMessage,
    MoldauError,
)
from moldau.errors.codes import ErrorCode, KafkaError


def test_facts_follow_the_reason() -> None:
    error = MalformedMessage("count exceeds what is left", field="topics", count=9)
    assert str(error) == "count exceeds what is left (field='topics', count=9)"
    assert error.reason == "count exceeds what is left"
    assert error.context == {"field": "topics", "count": 9}


def test_a_reason_without_facts_stands_alone() -> None:
    assert str(ConfigError("no such file")) == "no such file"


@pytest.mark.parametrize("family", [MalformedMessage, CorruptRecord, CorruptLog])
def test_bad_data_is_one_family(family: type[BadData]) -> None:
    assert issubclass(family, BadData)
    assert not issubclass(ConfigError, BadData)
    assert not issubclass(KafkaError, BadData)


@pytest.mark.parametrize(
    "error",
    [
        CorruptRecord("checksum does not match", base_offset=7),
        KafkaError(ErrorCode.NOT_COORDINATOR, group="g"),
    ],
    ids=["bad data", "with a code"],
)
def test_errors_cross_process_borders(error: MoldauError) -> None:
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.context == error.context
