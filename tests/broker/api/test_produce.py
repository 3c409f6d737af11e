"""Produce, edge by edge; what Kafka 4.3.1 answers was looked up by asking it."""

from __future__ import annotations

import struct

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from moldau.records import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    ControlType,
    Producer,
    encode_batch,
    encode_control_batch,
)
from tests.broker.api.produce_answers import one, rows
from tests.broker.api.requests import NOW, batch, produce, produce_all
from tests.broker.api.serving import Serving, serving
from tests.broker.controller.cluster import topic as new_topic

VERSIONS = range(3, 14)


def lead_elsewhere(at: Serving, name: str) -> None:
    """Broker 2 takes the partition over."""
    at.cluster.join(2)
    made = at.node.image.topics.by_name(name)
    assert made is not None
    at.cluster.append(
        [
            PartitionChangeRecord(
                partition_id=0, topic_id=made.topic_id, leader=2, replicas=[2], isr=[2]
            )
        ]
    )
    at.replicas.resign(name, 0, made.topic_id, made.partitions[0].leader_epoch)


@serving()
async def test_every_version_appends_and_tells_where(at: Serving) -> None:
    topic_id = at.create("t")
    for number, version in enumerate(VERSIONS):
        topic = topic_id if version == 13 else "t"
        answer = await at.ask(produce(topic, batch(2)), ProduceResponse, version)
        ((row,),) = [each.partition_responses for each in answer.responses]
        assert (row.error_code, row.base_offset) == (0, number * 2)
        assert row.log_append_time_ms == -1
        assert row.log_start_offset == (0 if version >= 5 else -1)
        assert answer.responses[0].name == ("" if version == 13 else "t")
    assert at.partition("t").log_end_offset == 2 * len(VERSIONS)


@serving()
async def test_bytes_in_the_log_are_those_that_were_sent_but_for_offset_and_epoch(
    at: Serving,
) -> None:
    at.create("t")
    sent = batch(3, size=100)
    await one(at, "t", sent)
    await one(at, "t", sent)
    read = at.partition("t").log.read(3, 1 << 20).read()
    assert struct.unpack_from(">q", read) == (3,)
    assert read[16:] == sent[16:]


@serving()
async def test_partitions_of_a_request_fail_alone(at: Serving) -> None:
    at.create("t", 2)
    at.create("u")
    sent = at.send(
        produce_all(
            {
                ("t", 0): batch(),
                ("t", 1): b"",
                ("nope", 0): batch(),
                ("t", 7): batch(),
                ("u", 0): batch(),
            }
        ),
        12,
    )
    codes = {place: row.error_code for place, row in rows(sent).items()}
    assert codes == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.INVALID_RECORD,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.NONE,
    }
    for place, row in rows(sent).items():
        if row.error_code:
            assert (row.base_offset, row.log_start_offset) == (-1, -1), place
            assert row.error_message


