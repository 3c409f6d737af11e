"""A pipeline whose connectors run in Java's Connect worker."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.peers.apache_kafka import WITH_CONNECTORS, fetch_or_skip
from tests.pipeline.guide import blocks
from tests.pipeline.running import Folder, wait_until

pytestmark = [pytest.mark.real, pytest.mark.deep]

TEXT = "org.apache.kafka.connect.storage.StringConverter"
START_S = 180.0
RUNNING = dict.fromkeys(("read-lines", "count-words", "write-counts"), "RUNNING")


@contextmanager
def java_worker(bootstrap: str, folder: Path, directory: Path) -> Iterator[str]:
    """Its address; relative paths in its connectors count from `directory`."""
    kafka, port = fetch_or_skip(WITH_CONNECTORS), free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "java-worker",
        "listeners": url,
        "key.converter": TEXT,
        "value.converter": TEXT,
        "offset.flush.interval.ms": "1000",
        "plugin.discovery": "only_scan",
    }
    for what in ("config", "offset", "status"):
        settings[f"{what}.storage.topic"] = f"java-worker-{what}"
        settings[f"{what}.storage.replication.factor"] = "1"
    file = folder / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the Java that was found
            [
                *kafka.command("-Xmx512m", "-XX:TieredStopAtLevel=1"),
                main,
                file,
            ],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "KAFKA_LOG4J_OPTS": ""},
        )
    try:

        def is_up() -> bool:
            assert process.poll() is None, (folder / "worker.log").read_text()[-3000:]
            try:
                return httpx2.get(f"{url}/connectors", timeout=30, trust_env=False).is_success
            except httpx2.TransportError:
                return False

        wait_until(is_up, "Java's worker answers", START_S)
        yield url
    finally:
        process.kill()
        process.wait()


def asked(url: str, path: str) -> Any:
    """The body of the answer; None while the worker is busy, or has no such thing."""
    try:
        answer = httpx2.get(f"{url}{path}", timeout=30, trust_env=False)
    except httpx2.TransportError:
        return None
    return answer.json() if answer.is_success else None


def states(url: str, name: str) -> list[str]:
    """Of the connector and its tasks, as Java's worker says."""
    status = asked(url, f"/connectors/{name}/status")
    if status is None:
        return []
    return [status["connector"]["state"], *(each["state"] for each in status["tasks"])]


def parts(folder: Folder, *there: str) -> dict[str, str]:
    """The state of each part, as `moldau pipeline status` says."""
    told = folder.moldau("pipeline", "status", "--json", *there)
    return {each["part"]: each["state"] for each in json.loads(told)}


def test_the_first_pipeline_runs_in_it_and_takes_away_what_it_made(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.mkdir()
    (path / "words.py").write_text(blocks("python")[0])
    (path / "pipeline.yaml").write_text(blocks("yaml")[0])
    (path / "input.txt").write_text("to be or not to be\n")
    folder = Folder(path)
    with (
        SyncEmbeddedBroker() as broker,
        java_worker(broker.bootstrap_servers, tmp_path, path) as url,
    ):
        there = ("--bootstrap", broker.bootstrap_servers, "--connect", url)
        with folder.running(*there) as run:
            wait_until(lambda: len(folder.lines()) == 4, "four words", START_S)
            wait_until(lambda: parts(folder, *there) == RUNNING, "all parts run", START_S)
            plan = json.loads(folder.moldau("pipeline", "plan", "--json", *there))
            both = ["RUNNING", "RUNNING"]
            wait_until(lambda: states(url, "read-lines") == both, "the source runs", START_S)
            run.stop()
        # The worker writes states and configs into topics, and reads them back.
        wait_until(lambda: states(url, "write-counts") == ["STOPPED"], "a stopped sink", START_S)
        folder.moldau("pipeline", "down", "--delete", "--yes", *there)
        wait_until(lambda: asked(url, "/connectors") == [], "no connector is left", START_S)

    assert plan["counts"]["update"] == 0, "its own config is no change"
