"""Taking back what was set at run time, where the broker does not start because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.main.offline_controller import take_back
from moldau.broker.server.standalone import CLIENTS
from moldau.cli.command import Exit, UsageError
from moldau.config import Settings
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.broker.main.broker_change import OF_X, change
from tests.broker.main.command_line import command
from tests.broker.server.houses import House, house
from tests.runtime.arena import play

LISTENERS, MAP = "listeners", "listener.security.protocol.map"
WITHOUT_X = f"{CLIENTS}:PLAINTEXT,CONTROLLER:PLAINTEXT"
REASON = "no security protocol for a listener"


def with_map(at: House, protocols: str) -> Settings:
    """What the node's file says."""
    return at.settings(listener_security_protocol_map=protocols)


async def with_a_listener_that_goes(at: House) -> None:
    """X is set while the file maps it, and a setting of all brokers beside it."""
    async with at.open(listener_security_protocol_map=OF_X) as (_, wire):
        places = f"X://{at.host}:39999,{CLIENTS}://{at.host}:{at.port},CONTROLLER://:9093"
        await change(wire, "1", listeners=places, log_retention_ms="7")
        await change(wire, "", log_retention_ms="8")


@pytest.mark.parametrize("arena", ["simulated", "asyncio"])
def test_a_broker_starts_again_once_its_listeners_are_taken_back(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            await with_a_listener_that_goes(at)
            with pytest.raises(ConfigError, match=f"{REASON}.*`moldau storage unset listeners`"):
                await (await at.start(listener_security_protocol_map=WITHOUT_X)).aclose()

            settings = with_map(at, WITHOUT_X)
            await take_back(runtime, settings, [LISTENERS], is_of_all=False)

            async with at.open(listener_security_protocol_map=WITHOUT_X) as (broker, _):
                configs = broker.node.image.configs.of_broker(1)
                assert configs.one_broker == {"log.retention.ms": "7"}
                assert configs.all_brokers["log.retention.ms"] == "8"
                assert list(broker.endpoints) == [CLIENTS]
            await take_back(runtime, settings, ["log.retention.ms"], is_of_all=True)
            async with at.open(listener_security_protocol_map=WITHOUT_X) as (broker, _):
                configs = broker.node.image.configs.of_broker(1)
                assert configs.one_broker == {"log.retention.ms": "7"}
                assert "log.retention.ms" not in configs.all_brokers

    play(arena, scenario)


def test_what_was_not_set_is_told_and_nothing_is_taken_back() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            await with_a_listener_that_goes(at)
            settings = with_map(at, OF_X)
            said = "not set at run time: num.io.threads; what is: listeners, log.retention.ms"
            with pytest.raises(UsageError, match=said):
                await take_back(runtime, settings, [LISTENERS, "num.io.threads"], is_of_all=False)
            with pytest.raises(UsageError, match=r"what is: log\.retention\.ms"):
                await take_back(runtime, settings, [LISTENERS], is_of_all=True)
            async with at.open(listener_security_protocol_map=OF_X) as (broker, _):
                assert LISTENERS in broker.node.image.configs.of_broker(1).one_broker

    play("simulated", scenario)


def test_what_others_need_is_not_taken_back() -> None:
    """The map that a stored listener is in; without a broker as with one."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (_, wire):
                places = f"X://{at.host}:39999,{CLIENTS}://{at.host}:{at.port},CONTROLLER://:9093"
                await change(wire, "1", listeners=places, listener_security_protocol_map=OF_X)
            with pytest.raises(KafkaError, match=REASON):
                await take_back(runtime, at.settings(), [MAP], is_of_all=False)
            await take_back(runtime, at.settings(), [MAP, LISTENERS], is_of_all=False)

    play("simulated", scenario)


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "d"))
    assert command("storage", "format", *data, home=tmp_path)[0] == Exit.DONE

    code, out, err = command("storage", "unset", *data, "listeners", home=tmp_path)
    assert (code, out) == (Exit.MISUSED, "")
    assert "not set at run time: listeners; what is: nothing" in err

    code, out, err = command(
        "storage", "unset", *data, "--all-brokers", "min.insync.replicas", home=tmp_path
    )
    assert (code, out) == (Exit.FAILED, "")  # a new cluster has it, and needs it
    assert "min.insync.replicas of all brokers stays" in err


def test_a_broker_that_runs_keeps_its_directory_to_itself() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at, at.open() as (broker, wire):
            await change(wire, "1", log_retention_ms="7")
            with pytest.raises(ConfigError, match="another process uses the directory"):
                await take_back(runtime, at.settings(), ["log.retention.ms"], is_of_all=False)
            assert broker.node.image.configs.of_broker(1).one_broker

    play("simulated", scenario)