@serving()
async def test_an_unknown_topic_id_is_told_apart_from_an_unknown_partition(at: Serving) -> None:
    topic_id = at.create("t")
    assert (await one(at, b"x" * 16, batch(), version=13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    row = await one(at, topic_id, batch(), version=13, index=9)
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@serving()
async def test_acks_are_0_1_or_all(at: Serving) -> None:
    at.create("t", 2)
    for acks in (-2, 2, 7):
        sent = at.send(produce_all({("t", 0): batch(), ("t", 1): batch()}, acks=acks), 12)
        assert {row.error_code for row in rows(sent).values()} == {ErrorCode.INVALID_REQUIRED_ACKS}
    assert at.partition("t").log_end_offset == 0
    for acks in (1, -1):
        assert (await one(at, "t", batch(), acks=acks)).error_code == 0


@serving()
async def test_without_acks_there_is_no_answer_and_an_error_closes_the_connection(
    at: Serving,
) -> None:
    at.create("t", 2)
    good = at.send(produce("t", batch(), acks=0), 12)
    assert good.is_silent
    assert not good.answers
    assert at.partition("t").log_end_offset == 1
    bad = at.send(produce_all({("t", 0): batch(), ("nope", 0): batch()}, acks=0), 12)
    assert bad.is_closed
    assert not bad.answers
    assert not bad.is_silent
    (line,) = at.lines
    assert "UNKNOWN_TOPIC_OR_PARTITION" in line
    assert at.partition("t").log_end_offset == 2, "what could be appended was"
    transaction = batch(producer=Producer(1, 0, 0, True))
    assert at.send(produce("t", transaction, acks=0), 12).is_closed


@serving()
async def test_a_request_without_partitions_is_answered(at: Serving) -> None:
    assert (await at.ask(produce_all({}), ProduceResponse)).responses == []
    assert at.send(produce_all({}, acks=0)).is_silent


@serving()
async def test_what_is_not_one_batch_of_version_2_is_refused(at: Serving) -> None:
    at.create("t")
    good = batch()
    size = struct.pack(">i", 40)
    cases = {
        "null": (None, ErrorCode.INVALID_RECORD),
        "empty": (b"", ErrorCode.INVALID_RECORD),
        "short": (good[:16], ErrorCode.INVALID_RECORD),
        "torn": (good[:-1], ErrorCode.INVALID_RECORD),
        "two": (good + good, ErrorCode.INVALID_RECORD),
        "more": (good + b"abc", ErrorCode.INVALID_RECORD),
        "magic 0": (good[:16] + b"\0" + good[17:], ErrorCode.INVALID_RECORD),
        "magic 1": (good[:16] + b"\1" + good[17:], ErrorCode.INVALID_RECORD),
        "short magic 1": (good[:16] + b"\1" + good[17:40], ErrorCode.INVALID_RECORD),
        "magic 7": (good[:16] + b"\7" + good[17:], ErrorCode.CORRUPT_MESSAGE),
        "small": (good[:8] + size + good[12:], ErrorCode.CORRUPT_MESSAGE),
        "checksum": (good[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        "codec 5": (good[:21] + b"\0\5" + good[23:], ErrorCode.CORRUPT_MESSAGE),
    }
    for name, (records, code) in cases.items():
        row = await one(at, "t", records)
        assert row.error_code == code, name
        assert (row.base_offset, row.log_start_offset) == (-1, -1), name
        assert row.error_message, name
    assert at.partition("t").log_end_offset == 0


@serving()
async def test_zstd_needs_version_7(at: Serving) -> None:
    at.create("t")
    zstd = batch(size=1000, codec=Codec.ZSTD)
    row = await one(at, "t", zstd, version=6)
    assert row.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await one(at, "t", zstd, version=7)).base_offset == 0
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        assert (await one(at, "t", batch(codec=codec), version=3)).error_code == 0


@serving()
async def test_a_batch_that_is_too_large_is_refused(at: Serving) -> None:
    at.create("t", max__message__bytes="500")
    assert (await one(at, "t", batch(size=400))).error_code == 0
    row = await one(at, "t", batch(size=500))
    assert (row.error_code, row.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


@serving()
async def test_a_batch_that_decompresses_to_too_much_is_to_be_sent_in_smaller_ones(
    at: Serving,
) -> None:
    at.create("t")
    most = DECOMPRESSED_BYTES_MAX
    row = await one(at, "t", batch(size=most + 1, codec=Codec.ZSTD))
    assert (row.error_code, row.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert f"decompresses to more than {most} bytes" in (row.error_message or "")
    assert (await one(at, "t", batch(size=most >> 4, codec=Codec.ZSTD))).base_offset == 0


@serving()
async def test_records_at_fault_are_named_each(at: Serving) -> None:
    at.create("t", cleanup__policy="compact")
    records = encode_batch([(NOW, b"k", b"v", ()), (NOW, None, b"v", ()), (NOW, None, b"", ())], 0)
    row = await one(at, "t", records)
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in row.record_errors] == [1, 2]
    assert all(each.batch_index_error_message for each in row.record_errors)
    assert (row.base_offset, row.log_start_offset) == (-1, 0)
    assert (await one(at, "t", records, version=7)).record_errors == []


@serving()
async def test_times_that_the_topic_does_not_take_are_named_each(at: Serving) -> None:
    at.create("t", message__timestamp__before__max__ms="1000")
    hour = 3_600_000
    times = [NOW, NOW + 2 * hour, NOW - hour, -1]
    records = encode_batch([(time, b"k", b"v", ()) for time in times], 0)
    row = await one(at, "t", records)
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in row.record_errors] == [1, 2]
    many = encode_batch([(NOW - hour, b"k", b"v", ())] * 300, 0)
    assert len((await one(at, "t", many)).record_errors) == 100


@serving()
async def test_the_broker_stamps_where_the_topic_says_so(at: Serving) -> None:
    at.create("t", message__timestamp__type="LogAppendTime")
    row = await one(at, "t", batch(at=5))
    assert row.log_append_time_ms == at.wall_ms


@serving()
async def test_a_batch_that_comes_again_is_answered_with_its_first_offset(at: Serving) -> None:
    at.create("t")
    sequence = 0
    for expected in range(0, 12, 2):
        row = await one(at, "t", batch(2, producer=Producer(7, 0, sequence)))
        assert row.base_offset == expected
        sequence += 2
    for first in (10, 8, 6, 4, 2):
        again = await one(at, "t", batch(2, producer=Producer(7, 0, first)))
        assert (again.error_code, again.base_offset) == (0, first)
        assert again.log_append_time_ms == NOW + 1, "its latest record's time, whoever set it"
    assert at.partition("t").log_end_offset == 12


@serving()
async def test_sequences_and_epochs_are_checked(at: Serving) -> None:
    at.create("t")
    await one(at, "t", batch(producer=Producer(7, 1, 0)))
    cases = {
        (1, 3): ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        (2, 3): ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        (0, 1): ErrorCode.INVALID_PRODUCER_EPOCH,
        (2, 0): ErrorCode.NONE,
    }
    for (epoch, sequence), code in cases.items():
        row = await one(at, "t", batch(producer=Producer(7, epoch, sequence)))
        assert (row.error_code, row.log_start_offset) == (code, 0)


@serving()
async def test_a_transaction_needs_an_id_and_a_coordinator(at: Serving) -> None:
    at.create("t", 2)
    transaction = batch(producer=Producer(7, 0, 0, True))
    sent = at.send(produce_all({("t", 0): transaction, ("t", 1): batch()}), 12)
    refused = {row.error_code for row in rows(sent).values()}
    assert refused == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert at.partition("t", 1).log_end_offset == 0
    for version in (3, 11, 12):
        sent = at.send(
            produce_all({("t", 0): transaction, ("t", 1): batch()}, transactional_id="x"), version
        )
        codes = {place: row.error_code for place, row in rows(sent).items()}
        assert codes == {("t", 0): ErrorCode.NOT_ENOUGH_REPLICAS, ("t", 1): ErrorCode.NONE}
    assert (await one(at, "t", batch(), transactional_id="x")).error_code == 0


@serving()
async def test_a_transaction_that_the_log_has_open_may_go_on(at: Serving) -> None:
    at.create("t")
    log = at.partition("t").log
    log.append_as_leader(batch(producer=Producer(7, 0, 0, True)), 0, NOW)
    for producer, code in (
        (Producer(7, 0, 1, True), ErrorCode.NONE),
        (Producer(7, 1, 0, True), ErrorCode.NOT_ENOUGH_REPLICAS),
        (Producer(8, 0, 0, True), ErrorCode.NOT_ENOUGH_REPLICAS),
    ):
        row = await one(at, "t", batch(producer=producer), transactional_id="x")
        assert row.error_code == code


@serving()
async def test_control_records_are_the_brokers_to_write(at: Serving) -> None:
    at.create("t")
    marker = encode_control_batch(
        [(ControlType.COMMIT, b"\0" * 6)], NOW, 0, producer=Producer(7, 0, -1)
    )
    assert (await one(at, "t", marker)).error_code == ErrorCode.INVALID_RECORD


@serving()
async def test_the_clusters_own_topics_take_nothing_from_clients(at: Serving) -> None:
    at.create("__consumer_offsets", cleanup__policy="compact")
    row = await one(at, "__consumer_offsets", batch())
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    at.create("__mine")
    assert (await one(at, "__mine", batch())).error_code == 0


@serving()
async def test_who_asks_the_wrong_broker_is_told_the_right_one(at: Serving) -> None:
    topic_id = at.create("t")
    lead_elsewhere(at, "t")
    for topic, version in (("t", 9), ("t", 10), (topic_id, 13)):
        answer = await at.ask(produce(topic, batch()), ProduceResponse, version)
        ((row,),) = [each.partition_responses for each in answer.responses]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        named = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
        if version >= 10:
            assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 1)
            assert named == [(2, "h", 9092)]
        else:
            assert named == []


@serving()
async def test_a_partition_that_the_metadata_has_and_we_do_not_is_led_elsewhere(
    at: Serving,
) -> None:
    topic_id = at.create("t")
    at.replicas.remove("t", 0)
    for topic, version in (("t", 12), (topic_id, 13)):
        row = await one(at, topic, batch(), version=version)
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@serving()
async def test_an_append_that_must_be_durable_is_answered_when_it_is(at: Serving) -> None:
    at.create("t", flush__messages="1")
    for acks in (1, -1):
        sent = at.send(produce("t", batch(), acks=acks), 12)
        assert not sent.answers
        before = at.partition("t").high_watermark
        await sent.answered.wait()
        ((row,),) = (tuple(rows(sent).values()),)
        assert row.error_code == 0
        assert at.partition("t").high_watermark == before + 1
        assert at.partition("t").log.flushed_end_offset == before + 1
    assert at.send(produce("t", batch(), acks=0), 12).is_silent


@serving()
async def test_who_waits_for_a_flush_for_too_long_hears_so_and_is_a_duplicate_later(
    at: Serving,
) -> None:
    at.create("t", flush__messages="1")
    await one(at, "t", batch())  # the epoch's first, which syncs more than itself
    at.disk.faults.slow_sync = 1.0
    start = at.now_ms
    request = produce("t", batch(producer=Producer(7, 0, 0)), timeout_ms=250)
    sent = at.send(request, 12)
    await sent.answered.wait()
    assert 250 <= sent.answered_ms - start <= 251
    row = rows(sent)["t", 0]
    assert (row.error_code, row.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert row.error_message
    again = at.send(produce("t", batch(producer=Producer(7, 0, 0)), timeout_ms=60_000), 12)
    assert not again.answers, "it is no more durable than before"
    await again.answered.wait()
    assert (rows(again)["t", 0].error_code, rows(again)["t", 0].base_offset) == (0, 1)
    assert at.partition("t").log_end_offset == 2


@serving()
async def test_a_flush_that_fails_is_told_and_takes_the_directory_out_of_service(
    at: Serving,
) -> None:
    at.create("t", 2, flush__messages="1")
    assert at.directory_of("t", 0) != at.directory_of("t", 1)
    at.disk.fail_next("sync", path_part=at.directory_of("t", 0))
    sent = at.send(produce_all({("t", 0): batch(), ("t", 1): batch()}), 12)
    await sent.answered.wait()
    codes = {place: row.error_code for place, row in rows(sent).items()}
    assert codes == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("t", 1): ErrorCode.NONE}
    later = at.send(produce("t", batch()), 12)
    assert rows(later)["t", 0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@serving()
async def test_a_full_disk_is_told_and_nothing_is_acknowledged(at: Serving) -> None:
    at.create("t", 2)
    at.disk.fail_next("write", path_part=f"{at.directory_of('t', 0)}/t-0")
    sent = at.send(produce_all({("t", 0): batch(), ("t", 1): batch()}), 12)
    codes = {place: row.error_code for place, row in rows(sent).items()}
    assert codes == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("t", 1): ErrorCode.NONE}


@serving()
async def test_too_few_replicas_in_sync_refuse_acks_all_only(at: Serving) -> None:
    at.cluster.join(2)
    made = at.cluster.create(
        new_topic("t", placed={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    )
    assert made[0].error_code == 0, made
    topic = at.node.image.topics.by_name("t")
    assert topic is not None
    at.cluster.append([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, isr=[1])])
    at.lead("t", is_new=True)
    assert (await one(at, "t", batch())).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await one(at, "t", batch(), acks=1)).error_code == 0


@serving()
async def test_a_partition_that_is_deleted_meanwhile_answers_who_waits(at: Serving) -> None:
    at.create("t", flush__messages="1")
    at.disk.faults.slow_sync = 1.0
    sent = at.send(produce("t", batch(), timeout_ms=60_000), 12)
    at.replicas.remove("t", 0)
    await sent.answered.wait()
    assert rows(sent)["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
