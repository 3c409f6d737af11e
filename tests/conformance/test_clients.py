"""Each client does what its users do with it: produce, consume, look up offsets, administer."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

import pytest

from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.conformance.clients import CLIENTS, NAMES, client_of
from tests.conformance.clients import client as client
from tests.conformance.program import Client, ProgramFailed
from tests.conformance.records import FIRST_TIMESTAMP_MS, Record, sample
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real

each_client = pytest.mark.parametrize("client", NAMES, indirect=True)


def topic_of(client: Client, name: str, partitions: int = 1, **configs: str) -> str:
    """A fresh topic for this test of this client; setting names with underscores."""
    topic = f"{name}.{client.name}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    settings.setdefault("retention.ms", "-1")  # the records' timestamps are years old
    client.ask("create", topic=topic, partitions=partitions, configs=settings)
    return topic


@each_client
@pytest.mark.parametrize("acks", [1, -1])
def test_acknowledged_records_have_offsets_and_are_there(client: Client, acks: int) -> None:
    topic = topic_of(client, f"acks{acks}")
    first, second = client.sample("first"), client.sample("second", 12)

    assert client.produce(topic, first, acks=acks) == list(range(6))
    assert client.produce(topic, second, acks=acks) == list(range(6, 18))

    assert client.consume(topic, 18) == client.sees([*first, *second])


@each_client
def test_records_that_nobody_acknowledges_are_there_too(client: Client) -> None:
    topic = topic_of(client, "acks0")
    records = client.sample("silent")

    assert client.produce(topic, records, acks=0) == [-1] * 6

    assert client.consume(topic, 6) == client.sees(records)


@each_client
def test_an_idempotent_producer_works(client: Client) -> None:
    topic = topic_of(client, "idempotent")
    first, second = client.sample("first"), client.sample("second")

    assert client.produce(topic, first, idempotent=True) == list(range(6))
    assert client.produce(topic, second, idempotent=True) == list(range(6, 12))

    assert client.consume(topic, 12) == client.sees([*first, *second])


@each_client
def test_a_record_as_large_as_the_topic_allows_and_one_that_is_larger(client: Client) -> None:
    topic = topic_of(client, "large", max_message_bytes="3000000")
    large = [Record(b"key", bytes(at % 251 for at in range(2_900_000)))]

    assert client.produce(topic, large) == [0]
    with pytest.raises(ProgramFailed) as refused:
        client.produce(topic, [Record(None, b"x" * 3_100_000)])

    assert "large" in str(refused.value).lower() or "size" in str(refused.value).lower()
    assert client.consume(topic, 1) == client.sees(large)


@each_client
def test_reading_begins_where_it_is_told_to(client: Client) -> None:
    topic = topic_of(client, "seek", partitions=3)
    batches = [client.sample(f"batch {number}", 5) for number in range(4)]
    for batch in batches:
        client.produce(topic, batch, partition=2, codec="gzip")
    everything = client.sees([record for batch in batches for record in batch])

    assert client.consume(topic, 7, partition=2, start=13) == everything[13:]
    assert client.consume(topic, 1, partition=2, start=0) == everything[:1]


@each_client
def test_offsets_of_both_ends_and_of_times(client: Client) -> None:
    topic = topic_of(client, "offsets", partitions=2)
    for minute in range(4):
        stamp = FIRST_TIMESTAMP_MS + minute * 60_000
        batch = [Record(None, b"%d" % at, timestamp_ms=stamp + at) for at in range(10)]
        client.produce(topic, batch, partition=1)

    def offset(at: str | int) -> int:
        return client.offset(topic, at, partition=1)

    assert (offset("earliest"), offset("latest")) == (0, 40)
    assert client.offset(topic, "latest", partition=0) == 0
    assert offset(FIRST_TIMESTAMP_MS - 1) == 0
    assert offset(FIRST_TIMESTAMP_MS + 60_000) == 10
    assert offset(FIRST_TIMESTAMP_MS + 60_000 + 7) == 17
    assert offset(FIRST_TIMESTAMP_MS + 60_000 + 11) == 20
    assert offset(FIRST_TIMESTAMP_MS + 180_000 + 9) == 39
    assert offset(FIRST_TIMESTAMP_MS + 180_000 + 10) == -1


@each_client
def test_a_topic_has_a_life(client: Client, moldau: MoldauBroker) -> None:
    # Sampled records are years old: with less retention the broker may delete them meanwhile.
    topic = topic_of(client, "life", partitions=2, retention_ms="3155760000000")
    assert client.ask("describe", topic=topic) == 2
    assert topic in client.ask("topics")

    client.ask("grow", topic=topic, partitions=5)
    assert client.ask("describe", topic=topic) == 5
    records = client.sample("last partition")
    assert client.produce(topic, records, partition=4) == list(range(6))

    configs = client.ask("configs", topic=topic)
    assert configs["retention.ms"] == "3155760000000"
    assert configs["cleanup.policy"] == "delete"
    client.ask("alter", topic=topic, name="retention.ms", value="3155760000001")
    assert client.ask("configs", topic=topic)["retention.ms"] == "3155760000001"

    client.ask("trim", topic=topic, partition=4, before=4)
    assert client.offset(topic, "earliest", partition=4) == 4
    assert client.consume(topic, 2, partition=4, start=4) == client.sees(records)[4:]

    client.ask("delete", topic=topic)
    eventually(lambda: topic not in client.ask("topics"))
    eventually(lambda: not list(moldau.data.glob(f"{topic}-*[0-9]")))


@each_client
def test_the_cluster_is_one_broker_at_the_address_that_clients_use(
    client: Client, moldau: MoldauBroker
) -> None:
    told = client.ask("cluster")

    assert told["brokers"] == [[1, "127.0.0.1", moldau.port]]
    assert f"cluster.id={told['id']}" in (moldau.data / "meta.properties").read_text()


@each_client
def test_reading_waits_for_records_that_are_written_later(
    client: Client, request: pytest.FixtureRequest, moldau: MoldauBroker
) -> None:
    """A fetch is held until there is something: the reader is started first."""
    topic = topic_of(client, "wait")
    writer = client_of(request.config, other(client.name), moldau.bootstrap_servers)
    found: list[Sequence[Record]] = []
    reader = Thread(target=lambda: found.append(client.consume(topic, 6)))
    reader.start()
    records = sample("later")
    writer.produce(topic, records)
    reader.join()

    assert found == [client.sees(records)]


def other(name: str) -> str:
    """Ours writes for everybody, and confluent-kafka for ours: both are processes of their own."""
    return "confluent" if name == "moldau" else "moldau"


def test_every_client_is_told_of_with_what_it_can() -> None:
    assert all(set(kind.writes) <= set(kind.reads) for kind in CLIENTS.values())
