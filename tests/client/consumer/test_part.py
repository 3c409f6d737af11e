"""Whose time a record's timestamp is, and under which epoch a leader took it."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import pytest

from moldau.client import ConsumerRecord, NewTopic, PartitionRecords, TimestampType, TopicPartition
from moldau.client.consumer.records import FetchedRecords
from moldau.client.sync import Admin, Consumer, Producer
from moldau.records import encode_batch, stamp
from moldau.runtime import Runtime
from moldau.testing import SyncEmbeddedBroker
from tests.client.consumer.numbered_records import consumer
from tests.client.world import ClientWorld

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
SENT_MS = 1_000_000


def test_timestamp_types_have_kafkas_numbers_and_names() -> None:
    assert [(each.value, str(each)) for each in TimestampType] == [
        (-1, "NoTimestampType"),
        (0, "CreateTime"),
        (1, "LogAppendTime"),
    ]


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_a_part_has_records_of_one_origin(most: int) -> None:
    data = b""
    expected: list[tuple[int, TimestampType, int]] = []
    for epoch, appended in [(3, None), (3, None), (4, None), (4, 7), (4, 8), (4, None)]:
        first = len(expected)
        batch = encode_batch([(first + n, None, b"v", ()) for n in range(3)])
        stamp(batch, first, epoch, append_time_ms=appended)
        data += bytes(batch)
        kind = CREATE if appended is None else APPEND
        expected += [(first + n, kind, epoch) for n in range(3)]
    fetched = FetchedRecords(TopicPartition("t", 0), 0, data, None, 100)
    parts = []
    while (part := fetched.take(most, check_crc=True)) is not None:
        parts.append(part)
    found = [
        (each.offset, part.timestamp_type, part.leader_epoch)
        for part in parts
        for each in part.records
    ]
    assert found == expected
    assert len(parts) == {1: 18, 2: 10, 5: 6}.get(most, 4)
    for before, after in pairwise(parts):
        assert before.next_offset == after.records[0].offset


@pytest.mark.parametrize("options", [{}, {"value_deserializer": "string"}])
@pytest.mark.parametrize("most", [2, 100])
def test_an_election_between_two_records_shows_in_their_epochs(
    options: dict[str, Any], most: int
) -> None:
    async def main(runtime: Runtime) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        async with consumer(runtime, max_poll_records=most, **options) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            async for record in reader:
                found.append((record.offset, record.leader_epoch))
                assert record.timestamp_type is CREATE
                if record.offset == 5:
                    return found
        return []

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.put(encode_batch([(1, None, b"v", ())] * 3))
        world.cluster.move("t", 0, 2)
        log.put(encode_batch([(1, None, b"v", ())] * 3))
        assert world.run_client(main) == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]


def test_only_a_record_that_cannot_be_read_hides_what_the_others_are() -> None:
    """Those before it are decoded one by one."""

    async def main(runtime: Runtime) -> list[ConsumerRecord]:
        async with consumer(runtime, value_deserializer="json") as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            (part,) = await reader.poll(5.0)
            found: Any = part.records
            return list(found)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.epoch = 7
        log.put(encode_batch([(1, None, b"1", ()), (1, None, b"{", ())]))
        (record,) = world.run_client(main)
        assert (record.value, record.leader_epoch, record.timestamp_type) == (1, 7, CREATE)


def read(bootstrap: str, topic: str, **options: Any) -> ConsumerRecord:
    with Consumer(bootstrap_servers=bootstrap, **options) as reader:
        reader.assign([(topic, 0)])
        reader.seek_to_beginning()
        return next(iter(reader))


@pytest.mark.parametrize("options", [{}, {"value_deserializer": "string"}])
def test_a_topic_says_whose_time_its_records_have(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, options: dict[str, Any]
) -> None:
    bootstrap = moldau_broker.bootstrap_servers
    topics = {kind: f"{moldau_topic}-{kind}" for kind in (CREATE, APPEND)}
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as out:
        for kind, topic in topics.items():
            admin.create_topic(NewTopic(topic, configs={"message.timestamp.type": str(kind)}))
            out.send(topic, b"v", timestamp_ms=SENT_MS).result(30)
    for kind, topic in topics.items():
        record = read(bootstrap, topic, **options)
        assert record.timestamp_type is kind
        assert (record.timestamp == SENT_MS) is (kind is CREATE)
        assert record.leader_epoch == 0
        assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301


def test_parts_say_so_too(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> None:
    bootstrap = moldau_broker.bootstrap_servers
    topic = f"{moldau_topic}-stamped"
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as out:
        admin.create_topic(NewTopic(topic, configs={"message.timestamp.type": "LogAppendTime"}))
        out.send(topic, b"v").result(30)
    with Consumer(bootstrap_servers=bootstrap) as reader:
        reader.assign([(topic, 0)])
        reader.seek_to_beginning()
        parts: list[PartitionRecords] = []
        while not parts:
            parts = reader.poll(1.0)
    assert (parts[0].timestamp_type, parts[0].leader_epoch) == (APPEND, 0)
