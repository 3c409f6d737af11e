"""`moldau connect run`: connectors from files, offsets in a directory, and no internal topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.client.sync import Admin, Producer
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import command, wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import TEXT, content, lines, numbers

pytestmark = pytest.mark.real


def test_a_killed_standalone_worker_goes_on_from_its_state(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    environment = install(packages)
    out, state = tmp_path / "out", tmp_path / "state"
    source, sink = tmp_path / "source.json", tmp_path / "sink.properties"
    source.write_text(json.dumps({"name": f"{moldau_topic}-from", "config": numbers(moldau_topic,
                      300, pause_ms="5")}))  # fmt: skip
    flat = {"name": f"{moldau_topic}-to", **lines(moldau_topic, out)}
    sink.write_text("".join(f"{name}={value}\n" for name, value in flat.items()))
    worker = tmp_path / "worker.properties"
    worker.write_text(
        f"key.converter={TEXT}\nvalue.converter={TEXT}\noffset.flush.interval.ms=200\n"
    )
    words = ("run", str(source), str(sink), "--bootstrap", moldau_broker.bootstrap_servers,
             "--state", str(state), "-c", str(worker))  # fmt: skip

    with command(*words, environment=environment) as running:
        wait_until(lambda: len(content(out)) >= 50, "it runs")
        wait_until((state / "offsets.json").exists, "the source has stored an offset")
        running.kill()
    stored = json.loads((state / "offsets.json").read_text())
    assert list(stored) == [f'["{moldau_topic}-from",{{"task":"0"}}]']
    with command(*words, "--listen", "127.0.0.1:0", environment=environment) as running:
        wait_until(lambda: len(set(content(out))) == 300, "nothing is lost")
        assert running.ask("GET", "/connectors")[1] == [
            f"{moldau_topic}-from",
            f"{moldau_topic}-to",
        ]
        assert running.stop() == 0
    assert len(content(out)) < 600, "it did not begin anew"
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        names = [topic.name for topic in admin.list_topics()]
    assert "connect-offsets" not in names


def test_a_sink_gets_committed_records_alone(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    environment = install(packages)
    out, sink = tmp_path / "out", tmp_path / "sink.json"
    sink.write_text(json.dumps({"name": moldau_topic, "config": lines(moldau_topic, out)}))
    worker = tmp_path / "worker.properties"
    worker.write_text(f"key.converter={TEXT}\nvalue.converter={TEXT}\n")
    with Producer(
        bootstrap_servers=moldau_broker.bootstrap_servers, transactional_id=moldau_topic
    ) as producer:
        for value, commits in ((b"aborted", False), (b"committed", True)):
            producer.begin_transaction()
            producer.send(moldau_topic, value, partition=0).result()
            producer.commit_transaction() if commits else producer.abort_transaction()
    words = ("run", str(sink), "--bootstrap", moldau_broker.bootstrap_servers,
             "--state", str(tmp_path / "state"), "-c", str(worker))  # fmt: skip
    with command(*words, environment=environment) as running:
        wait_until(lambda: bool(content(out)), "it reads")
        assert running.stop() == 0
    assert content(out) == ["committed"]
