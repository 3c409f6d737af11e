"""What any client writes, in any codec, every other client reads, record by record."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.conformance.clients import CLIENTS, NAMES, available, client_of
from tests.conformance.clients import client as client
from tests.conformance.kcat import kcat_reads
from tests.conformance.program import Client, ProgramFailed
from tests.conformance.records import CODECS
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real

# The records' timestamps are years old.
KEPT = {"retention.ms": "-1"}

_COMMON = [name for name in CODECS if all(name in each.reads for each in CLIENTS.values())]


@pytest.mark.parametrize("client", NAMES, indirect=True)
def test_what_one_writes_every_other_reads(
    client: Client, moldau: MoldauBroker, request: pytest.FixtureRequest
) -> None:
    """Two batches in each codec: those that everybody reads in one partition, the others in one."""
    topic = f"written-by-{client.name}"
    client.ask("create", topic=topic, partitions=2, configs=KEPT)
    everybodys, others = _COMMON, [each for each in CODECS if each not in _COMMON]
    written = []
    for partition, codecs in enumerate((everybodys, others)):
        codecs = [each for each in codecs if each in CLIENTS[client.name].writes]
        written.append([record for codec in codecs for record in client.sample(codec, 18)])
        for at, codec in enumerate(codecs):
            records = client.sample(codec, 18)
            send = partial(client.produce, topic, partition=partition, codec=codec)
            assert send(records[:12]) == list(range(at * 18, at * 18 + 12))
            assert send(records[12:]) == list(range(at * 18 + 12, at * 18 + 18))
        assert moldau.codecs_in(topic, partition) == set(map(CODECS.index, codecs))

    for reader in available(request.config, moldau.bootstrap_servers):
        for partition, records in enumerate(written):
            if records and (partition == 0 or set(others) <= set(CLIENTS[reader.name].reads)):
                found = reader.consume(topic, len(records), partition=partition)
                assert found == reader.sees(records), (reader.name, partition)
    kcat_reads(moldau.bootstrap_servers, topic, written)


@pytest.mark.parametrize("client", NAMES, indirect=True)
def test_a_client_finds_no_difference_to_apache_kafka(
    client: Client, kafka_broker: KafkaBroker, request: pytest.FixtureRequest
) -> None:
    """The same jobs to both brokers have the same answers."""
    there = client_of(request.config, client.name, kafka_broker.bootstrap_servers)
    assert answers(client) == answers(there)


def answers(client: Client) -> list[object]:
    """Of one session with a topic, down to the settings that it is described with."""
    topic = f"compared.{client.name}"
    configs = {"cleanup.policy": "compact,delete", **KEPT}
    client.ask("create", topic=topic, partitions=2, configs=configs)
    told: list[object] = []

    def is_described() -> bool:
        """As soon as the broker that is asked has heard of the topic."""
        try:
            told[:] = [client.ask("describe", topic=topic)]
        except ProgramFailed:
            return False
        return True

    eventually(is_described)
    records = [each for each in client.sample("compared") if each.key]
    for codec in CLIENTS[client.name].writes:
        told.append(client.produce(topic, records, partition=1, codec=codec))
    told.append(client.consume(topic, 2 * len(records), partition=1, start=1))
    times = (records[0].timestamp_ms, records[0].timestamp_ms + 8_000, 2**42)
    told += [client.offset(topic, at, partition=1) for at in ("earliest", "latest", *times)]
    told.append(client.ask("trim", topic=topic, partition=1, before=5))
    told.append(client.offset(topic, "earliest", partition=1))
    told.append(client.settings(topic))
    told.append(client.ask("delete", topic=topic))
    return told
