"""JSON, plain and into types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_serializer
from typing_extensions import TypedDict

from moldau.client.serdes import (
    DeserializationFailed,
    JsonDeserializer,
    JsonSerializer,
    Place,
    SerializationFailed,
)

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


@pytest.mark.parametrize(
    "data", [b"NaN", b"[Infinity]", b"{", b"", b"1 2", b"\xff", b"1e999", b"[-1e999]"]
)
def test_what_is_no_json_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are those of three libraries
        JsonDeserializer[Any]()(data, VALUE)


class Suit(Enum):
    HEARTS = "hearts"


class Color(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        {1: "a"},
        {1: "a", "1": "b"},
        {None: 1},
        {True: 1},
        {1.5: 1},
        {"in": [{"deep": ({2: 1},)}]},
        {Suit.HEARTS: 1},
        {"raw": b"bytes"},
        [{1, 2}],
        {"a": frozenset("a")},
        iter([1]),
        {"a": {}.keys()},
        Line,
        object(),
        1j,
    ],
)
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(SerializationFailed, match="JSON"):
        JsonSerializer()(value, VALUE)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ((1, "a"), b'[1,"a"]'),
        (Decimal("1.50"), b'"1.50"'),
        (AT, b'"2026-11-20T18:00:00Z"'),
        (AT.replace(tzinfo=None), b'"2026-11-20T18:00:00"'),
        ({"id": UUID(int=1)}, b'{"id":"00000000-0000-0000-0000-000000000001"}'),
        ([Suit.HEARTS, Color.RED], b'["hearts","red"]'),
        ({Color.RED: 1}, b'{"red":1}'),
    ],
)
def test_what_has_one_text_is_written_as_that(value: Any, data: bytes) -> None:
    assert JsonSerializer()(value, VALUE) == data


@dataclass
class Typed2:
    raw: bytes
    tags: set[str]
    counts: dict[int, str]


class ModelOfThose(BaseModel):
    raw: bytes
    tags: set[str]
    counts: dict[int, str]


class StructOfThose(msgspec.Struct):
    raw: bytes
    tags: set[str]
    counts: dict[int, str]


@pytest.mark.parametrize("kind", [Typed2, ModelOfThose, StructOfThose])
def test_a_type_gives_back_what_json_does_not_have(kind: Any) -> None:
    value = kind(raw=b"x", tags={"a"}, counts={1: "one", 2: "two"})
    assert JsonDeserializer(kind)(JsonSerializer()({"in": [value]}, VALUE)[7:-2], VALUE) == value


class Loose(BaseModel):
    counts: dict[Any, Any]


@dataclass
class LooseLine:
    inner: list[Any]


class LooseStruct(msgspec.Struct):
    counts: dict[Any, Any]


@pytest.mark.parametrize(
    "value",
    [
        Loose(counts={1: "a", "1": "b"}),
        LooseLine([{"in": Loose(counts={1: "a", "1": "b"})}]),
        LooseStruct({1: "a", "1": "b"}),
    ],
)
def test_keys_that_become_one_are_refused_within_objects_as_well(value: Any) -> None:
    with pytest.raises(SerializationFailed, match="keys of JSON"):
        JsonSerializer()(value, VALUE)


def test_a_struct_in_a_dataclass_is_refused() -> None:
    with pytest.raises(SerializationFailed, match="cannot be made JSON"):
        JsonSerializer()(LooseLine([LooseStruct({"a": 1})]), VALUE)


@pytest.mark.parametrize("value", [{"a": "\ud800"}, "\udfff", {"\ud800": 1}])
def test_text_that_utf8_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(UnicodeEncodeError):
        JsonSerializer()(value, VALUE)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises((SerializationFailed, ValueError)):
        JsonSerializer()(value, VALUE)


@pytest.mark.parametrize(
    "value",
    [
        Line("a", math.nan),  # type: ignore[arg-type]
        Loose(counts={"a": math.nan}),
        LooseStruct({"a": [-math.inf]}),
        [LooseLine([math.inf])],
    ],
)
def test_nan_is_not_written_within_objects_either(value: Any) -> None:
    with pytest.raises((SerializationFailed, ValueError), match="JSON"):
        JsonSerializer()(value, VALUE)


class Kept(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: float = 1.0
    hidden: float = Field(default=math.nan, exclude=True)

    @cached_property
    def memo(self) -> dict[Any, int]:
        return {1: 1, "a": 2}


class KeptMore(Kept):
    y: float = math.nan


class Holder(BaseModel):
    one: Kept


def test_only_what_is_written_is_looked_at() -> None:
    model = Kept()
    assert model.memo
    assert JsonSerializer()(model, VALUE) == b'{"x":1.0}'
    assert JsonSerializer()(Holder(one=KeptMore()), VALUE) == b'{"one":{"x":1.0}}'


class Infinite(BaseModel):
    x: float = 1.0

    @field_serializer("x")
    def endless(self, x: float) -> float:
        return x * math.inf


class Kind(Enum):
    NUMBER = 1
    TEXT = "1"


@dataclass
class Keyed:
    d: dict[Any, Any]


@pytest.mark.parametrize(
    "value",
    [
        Kept.model_validate({"more": math.nan}),
        Kept.model_validate({"more": {1: 1, "1": 2}}),
        Infinite(),
        Keyed({("a,b", "c"): 1, ("a", "b,c"): 2}),
        Keyed({(1, 2): 3}),
        Keyed({Kind.NUMBER: 1, Kind.TEXT: 2}),
        Keyed({"a": [1.0, math.inf]}),
        Keyed({"a": {math.nan}}),
        Keyed({math.inf: 1}),
    ],
)
def test_what_would_be_changed_in_an_object_is_refused(value: Any) -> None:
    with pytest.raises(SerializationFailed, match=r"keys of JSON|no such number"):
        JsonSerializer()(value, VALUE)
