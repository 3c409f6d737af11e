"""`moldau streams adopt` on a broker: what it reads there, and what it answers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from moldau.client import NewTopic, OffsetAndMetadata, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Done, Shell

APP = """
from moldau.streams import Streams, serde
app = Streams("{name}")
app.stream("{name}-in", str, key=str).group_by_key().count(name="counts"{type})
"""


def adopt(servers: str, folder: Path, name: str, kind: str = ', type=serde("long")') -> Done:
    module = f"adopting_{len(list(folder.iterdir()))}"
    (folder / f"{module}.py").write_text(APP.format(name=name, type=kind))
    return Shell(servers)("streams", "adopt", "--application-id", name, f"{module}:app", "--json")


def stops(done: Done) -> str:
    return "\n".join(each["why"] for each in done.json["findings"] if each["verdict"] == "stops")


def test_it_reads_the_group_and_the_changelogs(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    changelog = f"{name}-counts-changelog"
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers, transactional_id=f"{name}-1") as producer,
    ):
        for topic in (f"{name}-in", changelog):
            admin.create_topic(NewTopic(topic, 2, 1))
        with producer.transaction():
            producer.send(f"{name}-in", b"record", partition=1)
            producer.send(changelog, struct.pack(">q", 7), key=b"key", partition=1)
        assert "is this the application.id" in stops(adopt(servers, tmp_path, name))
        with Consumer(bootstrap_servers=servers, group_id=name, client_id="old-1") as consumer:
            consumer.subscribe([f"{name}-in"])
            consumer.poll(1)
            assert "members: old-1 at " in stops(adopt(servers, tmp_path, name))
        admin.alter_group_offsets(
            name, {TopicPartition(f"{name}-in", at): OffsetAndMetadata(at) for at in range(2)}
        )
        done = adopt(servers, tmp_path, name)
        assert (done.code, stops(done)) == (0, "")

        done = adopt(servers, tmp_path, name, "")
        assert done.code == 1
        assert f"the value at {changelog}-1 offset 0 is no int" in stops(done)
        producer.begin_transaction()
        producer.send(changelog, struct.pack(">q", 8), key=b"key", partition=1)
        producer.flush()
        assert f"{name}-1 has left a transaction open" in stops(adopt(servers, tmp_path, name))
        producer.abort_transaction()


def test_the_app_has_the_name_of_the_other(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "renamed.py").write_text(APP.format(name="renamed", type=""))
    shell = Shell(moldau_broker.bootstrap_servers)
    done = shell("streams", "adopt", "--application-id", "old", "renamed:app")
    assert done.code != 0
    assert 'Streams("old")' in done.err
