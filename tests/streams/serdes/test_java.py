"""The bytes of Java's serdes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from moldau.streams import Streams, TopologyError, serde
from moldau.streams.serdes.types import UNREADABLE

ID = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("string", "a", b"a"),
        ("bytes", b"\0", b"\0"),
        ("short", -2, b"\xff\xfe"),
        ("integer", 1, b"\0\0\0\x01"),
        ("long", -1, b"\xff" * 8),
        ("float", 0.5, b"\x3f\0\0\0"),
        ("double", 0.5, b"\x3f\xe0" + bytes(6)),
        ("boolean", True, b"\x01"),
        ("uuid", ID, str(ID).encode()),
    ],
)
def test_a_value_has_the_bytes_of_java(name: str, value: Any, data: bytes) -> None:
    codec = serde(name)
    assert (codec.encode(value), codec.decode(data)) == (data, value)
    if name not in ("string", "bytes"):
        with pytest.raises(UNREADABLE):
            codec.decode(b"three")


def test_an_unknown_serde_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(TopologyError, match="known are string, bytes, short, integer, long"):
        serde("int")


def test_a_store_counts_in_longs() -> None:
    app = Streams("longs")
    grouped = app.stream("in", str, key=serde("long")).group_by_key()
    grouped.count(name="counts", type=serde("long")).changes().to("out")
    driver = app.test()
    for _ in range(2):
        driver.pipe("in", "record", key=9)
    driver.restart(from_changelog=True)
    driver.pipe("in", "record", key=9)
    last = driver.read_bytes("out")[-1]
    assert last[:2] == (b"\0" * 7 + b"\x09", b"\0" * 7 + b"\x03")
    assert driver.store("counts") == {9: 3}
