"""One data directory, opened by Apache Kafka and by us in turn; clients must not see by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.broker.main.command_line import command
from tests.conformance.broker import MoldauBroker
from tests.conformance.clients import client_of, program_of
from tests.conformance.program import Client
from tests.conformance.records import (
    CODECS,
    FIRST_TIMESTAMP_MS,
    Record,
    record_to_json,
    sample,
    stored,
)
from tests.peers.apache_kafka import OLDER, VERSION, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

pytestmark = pytest.mark.real

READERS = ("java", "confluent", "moldau")
KAFKAS_READERS = ("confluent",)
KEPT = {"retention.ms": "-1"}
KEYS = 7
# What a broker holds: topic, partition, only what is committed.
View = tuple[str, int, bool]
Contents = Mapping[View, Sequence[Record]]


class Writer:
    """Fills a broker's topics and knows what they hold. Offsets are in what it knows."""

    def __init__(self, request: pytest.FixtureRequest, bootstrap: str) -> None:
        self.request = request
        self.java = client_of(request.config, "java", bootstrap)
        self.librdkafka = client_of(request.config, "confluent", bootstrap)
        self.expected: dict[View, Sequence[Record]] = {}

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        self.java.ask("create", topic=topic, partitions=partitions, configs={**KEPT, **settings})

    def write_codecs(self) -> None:
        """A partition a codec, by two clients, one of them idempotent."""
        self.create("codecs", len(CODECS))
        for partition, codec in enumerate(CODECS):
            first, second = sample(f"java {codec}", 12), sample(f"librdkafka {codec}", 6)
            where = {"partition": partition, "codec": codec}
            self.java.ask("produce", **self._told("codecs", first, idempotent=True, **where))
            self.librdkafka.ask("produce", **self._told("codecs", second, **where))
            self.expected["codecs", partition, False] = stored([*first, *second])

    def write_segments(self) -> None:
        self.create("segments", segment_bytes="1048576", index_interval_bytes="512")
        records = [
            Record(b"key %d" % at, bytes([at % 256]) * 9_000, (), FIRST_TIMESTAMP_MS + at)
            for at in range(400)
        ]
        for first in range(0, 400, 50):
            self.java.produce("segments", records[first : first + 50], idempotent=True)
        self.expected["segments", 0, False] = stored(records)

    def write_transactions(self) -> None:
        """Each transaction takes the offsets of its records and one for its marker."""
        self.create("transactions")
        ends = ("commit", "abort", "commit", "abort", "commit")
        steps = [(end, sample(f"{end} {at}", 3 + at)) for at, end in enumerate(ends)]
        self.librdkafka.ask(
            "transactions",
            id="writer",
            topic="transactions",
            partition=0,
            codec="zstd",
            steps=[
                {"end": end, "records": [record_to_json(each) for each in records]}
                for end, records in steps
            ],
        )
        everything: list[Record] = []
        committed: list[Record] = []
        offset = 0
        for end, records in steps:
            placed = stored(records, offset)
            everything += placed
            committed += placed if end == "commit" else []
            offset += len(records) + 1
        self.expected["transactions", 0, False] = everything
        self.expected["transactions", 0, True] = committed

    def write_compacted(self) -> None:
        """Many values a key; what the cleaner leaves is known only after it ran."""
        self.create(
            "compacted",
            cleanup_policy="compact",
            segment_bytes="1048576",
            min_cleanable_dirty_ratio="0.01",
            max_compaction_lag_ms="100",
        )
        records = [
            Record(b"key %d" % (at % KEYS), b"%d" % at + b"v" * 20_000, (), FIRST_TIMESTAMP_MS + at)
            for at in range(200)
        ]
        for first in range(0, 200, 20):
            self.librdkafka.produce("compacted", records[first : first + 20], codec="none")
        self.expected["compacted", 0, False] = stored(records)

    def compacted_below(self, end: int) -> None:
        """The cleaner has been at the offsets below `end`: the last of each key is left there."""
        everything = self.expected["compacted", 0, False]
        last = {each.key: each.offset for each in everything if each.offset < end}
        self.expected["compacted", 0, False] = [
            each for each in everything if each.offset in last.values() or each.offset >= end
        ]

    def trim(self) -> None:
        self.create("trimmed")
        records = sample("trimmed", 12)
        self.java.produce("trimmed", records)
        self.java.ask("trim", topic="trimmed", partition=0, before=5)
        self.expected["trimmed", 0, False] = stored(records)[5:]

    def append(self, label: str) -> None:
        """More of all but the compacted topic, so that its last segment stays as it is."""
        for (topic, partition, committed), before in [*self.expected.items()]:
            if committed or topic == "compacted":
                continue
            records = sample(label, 6)
            (first, *_) = self.java.produce(
                topic, records, partition=partition, codec="gzip", idempotent=True
            )
            assert first >= before[-1].offset + 1
            more = stored(records, first)
            self.expected[topic, partition, False] = [*before, *more]
            if (topic, partition, True) in self.expected:
                both = [*self.expected[topic, partition, True], *more]
                self.expected[topic, partition, True] = both

    def moved(self, bootstrap: str) -> None:
        """The broker that it writes to from now on."""
        self.java = client_of(self.request.config, "java", bootstrap)
        self.librdkafka = client_of(self.request.config, "confluent", bootstrap)

    def check(self, bootstrap: str, readers: Sequence[str]) -> None:
        """Those clients find all of it on that broker."""
        for name in readers:
            reader = client_of(self.request.config, name, bootstrap)
            for (topic, partition, committed), records in self.expected.items():
                assert reading(reader, topic, partition, committed, records) == records, (
                    name,
                    topic,
                    partition,
                    committed,
                )

    def _told(self, topic: str, records: Sequence[Record], **more: object) -> dict[str, object]:
        told = [record_to_json(each) for each in records]
        return {"topic": topic, "records": told, "acks": -1, "idempotent": False, **more}


