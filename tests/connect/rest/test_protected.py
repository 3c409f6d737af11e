"""A REST API with TLS and Java's basic authentication, on two workers as processes."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from moldau.connect.rest.protection import EXTENSION, JAAS_FILE, is_signed, rest_protection
from moldau.errors import ConfigError
from moldau.link.certificates import issue, make_authority
from moldau.runtime.real import RealRuntime
from moldau.testing import SyncEmbeddedBroker
from tests.cli.fresh import moldau
from tests.connect.processes import Worker, command, wait_until

pytestmark = pytest.mark.real

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def jaas(folder: Path, users: str = "ann=secret\n", module: str = MODULE) -> Path:
    (folder / "users").write_text(users)
    path = folder / "jaas.conf"
    path.write_text(f'KafkaConnect {{\n  {module} required\n  file="{folder}/users";\n}};\n')
    return path


def certificates(folder: Path) -> ssl.SSLContext:
    now_ms = RealRuntime("test").clock.wall_ms()
    authority = make_authority("ca", now_ms)
    node = issue(authority, "worker", ("localhost", "127.0.0.1"), now_ms)
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "node.pem").write_text(node.key + node.certificate)
    return ssl.create_default_context(cafile=f"{folder}/ca.pem")


def test_two_workers_serve_only_users_and_forward_for_them(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context, cluster = certificates(tmp_path), f"protected-{moldau_topic}"
    environment = {"KAFKA_OPTS": f"-Xmx1g -D{JAAS_FILE}={jaas(tmp_path)}"}
    settings = tmp_path / "worker.properties"
    settings.write_text(
        f"bootstrap.servers={moldau_broker.bootstrap_servers}\n"
        f"group.id={cluster}\n"
        + "".join(f"{each}.storage.topic={cluster}-{each}\n" for each in ("config", "status"))
        + f"offset.storage.topic={cluster}-offset\n"
        f"rest.extension.classes={EXTENSION}\n"
        "listeners=https://localhost:0\n"
        f"ssl.keystore.location={tmp_path}/node.pem\n"
        f"ssl.truststore.location={tmp_path}/ca.pem\n"
    )
    with ExitStack() as stack:
        workers: list[Worker] = []
        for _ in range(2):
            worker = stack.enter_context(
                command("start", "-c", str(settings), environment=environment)
            )
            assert worker.url.startswith("https://localhost:")
            worker.client = stack.enter_context(
                httpx2.Client(
                    base_url=worker.url, verify=context, auth=("ann", "secret"), trust_env=False,
                    timeout=30,
                )
            )  # fmt: skip
            workers.append(worker)
        for worker in workers:
            assert httpx2.get(worker.url, verify=context, trust_env=False).status_code == 401
            for path, text in (("healthz", "alive\n"), ("readyz", "ready\n")):
                probe = httpx2.get(f"{worker.url}/{path}", verify=context, trust_env=False)
                assert (probe.status_code, probe.text) == (200, text)
            assert worker.client.get("/", auth=("ann", "wrong")).status_code == 401
            assert worker.ask("GET", "/connectors")[0] == 200
        (tmp_path / "in.txt").write_text("line\n")
        config = {"connector.class": "FileStreamSource", "file": f"{tmp_path}/in.txt"}
        for number, worker in enumerate(workers):  # one of them is not the leader
            name = f"source-{number}"
            wait_until(
                lambda w=worker, n=name: w.ask(  # type: ignore[misc]
                    "PUT", f"/connectors/{n}/config", {**config, "topic": moldau_topic}
                )[0] in (200, 201),
                "the connector is created",
            )  # fmt: skip
        for number in range(2):
            for worker in workers:
                worker.wait_for(f"source-{number}", "RUNNING", "RUNNING")
        found = workers[1].ask("GET", "/v1/connectors")[1]
        assert sorted(found) == ["source-0", "source-1"]
        status, _ = Worker.ask(workers[0], "POST", "/connectors/source-0/tasks", [])
        assert status in (400, 403), "a request without a signature is no worker's"
        place = workers[0].url.partition("://")[2]
        monkeypatch.setenv("MOLDAU_CONNECT_CA", f"{tmp_path}/ca.pem")
        monkeypatch.setenv("MOLDAU_CONNECT", f"https://ann:secret@{place}")
        listed = moldau("connect", "status")
        assert "source-1" in listed.out, listed.err
        monkeypatch.setenv("MOLDAU_CONNECT", f"https://ann:other@{place}")
        denied = moldau("connect", "status")
        assert denied.code != 0
        assert "a user and password" in denied.err
        assert "other@" not in denied.err


@pytest.mark.parametrize(
    ("users", "module", "said"),
    [
        ("", MODULE, "needs name=password"),
        ("ann=x\n", "com.acme.LdapLoginModule", "login module that Kafka brings"),
    ],
)
def test_a_jaas_file_that_would_let_everyone_in_is_refused(
    tmp_path: Path, users: str, module: str, said: str
) -> None:
    settings = {"rest.extension.classes": EXTENSION}
    clock = RealRuntime("test").clock
    with pytest.raises(ConfigError, match="KAFKA_OPTS"):
        rest_protection(settings, clock)
    settings[JAAS_FILE] = str(jaas(tmp_path, users, module))
    with pytest.raises(ConfigError, match=said):
        rest_protection(settings, clock)
    with pytest.raises(ConfigError, match="only Kafka's own"):
        rest_protection({"rest.extension.classes": "com.acme.Sso"}, clock)
    with pytest.raises(ConfigError, match=r"give ssl\.keystore\.location"):
        rest_protection({"listeners": "https://localhost:8443"}, clock)


def test_only_signed_requests_of_workers_need_no_login() -> None:
    assert is_signed("POST", "/connectors/a/tasks")
    assert is_signed("PUT", "/connectors/a/fence")
    for method, path in (
        ("GET", "/connectors/a/tasks"),
        ("POST", "/connectors"),
        ("POST", "/connectors/a/tasks/0/restart"),
        ("PUT", "/connectors/a/config"),
    ):
        assert not is_signed(method, path)
