"""The records of `_schemas`: byte for byte Confluent's, and none of them stops a start."""

from __future__ import annotations

import asyncio
import json

from moldau.registry import records
from moldau.registry.store import Store
from tests.registry.served import USER, Memory, in_memory

CONFLUENT = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a","mode":"READONLY"}'),
    (
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        b'{"subject":"a","version":1,"id":4,"schema":"\\"int\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}',
        b'{"subject":"a","version":2,"id":5,"schemaType":"JSON","references":[],'
        b'"schema":"{}","deleted":false}',
    ),
    (
        b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
        b'{"subject":"a","version":1}',
    ),
]


def test_a_topic_of_confluents_registry_is_read() -> None:
    store = Store()
    for key, value in CONFLUENT:
        store.replay(key, value)
    assert store.unreadable == 0
    assert store.level("a") == "FULL"
    assert store.mode("a") == "READONLY"
    assert [each.version for each in store.versions("a")] == [2]
    assert store.context(".").max_id == 5
    assert store.version("a", 2).schema.type == "JSON"  # type: ignore[union-attr]


def test_keys_are_confluents_bytes() -> None:
    async def main() -> None:
        async with in_memory() as (rest, memory):
            await rest.register("a", USER)
            await rest.ask("PUT", "/config", {"compatibility": "FULL"})
            await rest.ask("PUT", "/mode/a", {"mode": "READWRITE"})
            await rest.ask("DELETE", "/subjects/a")
            keys = [entry.key for entry in memory.log]
            assert keys[:4] == [
                b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
                b'{"keytype":"CONFIG","subject":null,"magic":0}',
                b'{"keytype":"MODE","subject":"a","magic":0}',
                b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
            ]
            assert json.loads(memory.log[0].value or b"") == {
                "subject": "a", "version": 1, "id": 1, "schema": USER, "deleted": False,
            }  # fmt: skip

    asyncio.run(main())


def test_a_bad_record_is_counted_and_changes_nothing() -> None:
    store = Store()
    bad = [
        (None, b"{}"),
        (b"", None),
        (b"\xff", b"\xff"),
        (b"[]", b"{}"),
        (b'{"keytype":"OTHER"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":"1","magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"id":1}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"id":"x","schema":"y"}'),
        (b'{"keytype":"CONFIG","subject":7,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"MODE","subject":null,"magic":0}', b"{}"),
        (b"[" * 100_000, b""),
    ]
    for key, value in bad:
        store.replay(key, value)
    assert store.unreadable == len(bad)
    assert store.subjects == {}
    assert store.level(None) == "BACKWARD"


def test_a_schema_that_nothing_parses_is_served_and_stops_nothing() -> None:
    async def main() -> None:
        memory = Memory()
        body = {"schema": "message {", "schemaType": "PROTOBUF"}
        memory.put(records.schema_entry("a", 1, 1, body, is_deleted=False))
        async with in_memory(memory) as (rest, _):
            assert (await rest.get("/schemas/ids/1"))["schema"] == "message {"
            assert (await rest.get("/schemas/ids/1?format=serialized"))["schema"] == "message {"
            assert await rest.get("/subjects") == ["a"]
            assert (await rest.register("b", USER))["id"] == 2
            assert await rest.ask("DELETE", "/subjects/a") == (200, [1])

    asyncio.run(main())
