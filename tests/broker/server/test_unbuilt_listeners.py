"""A listener whose protocol is not built is not opened, by whatever way somebody asks for it."""

from __future__ import annotations

import pytest

from moldau.broker.controller import stored_settings
from moldau.broker.server.standalone import CLIENTS
from moldau.broker.settings import dynamic
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.runtime import Runtime
from tests.broker.server.houses import House, house
from tests.broker.server.wire import Wire
from tests.runtime.arena import play

BROKER, SET = 4, 0
WORDS = "listener X asks for SASL_SSL, which this version does not have"


def secured(at: House) -> dict[str, str]:
    """Another listener beside those that there are, for which somebody wants TLS and logins."""
    return {
        "listeners": f"X://{at.host}:39999,{CLIENTS}://{at.host}:{at.port},CONTROLLER://:9093",
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,CONTROLLER:PLAINTEXT,X:SASL_SSL",
    }


async def alter(wire: Wire, values: dict[str, str]) -> AlterConfigsResourceResponse:
    configs = [
        AlterableConfig(name=name, config_operation=SET, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return (await wire.ask(request, IncrementalAlterConfigsResponse)).responses[0]


def test_it_cannot_be_asked_for_while_a_broker_runs() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):
            before = broker.node.image.configs.by_resource.copy()
            whole = secured(at)
            protocols = {name: whole[name] for name in whole if name != "listeners"}
            for values in (whole, protocols):
                answer = await alter(wire, values)
                assert answer.error_code == ErrorCode.INVALID_REQUEST
                assert WORDS in (answer.error_message or "")
            assert broker.node.image.configs.by_resource == before

    play("simulated", scenario)


def test_nor_where_the_file_has_the_protocol_already() -> None:
    """The listener alone is set, and what it speaks stands in the file."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            whole = secured(at)
            protocols = whole.pop("listener.security.protocol.map")
            async with at.open(listener_security_protocol_map=protocols) as (broker, wire):
                answer = await alter(wire, whole)
                assert answer.error_code == ErrorCode.INVALID_REQUEST
                assert WORDS in (answer.error_message or "")
                assert "listeners" not in broker.node.image.configs.of_broker(1).one_broker

    play("simulated", scenario)


def test_a_broker_for_which_one_was_stored_does_not_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older version took such changes, and they outlive it in the metadata log."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (_, wire):
                with monkeypatch.context() as old:
                    old.setattr(dynamic, "unbuilt_by_change", lambda changes: (), raising=False)
                    old.setattr(stored_settings, "unbuilt", lambda settings: ())
                    assert (await alter(wire, secured(at))).error_code == ErrorCode.NONE
                (told,) = at.complaints()
                assert "listeners takes effect only when the broker starts" in told
            for _ in range(2):  # the first lets everything go that it took
                with pytest.raises(ConfigError, match=WORDS) as refused:
                    await (await at.start()).aclose()
                assert "`moldau storage unset listeners`" in str(refused.value)
                assert f"kept_in='{at.directory}'" in str(refused.value)

    play("simulated", scenario)
