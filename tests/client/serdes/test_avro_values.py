"""Avro: what does not fit its schema is refused with its path, and nothing is changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    Place,
    Schema,
    SchemaOptions,
    SchemaRegistry,
    SerializationFailed,
)
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit
from tests.client.serdes.registry_run import now, run
from tests.values.avro.samples import logical, record, through

VALUE = Place("orders", False)
PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "cents", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "rate", "type": "float"},
    ],
}
LINE: dict[str, Any] = {
    "type": "record",
    "name": "shop.Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int", "default": 1}],
}


class Suit(Enum):
    HEARTS = "HEARTS"


class Level(IntEnum):
    HIGH = 3


class ForeignWhole:
    """As numpy's whole numbers are: no `int`, but registered as a whole number."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value


class ForeignReal(ForeignWhole):
    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return other == self.value

    __hash__ = None  # type: ignore[assignment]


ForeignTruth = type("bool_", (), {"__module__": "numpy", "__bool__": lambda self: True})
ForeignArray = type("ndarray", (), {"__module__": "numpy", "tolist": lambda self: [1, 2]})

Integral.register(ForeignWhole)
Real.register(ForeignReal)

GOOD = {"cents": 1, "note": None, "rate": 1.5}
WEST = timezone(timedelta(hours=-8))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cents": 1999.99}, r"^cents: .* for int was expected, not 1999\.99$"),
        ({"cents": 3_000_000_000}, r"^cents: .*range of int .* 3000000000$"),
        ({"cents": True}, r"^cents: .*, not True$"),
        ({"cents": "5"}, r"^cents: .*, not '5'$"),
        ({"cents": None}, "^cents: "),
        ({"rate": 1e300}, r"^rate: .*range of float .* 1e\+300"),
        ({"rate": "1.5"}, "^rate: a number"),
        ({"rate": True}, "^rate: a number"),
        ({"rate": 2**24 + 1}, "^rate: .*exactly"),
        ({"rate": 10**400}, "^rate: .*range of float"),
        ({"note": b"x"}, "^note: text"),
        ({"note": "\ud800"}, "^note: text that UTF-8 can hold"),
        ({"currency": "EUR"}, r"^currency: no such field is in Payment, not 'EUR'"),
        ({1: "x"}, "no such field"),
        ({"-type": "Other"}, "^-type: no such field"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_path(changed: Any, told: str) -> None:
    assert through(PAYMENT, GOOD) == GOOD
    with pytest.raises(Misfit, match=told):
        through(PAYMENT, {**GOOD, **changed})


def test_a_key_that_is_not_there_is_not_taken_for_null() -> None:
    with pytest.raises(Misfit, match=r"^note: .*no default"):
        through(PAYMENT, {"cents": 1, "Note": "typo", "rate": 1.5})


@pytest.mark.parametrize(
    ("schema", "value", "at"),
    [
        (record(lines={"type": "array", "items": LINE}), {"lines": [{}]}, "lines[0].sku"),
        (record(a={"type": "map", "values": "int"}), {"a": {"k": 1.0}}, "a['k']"),
        (record(a={"type": "map", "values": "int"}), {"a": {7: 1}}, "a[7]"),
        (record(a={"type": "map", "values": "int"}), {"a": {Suit.HEARTS: 1}}, "a[<Suit"),
        (record(a=LINE), {"a": {"sku": "x", "extra": 1}}, "a.extra"),
        (record(a=["null", LINE]), {"a": {"sku": 1}}, "a.sku"),
        (record(a=["int", LINE]), {"a": {"sku": 1}}, "a.sku"),
        ({"type": "array", "items": "long"}, [1, 2**63], "[1]"),
        ({"type": "array", "items": "string"}, "text", ""),
        ({"type": "array", "items": "int"}, b"bytes", ""),
        ({"type": "array", "items": "string"}, {"a": 1}, ""),
        (record(a=LINE), {"a": [("sku", "x")]}, "a"),
        ("bytes", "text", ""),
        ("bytes", 5, ""),
        ("boolean", 1, ""),
        ("null", 0, ""),
        ("double", 2**53 + 1, ""),
        ("double", Decimal("0.1"), ""),
        ("double", Decimal("1e400"), ""),
        ("double", Decimal("sNaN"), ""),
        ("float", Decimal("1.1"), ""),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", ""),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", ""),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 0, ""),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, Suit.HEARTS, ""),
        (["null", "int", "string"], 1.5, ""),
        (["null", "int"], 2**31, ""),
    ],
)
def test_a_misfit_is_found_wherever_it_is(schema: Any, value: Any, at: str) -> None:
    with pytest.raises(Misfit) as caught:
        through(schema, value)
    assert caught.value.at.startswith(at)
    assert bool(caught.value.at) is bool(at)


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        ("double", 2**53, 2.0**53),
        ("float", 2**24, 2.0**24),
        ("float", 1.1, 1.100000023841858),
        ("float", float("inf"), float("inf")),
        ("long", Level.HIGH, 3),
        ("long", ForeignWhole(2**40), 2**40),
        ("double", ForeignReal(3), 3.0),
        ("float", ForeignReal(3), 3.0),
        ("boolean", ForeignTruth(), True),
        ({"type": "array", "items": "int"}, ForeignArray(), [1, 2]),
        ("string", Suit.HEARTS, "HEARTS"),
        ("bytes", bytearray(b"x"), b"x"),
        ("bytes", memoryview(b"x"), b"x"),
        ({"type": "enum", "name": "E", "symbols": ["HEARTS"]}, Suit.HEARTS, "HEARTS"),
        ({"type": "array", "items": "int"}, (1, 2), [1, 2]),
        ({"type": "array", "items": "int"}, {1}, [1]),
        (["null", {"type": "array", "items": "string"}], ("a", "b"), ["a", "b"]),
        (record(a=LINE), {"a": {"sku": "x"}}, {"a": {"sku": "x", "count": 1}}),
        ("string", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({"type": "array", "items": "string"}, {"a": 1, "b": 2}.keys(), ["a", "b"]),
        ({"type": "array", "items": "int"}, {"a": 1, "b": 2}.values(), [1, 2]),
        ("double", Decimal("1.5"), 1.5),
        ("double", Decimal("-Infinity"), float("-inf")),
        ("float", Decimal("1.5"), 1.5),
        (["double", "string"], Decimal("1.5"), 1.5),
        (logical("string", "uuid"), UUID(int=10).hex.upper(), UUID(int=10)),
    ],
)
def test_what_means_the_same_in_the_schema_is_taken(schema: Any, value: Any, read: Any) -> None:
    assert through(schema, value) == read


