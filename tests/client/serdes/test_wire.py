"""Confluent's wire format, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.serdes import DeserializationFailed, Place
from moldau.client.serdes.framed import header_of
from moldau.values.wire import (
    frame,
    read_indexes,
    unframe,
    write_indexes,
)

GUID = "01234567-89ab-cdef-0123-456789abcdef"
RAW = bytes.fromhex(GUID.replace("-", ""))


@given(st.integers(0, 2**31 - 1), st.binary(max_size=20))
def test_an_id_comes_back_from_its_frame(schema_id: int, payload: bytes) -> None:
    assert unframe(frame(schema_id) + payload) == (schema_id, 5)


def test_a_frame_is_a_zero_and_four_bytes() -> None:
    assert frame(0x01020304) == b"\x00\x01\x02\x03\x04"


def test_a_guid_is_read_too() -> None:
    assert unframe(b"\x01" + RAW + b"payload") == (GUID, 17)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x00\x00\x00", b"\x01" + RAW[:-1], b"\x02" * 30]
)
def test_what_has_no_id_is_refused_with_a_hint(data: bytes) -> None:
    with pytest.raises(DeserializationFailed, match="without a Schema Registry"):
        unframe(data)


@pytest.mark.parametrize(
    ("indexes", "data"),
    [
        ((0,), b"\x00"),
        ((1,), b"\x02\x02"),
        ((0, 0), b"\x04\x00\x00"),
        ((3, 64), b"\x04\x06\x80\x01"),
    ],
)
def test_message_indexes_are_zigzag_varints(indexes: tuple[int, ...], data: bytes) -> None:
    assert write_indexes(indexes) == data
    assert read_indexes(b"....." + data + b"payload", 5) == (indexes, 5 + len(data))


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=8).map(tuple))
def test_message_indexes_come_back(indexes: tuple[int, ...]) -> None:
    data = write_indexes(indexes)
    assert read_indexes(data, 0) == (indexes, len(data))


def test_a_path_of_too_many_messages_is_refused() -> None:
    with pytest.raises(DeserializationFailed, match="no sense"):
        read_indexes(b"\x82\x01" + bytes(65), 0)


@given(st.binary(max_size=12))
def test_no_bytes_break_the_reader_of_indexes(data: bytes) -> None:
    try:
        indexes, end = read_indexes(data, 0)
    except DeserializationFailed:
        return
    assert 0 < end <= len(data)
    assert all(index >= 0 for index in indexes)


def test_the_last_header_of_its_side_counts() -> None:
    headers = (("__value_schema_id", b"1"), ("__key_schema_id", b"2"), ("__value_schema_id", b"3"))
    assert header_of(headers, Place("t", False)) == b"3"
    assert header_of(headers, Place("t", True)) == b"2"
    assert header_of(headers[1:2], Place("t", False)) is None
