"""Services in a broker's process: a failed one is tried again, and each ends before the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moldau.broker.server.hosted_services import HostedServices
from moldau.broker.server.security import own_client
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings, notices, wanted_services
from moldau.config import overrides
from moldau.errors import ConfigError
from moldau.link.http.hosted import HostBroker, RunningService
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.runtime import Runtime
from tests.runtime.arena import simulate

HOST = HostBroker({}, {}, 1)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Service:
    """A service that cannot start at first, then ends by a bug, and then runs."""

    def __init__(self) -> None:
        self.failures: list[Exception] = [ConfigError("no topic"), KeyError("a bug"), OSError("x")]
        self.open = 0
        self.runs = asyncio.Event()

    @asynccontextmanager
    async def serve(self, host: HostBroker) -> AsyncIterator[RunningService]:
        assert host is HOST
        if len(self.failures) == 3:
            raise self.failures.pop(0)
        self.open += 1
        try:
            yield RunningService("http://here", Registry(), self.wait)
        finally:
            self.open -= 1

    async def wait(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.runs.set()
        await asyncio.Event().wait()


def test_a_service_that_fails_in_any_way_is_tried_again() -> None:
    lines: list[str] = []
    said: list[str] = []

    async def main(runtime: Runtime) -> None:
        log = Loggers(runtime.clock, lines.append).get("services")
        service = Service()
        services = HostedServices(runtime, {"registry": service.serve}, log, said.append)
        assert services.states() == {"registry": None}
        services.start(lambda: HOST)
        await service.runs.wait()
        running = services.states()["registry"]
        assert running is not None
        assert (running.address, service.open) == ("http://here", 1)
        await services.aclose()
        assert (services.states(), service.open) == ({"registry": None}, 0)

    simulate(main)
    assert said == ["registry at http://here"] * 3
    text = "\n".join(lines)
    assert text.count("a service failed, starts again; the broker goes on") == 3
    assert "no topic" in text
    assert "a bug" in text


def test_a_service_is_asked_for_by_its_listener() -> None:
    ground = standalone_layer("/data")
    assert wanted_services(broker_settings(ground)) == {}
    given = {"moldau.registry.listener": "127.0.0.1:8081", "moldau.registry.client.config": "f"}
    given["moldau.console.listener"] = "127.0.0.1:8080"
    found = wanted_services(broker_settings(ground, overrides(dict(given))))
    assert found == {
        "registry": {"listener": "127.0.0.1:8081", "client.config": "f"},
        "console": {
            "listener": "127.0.0.1:8080",
            "admin": "false",
            "registry": "http://127.0.0.1:8081",
        },
    }


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"moldau.registry.advertised": "broker-1:8081"}, "http://broker-1:8081"),
        ({"moldau.registry.listener": "127.0.0.1:0"}, None),
        ({"moldau.registry.listener": ""}, None),
        ({"moldau.registry.http.config": "f"}, None),
        ({"moldau.console.registry": "https://ann:secret@other"}, "https://ann:secret@other"),
    ],
)
def test_a_console_shows_the_registry_beside_it_if_that_asks_for_no_login(
    given: dict[str, str], shown: str | None
) -> None:
    both = {"moldau.registry.listener": "0.0.0.0:8081", "moldau.console.listener": "127.0.0.1:0"}
    settings = broker_settings(standalone_layer("/data"), overrides({**both, **given}))
    assert wanted_services(settings)["console"].get("registry") == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("registry", "ann:secret@host"),
        ("connect", "ftp://ann:secret@host"),
        ("streams", "app=ann:secret@host"),
        ("pipeline", "a/b=http://ann:secret@host"),
    ],
)
def test_an_address_that_the_console_can_never_reach_is_refused(name: str, value: str) -> None:
    given = {f"moldau.console.{name}": value}
    with pytest.raises(ConfigError, match="http://") as refused:
        broker_settings(standalone_layer("/data"), overrides(dict(given)))
    assert "secret" not in str(refused.value)


def test_a_file_of_two_logs_is_refused() -> None:
    given = {"moldau.audit.log": "/audit", "moldau.console.audit": "/audit"}
    settings = broker_settings(standalone_layer("/data"), overrides(dict(given)))
    with pytest.raises(ConfigError, match=r"moldau\.audit\.log writes that file"):
        wanted_services(settings)


@pytest.mark.parametrize(
    ("given", "notice"),
    [
        (
            {"moldau.registry.http.config": "f"},
            "moldau.registry.http.config has no effect without moldau.registry.listener",
        ),
        (
            {"moldau.console.roles": "f"},
            "moldau.console.roles has no effect without moldau.console.listener",
        ),
        (
            {
                "moldau.registry.listener": "127.0.0.1:8081",
                "process.roles": "controller",
                "listeners": "CONTROLLER://localhost:9093",
                "inter.broker.listener.name": "PLAINTEXT",
            },
            "moldau.registry.listener has no effect: this node is no broker",
        ),
    ],
)
def test_settings_of_a_service_without_effect_are_told(given: dict[str, str], notice: str) -> None:
    settings = broker_settings(standalone_layer("/data"), overrides(dict(given)))
    assert [each for each in notices(settings) if each.startswith(notice)]


def test_a_client_logs_in_as_brokers_do() -> None:
    given = {
        "listeners": "INSIDE://h:1,OUTSIDE://h:2,CONTROLLER://localhost:3",
        "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.inside.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.truststore.location": "/ca.pem",
        "listener.name.inside.ssl.keystore.location": "/inside.pem",
        "listener.name.inside.ssl.key.password": "secret",
        "listener.name.outside.ssl.keystore.location": "/outside.pem",
        "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
    }
    settings = broker_settings(standalone_layer("/data"), overrides(dict(given)))
    assert own_client(settings, "h:1") == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{SCRAM} required;",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.location": "/inside.pem",
        "ssl.key.password": "secret",
        "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
    }
    plain = broker_settings(standalone_layer("/data"))
    assert own_client(plain, "h:1") == {
        "bootstrap.servers": "h:1",
        "security.protocol": "PLAINTEXT",
    }
