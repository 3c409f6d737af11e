"""What the worker's settings change about the REST API: other origins, /admin, client overrides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from moldau.runtime.node_processes import free_ports
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker
from tests.connect.rest.connect_command import connect, refused
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, lines, numbers

pytestmark = pytest.mark.real

ORIGIN = "http://console.example"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("packages")
    install(found)
    return found


@pytest.fixture(scope="module")
def admin_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def worker(
    moldau_broker: SyncEmbeddedBroker, packages: Path, admin_address: str
) -> Iterator[Worker]:
    environment = {"PYTHONPATH": str(packages)}
    scene = Scene(moldau_broker, "rest-settings", environment)
    settings = {
        "task.isolation": "thread",
        "access.control.allow.origin": ORIGIN,
        "access.control.allow.methods": "GET,PUT",
        "admin.listeners": f"http://{admin_address}",
        "connector.client.config.override.policy": "Principal",
    }
    with scene.worker(**settings) as running:
        yield running


def test_pages_of_the_allowed_origin_may_read_answers(worker: Worker) -> None:
    asked = worker.client.get("/connectors", headers={"Origin": ORIGIN})
    assert asked.headers["access-control-allow-origin"] == ORIGIN
    strange = worker.client.get("/connectors", headers={"Origin": "http://other.example"})
    assert "access-control-allow-origin" not in strange.headers
    wants = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT"}
    assert worker.client.options("/connectors/a/pause", headers=wants).status_code == 200
    wants["Access-Control-Request-Method"] = "DELETE"
    assert worker.client.options("/connectors/a", headers=wants).status_code == 400


def test_levels_are_read_at_an_address_of_their_own(worker: Worker, admin_address: str) -> None:
    refused(worker.ask("GET", "/admin/loggers"), 404, "404")
    found = httpx2.get(f"http://{admin_address}/admin/loggers", trust_env=False)
    assert found.status_code == 200
    other = httpx2.get(f"http://{admin_address}/connectors", trust_env=False)
    assert other.status_code == 404


def test_overrides_that_the_policy_forbids_are_refused_with_their_key(
    worker: Worker, moldau_topic: str, tmp_path: Path
) -> None:
    config = lines(moldau_topic, tmp_path / "out")
    allowed = {**config, "consumer.override.security.protocol": "PLAINTEXT"}
    forbidden = {**config, "consumer.override.max.poll.records": "5"}
    body = {"name": moldau_topic, "config": forbidden}
    refused(worker.ask("POST", "/connectors", body), 400, "consumer.override.max.poll.records")

    worker.create(moldau_topic, allowed)
    worker.wait_for(moldau_topic, "RUNNING", "RUNNING")


def test_topics_are_chosen_by_javas_patterns_and_the_status_tells_the_guarantee(
    worker: Worker, moldau_topic: str, tmp_path: Path
) -> None:
    worker.create(f"{moldau_topic}-source", numbers(moldau_topic, 2))
    out = tmp_path / "out"
    config = {**lines("", out), "topics.regex": rf"\Q{moldau_topic}\E\z"}
    del config["topics"]
    worker.create(moldau_topic, config)

    worker.wait_for(moldau_topic, "RUNNING", "RUNNING")
    _, status = worker.ask("GET", f"/connectors/{moldau_topic}/status")
    assert status["guarantee"] == "at-least-once"


def test_configs_are_checked_with_the_providers_of_the_worker(
    packages: Path, tmp_path: Path
) -> None:
    config, properties = tmp_path / "c.json", tmp_path / "worker.properties"
    values = {**numbers("t", 1), "count": "${env:NUMBERS_COUNT}"}
    config.write_text(json.dumps({"name": "c", "config": values}))
    properties.write_text(
        "config.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=NUMBERS_.*\n"
    )
    words = ("lint", str(config), "-c", str(properties))

    good = connect(*words, environment={"PYTHONPATH": str(packages), "NUMBERS_COUNT": "3"})
    bad = connect(*words, environment={"PYTHONPATH": str(packages), "NUMBERS_COUNT": "hunter22"})

    assert (good.returncode, good.stdout) == (0, "c: ok\n")
    assert bad.returncode == 1
    assert "count" in bad.stdout
    assert "hunter22" not in bad.stdout
