"""A whole broker, asked over the wire: on asyncio, uvloop, and in the simulator."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from typing import Any

import pytest

from moldau.broker.server import Broker
from moldau.broker.server.lifecycle import BrokerState
from moldau.broker.server.standalone import CLIENTS
from moldau.broker.server.storage import format_if_empty
from moldau.broker.server.waiting import SHARDS_SECONDS
from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire, wired
from tests.runtime.arena import HOST, REAL_ARENAS, play

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1

arenas = pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])


async def alter(wire: Wire, kind: int, name: str, **values: str | None) -> ErrorCode:
    """IncrementalAlterConfigs; None takes a value away."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(
                name=key.replace("_", "."),
                config_operation=DELETE if value is None else SET,
                value=value,
            )
            for key, value in values.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await wire.ask(request, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


@arenas
def test_what_was_produced_can_be_fetched_also_after_restarts(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            values = [f"value-{number}".encode() for number in range(50)]
            async with at.open() as (broker, wire):
                assert broker.state.name == "RUNNING"
                assert await wire.create("orders", 3) == ErrorCode.NONE
                for partition in range(3):
                    answer = await wire.produce("orders", values, partition)
                    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
                topic_id = await wire.topic_id("orders")
            assert broker.state.name == "STOPPED"

            for life in (1, 2):
                async with at.open() as (_, wire):
                    assert await wire.topic_id("orders") == topic_id
                    for partition in range(3):
                        found = await wire.fetch_all("orders", partition)
                        assert found == values * life
                        await wire.produce("orders", values, partition)
            assert not at.complaints()

    play(arena, scenario)


def test_clients_do_not_wait_for_ever_for_a_shard_that_does_not_come() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            settings = at.settings()
            now_ms = runtime.clock.wall_ms()
            format_if_empty(runtime.files, settings, runtime.random, now_ms, at.host)
            broker = await Broker.start(runtime, settings, host_name=at.host, shards=(1, 2))
            waited_ms = runtime.clock.wall_ms() - now_ms
            try:
                assert SHARDS_SECONDS * 1000 <= waited_ms < (SHARDS_SECONDS + 5) * 1000
                async with at.wire_of(broker) as wire:
                    assert await wire.create("orders", 1) == ErrorCode.NONE
            finally:
                await broker.aclose()

    play("simulated", scenario)


@arenas
def test_a_topic_that_was_just_created_can_be_led_at_once(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            for number in range(10):
                name = f"topic-{number}"
                assert await wire.create(name) == ErrorCode.NONE
                assert (await wire.produce(name, [b"x"])).error_code == ErrorCode.NONE

            found = await wire.metadata()

            assert len(found.topics) == 10
            assert [each.node_id for each in found.brokers] == [1]
            assert all(each.partitions[0].leader_id == 1 for each in found.topics)

    play(arena, scenario)


@arenas
def test_a_deleted_topic_is_gone_and_its_name_may_come_again(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            await wire.create("orders")
            await wire.produce("orders", [b"old"])
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=1000
            )
            answer = await wire.ask(request, DeleteTopicsResponse)
            assert answer.responses[0].error_code == ErrorCode.NONE

            refused = await wire.produce("orders", [b"late"])
            assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await wire.create("orders") == ErrorCode.NONE
            assert (await wire.produce("orders", [b"new"])).base_offset == 0
            assert await wire.fetch_all("orders") == [b"new"]

    play(arena, scenario)


@arenas
def test_a_topics_settings_are_in_force_when_the_change_is_answered(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (_, wire):
                await wire.create("orders", max_message_bytes="2000")
                large = [b"x" * 4000]
                refused = await wire.produce("orders", large)
                assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE

                await alter(wire, TOPIC, "orders", max_message_bytes="9000")
                assert (await wire.produce("orders", large)).error_code == ErrorCode.NONE
            async with at.open() as (_, wire):
                assert (await wire.produce("orders", large)).error_code == ErrorCode.NONE

                await alter(wire, TOPIC, "orders", max_message_bytes=None)
                assert (await wire.produce("orders", [b"x" * 900_000])).error_code == 0

    play(arena, scenario)


@arenas
@pytest.mark.parametrize("listener", ["", f"listener.name.{CLIENTS.lower()}."])
def test_dynamic_settings_of_all_brokers_reach_topics_and_listeners(
    arena: str, listener: str
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):
            await wire.create("orders")
            assert await alter(wire, BROKER, "", message_max_bytes="2000") == ErrorCode.NONE
            refused = await wire.produce("orders", [b"x" * 4000])
            assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE

            limit = {f"{listener}max.connections": "2"}
            assert await alter(wire, BROKER, "", **limit) == ErrorCode.NONE
            await asyncio.sleep(0)
            endpoint = broker.endpoints[CLIENTS]
            async with wired(runtime, *endpoint) as second, wired(runtime, *endpoint) as third:
                await second.metadata()
                waits = asyncio.ensure_future(third.metadata())
                done, _ = await asyncio.wait([waits], timeout=0.2)
                assert not done, "a third connection waits in line"
                second.close()
                assert (await waits).brokers

    play(arena, scenario)


@arenas
def test_a_stop_answers_who_waits_for_records(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            broker = await at.start()
            wire = await Wire.open(runtime, *broker.endpoints[CLIENTS])
            await wire.create("orders")
            waits = asyncio.ensure_future(wire.fetch_answer("orders", max_wait_ms=60_000))
            await asyncio.wait([waits], timeout=0.05)
            assert len(broker.node.replicas.purgatory) == 1
            began = asyncio.get_running_loop().time()
            await broker.aclose()

            assert (await waits).error_code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert asyncio.get_running_loop().time() - began < 5
            wire.close()

    play(arena, scenario)


@arenas
def test_a_second_broker_in_the_same_directory_is_refused(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            port, at.port = at.port, 0
            with pytest.raises(ConfigError, match="another process uses the directory"):
                await at.start()
            at.port = port
            assert (await wire.metadata()).brokers, "the first one does not mind"

    play(arena, scenario)


@arenas
def test_a_port_that_is_taken_is_told_and_leaves_the_directory_whole(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as first, house(runtime) as second, first.open():
            second.port = first.port
            with pytest.raises(MoldauError, match=r"cannot listen.*in use") as failure:
                await second.start()
            assert "Traceback" not in str(failure.value)

            second.port = 0
            async with second.open() as (broker, _):
                assert all(each.was_clean for each in broker.node.directories.directories)

    play(arena, scenario)


@arenas
def test_api_versions_name_the_cluster_features(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            answer = await wire.ask(request, ApiVersionsResponse, 4)

            assert answer.error_code == ErrorCode.NONE
            levels = {each.name: each.max_version_level for each in answer.finalized_features}
            assert levels["metadata.version"] == 33
            assert levels["kraft.version"] == 1

    play(arena, scenario)


def test_ten_virtual_minutes_of_idling_change_nothing() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (broker, wire):
                await wire.create("orders")
                await wire.produce("orders", [b"x"])
                before = broker.node.metadata_offset
                with suppress(TimeoutError):
                    async with asyncio.timeout(600):
                        await broker.wait()
                assert broker.node.metadata_offset == before
                assert broker.state is BrokerState.RUNNING
            async with at.open() as (_, wire):
                assert await wire.fetch_all("orders") == [b"x"]
            assert not at.complaints()

    play("simulated", scenario)


def test_a_host_that_calls_itself_by_an_address_it_has_not_got_is_still_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container without IPv6 whose names file has `::1 localhost`."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            at.host = "localhost"
            listen = runtime.network.listen

            async def without_ipv6(factory: Any, host: str | None, port: int, **more: Any) -> Any:
                if host == "localhost":
                    raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
                return await listen(factory, host, port, **more)

            monkeypatch.setattr(runtime.network, "listen", without_ipv6)
            async with at.open() as (broker, wire):
                assert broker.endpoints[CLIENTS].host == "localhost"
                assert (await wire.metadata()).brokers[0].host == "localhost"

    play("asyncio", scenario)


def test_listeners_are_told_where_clients_reach_them() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            settings = {
                "listeners": f"IN://{HOST}:0,OUT://:0,CONTROLLER://{HOST}:0",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "IN",
            }
            broker = await at.start(**settings)
            try:
                for name in ("IN", "OUT"):
                    bound, told = broker.listeners[name], broker.endpoints[name]
                    assert bound.port == told.port != 0
                    assert told.host == HOST
                    async with wired(runtime, *told) as wire:
                        brokers = (await wire.metadata()).brokers
                        assert [(each.host, each.port) for each in brokers] == [told]
            finally:
                await broker.aclose()

    play("asyncio", scenario)


@arenas
def test_the_first_line_of_a_node_by_itself_is_not_about_a_quorum(arena: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open():
                pass
            assert "listens" in at.lines[0]
            assert not [each for each in at.lines if "quorum" in each]

    play(arena, main)