def test_defaults_are_what_the_schema_says_and_the_callers_value_stays() -> None:
    fields = [
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "none", "type": ["null", "int"], "default": None},
        {"name": "one", "type": ["double", "long", "null"], "default": 1},
        {"name": "line", "type": LINE, "default": {"sku": "d"}},
        {"name": "lines", "type": {"type": "array", "items": "shop.Line"}, "default": []},
        {"name": "more", "type": {"type": "map", "values": "bytes"}, "default": {"a": "\u0001"}},
    ]
    given: dict[str, Any] = {}
    assert through({"type": "record", "name": "D", "fields": fields}, given) == {
        "raw": b"\xff",
        "none": None,
        "one": 1.0,
        "line": {"sku": "d", "count": 1},
        "lines": [],
        "more": {"a": b"\x01"},
    }
    assert given == {}


AT = datetime(2026, 11, 20, 18, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        (logical("long", "timestamp-micros"), AT, AT),
        (logical("long", "timestamp-micros"), AT.astimezone(WEST), AT),
        (logical("long", "timestamp-millis"), AT, AT.replace(microsecond=123000)),
        (logical("long", "timestamp-millis"), 5, datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)),
        (logical("long", "local-timestamp-micros"), AT.replace(tzinfo=None), None),
        (logical("int", "date"), date(1969, 12, 31), None),
        (logical("int", "time-millis"), time(23, 59, 59, 999000), None),
        (logical("long", "time-micros"), time(1, 2, 3, 4), None),
        (logical("string", "uuid"), UUID(int=7), None),
        (logical("bytes", "decimal", precision=5, scale=2), Decimal("-123.45"), None),
        (logical("bytes", "decimal", precision=5, scale=2), Decimal("1E+2"), None),
        (logical("bytes", "decimal", precision=5, scale=2), Decimal("-0.00"), Decimal(0)),
        (logical("fixed", "decimal", name="F", size=2, precision=4, scale=2), Decimal("-0.00"), 0),
        (
            logical("fixed", "decimal", name="F", size=2, precision=4, scale=2),
            Decimal("-9.9"),
            None,
        ),
        (["null", logical("long", "timestamp-micros")], AT, AT),
        (["null", "string", logical("long", "timestamp-micros")], AT, AT),
    ],
)
def test_logical_types_come_back(schema: Any, value: Any, read: Any) -> None:
    assert through(schema, value) == (value if read is None else read)


