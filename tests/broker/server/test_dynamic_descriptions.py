"""What DescribeConfigs tells of a broker's dynamic settings, whether or not they move a value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from moldau.broker.server.standalone import CLIENTS
from moldau.config import SourceKind
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.runtime import Runtime
from tests.broker.server.dynamic_change import BROKER, alter
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire, wired
from tests.runtime.arena import play

OWN: Final = SourceKind.DYNAMIC_BROKER.code
SHARED: Final = SourceKind.DYNAMIC_DEFAULT.code
DEFAULT: Final = SourceKind.DEFAULT.code
ALL: Final = ""
RETENTION: Final = "log.retention.bytes"


async def described(wire: Wire, broker: str) -> Mapping[str, tuple[str | None, int]]:
    """Value and source of what is dynamic, and of the retention in any case."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=BROKER, resource_name=broker, configuration_keys=None
            )
        ],
        include_synonyms=True,
    )
    answer = await wire.ask(request, DescribeConfigsResponse)
    assert answer.results[0].error_code == ErrorCode.NONE
    return {
        each.name: (each.value, each.config_source)
        for each in answer.results[0].configs
        if each.config_source in (OWN, SHARED) or each.name == RETENTION
    }


def test_a_default_that_every_broker_overrides_is_told() -> None:
    async def scenario(wire: Wire) -> None:
        await changed(wire, RETENTION, "777", "1")
        await changed(wire, RETENTION, "888", ALL)
        assert (await described(wire, ALL))[RETENTION] == ("888", SHARED)
        assert (await described(wire, "1"))[RETENTION] == ("777", OWN)

    in_a_house(scenario)


def test_a_deleted_setting_is_not_told_though_the_value_stays() -> None:
    async def scenario(wire: Wire) -> None:
        await changed(wire, RETENTION, "777", ALL)
        await changed(wire, RETENTION, "777", "1")
        assert (await described(wire, "1"))[RETENTION] == ("777", OWN)
        await changed(wire, RETENTION, None, "1")
        assert (await described(wire, "1"))[RETENTION] == ("777", SHARED)
        await changed(wire, RETENTION, None, ALL)
        assert (await described(wire, "1"))[RETENTION] == ("-1", DEFAULT)

    in_a_house(scenario)


def test_a_setting_that_is_given_the_value_it_has_is_told() -> None:
    async def scenario(wire: Wire) -> None:
        await changed(wire, RETENTION, "-1", "1")
        assert (await described(wire, "1"))[RETENTION] == ("-1", OWN)

    in_a_house(scenario)


def test_a_default_of_a_listener_that_a_broker_overrides_is_told() -> None:
    async def scenario(wire: Wire) -> None:
        name = "listener.name.clients.max.connections"
        await changed(wire, name, "50", ALL)
        await changed(wire, name, "60", "1")
        assert (await described(wire, ALL))[name] == ("50", SHARED)
        assert (await described(wire, "1"))[name] == ("60", OWN)

    in_a_house(scenario)


def test_a_setting_of_one_listener_and_one_broker_is_no_default_of_all() -> None:
    async def scenario(wire: Wire) -> None:
        await changed(wire, "listener.name.nope.max.connections", "5", "1")
        await changed(wire, "max.connections", "1000", ALL)
        shared = await described(wire, ALL)
        assert shared["max.connections"] == ("1000", SHARED)
        assert "listener.name.nope.max.connections" not in shared

    in_a_house(scenario)


def test_a_limit_is_in_force_although_a_change_that_moves_nothing_followed_at_once() -> None:
    """The second must not call off the first, whose hosts are still being looked up."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):
            looked_up = asyncio.Event()
            network, resolve = runtime.network, runtime.network.resolve

            async def slow(host: str, port: int) -> list[tuple[str, int]]:
                await looked_up.wait()
                return await resolve(host, port)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(network, "resolve", slow)
                await changed(wire, "max.connections.per.ip.overrides", f"{at.host}:1", "1")
                await changed(wire, RETENTION, "-1", "1")
                looked_up.set()
                await described(wire, "1")
            async with wired(runtime, *broker.endpoints[CLIENTS]) as second:
                with pytest.raises((OSError, EOFError)):
                    await second.metadata()

    play("simulated", scenario)


def test_a_limit_is_for_an_address_on_whatever_link() -> None:
    """The resolver tells the link of an address that means nothing on others; a peer's does not."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):

            async def on_a_link(host: str, port: int) -> list[tuple[str, int]]:
                return [(f"{at.host}%2", port)]

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(runtime.network, "resolve", on_a_link)
                await changed(wire, "max.connections.per.ip.overrides", "a-host:1", "1")
                await described(wire, "1")
            async with wired(runtime, *broker.endpoints[CLIENTS]) as second:
                with pytest.raises((OSError, EOFError)):
                    await second.metadata()

    play("simulated", scenario)


async def changed(wire: Wire, name: str, value: str | None, broker: str) -> None:
    assert await alter(wire, name, value, broker) == ErrorCode.NONE


def in_a_house(scenario: Callable[[Wire], Awaitable[None]]) -> None:
    async def whole(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (_, wire):
            await scenario(wire)

    play("simulated", whole)
