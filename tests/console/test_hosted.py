"""The console inside a broker's process, as docs/console.md says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from moldau.console.hosted import prepare
from moldau.errors import ConfigError
from moldau.link import service_thread
from moldau.link.hosted_services import HostBroker
from moldau.logging import Loggers
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import RealRuntime
from moldau.runtime.threaded import ThreadedRuntime
from tests.broker.main.processes import broker_process, finished
from tests.peers.eventually import eventually

ANN = ("ann", "secret")
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
        ({"listener": "0.0.0.0:8080"}, "give moldau.console.http.config with http.users.file"),
        ({"http.config": "none.properties"}, "none.properties"),
    ],
)
def test_settings_that_can_never_be_in_force_are_refused(
    given: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        prepare(RealRuntime("test"), {"listener": "127.0.0.1:0", **given}, LOG)


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
            async with serve(host) as up, httpx.AsyncClient(base_url=up.address) as client:
                assert (await client.get("/topics")).status_code == 401
                assert (await client.get("/healthz")).status_code == 200
                page = await client.get("/", headers={"Host": "evil.example"}, auth=ANN)
                assert "is not reached by the name evil.example" in page.text
                evil = {"Origin": "http://evil.example"}
                stolen = await client.post("/topics", headers=evil, auth=ANN)
                assert "the form came from another site" in stolen.text

    asyncio.run(run())


def test_a_loop_whose_thread_does_not_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service is tried again for ever: no attempt may keep files of the broker's process."""
    closed: list[ThreadedRuntime] = []

    class WithoutThread(ThreadedRuntime):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

        def close(self) -> None:
            super().close()
            closed.append(self)

    monkeypatch.setattr(service_thread, "ThreadedRuntime", WithoutThread)

    async def run() -> None:
        async with RealRuntime("test") as runtime:
            serve = prepare(runtime, {"listener": "127.0.0.1:0"}, LOG)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                async with serve(HostBroker({"bootstrap.servers": "127.0.0.1:9"}, {}, 1)):
                    raise AssertionError("it serves")

    asyncio.run(run())
    assert len(closed) == 1


@pytest.mark.real
def test_a_broker_serves_its_console_read_only(tmp_path: Path) -> None:
    at, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
    with (
        broker_process(tmp_path, "--console", at, "--metrics", metrics) as broker,
        httpx.Client(base_url=f"http://{at}", trust_env=False, timeout=60) as client,
    ):
        created = ("topic", "create", "orders", "-b", f"{broker.host}:{broker.port}")
        assert finished(*created, home=tmp_path)[0] == 0

        def is_up() -> bool:
            ready = httpx.get(f"http://{metrics}/readyz", trust_env=False)
            return f"console: http://{at}" in ready.text

        eventually(is_up)
        page = httpx.get(f"http://{metrics}/metrics", trust_env=False).text
        assert 'moldau_broker_service_up{service="console"} 1' in page.splitlines()
        eventually(lambda: "orders" in client.get("/topics").text)
        refused = client.post("/topics", data={"name": "more"})
        assert (refused.status_code, "read-only" in refused.text) == (403, True)
        code, log = broker.stop()
    assert code == 0
    assert f"a service is up service=console at=http://{at}" in log
    assert "Traceback" not in log
