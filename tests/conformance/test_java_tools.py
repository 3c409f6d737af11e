"""Kafka's own command line tools, against our broker and on our files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from moldau.ids import parse_uuid
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.conformance.clients import client_of
from tests.conformance.nodes import Nodes
from tests.conformance.nodes import nodes as nodes
from tests.conformance.records import FIRST_TIMESTAMP_MS, Record, stored
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


class Tools:
    """Each runs in a JVM of its own."""

    def __init__(self, kafka: ApacheKafka, bootstrap_servers: str, replicas: int = 1) -> None:
        self.kafka = kafka
        self.bootstrap_servers = bootstrap_servers
        self.replicas = replicas

    def create(self, name: str, *more: str) -> None:
        """Create a topic with a replica on each node."""
        replicas = ("--replication-factor", str(self.replicas))
        self(TOPICS, "--create", "--topic", name, *replicas, *more)

    def __call__(self, main: str, *arguments: str, text: str = "") -> str:
        bootstrap = ("--bootstrap-server", self.bootstrap_servers)
        return run_tool(self.kafka, main, *bootstrap, *arguments, input_text=text)

    def offline(self, main: str, *arguments: str) -> str:
        return run_tool(self.kafka, main, *arguments)


class FileTools(Tools):
    """The tools of one node, whose files are known."""

    def __init__(self, kafka: ApacheKafka, moldau: MoldauBroker) -> None:
        super().__init__(kafka, moldau.bootstrap_servers)
        self.moldau = moldau


@pytest.fixture
def tool(kafka: ApacheKafka, moldau: MoldauBroker) -> FileTools:
    return FileTools(kafka, moldau)


@pytest.fixture
def anywhere(kafka: ApacheKafka, nodes: Nodes) -> Tools:
    """The tools of one node, and of three."""
    return Tools(kafka, nodes.bootstrap_servers, nodes.node_count)


def test_kafka_topics(tool: FileTools) -> None:
    create = ("--create", "--topic", "tool-topics", "--partitions", "3")
    assert "Created topic tool-topics." in tool(TOPICS, *create, "--config", "retention.ms=99000")
    tool(TOPICS, "--alter", "--topic", "tool-topics", "--partitions", "4")

    told = tool(TOPICS, "--describe", "--topic", "tool-topics")

    head, *partitions = told.strip().splitlines()
    facts = dict(each.split(": ", 1) for each in head.split("\t"))
    topic_id = parse_uuid(facts["TopicId"])
    metadata = (tool.moldau.data / "tool-topics-0" / "partition.metadata").read_text()
    assert parse_uuid(metadata.split("topic_id: ")[1].strip()) == topic_id
    assert (facts["PartitionCount"], facts["ReplicationFactor"]) == ("4", "1")
    assert "retention.ms=99000" in facts["Configs"]
    assert [re.findall(r"Partition: (\d+)\tLeader: 1\tReplicas: 1\tIsr: 1", p) for p in partitions]
    assert "tool-topics" in tool(TOPICS, "--list").split()
    tool(TOPICS, "--delete", "--topic", "tool-topics")
    assert "tool-topics" not in tool(TOPICS, "--list").split()


def test_kafka_features_goes_to_the_release_that_the_cluster_has(tmp_path: Path) -> None:
    """The tool names kraft.version with every release, also at its present level. A broker of its
    own: other tests have Streams groups on the session's."""
    with MoldauBroker(tmp_path) as own:
        tool = Tools(fetch_or_skip(), own.bootstrap_servers)
        told = tool(FEATURES, "upgrade", "--release-version", "4.4")
        assert "kraft.version was upgraded to 1." in told
        assert "metadata.version was upgraded to 33." in told
        unserved = tool(FEATURES, "downgrade", "--feature=streams.version=0")
        assert "streams.version was downgraded to 0." in unserved


def test_kafkas_transactional_producer_commits(anywhere: Tools) -> None:
    """Java's producer of transaction version 2, with many transactions one after the other."""
    anywhere.create("tool-tx", "--partitions", "1")
    told = anywhere(
        *(PRODUCER_PERF, "--topic", "tool-tx", "--num-records", "200", "--record-size", "10"),
        *("--throughput", "400", "--transactional-id", "tx", "--transaction-duration-ms", "20"),
    )
    assert "200 records sent" in told
    listed = anywhere(TRANSACTIONS, "describe", "--transactional-id", "tx")
    assert "CompleteCommit" in listed
    (line,) = anywhere(OFFSETS, "--topic", "tool-tx").splitlines()
    end = int(line.rpartition(":")[2])
    assert end > 201, "markers of several transactions"


