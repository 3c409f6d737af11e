"""What an mm2.properties and the options of the command make of workers and connectors."""

from __future__ import annotations

import pytest

from moldau.errors import ConfigError
from moldau.mirror.clusters import client_settings
from moldau.mirror.flows import CHECKPOINT, HEARTBEAT, SOURCE, FlowOptions, flow_of, flows_in

FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
A.security.protocol = SSL
B.bootstrap.servers = b:9092
B.exactly.once.source.support = enabled
B.producer.linger.ms = 7
B.compression.type = zstd
tasks.max = 3
A->B.enabled = true
A->B.topics = orders
A->B.consumer.max.poll.records = 10
A->C.enabled = true
emit.heartbeats.interval.seconds = 5
colour = blue
"""


def test_a_file_makes_a_flow_for_each_pair() -> None:
    reading = flows_in(FILE, "mm2.properties")
    there, back = reading.flows

    assert (there.name, back.name) == ("A->B", "B->A")
    assert list(there.connectors) == [SOURCE, CHECKPOINT, HEARTBEAT]
    assert list(back.connectors) == [HEARTBEAT]
    assert there.config["topics"] == "orders"
    assert there.config["tasks.max"] == "3"
    assert "topics" not in there.connectors[HEARTBEAT]
    assert there.connectors[HEARTBEAT]["emit.heartbeats.interval.seconds"] == "5"
    assert there.offsets_topic == "mm2-offsets.A.internal"


def test_a_flow_has_the_clients_of_both_clusters() -> None:
    flow = flows_in(FILE, "mm2.properties").flows[0]

    consumer = client_settings(flow.config, "source", "consumer")
    assert consumer["bootstrap.servers"] == "a:9092"
    assert consumer["security.protocol"] == "SSL"
    assert consumer["max.poll.records"] == "10"
    assert consumer["isolation.level"] == "read_committed"
    assert client_settings(flow.config, "target", "admin") == {"bootstrap.servers": "b:9092"}
    assert flow.worker["bootstrap.servers"] == "b:9092"
    assert flow.worker["exactly.once.source.support"] == "enabled"
    assert flow.worker["producer.linger.ms"] == "7"
    assert flow.worker["producer.compression.type"] == "zstd"
    assert "security.protocol" not in flow.worker


def test_what_has_no_effect_in_a_file_is_named() -> None:
    colour, pair = sorted(flows_in(FILE, "mm2.properties").warnings, reverse=True)

    assert colour == "mm2.properties: colour: nothing reads this setting"
    assert pair.startswith("mm2.properties: A->C.enabled: A or C is not in `clusters`")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("A.bootstrap.servers = a:1", "clusters"),
        ("clusters = A", "clusters"),
        ("clusters = A, B\nA.bootstrap.servers = a:1", "B.bootstrap.servers"),
        ("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1", "A->B.enabled"),
    ],
)
def test_a_file_without_clusters_or_pairs_is_refused(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        flows_in(text, "mm2.properties")


def test_the_options_make_one_flow() -> None:
    clients = {"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}
    plain = flow_of(FlowOptions("A", "B", *clients, "orders"))
    whole = flow_of(
        FlowOptions("A", "B", *clients, "orders", groups="g", is_identity=True,
                    is_exactly_once=True, more={"offset.lag.max": "0"})
    )  # fmt: skip

    assert list(plain.connectors) == [SOURCE, HEARTBEAT]
    assert list(whole.connectors) == [SOURCE, CHECKPOINT, HEARTBEAT]
    assert whole.connectors[CHECKPOINT]["sync.group.offsets.enabled"] == "true"
    assert whole.config["replication.policy.class"].endswith("IdentityReplicationPolicy")
    assert whole.config["offset.lag.max"] == "0"
    assert whole.worker["exactly.once.source.support"] == "enabled"
    assert "isolation.level" not in client_settings(plain.config, "source", "consumer")
