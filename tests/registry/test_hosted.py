"""The registry inside brokers, as docs/registry.md says: settings, logins, and a killed writer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moldau.client import Producer
from moldau.errors import ConfigError
from moldau.link.http.hosted import HostBroker
from moldau.logging import Logger, Loggers
from moldau.registry.catalogue import Catalogue
from moldau.registry.hosted import BODY_BYTES_MAX, at_broker, prepare
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import RealRuntime
from moldau.testing import Cluster, EmbeddedBroker
from tests.broker.main.processes import broker_process, finished
from tests.link.token_provider import CLIENT, SECRET, token_provider
from tests.peers.eventually import eventually
from tests.registry.served import USER, USER_2, Answers, run_real, settings_of

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
HOST = HostBroker({"bootstrap.servers": "b:1"}, {"SASL_SSL": "b:2", "PLAINTEXT": "b:3"}, 3)


def told(lines: list[str]) -> Logger:
    return Loggers(RealRuntime("test").clock, lines.append).get("moldau.registry")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"listener": "127.0.0.1"}, "moldau.registry.listener takes HOST:PORT"),
        ({"listener": "0.0.0.0:8081"}, "give moldau.registry.advertised HOST:PORT"),
        ({"advertised": "node-1"}, "moldau.registry.advertised takes HOST:PORT"),
        ({"http.config": "none.properties"}, "none.properties"),
        ({"client.config": "none.properties"}, "none.properties"),
    ],
)
def test_settings_that_can_never_be_in_force_are_refused(
    tmp_path: Path, given: dict[str, str], reason: str
) -> None:
    settings = {"listener": "127.0.0.1:0", **given}
    with pytest.raises(ConfigError, match=reason):
        prepare(RealRuntime("test"), settings, told([]))


def test_a_registry_that_is_open_to_the_network_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("t\n")
    (tmp_path / "http.properties").write_text(f"http.tokens.file={tmp_path}/tokens\n")
    lines: list[str] = []
    open_to_all = {"listener": "0.0.0.0:8081", "advertised": "node-1:8081"}
    prepare(RealRuntime("test"), open_to_all, told(lines))
    (line,) = lines
    assert "lets every visitor change schemas; moldau.registry.http.config protects it" in line
    by_token = {**open_to_all, "http.config": f"{tmp_path}/http.properties"}
    prepare(RealRuntime("test"), by_token, told(lines))
    prepare(RealRuntime("test"), {"listener": "127.0.0.1:8081"}, told(lines))
    assert lines == [line]


def test_a_login_of_its_own_goes_to_the_listener_of_its_protocol() -> None:
    login = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}
    assert at_broker(login, HOST) == {**login, "bootstrap.servers": "b:2"}
    assert at_broker({}, HOST) == {"bootstrap.servers": "b:3"}
    elsewhere = {"bootstrap.servers": "c:1"}
    assert at_broker(elsewhere, HOST) == elsewhere
    with pytest.raises(ConfigError, match="no listener for SSL"):
        at_broker({"security.protocol": "SSL"}, HOST)


def registered(url: str, subject: str, schema: str, **more: Any) -> int:
    """The id of a schema, as soon as an instance takes it."""
    found: list[int] = []

    def is_taken() -> bool:
        with httpx2.Client(base_url=url, trust_env=False, timeout=60, **more) as client:
            try:
                answer = client.post(f"/subjects/{subject}/versions", json={"schema": schema})
            except httpx2.HTTPError:
                return False  # the broker is just starting, or ends
        assert answer.status_code in (200, 500), answer.text
        if answer.status_code == 200:
            found.append(answer.json()["id"])
        return bool(found)

    eventually(is_taken)
    return found[0]


def test_a_broker_serves_while_its_registry_compares_schemas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison ends only after a record was written."""
    begun, written = threading.Event(), threading.Event()

    def compare(*_: object) -> list[str]:
        begun.set()
        assert written.wait(20), "the broker wrote nothing meanwhile"
        return []

    async def main(runtime: Runtime) -> None:
        serve = prepare(runtime, {"listener": "127.0.0.1:0"}, told([]))
        async with (
            EmbeddedBroker() as broker,
            Producer(settings_of(broker)) as producer,
            serve(HostBroker(settings_of(broker), {}, 1)) as service,
            httpx2.AsyncClient(base_url=service.address, timeout=60) as http,
        ):
            rest = Answers(http)
            await rest.register("a", USER)
            monkeypatch.setattr(Catalogue, "problems", compare)
            asked = runtime.spawn(rest.register("a", USER_2), name="register")
            await runtime.run_blocking(begun.wait, 20)
            await producer.send_and_wait("t", b"a record")
            written.set()
            assert (await asked)["id"] == 2
            too_large = {"schema": "x" * BODY_BYTES_MAX}
            assert await rest.error("POST", "/subjects/a/versions", too_large) == (413, 413)

    run_real(main)