def test_kafka_configs(tool: FileTools) -> None:
    tool(TOPICS, "--create", "--topic", "tool-configs")
    topic = ("--entity-type", "topics", "--entity-name", "tool-configs")
    tool(CONFIGS, *topic, "--alter", "--add-config", "segment.bytes=2000000,retention.ms=7")
    tool(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
    told = tool(CONFIGS, *topic, "--describe")
    assert "segment.bytes=2000000 sensitive=false" in told
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000" in told
    assert "retention.ms" not in told

    broker = ("--entity-type", "brokers", "--entity-name", "1")
    tool(CONFIGS, *broker, "--alter", "--add-config", "log.cleaner.threads=2")
    everything = tool(CONFIGS, *broker, "--describe", "--all")
    assert "log.cleaner.threads=2 sensitive=false" in everything
    assert "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2" in everything
    assert "DEFAULT_CONFIG:log.cleaner.threads=1" in everything
    assert f"log.dirs={tool.moldau.data} " in everything
    tool(CONFIGS, *broker, "--alter", "--delete-config", "log.cleaner.threads")


def test_offsets_and_deleted_records(
    anywhere: Tools, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = "tool-offsets"
    anywhere.create(name, "--partitions", "2", "--config", "retention.ms=-1")
    records = [
        Record(b"k", b"%d" % at, timestamp_ms=FIRST_TIMESTAMP_MS + (at * 7) % 10)
        for at in range(10)
    ]
    client_of(request.config, "moldau", anywhere.bootstrap_servers).produce(
        name, records, partition=1
    )

    def offsets(time: str) -> list[str]:
        return anywhere(OFFSETS, "--topic", name, "--time", time).split()

    assert offsets("latest") == [f"{name}:0:0", f"{name}:1:10"]
    assert offsets("max-timestamp")[-1] == f"{name}:1:7"

    wanted = tmp_path / "before.json"
    partitions = [{"topic": name, "partition": 1, "offset": 6}]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
    told = anywhere(
        "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(wanted)
    )
    assert f"partition: {name}-1\tlow_watermark: 6" in told
    assert offsets("earliest") == [f"{name}:0:0", f"{name}:1:6"]


def test_kafka_log_dirs(tool: FileTools) -> None:
    tool(TOPICS, "--create", "--topic", "tool-dirs")
    told = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "tool-dirs")
    (broker,) = json.loads(told.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["error"]) == (1, None)
    assert directory["logDir"] == str(tool.moldau.data)
    (partition,) = directory["partitions"]
    assert (partition["partition"], partition["size"]) == ("tool-dirs-0", 0)


def test_the_cluster_is_described(tool: FileTools) -> None:
    meta = dict(
        line.split("=", 1)
        for line in (tool.moldau.data / "meta.properties").read_text().splitlines()
        if "=" in line
    )
    cluster = "org.apache.kafka.tools.ClusterTool"
    bootstrap = ("--bootstrap-server", tool.moldau.bootstrap_servers)
    told = tool.offline(cluster, "cluster-id", *bootstrap)
    assert told.strip() == f"Cluster ID: {meta['cluster.id']}"
    endpoints = tool.offline(cluster, "list-endpoints", *bootstrap)
    assert f"127.0.0.1  {tool.moldau.port}" in re.sub(r"[ \t]+", "  ", endpoints)

    newest = Tools(fetch_or_skip(), tool.bootstrap_servers)
    features = newest("org.apache.kafka.tools.FeatureCommand", "describe")
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", features))
    assert levels["metadata.version"] == "4.4-IV2"
    assert levels["kraft.version"] == "1"

    quorum = "org.apache.kafka.tools.MetadataQuorumCommand"
    status = tool(quorum, "describe", "--status")
    facts = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
    assert (facts["ClusterId"], facts["LeaderId"]) == (meta["cluster.id"], "1")
    assert int(facts["HighWatermark"]) > 0
    replication = tool(quorum, "describe", "--replication").splitlines()
    assert [line.split("\t")[0].strip() for line in replication[1:]] == ["1"]
    assert "Leader" in replication[1]

    versions = tool("org.apache.kafka.tools.BrokerApiVersionsCommand")
    assert f"127.0.0.1:{tool.moldau.port} (id: 1" in versions
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "Fetch(1): 4 to 18 [usable: 18]" in versions


def test_kafka_perf_tests(anywhere: Tools) -> None:
    """The producer's, and the consumer's by both group protocols."""
    name, count, size = "tool-perf", 20_000, 500
    anywhere.create(name, "--partitions", "3")
    settings = [f"bootstrap.servers={anywhere.bootstrap_servers}", "compression.type=lz4"]
    told = anywhere.offline(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", name, "--num-records", str(count), "--record-size", str(size)),
        *("--throughput", "-1", "--command-property", *settings),
    )
    assert f"{count} records sent" in told
    ends = [
        line.split(":") for line in anywhere(OFFSETS, "--topic", name, "--time", "latest").split()
    ]
    assert sum(int(end) for _, _, end in ends) == count

    for protocol in ("classic", "consumer"):
        told = anywhere(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--topic", name, "--num-records", str(count), "--group", f"{name}-{protocol}"),
            *("--command-property", f"group.protocol={protocol}"),
        )
        head, row = [line.split(", ") for line in told.splitlines() if ", " in line]
        found = dict(zip(head, row, strict=True))
        assert int(found["data.consumed.in.nMsg"]) == count
        megabytes = float(found["data.consumed.in.MB"])
        assert megabytes == pytest.approx(count * size / 2**20, rel=0.01)


def test_kafka_e2e_latency(anywhere: Tools) -> None:
    """It measures, and commits an offset in the end."""
    name = "tool-latency"
    told = anywhere(
        "org.apache.kafka.tools.EndToEndLatency",
        *("--topic", name, "--num-records", "200"),
        *("--producer-acks", "all", "--record-size", "64"),
    )
    assert re.search(r"Avg latency: \d+[.,]\d+ ms", told)
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+", told)
    assert anywhere(OFFSETS, "--topic", name, "--time", "latest").strip() == f"{name}:0:200"


def test_kafka_verifiable_producer(anywhere: Tools) -> None:
    name = "tool-verifiable"
    anywhere.create(name)
    told = anywhere(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--topic", name, "--max-messages", "100", "--acks", "-1"),
    )
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    sent = [each for each in events if each["name"] == "producer_send_success"]
    assert [(each["value"], each["offset"]) for each in sent] == [(str(n), n) for n in range(100)]


def test_kafka_dump_log_reads_our_files(tool: FileTools, request: pytest.FixtureRequest) -> None:
    name = "tool-dump"
    configs = ("segment.bytes=1048576", "index.interval.bytes=256", "retention.ms=-1")
    settings = [word for each in configs for word in ("--config", each)]
    tool(TOPICS, "--create", "--topic", name, *settings)
    client = client_of(request.config, "moldau", tool.moldau.bootstrap_servers)
    records = [
        Record(b"key %d" % at, bytes([at]) * 900, (("h", b"%d" % at),), FIRST_TIMESTAMP_MS + at)
        for at in range(200)
    ]
    for _ in range(12):
        client.produce(name, records, codec="none", idempotent=True)
    folder = tool.moldau.data / f"{name}-0"
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 1

    files = ",".join(str(each) for each in [*logs, *sorted(folder.glob("*index"))])
    told = tool.offline(DUMP, "--files", files, "--print-data-log")

    found = re.findall(
        r"^\| offset: (\d+) .*CreateTime: (\d+) keySize: (\d+) valueSize: (\d+) .*"
        r"headerKeys: \[h\] key: (key \d+)",
        told,
        re.MULTILINE,
    )
    expected = [
        (each.offset, each.timestamp_ms, len(each.key or b""), 900, (each.key or b"").decode())
        for each in stored(records * 12)
    ]
    assert [(int(o), int(t), int(k), int(v), key) for o, t, k, v, key in found] == expected
    assert "Index position mismatch" not in told
    assert "mismatch" not in told.lower()
    assert "isvalid: false" not in told
    metadata = str(tool.moldau.data / "__cluster_metadata-0" / f"{0:020}.log")
    decoded = tool.offline(DUMP, "--files", metadata, "--cluster-metadata-decoder")
    assert '"type":"REGISTER_BROKER_RECORD"' in decoded
    assert f'"name":"{name}"' in decoded
    assert "isvalid: false" not in decoded


def test_kafka_storage_knows_our_directory(
    tool: FileTools, kafka: ApacheKafka, tmp_path: Path
) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"log.dirs={tool.moldau.data}\n"
    )
    told = run_tool(kafka, "kafka.tools.StorageTool", "info", "-c", str(settings))

    assert f"Found log directory:\n  {tool.moldau.data}" in told
    meta = (tool.moldau.data / "meta.properties").read_text()
    (cluster,) = re.findall(r"cluster\.id=(\S+)", meta)
    assert re.search(rf"Found metadata: .*cluster\.id={cluster}.*node\.id=1", told)