def test_a_uuid_without_hyphens_is_written_with_them() -> None:
    written = Values({}).fit(logical("string", "uuid"))(UUID(int=10).hex.upper())
    assert written == "00000000-0000-0000-0000-00000000000a"


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (logical("long", "timestamp-millis"), AT.replace(tzinfo=None), "zone was expected"),
        (logical("long", "local-timestamp-millis"), AT, "without a zone"),
        (logical("int", "date"), AT, "not a date with a time"),
        (logical("int", "date"), "2026-11-20", "whole number"),
        (logical("int", "time-millis"), time(1, tzinfo=UTC), "without a zone"),
        (logical("string", "uuid"), "no-uuid", "a UUID"),
        (logical("string", "uuid"), UUID(int=1).urn, "with all four hyphens or with none"),
        (logical("string", "uuid"), f"{UUID(int=1).hex}0", "a UUID"),
        (logical("bytes", "decimal", precision=3, scale=2), Decimal("123"), "3 digits in all"),
        (logical("bytes", "decimal", precision=3, scale=2), Decimal("0.001"), "behind the point"),
        (logical("bytes", "decimal", precision=3, scale=2), Decimal("1E+999999"), "in all"),
        (logical("bytes", "decimal", precision=3), Decimal("NaN"), "finite"),
        (logical("bytes", "decimal", precision=3), 5, "bytes"),
        (
            logical("fixed", "decimal", name="F", size=1, precision=2, scale=0),
            Decimal(-999),
            "2 digits",
        ),
    ],
)
def test_what_a_logical_type_would_change_is_refused(schema: Any, value: Any, told: str) -> None:
    with pytest.raises(Misfit, match=told):
        through(schema, value)


CLICK = {"type": "record", "name": "e.Click", "fields": [{"name": "page", "type": "string"}]}
VIEW = {
    "type": "record",
    "name": "e.View",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "ms", "type": ["null", "int"], "default": None},
    ],
}


@dataclass
class Click:
    page: str


@dataclass
class View:
    page: str
    ms: int | None = None


@dataclass
class Visit:
    events: list[Any] = field(default_factory=list)


@pytest.mark.parametrize(
    ("union", "value", "branch"),
    [
        ([VIEW, CLICK], {"page": "/"}, "e.Click"),
        ([CLICK, VIEW], {"page": "/", "ms": 1}, "e.View"),
        ([CLICK, VIEW], View("/"), "e.View"),
        ([VIEW, CLICK], Click("/"), "e.Click"),
        ([CLICK, VIEW], ("e.View", {"page": "/"}), "e.View"),
        ([CLICK, VIEW], {"-type": "e.View", "page": "/"}, "e.View"),
        (["int", CLICK, "null"], Click("/"), "e.Click"),
        ([{"type": "map", "values": "string"}, CLICK], {"page": "/"}, "e.Click"),
    ],
)
def test_a_union_of_records_keeps_which_it_was(union: Any, value: Any, branch: str) -> None:
    assert through(union, value, return_record_name=True)[0] == branch
    visits = record(events={"type": "array", "items": union})
    found = through(visits, Visit([value]), return_record_name=True)
    assert found["events"][0][0] == branch