def reading(
    reader: Client, topic: str, partition: int, committed: bool, records: Sequence[Record]
) -> list[Record]:
    """As many records as there should be, from the log's start on."""
    start = reader.offset(topic, "earliest", partition)
    return reader.consume(
        topic, len(records), partition=partition, start=start, read_committed=committed
    )


def cleaned_offset(data: Path) -> int:
    """Up to where Kafka's cleaner has been in the compacted topic."""
    checkpoint = data / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return max(
        (int(each.split()[2]) for each in lines if each.startswith("compacted 0 ")), default=0
    )


def last_segment(data: Path) -> int:
    """Where the segment begins that no cleaner touches."""
    return max(int(each.stem) for each in (data / "compacted-0").glob("*.log"))


SINCE_4_4 = frozenset(
    (
        *("errors.deadletterqueue.group.enable", "max.decompressed.message.bytes"),
        *("remote.copy.lag.bytes", "remote.copy.lag.ms"),
    )
)
"""Settings of topics that Kafka 4.3.1 does not have."""
versions = pytest.mark.parametrize("version", [OLDER, VERSION])


@versions
def test_a_directory_of_apache_kafka(
    tmp_path: Path, request: pytest.FixtureRequest, version: str
) -> None:
    """Kafka writes, we read and write, Kafka reads and writes, we read."""
    program_of(request.config, "java")
    program_of(request.config, "confluent")
    quick = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000"}
    kafka = KafkaBroker(fetch_or_skip(version), tmp_path, BrokerOptions(properties=quick))
    ours = MoldauBroker(tmp_path, "--config", str(tmp_path / "server.properties"))
    try:
        kafka.start()
        writer = Writer(request, kafka.bootstrap_servers)
        write_everything(writer)
        clean_end = last_segment(kafka.data)
        assert clean_end > 0
        eventually(lambda: cleaned_offset(kafka.data) == clean_end, within_s=30)
        writer.compacted_below(clean_end)
        writer.check(kafka.bootstrap_servers, KAFKAS_READERS)
        told = descriptions(writer, version)
        kafka.stop()

        with ours:
            writer.moved(ours.bootstrap_servers)
            assert descriptions(writer, version) == told
            writer.check(ours.bootstrap_servers, READERS)
            writer.append("ours")
            writer.check(ours.bootstrap_servers, ("moldau",))
            told = descriptions(writer, version)

        kafka.start()
        writer.moved(kafka.bootstrap_servers)
        assert descriptions(writer, version) == told
        writer.check(kafka.bootstrap_servers, KAFKAS_READERS)
        writer.append("kafka's")
        kafka.stop()

        with ours:
            writer.check(ours.bootstrap_servers, READERS)
    finally:
        kafka.kill()
    assert_no_complaints(tmp_path)


@versions
def test_a_directory_of_ours(tmp_path: Path, request: pytest.FixtureRequest, version: str) -> None:
    """We write, Kafka reads and writes, we read."""
    kafka = KafkaBroker(fetch_or_skip(version), tmp_path, BrokerOptions())
    ours = MoldauBroker(tmp_path)
    formatted = command(
        *("storage", "format", "--data", str(ours.data)),
        *("--release-version", version.rpartition(".")[0]),
        home=tmp_path,
    )
    assert formatted[0] == 0, formatted
    try:
        with ours:
            writer = Writer(request, ours.bootstrap_servers)
            writer.write_codecs()
            writer.write_segments()
            writer.trim()
            writer.check(ours.bootstrap_servers, READERS)
            told = descriptions(writer, version)

        kafka.start()
        writer.moved(kafka.bootstrap_servers)
        assert descriptions(writer, version) == told
        writer.check(kafka.bootstrap_servers, KAFKAS_READERS)
        writer.append("kafka's")
        kafka.stop()

        with ours:
            writer.check(ours.bootstrap_servers, READERS)
    finally:
        kafka.kill()
    assert_no_complaints(tmp_path)


def write_everything(writer: Writer) -> None:
    writer.write_codecs()
    writer.write_segments()
    writer.write_transactions()
    writer.write_compacted()
    writer.trim()


def descriptions(writer: Writer, version: str) -> dict[str, object]:
    """Offsets of each topic, and its settings that this version of Kafka has, as Java's admin
    client tells them."""
    admin = writer.java
    unknown = SINCE_4_4 if version == OLDER else frozenset()
    names = sorted({topic for topic, _, _ in writer.expected})
    return {
        name: (
            admin.ask("describe", topic=name),
            {key: value for key, value in admin.settings(name).items() if key not in unknown},
            admin.offset(name, "earliest"),
            admin.offset(name, "latest"),
        )
        for name in names
    }


def assert_no_complaints(folder: Path) -> None:
    """Neither broker found a file that it had to repair, or could not use."""
    words = ("corrupt", "recover", "rebuild", "truncat", "traceback", "storageexception")
    log = (folder / "broker.log").read_text(encoding="utf-8", errors="replace")
    bad = [line for line in log.splitlines() if any(word in line.lower() for word in words)]
    assert bad == []