@pytest.mark.real
def test_a_broker_goes_on_while_its_registry_cannot_listen(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        with broker_process(tmp_path, "--registry", at) as broker:
            created = ("topic", "create", "t", "-b", f"{broker.host}:{broker.port}")
            assert finished(*created, home=tmp_path)[0] == 0
            taken.close()
            assert registered(f"http://{at}", "t-value", USER) == 1
            code, log = broker.stop()
    assert code == 0
    assert "a service failed, starts again; the broker goes on" in log
    assert f"a service is up service=registry at=http://{at}" in log
    assert "Traceback" not in log


@pytest.mark.real
def test_a_registry_logs_in_as_its_secure_broker_does(tmp_path: Path) -> None:
    """The broker's page of metrics has those of the registry, and `/readyz` says where it is."""
    (tmp_path / "tokens").write_text("a-token\n")
    config = tmp_path / "http.properties"
    config.write_text(f"http.tokens.file={tmp_path}/tokens\n")
    port, at, metrics = free_ports(3)
    made = finished("init", "secured", "--secure", "--port", str(port), home=tmp_path)
    assert made[0] == 0, made
    words = (
        *("--config", f"{tmp_path}/secured/server.properties", "--metrics", f"127.0.0.1:{metrics}"),
        *("--registry", f"127.0.0.1:{at}", "--set", f"moldau.registry.http.config={config}"),
    )
    token = {"Authorization": "Bearer a-token"}
    with broker_process(tmp_path, *words) as broker, httpx2.Client(trust_env=False) as client:
        url = f"http://127.0.0.1:{at}"
        assert registered(url, "a", USER, headers=token) == 1
        assert client.get(f"{url}/subjects").status_code == 401
        page = client.get(f"http://127.0.0.1:{metrics}/metrics").text.splitlines()
        assert "kafka_schema_registry_registered_count 1" in page
        assert 'moldau_broker_service_up{service="registry"} 1' in page
        ready = client.get(f"http://127.0.0.1:{metrics}/readyz")
        assert (ready.status_code, ready.text) == (200, f"running\nregistry: {url}\n")
        code, log = broker.stop()
    assert code == 0, log
    assert "ERROR" not in log


@pytest.mark.real
def test_a_registry_gets_its_tokens_as_its_broker_does(tmp_path: Path) -> None:
    port, controller, at = free_ports(3)
    config = tmp_path / "server.properties"
    with token_provider() as provider:
        given = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"CLIENTS://127.0.0.1:{port},CONTROLLER://localhost:{controller}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@localhost:{controller}",
            "log.dirs": str(tmp_path / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "moldau.oauth.provider": "keycloak",
            "sasl.oauthbearer.expected.issuer": provider.keycloak,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.token.endpoint.url": (
                f"{provider.keycloak}/protocol/openid-connect/token"
            ),
            "sasl.oauthbearer.client.credentials.client.id": CLIENT,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        words = ("--config", str(config), "--registry", f"127.0.0.1:{at}", "--cluster-id", CLUSTER)
        with broker_process(tmp_path, *words) as broker:
            assert registered(f"http://127.0.0.1:{at}", "a", USER) == 1
            code, log = broker.stop()
    assert code == 0, log
    assert SECRET not in log


@pytest.mark.real
@pytest.mark.deep
def test_another_brokers_registry_writes_when_the_writers_broker_is_killed() -> None:
    """Three brokers, two of them with a registry. Nothing that was answered is lost."""
    cluster = Cluster(
        brokers=3,
        settings={"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500},
    )
    urls = {node: f"http://127.0.0.1:{port}" for node, port in enumerate(free_ports(2), 1)}
    for node, url in urls.items():
        cluster.own_settings[node] = {"moldau.registry.listener": url.removeprefix("http://")}
    with cluster:
        ids = {f"s{node}": registered(url, f"s{node}", USER) for node, url in urls.items()}
        assert ids == {"s1": 1, "s2": 1}
        (writer,) = [node for node, url in urls.items() if is_writing(url)]
        (other,) = urls.keys() - {writer}
        cluster.kill(writer)
        assert registered(urls[other], "s1", USER_2) == 2
        assert versions(urls[other]) == {"s1": [1, 2], "s2": [1]}
        cluster.start(writer)
        assert registered(urls[writer], "s3", USER) == 1
        assert versions(urls[writer]) == {"s1": [1, 2], "s2": [1], "s3": [1]}
        assert is_writing(urls[other])
        assert not is_writing(urls[writer])


def is_writing(url: str) -> bool:
    """Whether the instance is the one that writes."""
    page = httpx2.get(f"{url}/metrics", trust_env=False).text
    return "kafka_schema_registry_master_slave_role 1" in page.splitlines()


def versions(url: str) -> Mapping[str, list[int]]:
    """The versions of each subject."""
    with httpx2.Client(base_url=url, trust_env=False) as client:
        subjects = client.get("/subjects").json()
        return {each: client.get(f"/subjects/{each}/versions").json() for each in subjects}
