"""The console inside a broker's process, as docs/console.md says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from moldau.broker.settings import console as rows
from moldau.client import Admin
from moldau.config import rows_in
from moldau.console.hosted import SHOWN, prepare
from moldau.console.options import ADMIN, NAMES, SETTING_PREFIX, setting_name
from moldau.errors import ConfigError
from moldau.link.http import hosted as hosting
from moldau.link.http.hosted import HostBroker
from moldau.logging import Loggers
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import RealRuntime
from moldau.runtime.threaded import ThreadedRuntime
from moldau.testing import EmbeddedBroker
from tests.broker.main.processes import broker_process, finished
from tests.console.guarded import GUARDED
from tests.console.guide import block
from tests.console.login import log_in
from tests.console.provider import SECRET, provider
from tests.console.shown import use
from tests.peers.eventually import eventually

ANN = ("ann", "secret")
ISSUER = "https://id.example.org/realms/shop"
OIDC = {"oidc.issuer": ISSUER, "oidc.client.id": "moldau-console"}
PREPARED = """
import sys
from moldau.console.hosted import prepare
from moldau.logging import Loggers
from moldau.runtime.real import RealRuntime

runtime = RealRuntime("test")
prepare(runtime, {"listener": "127.0.0.1:0"}, Loggers(runtime.clock, print).get("console"))
assert "moldau.console.server" in sys.modules
"""
LOG = Loggers(RealRuntime("test").clock, lambda line: None).get("console")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"listener": "127.0.0.1"}, "moldau.console.listener takes HOST:PORT"),
        (
            {"listener": "0.0.0.0:8080"},
            "give moldau.console.http.config or moldau.console.oidc.issuer, or serve it at",
        ),
        ({"listener": "[::]:8080", "roles": "masks.yaml"}, "without a login"),
        ({"listener": "0.0.0.0:8080", **OIDC}, "moldau.console.oidc.redirect.uri"),
        ({"http.config": "none.properties"}, "none.properties"),
        (
            {"oidc.user.claim": "email"},
            "moldau.console.oidc.user.claim needs moldau.console.oidc.i",
        ),
        (
            {"oidc.issuer": ISSUER},
            "moldau.console.oidc.issuer needs moldau.console.oidc.client.id",
        ),
        ({**OIDC, "admin": "true"}, "moldau.console.admin has no effect"),
        ({**OIDC, "oidc.issuer": "https://ann:secret@idp"}, "user and a password in it"),
        (
            {**OIDC, "oidc.client.secret.file": "none"},
            "moldau.console.oidc.client.secret.file",
        ),
        (
            {"roles": "roles.yaml"},
            "add moldau.console.oidc.issuer, or moldau.console.http.config",
        ),
        ({"roles": "masks.yaml", "admin": "true"}, "with moldau.console.admin every visitor"),
        ({"roles": ""}, "moldau.console.roles"),
        (
            {"streams": "a=http://h:1,a=http://h:2"},
            "moldau.console.streams: the name a is given twice",
        ),
        ({"audit": "none/audit"}, "moldau.console.audit: the file cannot be written"),
    ],
)
def test_settings_that_can_never_be_in_force_are_refused(
    given: dict[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("roles.yaml").write_text("roles: {admin: {users: ann}}")
    Path("masks.yaml").write_text("masks: [{topics: a, value: $}]")
    with pytest.raises(ConfigError, match=re.escape(reason)) as refused:
        prepare(RealRuntime("test"), {"listener": "127.0.0.1:0", **given}, LOG)
    assert "secret@" not in str(refused.value)


def test_settings_and_options_about_visitors_have_the_same_names() -> None:
    settings = {row.name.removeprefix(SETTING_PREFIX) for row in rows_in(vars(rows))}
    assert settings == {"listener", ADMIN, *map(setting_name, NAMES), *SHOWN}


def test_the_code_of_pages_is_loaded_before_the_broker_has_clients() -> None:
    subprocess.run([sys.executable, "-c", PREPARED], check=True, timeout=60)  # noqa: S603


def test_where_brokers_log_in_visitors_do(tmp_path: Path) -> None:
    login = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT"}
    host = HostBroker({**login, "sasl.mechanism": "PLAIN"}, {}, 1)
    (tmp_path / "users").write_text("ann=secret\n")
    (tmp_path / "http.properties").write_text(f"http.users.file={tmp_path}/users\n")
    protected = {"http.config": f"{tmp_path}/http.properties"}

    async def run() -> None:
        async with RealRuntime("test") as runtime:
            open_to_all = prepare(runtime, {"listener": "127.0.0.1:0"}, LOG)
            with pytest.raises(ConfigError, match="visitors have to as well"):
                async with open_to_all(host):
                    raise AssertionError("it serves")
            serve = prepare(runtime, {"listener": "127.0.0.1:0", **protected}, LOG)
            async with serve(host) as up, httpx2.AsyncClient(base_url=up.address) as client:
                assert (await client.get("/topics")).status_code == 401
                assert (await client.get("/healthz")).status_code == 200
                page = await client.get("/", headers={"Host": "evil.example"}, auth=ANN)
                assert "is not reached by the name evil.example" in page.text
                evil = {"Origin": "http://evil.example"}
                stolen = await client.post("/topics", headers=evil, auth=ANN)
                assert "the request came from another site" in stolen.text

    asyncio.run(run())


def of_guide(folder: Path, issuer: str) -> dict[str, str]:
    """The settings of the guide, with the files of a folder, a provider, and a port that is free.
    The file of roles is the guide's, too."""
    (folder / "users").write_text("tool=rabbit\n")
    (folder / "http.properties").write_text(f"http.users.file={folder}/users\n")
    (folder / "secret.txt").write_text(f"{SECRET}\n")
    (folder / "roles.yaml").write_text(block("yaml", "roles:"))
    lines = block("properties", "moldau.console").splitlines()
    found = dict(each.removeprefix(SETTING_PREFIX).split("=", 1) for each in lines)
    others = {ISSUER: issuer, "127.0.0.1:8080": "127.0.0.1:0"}
    files = ("http.properties", "secret.txt", "roles.yaml", "audit.jsonl")
    return {
        name: others.get(value, str(folder / value) if value in files else value)
        for name, value in found.items()
    }


