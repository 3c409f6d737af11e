"""Instances of the registry beside a broker: restarts, two at once, a killed leader."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from moldau.client import Producer
from moldau.client.serdes.registry import Schema, SchemaRegistry
from moldau.folds.leader_writer import Outcome
from moldau.registry.records import delete_entry
from moldau.registry.server import Options, SchemaRegistryServer
from moldau.runtime import Runtime
from moldau.testing import EmbeddedBroker, SyncEmbeddedBroker
from tests.registry.served import (
    USER,
    USER_2,
    instance,
    log_of,
    process,
    run_real,
    settings_of,
)

pytestmark = pytest.mark.real


def test_what_was_registered_is_there_after_a_restart() -> None:
    async def main(runtime: Runtime) -> None:
        async with EmbeddedBroker() as broker:
            async with instance(runtime, broker) as (rest, _):
                await rest.register("a-value", USER)
                await rest.register("a-value", USER_2)
                await rest.ask("PUT", "/config/a-value", {"compatibility": "FULL"})
                await rest.ask("DELETE", "/subjects/a-value/versions/1")
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await (await producer.send("_schemas", b"no JSON", key=b"neither"))
            async with instance(runtime, broker) as (rest, server):
                assert await rest.get("/subjects/a-value/versions") == [2]
                assert await rest.get("/config/a-value") == {"compatibilityLevel": "FULL"}
                assert server.store.unreadable == 1
                assert (await rest.register("b-value", '"int"'))["id"] == 3

    run_real(main)


def test_our_client_registers_and_checks() -> None:
    async def main(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker() as broker,
            instance(runtime, broker) as (_, server),
            SchemaRegistry(server.url, runtime=runtime) as registry,
        ):
            schema_id = await registry.register("a-value", Schema(USER))
            assert (await registry.schema(schema_id)).text == USER
            assert (await registry.is_compatible("a-value", Schema(USER_2))).is_compatible
            found = await registry.is_compatible("a-value", Schema('"int"'))
            assert not found.is_compatible
            assert found.messages
            assert await registry.delete_subject("a-value") == [1]

    run_real(main)


def test_any_of_two_instances_takes_writes_and_shows_them() -> None:
    async def main(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker() as broker,
            instance(runtime, broker) as (one, first),
            instance(runtime, broker) as (two, second),
        ):
            for number in range(3):
                for rest in (one, two):
                    made = await rest.register(f"s{number}", '"int"' if rest is one else '"long"')
                    path = f"/subjects/s{number}/versions/{made['version']}"
                    assert (await rest.get(path))["id"] == made["id"]
            assert await one.get("/subjects") == await two.get("/subjects")
            assert await two.error("POST", "/subjects/s0/versions", {"schema": '"string"'}) == (
                409,
                409,
            )
            assert await first.leader() == await second.leader()
            assert first.url != second.url

    run_real(main)


@pytest.mark.deep  # it waits for the killed one's session to end
def test_a_killed_leader_loses_nothing_and_no_id_is_given_twice(
    moldau_broker: SyncEmbeddedBroker,
) -> None:
    """The second instance takes over, and each id that was answered stays what it was."""
    ids: dict[str, int] = {}

    async def register(url: str, names: range) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            for number in names:
                subject = f"kill-{number}"
                name = f"Kill{number}"
                body = {"schema": f'{{"type":"enum","name":"{name}","symbols":["A"]}}'}
                found = await http.post(f"/subjects/{subject}/versions", json=body)
                while found.status_code >= 500:  # no leader yet
                    found = await http.post(f"/subjects/{subject}/versions", json=body)
                assert found.status_code == 200, found.text
                ids[subject] = found.json()["id"]

    async def check(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            for subject, schema_id in ids.items():
                found = await http.get(f"/subjects/{subject}/versions/1")
                assert found.json()["id"] == schema_id
            assert len(set(ids.values())) == len(ids)

    with process(moldau_broker.bootstrap_servers) as (leader, first):
        asyncio.run(register(first, range(10)))
        with process(moldau_broker.bootstrap_servers) as (_, second):
            asyncio.run(register(second, range(10, 20)))
            leader.kill()
            leader.wait()
            asyncio.run(register(second, range(20, 30)))
            asyncio.run(check(second))


def test_a_leader_that_was_replaced_unseen_cannot_write() -> None:
    """It was paused, say, and another instance has begun to write. Its write is refused by the
    cluster, and a later one goes to the leader of the next election."""

    async def main(runtime: Runtime) -> None:
        async with EmbeddedBroker() as broker, instance(runtime, broker) as (rest, server):
            await rest.register("a", USER)
            other = SchemaRegistryServer(
                runtime, settings_of(broker), Options(("127.0.0.1", 0)), log_of(runtime)
            )
            try:
                await other.fold.start()
                await other.writer.claim()
                # the next election ends its lead
                await other.writer.write(lambda: Outcome(None, [delete_entry("a", 1)]))
                status, found = await rest.ask(
                    "POST", "/subjects/b/versions", {"schema": '"string"'}
                )
                assert (status, found["error_code"]) == (500, 50001)
            finally:
                await other.aclose()
            made = await rest.register("b", '"string"')
            assert (made["id"], made["version"]) == (2, 1)
            assert await rest.get("/subjects") == ["b"]
            assert await server.leader() == server.url

    run_real(main)