def test_a_union_knows_named_types_that_stand_elsewhere() -> None:
    kind = {"type": "enum", "name": "e.Kind", "symbols": ["A", "B"]}
    named = record(first=CLICK, second=kind, any=["null", "e.Click", "e.Kind", "long"])
    for value in (None, {"page": "x"}, "B", 2**40):
        whole = {"first": {"page": "/"}, "second": "A", "any": value}
        assert through(named, whole) == whole


@pytest.mark.parametrize("value", [{"page": "x"}, Click("x"), ("e.Click", {"page": "x"})])
def test_an_optional_record_may_be_named(value: Any) -> None:
    optional = record(any=["null", CLICK], many={"type": "array", "items": ["e.Click", "null"]})
    read = through(optional, {"any": value, "many": [value, None]})
    assert read == {"any": {"page": "x"}, "many": [{"page": "x"}, None]}


KIND = {"type": "enum", "name": "e.Kind", "symbols": ["A", "B"]}
TEXTS = {"type": "array", "items": "string"}


@pytest.mark.parametrize(
    ("branch", "value", "read"),
    [
        ("string", ("string", "hi"), "hi"),
        (KIND, ("e.Kind", "B"), "B"),
        ({"type": "map", "values": "int"}, ("map", {"a": 1}), {"a": 1}),
        (TEXTS, ("array", ["x"]), ["x"]),
        (TEXTS, ("a", "b"), ["a", "b"]),
        (TEXTS, ("null", None), None),
        ("double", ("double", 1.5), 1.5),
        (logical("long", "timestamp-micros"), ("long", AT), AT),
        (CLICK, ("e.Click", Click("/")), {"page": "/"}),
        (CLICK, ("null", None), None),
    ],
)
def test_a_tuple_names_the_branch_of_a_union_with_null(branch: Any, value: Any, read: Any) -> None:
    for union in (["null", branch], [branch, "null"]):
        assert through(union, value) == read
        assert through(record(a=union), {"a": value}) == {"a": read}
        assert through({"type": "array", "items": union}, [value, None]) == [read, None]


@pytest.mark.parametrize("value", [("int", "x"), ("null", "x"), ("string", 5), ("string", "x", 1)])
def test_a_tuple_that_names_a_branch_wrongly_is_refused(value: Any) -> None:
    for schema, each in ((["null", "string"], value), (record(a=["null", "string"]), {"a": value})):
        with pytest.raises(Misfit):
            through(schema, each)


def test_a_pair_that_names_no_branch_is_a_list() -> None:
    union = ["null", "string", {"type": "array", "items": {"type": "array", "items": "int"}}]
    for value in (([1], [2]), ((1,), (2,))):
        assert through(union, value) == [[1], [2]]
        assert through(["null", union[2]], value) == [[1], [2]]
    with pytest.raises(Misfit, match=r"^\[0\]: a list was expected"):
        through(union, ({}, {}))


def test_an_optional_record_has_its_branch_named() -> None:
    """So fastavro does not look through everything below once more on each level."""
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(record(any=["null", CLICK]), named_schemas=named)
    fitted = Values(named).fit(parsed)({"any": {"page": "x"}})
    assert fitted == {"any": ("e.Click", {"page": "x"})}


def test_a_record_may_have_the_name_of_a_type() -> None:
    assert through([{**CLICK, "name": "str"}, "string"], "x") == "x"


@pytest.mark.parametrize(
    ("union", "value"),
    [
        (["double", "long"], 2**53 + 1),
        (["float", "double"], 1e300),
        (["float", "double"], 1.1),
        (["float", "int", "long"], 2**40),
        ([logical("int", "date"), "long"], 5),
        (["string", "bytes"], b"x"),
        (["null", "boolean", "int"], True),
    ],
)
def test_a_union_keeps_a_number_as_it_is(union: Any, value: Any) -> None:
    found = through(union, value)
    assert found == value
    assert type(found) is type(value)


