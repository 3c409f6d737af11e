"""Codecs follow from types; what is stored without a type comes back as it was."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.problems import TopologyError
from moldau.streams.serdes import compound
from moldau.streams.serdes.types import TEXT, UndeclaredType, codec_for, key_codec, stored_codec
from moldau.streams.serdes.windowed import SessionWindowed, TimeWindowed, Windowed


class Order(msgspec.Struct, frozen=True):
    user: str
    amount: int


class Mutable(msgspec.Struct):
    tags: list[str]


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Model(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (str, "d\u00e9j\u00e0", "d\u00e9j\u00e0".encode()),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (int, -5, b"-5"),
        (float, 1.5, b"1.5"),
        (bool, True, b"true"),
        (list[int], [1, 2], b"[1,2]"),
        (dict[str, int], {"a": 1}, b'{"a":1}'),
        (Order, Order("ann", 3), b'{"user":"ann","amount":3}'),
        (Point, Point(1, 2), b'{"x":1,"y":2}'),
        (Model, Model(name="n"), b'{"name":"n"}'),
        (Any, {"a": [1]}, b'{"a":[1]}'),
        (UndeclaredType, "text", b"text"),
        (TimeWindowed(str, 10), Windowed("k", 5, 15), b"k" + bytes(7) + b"\x05"),
        (SessionWindowed(str), Windowed("k", 5, 9), b"k" + bytes(7) + b"\t" + bytes(7) + b"\x05"),
    ],
)
def test_a_type_has_its_bytes(kind: Any, value: Any, data: bytes) -> None:
    codec = codec_for(kind)

    assert codec.encode(value) == data
    assert codec.decode(data) == value


def test_a_source_without_a_key_type_reads_text_or_else_bytes() -> None:
    codec = codec_for(UndeclaredType)

    assert codec.decode(b"abc") == "abc"
    assert codec.decode(b"\xff") == b"\xff"


natives = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
anything = st.one_of(st.text(), st.binary(), natives.filter(lambda v: v is not None))


@given(anything | st.tuples(st.text(), st.integers(0, 9)))
def test_a_key_of_no_declared_type_comes_back_as_it_was(key: Any) -> None:
    codec = key_codec(Any)

    found = codec.decode(codec.encode(key))

    assert found == key
    assert type(found) is type(key)


@given(st.text().filter(lambda text: not text.startswith("\x00")))
def test_text_of_no_declared_type_has_the_bytes_of_text(key: str) -> None:
    assert key_codec(Any).encode(key) == TEXT.encode(key)


@pytest.mark.parametrize("value", [Point(1, 2), b"raw", (1, 2), {1}])
def test_a_value_that_json_would_change_must_be_declared(value: Any) -> None:
    with pytest.raises(TypeError, match="must be declared"):
        stored_codec(Any).encode(value)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="expected str, got int"):
        codec_for(str).encode(5)


def test_a_type_that_cannot_be_json_is_refused() -> None:
    with pytest.raises(TopologyError, match="cannot be JSON"):
        codec_for(dict[int, str] | list[int] | set[int])


@pytest.mark.parametrize(
    ("kind", "is_hashable", "is_immutable"),
    [
        (str, True, True),
        (int, True, True),
        (float, False, True),
        (tuple[str, int], True, True),
        (tuple[str, float], False, True),
        (list[str], False, False),
        (Order, True, True),
        (Mutable, False, False),
        (Point, False, False),
    ],
)
def test_caches_know_what_they_may_keep(kind: Any, is_hashable: bool, is_immutable: bool) -> None:
    codec = codec_for(kind)

    assert (codec.is_hashable, codec.is_immutable) == (is_hashable, is_immutable)


@given(st.lists(st.none() | st.binary(max_size=5)))
def test_byte_strings_are_joined_and_parted(parts: list[bytes | None]) -> None:
    assert compound.parted(compound.joined(parts)) == parts


@given(st.binary(max_size=20))
def test_bytes_that_were_not_joined_are_an_error_or_parts(data: bytes) -> None:
    try:
        assert compound.joined(compound.parted(data)) == data
    except ValueError as error:
        assert "byte" in str(error)  # noqa: PT017


headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)))


@given(st.none() | st.text(), st.integers(0, 2**60), headers)
def test_a_held_record_comes_back(value: str | None, time: int, given_headers: Any) -> None:
    codec = compound.timed_codec(TEXT)
    held = (value, time, tuple(given_headers))

    assert codec.decode(codec.encode(held)) == held


@given(st.lists(st.tuples(st.integers(0, 99), st.none() | st.text())), st.integers(0, 99))
def test_counted_windows_come_back(windows: list[tuple[int, str | None]], count: int) -> None:
    codec = compound.counted_codec(TEXT)
    state = (count, tuple(windows))

    assert codec.decode(codec.encode(state)) == state


def test_models_in_lists_are_kept_one_by_one() -> None:
    codec = stored_codec(compound.list_kind(Model))

    assert codec.decode(codec.encode([Model(name="a")])) == [Model(name="a")]
