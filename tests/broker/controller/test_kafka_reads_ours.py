"""Apache Kafka's own tools and its own controller on what we formatted and wrote."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from random import Random

import pytest

from moldau.broker.controller.bootstrap import birth_records, bootstrap_records
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import metadata_version_level
from moldau.broker.controller.metadata_batches import (
    encode_records,
    replay_batches,
    snapshot_batches,
)
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.storage import Plan, format_storage, read_bootstrap
from moldau.broker.raft.quorum import DIRECTORY, Membership, Quorum
from moldau.runtime.real_files import RealFiles
from tests.broker.controller.cluster import CLUSTER_ID, Cluster, schema, topic
from tests.broker.raft import keeping
from tests.broker.raft.leading import lead
from tests.peers.apache_kafka import OLDER, VERSION, ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import SMALL_JVM, TOOL_JVM

pytestmark = pytest.mark.real

NOW = 1_700_000_000_000


def run(kafka: ApacheKafka, *arguments: str) -> str:
    command = [*kafka.command(*TOOL_JVM), *arguments]
    done = subprocess.run(  # noqa: S603 - fixed arguments
        command, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout


@pytest.fixture(scope="module", params=[OLDER, VERSION])
def kafka(request: pytest.FixtureRequest) -> ApacheKafka:
    return fetch_or_skip(request.param)


def written(kafka: ApacheKafka, folder: Path, controller_port: int = 19093) -> Path:
    """A cluster's directory: formatted for that release, some topics in the log, a snapshot."""
    files = RealFiles()
    level = metadata_version_level(kafka.version.rpartition(".")[0])
    assert level is not None
    plan = Plan(
        CLUSTER_ID,
        1,
        (str(folder),),
        str(folder),
        tuple(bootstrap_records(level)),
        (("CONTROLLER", "127.0.0.1", controller_port),),
    )
    format_storage(files, plan, Random(1), NOW)
    quorum = Quorum.open(files, str(folder), Membership(1), NOW)
    lead(quorum, NOW)
    rules = Rules(CLUSTER_ID, 1, schema())
    controller = Controller(rules, Image())
    cluster = Cluster(1)
    cluster.create(topic("orders", 3, configs={"retention.ms": "5"}))
    birth = birth_records(controller.image, rules, read_bootstrap(files, str(folder)))
    for records in (birth, cluster.log[len(birth) :]):
        quorum.append(encode_records(records, level, NOW), NOW)
        controller.image.replay_all(records)
        quorum.flush()
    keeping.write_snapshot(
        quorum, quorum.high_watermark, snapshot_batches(controller.image, NOW), NOW
    )
    quorum.close()
    return folder / DIRECTORY


def test_the_log_dump_tool_decodes_log_and_snapshots(kafka: ApacheKafka, tmp_path: Path) -> None:
    folder = written(kafka, tmp_path)
    names = sorted(each for each in folder.iterdir() if each.suffix in (".log", ".checkpoint"))
    assert len(names) == 3
    tool = "org.apache.kafka.tools.DumpLogSegments"
    told = [
        run(kafka, tool, "--cluster-metadata-decoder", "--deep-iteration", "--files", str(each))
        for each in (*names, tmp_path / "bootstrap.checkpoint")
    ]
    assert not [line for text in told for line in text.splitlines() if "rror" in line]
    log = next(text for text, name in zip(told, names, strict=False) if name.suffix == ".log")
    assert "LeaderChange" in log
    assert '"name":"orders"' in log
    assert '"type":"END_TRANSACTION_RECORD"' in log
    assert '"name":"retention.ms"' in told[names.index(max(names))] + log
    assert "SnapshotHeader" in told[0]
    assert "KRaftVoters" in told[0]
    assert '"metadata.version"' in told[-1]


def settings_for(folder: Path, client_port: int, controller_port: int) -> Path:
    settings = folder / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={folder}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n",
        encoding="ascii",
    )
    return settings


def test_the_storage_tool_knows_our_directory(kafka: ApacheKafka, tmp_path: Path) -> None:
    written(kafka, tmp_path)
    settings = settings_for(tmp_path, 19092, 19093)
    told = run(kafka, "kafka.tools.StorageTool", "info", "-c", str(settings))
    assert CLUSTER_ID in told
    assert "Found problem" not in told


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.slow
def test_kafka_goes_on_where_our_controller_stopped(kafka: ApacheKafka, tmp_path: Path) -> None:
    client_port, controller_port = free_port(), free_port()
    written(kafka, tmp_path, controller_port)
    settings = settings_for(tmp_path, client_port, controller_port)
    command = [*kafka.command("-Xmx300m", *SMALL_JVM), "kafka.Kafka", str(settings)]
    with (tmp_path / "out").open("wb") as out:
        broker = subprocess.Popen(command, stdout=out, stderr=out)  # noqa: S603 - fixed arguments
    try:
        told = run(  # waits until the broker answers
            kafka,
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            f"127.0.0.1:{client_port}",
            "--describe",
        )
    finally:
        broker.kill()
        broker.wait(30)
    assert "Topic: orders" in told
    assert "PartitionCount: 3" in told
    assert told.count("Leader: 1") == 3

    files = RealFiles()
    quorum = Quorum.open(files, str(tmp_path), Membership(1), NOW)
    image = Image()
    replay_batches(image, quorum.batches())
    assert image.topics.by_name("orders") is not None
    assert lead(quorum, NOW) > 2, "and we go on where Kafka stopped"
    quorum.close()
