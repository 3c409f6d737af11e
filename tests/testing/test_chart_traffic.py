"""The Helm chart's clients outside the cluster, and what its network policies say about connections
that its processes make."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer, Topic
from tests.peers.eventually import eventually
from tests.testing.chart_processes import Running, apply, nodes, of_kind, outside, parts
from tests.testing.charts import SHOP, rendered
from tests.testing.connections import Connection, Watch
from tests.testing.policies import Peer, allows

pytestmark = pytest.mark.real

BROKERS: Final = 3
SHARDS: Final = 2
NODE_PORT: Final = 31_092
BALANCED_PORT: Final = 9292
VALUES: Final = f"""{SHOP}
controllers: {{replicas: 1}}
networkPolicy:
  enabled: true
  clients: [{{podSelector: {{matchLabels: {{role: shop}}}}}}]
  metrics: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: monitoring}}}}}}]
connect: {{enabled: true}}
registry: {{enabled: true}}
console: {{enabled: true, admin: true}}
"""
PASSWORD: Final = {
    "kind": "Secret",
    "metadata": {"name": "shop-login"},
    "stringData": {"password": "p1"},
}
CLIENT: Final = Peer((("role", "shop"),))
STRANGER: Final = Peer((("role", "stranger"),))
PROMETHEUS: Final = Peer((("app", "prometheus"),), "monitoring")
OUTSIDE: Final = Peer(is_outside=True)


def part(name: str, release: str = "kafka") -> Peer:
    """A pod of a release."""
    about = {"name": "moldau", "instance": release, "component": name}
    return Peer(tuple(sorted((f"app.kubernetes.io/{key}", each) for key, each in about.items())))


CHART: Final = ("broker", "controller", "apply", "connect", "registry", "console")


def hosts() -> list[str]:
    """Addresses of this machine that no other test uses: one for each broker."""
    number = os.getpid() % 65_000
    return [f"127.{each}.{number // 256}.{number % 256}" for each in range(101, 101 + BROKERS)]


def objects(folder: Path, kind: str, shards: int) -> list[dict[str, Any]]:
    path = folder / "values.yaml"
    told = ", ".join(hosts())
    path.write_text(
        f"{VALUES}\nbrokers: {{shards: {shards}}}"
        f"\nexternal: {{enabled: true, type: {kind}, hosts: [{told}]}}\n"
    )
    return [*rendered("brokers.replicas=3", "-f", str(path)), PASSWORD]


@dataclass
class Release:
    """A running release with three brokers of two shards each, and what was connected meanwhile."""

    running: Running
    watch: Watch


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    folder = tmp_path_factory.mktemp("chart")
    with nodes(folder, objects(folder, "NodePort", SHARDS)) as running:
        more = {"client": os.getpid()}

        def on_start(pid: int, labels: dict[str, str]) -> None:
            more["apply"] = pid
            running.labels["apply"] = labels

        with Watch(running, more) as watch:
            apply(running, on_start)
            with parts(running), outside(running, hosts()):
                yield Release(running, watch)
        assert watch.problem is None, watch.problem


def served(settings: dict[str, str]) -> set[tuple[str, int]]:
    """The addresses that a client is told."""
    with Admin(settings) as admin:
        return {(each.address.host, each.address.port) for each in admin.describe_cluster().brokers}


def round_trip(running: Running, topic: str, servers: str) -> None:
    """An administrator inside makes a topic that every broker leads; a user writes to each
    partition through those servers, and reads it from inside."""
    partitions = BROKERS * SHARDS * 2
    shop = running.client("shop", "p1", servers)
    with Admin(running.administrator()) as admin:
        admin.create_topics([NewTopic(topic, partitions, BROKERS)])
        brokers = {each.node_id for each in admin.describe_cluster().brokers}

        def leaders() -> set[int]:
            described = admin.describe_topics([topic])[topic]
            assert isinstance(described, Topic)
            return {each.leader for each in described.partitions}

        eventually(lambda: leaders() == brokers)
    with Producer({**shop, "acks": "all"}) as producer:
        sent = [producer.send(topic, b"%d" % each, partition=each) for each in range(partitions)]
        for each in sent:
            each.result(60)
    inside = {**running.client("shop", "p1"), "auto.offset.reset": "earliest"}
    found: set[int] = set()
    with Consumer({**inside, "group.id": f"shop-{topic}"}) as consumer:
        consumer.subscribe([topic])
        while len(found) < partitions:
            found |= {int(r.value or b"") for part in consumer.poll(1.0) for r in part.records}
    assert found == set(range(partitions))


@pytest.mark.deep
def test_a_client_outside_reaches_each_broker_by_its_own_host(release: Release) -> None:
    running = release.running
    first = f"{hosts()[0]}:{NODE_PORT}"

    found = served(running.client("admin", running.secret("kafka-admin")["password"], first))

    assert found == {
        (host, NODE_PORT + number * SHARDS + shard)
        for number, host in enumerate(hosts())
        for shard in range(SHARDS)
    }
    inside = {
        ("127.0.0.1", running.port(number, 9092 + shard))
        for number in range(BROKERS)
        for shard in range(SHARDS)
    }
    assert served(running.administrator()) == inside
    round_trip(running, "shop-outside", first)


@pytest.mark.deep
def test_a_load_balancer_has_the_same_port_at_each_host(tmp_path: Path) -> None:
    with nodes(tmp_path, objects(tmp_path, "LoadBalancer", 1)) as running:
        apply(running)
        with outside(running, hosts()):
            first = f"{hosts()[1]}:{BALANCED_PORT}"
            assert served(running.client("shop", "p1", first)) == {
                (host, BALANCED_PORT) for host in hosts()
            }


NEEDED: Final = frozenset(
    {
        Connection("broker", "broker", 9192),
        Connection("broker", "controller", 9093),
        Connection("apply", "broker", 9192),
        Connection("connect", "broker", 9092),
        Connection("registry", "broker", 9092),
        Connection("console", "broker", 9092),
        Connection("console", "connect", 8083),
        Connection("console", "registry", 8081),
        Connection("client", "broker", 9093),
        Connection("client", "broker", 9404),
        Connection("client", "broker", 9293),
    }
)
"""`client` is this process: a client in the cluster, one outside, and Prometheus, by the port."""
BROKER, CONTROLLER = part("broker"), part("controller")
REFUSED: Final = (
    *((STRANGER, BROKER, port) for port in (9092, 9192, 9292 + SHARDS, 9404)),
    *((CLIENT, BROKER, port) for port in (9092 + SHARDS, 9192, 9404)),
    *((OUTSIDE, BROKER, port) for port in (9092, 9192, 9404)),
    *((PROMETHEUS, BROKER, port) for port in (9092, 9192)),
    *((each, CONTROLLER, 9093) for each in (STRANGER, CLIENT, OUTSIDE, PROMETHEUS)),
    (part("broker", "other"), BROKER, 9192),
    (Peer(BROKER.labels, "elsewhere"), BROKER, 9192),
    (Peer(BROKER.labels, "elsewhere"), CONTROLLER, 9093),
)


def ends(each: Connection) -> tuple[Peer, Peer, int]:
    target = part(each.target)
    if each.source != "client":
        return part(each.source), target, each.port
    if each.port == 9404:
        return PROMETHEUS, target, each.port
    is_outside = BALANCED_PORT <= each.port < BALANCED_PORT + SHARDS
    return OUTSIDE if is_outside else CLIENT, target, each.port


@pytest.mark.deep
def test_the_chart_makes_the_connections_that_its_policies_are_for(release: Release) -> None:
    seen = release.watch.seen
    visit(release)
    assert seen >= NEEDED, NEEDED - seen
    policies = of_kind(release.running.objects, "NetworkPolicy").values()
    assert [each for each in seen if not allows(policies, *ends(each))] == []
    labels = {tuple(sorted(each.items())) for each in release.running.labels.values()}
    assert labels == {part(name).labels for name in CHART}


def test_the_policies_allow_what_the_chart_needs_and_nothing_else(tmp_path: Path) -> None:
    policies = list(of_kind(objects(tmp_path, "NodePort", SHARDS), "NetworkPolicy").values())
    assert [each for each in NEEDED if not allows(policies, *ends(each))] == []
    assert [each for each in REFUSED if allows(policies, *each)] == []
    for number, policy in enumerate(policies):
        for rule in range(len(policy["spec"]["ingress"])):
            less = deepcopy(policies)
            del less[number]["spec"]["ingress"][rule]
            missing = [each for each in NEEDED if not allows(less, *ends(each))]
            assert missing, f"rule {rule} of {policy['metadata']['name']} is for nothing"


def visit(release: Release) -> None:
    """Clients inside and outside, a scrape, and the console's pages."""
    running, watch = release.running, release.watch
    round_trip(running, "shop-seen", f"{hosts()[0]}:{NODE_PORT}")
    console = running.machine.here("kafka-console", "http://localhost:8080")
    metrics = f"http://127.0.0.1:{running.port(0, 9404)}/metrics"
    scraped = Connection("client", "broker", 9404)
    with urllib.request.urlopen(metrics, timeout=60):
        eventually(lambda: scraped in watch.seen)

    def looked_at(path: str, target: str) -> bool:
        with urllib.request.urlopen(f"{console}{path}", timeout=60) as answer:  # noqa: S310
            assert answer.status == 200
        return any((each.source, each.target) == ("console", target) for each in watch.seen)

    for path, target in (("/", "broker"), ("/connectors", "connect"), ("/schemas", "registry")):
        eventually(partial(looked_at, path, target), within_s=600)