@pytest.mark.real
def test_a_visitor_has_its_role_and_not_the_rights_of_the_broker(tmp_path: Path) -> None:
    """The broker is a super user, and every other user is denied everything."""
    lines: list[str] = []

    async def change(client: httpx2.AsyncClient, path: str, name: str) -> int:
        own = {"origin": str(client.base_url).rstrip("/")}
        return (await client.post(path, data={"name": name}, headers=own)).status_code

    async def run() -> set[str]:
        async with (
            EmbeddedBroker(settings=GUARDED) as broker,
            RealRuntime("broker") as runtime,
            provider(runtime) as at,
        ):
            await use(broker.bootstrap_servers)
            log = Loggers(runtime.clock, lines.append).get("moldau.console")
            serve = prepare(runtime, of_guide(tmp_path, at.issuer), log)
            host = HostBroker({"bootstrap.servers": broker.bootstrap_servers}, {}, 1)
            async with (
                serve(host) as up,
                httpx2.AsyncClient(base_url=up.address, trust_env=False, timeout=60) as client,
            ):
                await log_in(client, "bob")
                assert "orders" in (await client.get("/topics")).text
                assert (await client.get("/topics/orders/messages")).status_code == 403
                assert (await client.get("/topics/orders/tail")).status_code == 403
                assert await change(client, "/topics", "stolen") == 403
                client.cookies.clear()
                await log_in(client, "ann")
                assert await change(client, "/topics", "made") == 303
                assert await change(client, "/topics/made/delete", "made") == 403
                client.cookies.clear()
                for password, status in (("rabbit", 200), ("hare", 401)):
                    page = await client.get("/topics", auth=("tool", password))
                    assert page.status_code == status
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                return {each.name for each in await admin.list_topics()}

    assert asyncio.run(run()) == {"orders", "made"}
    text = (tmp_path / "audit.jsonl").read_text()
    said = [json.loads(each) for each in text.splitlines()]
    assert [(each["user"], each["role"], each["action"], each["result"]) for each in said] == [
        ("bob", "viewer", "read messages", "refused"),
        ("bob", "viewer", "follow messages", "refused"),
        ("bob", "viewer", "create a topic", "refused"),
        ("ann", "operator", "create a topic", "done"),
        ("ann", "operator", "delete a topic", "refused"),
    ]
    assert SECRET not in "".join((text, *lines))


def test_a_loop_whose_thread_does_not_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service is tried again for ever: no attempt may keep files of the broker's process."""
    closed: list[ThreadedRuntime] = []

    class WithoutThread(ThreadedRuntime):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

        def close(self) -> None:
            super().close()
            closed.append(self)

    monkeypatch.setattr(hosting, "ThreadedRuntime", WithoutThread)

    async def run() -> None:
        async with RealRuntime("test") as runtime:
            serve = prepare(runtime, {"listener": "127.0.0.1:0"}, LOG)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                async with serve(HostBroker({"bootstrap.servers": "127.0.0.1:9"}, {}, 1)):
                    raise AssertionError("it serves")

    asyncio.run(run())
    assert len(closed) == 1


@pytest.mark.real
def test_a_broker_serves_its_console_read_only_with_the_schemas_of_its_registry(
    tmp_path: Path,
) -> None:
    at, metrics, registry = (f"127.0.0.1:{port}" for port in free_ports(3))
    options = ("--console", at, "--metrics", metrics, "--registry", registry)
    with (
        broker_process(tmp_path, *options) as broker,
        httpx2.Client(base_url=f"http://{at}", trust_env=False, timeout=60) as client,
    ):
        created = ("topic", "create", "orders", "-b", f"{broker.host}:{broker.port}")
        assert finished(*created, home=tmp_path)[0] == 0

        def is_up() -> bool:
            ready = httpx2.get(f"http://{metrics}/readyz", trust_env=False)
            return f"console: http://{at}" in ready.text

        eventually(is_up)
        page = httpx2.get(f"http://{metrics}/metrics", trust_env=False).text
        assert 'moldau_broker_service_up{service="console"} 1' in page.splitlines()
        eventually(lambda: "orders" in client.get("/topics").text)
        refused = client.post("/topics", data={"name": "more"})
        assert (refused.status_code, "read-only" in refused.text) == (403, True)
        schema = {"schema": '"string"'}
        answer = httpx2.post(
            f"http://{registry}/subjects/orders-value/versions", json=schema, trust_env=False
        )
        assert answer.status_code == 200, answer.text
        assert "orders-value" in client.get("/schemas").text
        code, log = broker.stop()
    assert code == 0
    assert f"a service is up service=console at=http://{at}" in log
    assert "Traceback" not in log
