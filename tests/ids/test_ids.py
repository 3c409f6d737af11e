"""Ids are written as Kafka's tools write them, and new ones are fit for a command line."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.ids import METADATA_TOPIC_ID, ZERO_UUID, format_uuid, new_uuid, parse_uuid

IDS = st.binary(min_size=16, max_size=16)


def test_the_reserved_ids_have_the_texts_that_kafka_prints() -> None:
    assert format_uuid(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert format_uuid(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert format_uuid(b"\xff" * 16) == "_____________________w"


@given(IDS)
def test_what_is_written_is_read_back(uuid: bytes) -> None:
    text = format_uuid(uuid)
    assert len(text) == 22
    assert parse_uuid(text) == uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 21,
        "A" * 23,
        "A" * 21 + "=",
        "A" * 21 + "+",
        "A" * 21 + "/",
        "A" * 21 + " ",
        "\xe9" * 22,
        "A" * 24,
    ],
)
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        parse_uuid(text)


@given(st.text(max_size=24))
def test_every_text_is_an_id_or_refused(text: str) -> None:
    try:
        uuid = parse_uuid(text)
    except ValueError as error:
        assert "is not an id" in str(error)  # noqa: PT017
    else:
        assert len(uuid) == 16


def test_an_id_that_somebody_typed_is_understood() -> None:
    assert parse_uuid("MkU3OEVBNTcwNTJENDM2Qk") == b"2E78EA57052D436B"


class Script:
    """Randomness that says what it was told to."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)

    def randbytes(self, n: int, /) -> bytes:
        assert n == 16
        return self.answers.pop(0)


def test_a_new_id_is_not_reserved_and_looks_like_no_flag() -> None:
    dash = bytes([62 << 2 | 1]) + bytes(15)
    assert format_uuid(dash).startswith("-")
    good = b"\x01" * 16
    script = Script(ZERO_UUID, METADATA_TOPIC_ID, dash, good)
    assert new_uuid(script) == good
    assert script.answers == []


def test_new_ids_come_from_the_randomness_handed_in() -> None:
    assert new_uuid(random.Random(1)) == new_uuid(random.Random(1))
    assert new_uuid(random.Random(1)) != new_uuid(random.Random(2))