class Model(BaseModel):
    sku: str
    count: int


class Struct(msgspec.Struct, omit_defaults=True, tag_field="kind", tag="line"):
    sku: str
    count: int = 7


@dataclass
class Wide:
    sku: str
    count: int
    price: float


@pytest.mark.parametrize("value", [Model(sku="a", count=7), Struct("a"), {"sku": "a", "count": 7}])
def test_objects_are_written_with_all_their_fields(value: Any) -> None:
    """A struct that leaves its own defaults out has not those of the schema for that."""
    assert through(LINE, value) == {"sku": "a", "count": 7}
    nested = {"type": "array", "items": ["null", LINE]}
    assert through(nested, [value]) == [{"sku": "a", "count": 7}]


def test_the_tag_of_a_struct_is_written_where_the_schema_has_it() -> None:
    tagged = {**LINE, "fields": [*LINE["fields"], {"name": "kind", "type": "string"}]}
    assert through(tagged, Struct("a"))["kind"] == "line"


def test_a_value_is_told_briefly_whatever_it_is() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in ("x" * 10_000, list(range(10_000)), deep, {"a": "y" * 10_000}):
        with pytest.raises(Misfit) as caught:
            through("int", value)
        assert len(str(caught.value)) < 200


def test_a_field_that_the_schema_lacks_is_refused() -> None:
    with pytest.raises(Misfit, match=r"^price: no such field is in shop\.Line, not 2\.5"):
        through(LINE, Wide("a", 1, 2.5))


def test_what_the_latest_version_lacks_is_refused() -> None:
    narrow = json.dumps(LINE)
    wide = narrow.replace("]}", ', {"name": "price", "type": "double", "default": 0}]}')

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("orders-value", Schema(narrow))
        options = SchemaOptions(use_latest=True)
        write = AvroSerializer(registry, wide, options=options)
        with pytest.raises(SerializationFailed, match="price: no such field") as caught:
            await now(write(Wide("a", 1, 2.5), VALUE))
        assert caught.value.context == {"schema": 1, "at": "price"}
        assert await now(write({"sku": "a"}, VALUE))

    run(main)


def test_bytes_alone_are_bytes() -> None:
    async def main(registry: SchemaRegistry) -> None:
        write = AvroSerializer(registry, '"bytes"')
        assert await now(write(bytearray(b"raw"), VALUE)) == b"\x00\x00\x00\x00\x01raw"
        for value in (5, [1, 2], "text"):
            with pytest.raises(SerializationFailed, match="bytes were expected"):
                write(value, VALUE)

    run(main)


def test_a_value_that_contains_itself_is_refused() -> None:
    node = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
    value: dict[str, Any] = {}
    value["next"] = value

    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(SerializationFailed, match="contains itself"):
            await now(AvroSerializer(registry, node)(value, VALUE))

    run(main)


def test_a_function_of_the_users_makes_the_value() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        write = AvroSerializer(registry, '"string"', to_dict=lambda value: value["text"])
        return await now(AvroDeserializer(registry)(await now(write({"text": "x"}, VALUE)), VALUE))

    assert run(main) == "x"


SCALARS: Any = st.sampled_from(["null", "boolean", "int", "long", "double", "string", "bytes"])
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.lists(SCALARS, min_size=2, max_size=4, unique=True),
    ),
    max_leaves=4,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def like(found: Any, given: Any) -> bool:
    """Equal, and of one type all the way down, except that whole numbers may be read as floats."""
    if isinstance(given, dict):
        return found.keys() == given.keys() and all(like(found[k], given[k]) for k in given)
    if isinstance(given, list):
        return len(found) == len(given) and all(map(like, found, given))
    if type(given) is int and type(found) is float:
        return bool(found == given)
    return type(found) is type(given) and bool(found == given)


@given(SCHEMAS, ANYTHING)
def test_a_value_comes_back_or_is_refused(schema: Any, value: Any) -> None:
    try:
        found = through(schema, value)
    except Misfit:
        return
    assert like(found, value)
