"""Avro that is nested deeply: read as fastavro reads it, and never the end of the process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    DeserializationFailed,
    Place,
    Schema,
    SchemaRegistry,
    SerializationFailed,
)
from moldau.values.avro.defaults import copied
from moldau.values.avro.nested import DEPTH_MAX, SIZELESS_ITEMS_MAX, NestedReader
from moldau.values.wire import frame
from tests.client.serdes.registry_run import now, run

VALUE = Place("orders", False)
NODE = (
    '{"type":"record","name":"N","fields":'
    '[{"name":"v","type":"int"},{"name":"next","type":["null","N"]}]}'
)
WIDER = NODE[:-2] + ',{"name":"more","type":"int","default":3}]}'
TREE = '{"type":"record","name":"N","fields":[{"name":"many","type":{"type":"array","items":"N"}}]}'


@dataclass
class N:
    v: int
    next: N | None


def chain(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"v": 0, "next": None}
    for number in range(1, levels):
        value = {"v": number, "next": value}
    return value


def levels_of(value: Any) -> int:
    """Counted without a level of stack for each."""
    count = 0
    while value is not None:
        count, value = count + 1, value["next"]
    return count


def chain_data(levels: int) -> bytes:
    return frame(1) + b"\x02\x02" * (levels - 1) + b"\x02\x00"


@pytest.mark.parametrize("levels", [200, 600])
def test_what_was_written_is_read(levels: int) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, NODE)(chain(levels), VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert levels_of(run(main)) == levels


def test_what_cannot_be_written_for_its_depth_is_refused() -> None:
    async def main(registry: SchemaRegistry) -> None:
        with pytest.raises(SerializationFailed, match="nested too deeply"):
            await now(AvroSerializer(registry, NODE)(chain(5000), VALUE))

    run(main)


def test_more_is_read_than_the_stack_has_room_for() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("n", Schema(NODE))
        return await now(AvroDeserializer(registry)(chain_data(DEPTH_MAX), VALUE))

    assert levels_of(run(main)) == DEPTH_MAX


@pytest.mark.parametrize(
    ("text", "level", "end"), [(NODE, b"\x02\x02", b"\x02\x00"), (TREE, b"\x02", b"\x00")]
)
@pytest.mark.parametrize("readers", [None, "own"])
def test_no_depth_of_bytes_ends_the_process(
    text: str, level: bytes, end: bytes, readers: str | None
) -> None:
    async def main(registry: SchemaRegistry) -> None:
        await registry.register("n", Schema(text))
        read = AvroDeserializer(registry, schema=readers and text)
        shallow = await now(read(frame(1) + level * 3 + end + bytes(3) * (text is TREE), VALUE))
        assert set(shallow) <= {"v", "next", "many"}
        with pytest.raises(DeserializationFailed, match="nested too deeply"):
            read(frame(1) + level * 100_000 + end, VALUE)

    run(main)


def test_a_readers_schema_is_fitted_to_600_levels_and_not_to_thousands() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("n", Schema(NODE))
        read = AvroDeserializer(registry, schema=WIDER)
        found = await now(read(chain_data(600), VALUE))
        with pytest.raises(DeserializationFailed, match="fitted to another schema"):
            read(chain_data(5000), VALUE)
        return found

    found = run(main)
    assert levels_of(found) == 600
    assert found["next"]["more"] == 3


def test_what_is_too_deep_for_a_type_is_told() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("n", Schema(NODE))
        read = AvroDeserializer(registry, type=N)
        with pytest.raises((DeserializationFailed, RecursionError)):
            await now(read(chain_data(DEPTH_MAX), VALUE))
        return read(chain_data(3), VALUE)

    assert run(main) == N(1, N(1, N(1, None)))


SCHEMA: Any = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "float"},
        {"name": "large", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9}],
        },
        {"name": "text", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "list", "type": {"type": "array", "items": ["null", "int", "string", "Node"]}},
        {"name": "map", "type": {"type": "map", "values": "Node"}},
    ],
}
PLAIN = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "small": st.floats(width=32, allow_nan=False),
        "large": st.floats(allow_nan=False),
        "raw": st.binary(max_size=5),
        "four": st.binary(min_size=4, max_size=4),
        "kind": st.sampled_from("AB"),
        "at": st.integers(0, 2**50),
        "price": st.none() | st.decimals(-(10**9) + 1, 10**9 - 1, places=0),
        "text": st.uuids().map(str),
    }
)
NODES = st.recursive(
    PLAIN.map(lambda node: {**node, "list": [], "map": {}}),
    lambda inner: st.builds(
        lambda node, items, entries: {**node, "list": items, "map": entries},
        PLAIN,
        st.lists(st.none() | st.integers(0, 9) | st.text(max_size=3) | inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
    max_leaves=5,
)


@given(NODES)
def test_it_reads_as_fastavro_does(value: Any) -> None:
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)), named_schemas=named)
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, parsed, value)
    data = buffer.getvalue()
    ours, theirs = BytesIO(data), BytesIO(data)
    assert NestedReader(named, ours).read(parsed) == fastavro.schemaless_reader(
        theirs, parsed, None
    )
    assert ours.tell() == theirs.tell() == len(data)


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00", [1, 2]),
        ({"type": "map", "values": "int"}, b"\x01\x06\x02a\x02\x02\x02b\x04\x00", {"a": 1, "b": 2}),
        ("int", b"\x03", -2),
    ],
)
def test_blocks_may_have_their_size(schema: Any, data: bytes, value: Any) -> None:
    buffer = BytesIO(data)
    assert NestedReader({}, buffer).read(fastavro.parse_schema(schema)) == value
    assert buffer.tell() == len(data)


@pytest.mark.parametrize("index", [b"\x01", b"\x04"])
@pytest.mark.parametrize(
    "schema", [["null", "int"], {"type": "enum", "name": "E", "symbols": ["A", "B"]}]
)
def test_a_branch_that_is_not_there_is_refused(schema: Any, index: bytes) -> None:
    with pytest.raises(DeserializationFailed, match="has not"):
        NestedReader({}, BytesIO(index)).read(fastavro.parse_schema(schema))


@pytest.mark.parametrize("kind", ["int", "long"])
def test_a_whole_number_of_more_than_64_bits_is_refused(kind: str) -> None:
    with pytest.raises(DeserializationFailed, match="64 bits"):
        NestedReader({}, BytesIO(b"\xff" * 12 + b"\x01")).read(kind)
    assert NestedReader({}, BytesIO(b"\xff" * 9 + b"\x01")).read(kind) == -(2**63)


def test_lists_of_defaults_are_copied_at_600_levels() -> None:
    more = '{"name":"more","type":{"type":"array","items":"int"},"default":[]}'

    async def main(registry: SchemaRegistry) -> Any:
        await registry.register("n", Schema(NODE))
        read = AvroDeserializer(registry, schema=NODE[:-2] + f",{more}]}}")
        return await now(read(chain_data(600), VALUE))

    found = run(main)
    assert levels_of(found) == 600
    assert found["more"] == []
    assert found["more"] is not found["next"]["more"]


def test_what_is_in_a_pair_of_a_name_and_a_record_is_copied_too() -> None:
    inner: Any = {"more": [1]}
    whole = ("shop.View", [("shop.Click", inner)])
    copy = copied(whole)
    assert copy == whole
    assert copy[1][0][1] is not inner
    assert copy[1][0][1]["more"] is not inner["more"]


def test_what_is_too_deep_for_a_union_of_classes_is_told() -> None:
    either = '["null","N",{"type":"record","name":"Other","fields":[]}]'
    text = f'{{"type":"record","name":"N","fields":[{{"name":"next","type":{either}}}]}}'

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("n", Schema(text))
        read = AvroDeserializer(registry, type=dict)
        assert await now(read(frame(1) + b"\x02\x00", VALUE)) == {"next": {"next": None}}
        with pytest.raises(DeserializationFailed, match="nested too deeply"):
            read(frame(1) + b"\x02" * 5000 + b"\x00", VALUE)

    run(main)


EMPTY = '{"type":"record","name":"Empty","fields":[]}'
MARKS = (
    '{"type":"record","name":"M","fields":'
    f'[{{"name":"marks","type":{{"type":"array","items":{EMPTY}}}}}]}}'
)
MORE_MARKS = MARKS[:-2] + ',{"name":"more","type":"int","default":3}]}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (MARKS, {"marks": [{}, {}, {}]}),
        (MARKS, {"marks": []}),
        ('{"type":"array","items":"null"}', [None, None]),
        ('{"type":"array","items":{"type":"fixed","name":"F","size":0}}', [b"", b""]),
        (f'["int",{{"type":"array","items":{EMPTY}}}]', 7),
    ],
)
def test_items_that_take_no_bytes_are_read_as_they_were_written(text: str, value: Any) -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, text)(value, VALUE))
        return await now(AvroDeserializer(registry)(data, VALUE))

    assert run(main) == value


def test_items_that_take_no_bytes_are_fitted_to_the_schema_of_a_reader() -> None:
    async def main(registry: SchemaRegistry) -> Any:
        data = await now(AvroSerializer(registry, MARKS)({"marks": [{}]}, VALUE))
        return await now(AvroDeserializer(registry, schema=MORE_MARKS)(data, VALUE))

    assert run(main) == {"marks": [{}], "more": 3}


@pytest.mark.parametrize("schema", [None, MORE_MARKS])
def test_few_bytes_claim_no_more_items_than_are_bearable(schema: str | None) -> None:
    def claiming(count: int) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, "long", count)
        return frame(1) + buffer.getvalue() + b"\x00"

    async def main(registry: SchemaRegistry) -> None:
        await registry.register("m", Schema(MARKS))
        read = AvroDeserializer(registry, schema=schema)
        most = await now(read(claiming(SIZELESS_ITEMS_MAX), VALUE))
        assert len(most["marks"]) == SIZELESS_ITEMS_MAX
        for count in (SIZELESS_ITEMS_MAX + 1, 1 << 40):
            with pytest.raises(DeserializationFailed, match="without a size"):
                await now(read(claiming(count), VALUE))

    run(main)
