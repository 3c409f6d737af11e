"""JSON, plain and into types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from moldau.client.serdes import DeserializationFailed, JsonDeserializer, JsonSerializer, Place
from moldau.client.serdes.typed_json import object_reader, plain_fields

VALUE = Place("orders", False)


class Model(BaseModel):
    id: int
    at: datetime


@dataclass
class Line:
    sku: str
    count: int = 1


class Struct(msgspec.Struct):
    id: int
    lines: list[Line] = []


class Typed(TypedDict):
    id: int


AT = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_plain_values_come_back(value: Any) -> None:
    write, read = JsonSerializer(), JsonDeserializer[Any]()
    assert read(write(value, VALUE), VALUE) == value


def test_it_is_written_as_javas_serializers_do() -> None:
    data = JsonSerializer()({"name": "W\xfcrde", "n": [1, 2.5, None, True]}, VALUE)
    assert data == '{"name":"W\xfcrde","n":[1,2.5,null,true]}'.encode()


@pytest.mark.parametrize(
    ("value", "type", "data"),
    [
        (Model(id=1, at=AT), Model, b'{"id":1,"at":"2026-11-20T18:00:00Z"}'),
        (Line("a", 2), Line, b'{"sku":"a","count":2}'),
        (Struct(1, [Line("a")]), Struct, b'{"id":1,"lines":[{"sku":"a","count":1}]}'),
        ({"id": 3}, Typed, b'{"id":3}'),
        ([Line("a")], list[Line], b'[{"sku":"a","count":1}]'),
    ],
)
def test_typed_values_come_back_as_their_type(value: Any, type: Any, data: bytes) -> None:
    assert JsonSerializer()(value, VALUE) == data
    assert JsonDeserializer(type)(data, VALUE) == value


@pytest.mark.parametrize("type", [Model, Line, Struct, Typed])
def test_what_does_not_fit_the_type_is_refused(type: Any) -> None:
    with pytest.raises((DeserializationFailed, msgspec.ValidationError)):
        JsonDeserializer(type)(b'{"id":"x","count":"many"}', VALUE)


def test_an_error_names_the_field() -> None:
    with pytest.raises(DeserializationFailed, match=r"1\.count") as caught:
        JsonDeserializer(list[Line])(b'[{"sku":"a"},{"sku":"b","count":"x"}]', VALUE)
    assert caught.value.context["type"] == "list[tests.client.serdes.test_typed_json.Line]"


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": -math.inf}])
def test_what_json_has_not_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        JsonSerializer()(value, VALUE)


@pytest.mark.parametrize("data", [b"NaN", b"[Infinity]", b"{", b"", b"1 2", b"\xff"])
def test_what_is_no_json_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are those of three libraries
        JsonDeserializer[Any]()(data, VALUE)


@pytest.mark.parametrize(
    "value",
    [Model(id=1, at=AT), Struct(1, [Line("a")]), Line("a", 2)],
)
def test_objects_become_fields_and_objects_again(value: Any) -> None:
    fields = plain_fields(value)
    assert type(fields) is dict
    assert object_reader(type(value))(fields) == value


def test_fields_keep_times_and_decimals() -> None:
    class Paid(msgspec.Struct):
        sum: Decimal
        at: datetime

    fields = {"sum": Decimal("1.50"), "at": AT}
    assert plain_fields(Paid(Decimal("1.50"), AT)) == fields
    assert plain_fields(fields) is fields
