"""Batches that are larger than a broker takes: sent in parts, in order and once, and whoever waits
for a record hears of that one."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from moldau.client import Deliveries, Producer, Sent, SentRange
from moldau.client.producer.batch import Batch
from moldau.client.producer.delivery import error_of, ranges_of, sent_of
from moldau.client.producer.run import RowRun
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import open_batch
from moldau.runtime import Runtime
from tests import suites
from tests.client.producer.simulated_sender import T0, forget, metadata, sequence
from tests.client.producer.wide_batches import begin, numbers, run_against, wide
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld

SEEDS = 300
QUICK = 80
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def values_of(batch: Batch) -> list[bytes | None]:
    assert batch.data is not None
    return [each.value for each in open_batch(batch.data).records()]


# What is sent


def test_the_parts_go_in_the_batch_s_place_with_its_sequences() -> None:
    sender = wide()
    batches = [begin(sender, numbers(at, at + 8)) for at in (0, 8, 16)]
    fresh = begin(sender, numbers(24, 26))
    assert sender.drain(room={1: 3}).requests != []
    sender.refuse(batches[0], TOO_LARGE)
    assert sender.newly_failed() == []
    assert sender.sent() == [], "what is under way behind it comes back first"
    for batch in batches[1:]:
        sender.refuse(batch, OUT_OF_ORDER)
        assert sender.newly_failed() == []
    stored: list[bytes | None] = []
    expected = 0
    while len(stored) < 26:
        sender.now += 10.0
        for batch in sender.sent():
            assert sequence(batch) == (0, expected)
            expected += batch.count
            stored += values_of(batch)
            sender.acknowledge(batch, len(stored) - batch.count)
    assert stored == numbers(0, 26)
    assert [each.error for each in (*batches, fresh)] == [None] * 4
    assert [sent_of(batches[0], index).offset for index in range(8)] == list(range(8))
    assert [sent_of(batches[1], index).offset for index in range(8)] == list(range(8, 16))
    assert sender.accumulator.buffer.used_bytes == 0
    assert sender.accumulator.unfinished() == []


def test_keys_headers_and_timestamps_stay() -> None:
    sender = wide()
    batch = begin(sender, numbers(0, 4))
    (sent,) = sender.sent()
    assert sent.data is not None
    before = open_batch(sent.data).records()
    sender.refuse(batch, TOO_LARGE)
    after = []
    while sent_now := sender.sent():
        for part in sent_now:
            assert part.data is not None
            after += open_batch(bytes(part.data)).records()
            sender.acknowledge(part)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in after] == [
        (r.timestamp, r.key, r.value, r.headers) for r in before
    ]


def test_sequences_of_parts_wrap() -> None:
    sender = wide()
    queue = sender.accumulator.queue(T0)
    queue.producer_id, queue.producer_epoch = 7, 0
    queue.next_sequence = 2**31 - 2
    batch = begin(sender, numbers(0, 4))
    sender.sent()
    sender.refuse(batch, TOO_LARGE)
    seen = []
    while sent := sender.sent():
        seen += [(sequence(each)[1], each.count) for each in sent]
        for each in sent:
            sender.acknowledge(each)
    at = 2**31 - 2
    for first, count in seen:
        assert first == at & 0x7FFFFFFF
        at += count
    assert len(seen) >= 2


def test_parts_take_memory_as_what_they_are_and_give_it_back() -> None:
    sender = wide(memory_bytes=1200)
    batch = begin(sender, numbers(0, 20))
    before = sender.accumulator.buffer.used_bytes
    sender.sent()
    sender.refuse(batch, TOO_LARGE)
    parts = sender.accumulator.unfinished()
    assert len(parts) >= 2
    assert sender.accumulator.buffer.used_bytes == sum(each.reserved_bytes for each in parts)
    assert sender.accumulator.buffer.used_bytes < before + 100 * len(parts)
    sender.accumulator.fail_all(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    assert (sender.accumulator.buffer.used_bytes, batch.unawaited) == (0, 20)
    assert sender.failed() == (ErrorCode.NETWORK_EXCEPTION, 20)


def test_one_record_that_is_too_large_fails_alone() -> None:
    sender = wide()
    values = [b"0", b"1", b"x" * 500, b"3"]
    batch = begin(sender, values)
    log = Log(leader=1, max_message_bytes=200)
    run_against(sender, log)
    assert log.values() == [b"0", b"1", b"3"]
    assert sender.failed() == (TOO_LARGE, 1)
    failed = [error_of(batch, index) for index in range(4)]
    assert [each.code if each else None for each in failed] == [None, None, TOO_LARGE, None]
    assert [sent_of(batch, index).offset for index in (0, 1, 3)] == [0, 1, 2]
    assert list(ranges_of(batch, 0, 2)) == [SentRange("t", 0, 0, 2)] or log.too_large > 2
    assert error_of(batch, 0, 4) is failed[2]
    assert error_of(batch, 0, 2) is None
    assert sender.accumulator.buffer.used_bytes == 0


@pytest.mark.parametrize("awaited", [(0, 3), (1, 1), (0, 1), (2, 1)])
def test_of_a_batch_that_was_split_each_record_is_awaited_by_itself(
    awaited: tuple[int, int],
) -> None:
    sender = wide()
    called: list[str] = []
    batch = begin(sender, [b"0", b"x" * 500, b"2"])
    batch.when_done(lambda: called.append("done"))
    run_against(sender, Log(leader=1, max_message_bytes=200))
    assert called == ["done"]
    batch.mark_awaited(*awaited)
    first, count = awaited
    assert batch.unawaited == (0 if first <= 1 < first + count else 1)


def test_who_waits_for_a_part_hears_of_it_when_that_is_split_again() -> None:
    sender = wide()
    told: list[str] = []
    batch = begin(sender, numbers(0, 40))
    batch.when_done(lambda: told.append("whole"))
    sender.sent()
    sender.refuse(batch, TOO_LARGE)
    parts = sender.accumulator.unfinished()
    for part in parts:
        part.when_done(lambda: told.append("part"))
    log = Log(leader=1, max_message_bytes=150)
    run_against(sender, log)
    assert log.too_large > 0
    assert log.values() == numbers(0, 40)
    assert told == ["part"] * len(parts) + ["whole"]
    assert [sent_of(batch, index).offset for index in range(40)] == list(range(40))
    assert sum(each.records for each in ranges_of(batch, 5, 30)) == 30
    assert next(ranges_of(batch, 5, 30)).base_offset == 5


def test_parts_that_are_late_fail_with_why() -> None:
    sender = wide(delivery_timeout_s=10.0)
    batch = begin(sender, numbers(0, 20))
    sender.sent()
    sender.refuse(batch, TOO_LARGE)
    sender.accumulator.expire(10.0)
    assert batch.error is not None
    assert batch.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "MESSAGE_TOO_LARGE" in str(batch.error.context["last_error"])
    assert sender.failed() == (ErrorCode.REQUEST_TIMED_OUT, 20)


# What comes after it


def test_a_limit_is_learned_by_few_refusals_and_then_kept() -> None:
    sender = wide(batch_bytes=4000, memory_bytes=200_000)
    log = Log(leader=1, max_message_bytes=600)
    sender.accumulator.queue(T0).is_known = False
    for at in range(0, 2000, 100):
        begin(sender, numbers(at, at + 100))
    run_against(sender, log)
    assert log.values() == numbers(0, 2000)
    learned = log.too_large
    assert learned <= 12, "those that waited were split before they were sent"
    rows = [(0, None, each, ()) for each in numbers(2000, 4000)]
    queue = sender.accumulator.queue(T0)
    start = 0
    while start < len(rows):
        extended = sender.accumulator.extend(queue, sender.now, RowRun(rows), start)
        assert extended is not None
        start += extended[2]
        sender.accumulator.seal(queue)
        run_against(sender, log)
    assert log.values() == numbers(0, 4000)
    assert log.too_large == learned, "new batches are made as large as fits"
    last = [len(each) for each in log.batches[-20:-1]]
    assert min(last) > 0.4 * 600


def test_a_batch_that_has_to_wait_is_reckoned_with_once() -> None:
    sender = wide(request_bytes=1000, codec="LZ4")
    sender.metadata = metadata((1, 1, 1, 1))
    large = begin(sender, numbers(0, 40))
    assert sender.sent() == [large]
    sender.refuse(large, TOO_LARGE)
    while sent := sender.sent():
        for part in sent:
            sender.acknowledge(part)
    fit = sender.accumulator.buffer.fits[sender.accumulator.queue(T0)]
    ratios = set()
    others = [sender.send(TopicPartition("t", index), bytes(900)) for index in (1, 2, 3)]
    begin(sender, [bytes(50)] * 4)
    for other in others:
        (request,) = sender.drain(room={1: 1}).requests
        assert request.batches == [other], "those of the other partitions go first"
        ratios.add(fit.ratio)
    assert len(ratios) == 1


def test_batches_may_grow_again_with_what_compresses_better() -> None:
    sender = wide(batch_bytes=20_000, request_bytes=40_000, memory_bytes=400_000, codec="LZ4")
    log = Log(leader=1, max_message_bytes=2000)
    random = Random(1)

    def write(values: list[bytes]) -> None:
        rows = [(0, None, value, ()) for value in values]
        queue = sender.accumulator.queue(T0)
        start = 0
        while start < len(rows):
            extended = sender.accumulator.extend(queue, sender.now, RowRun(rows), start)
            assert extended is not None
            start += extended[2]
            sender.accumulator.seal(queue)
            run_against(sender, log)

    write([random.randbytes(100) for _ in range(500)])
    small = open_batch(log.batches[-2]).header.record_count
    learned = log.too_large
    write([bytes(100)] * 20_000)
    assert open_batch(log.batches[-2]).header.record_count > 3 * small
    assert log.too_large == learned
    refused = log.too_large
    write([random.randbytes(100) for _ in range(2000)])
    assert log.too_large - refused <= 3, "what compresses worse is reckoned with at once"


# Together with what else goes wrong


def test_a_batch_that_may_be_stored_is_not_stored_again_in_parts() -> None:
    """1. The broker stores a batch, its answer is lost. 2. The topic's limit is lowered. 3. The
    batch is refused for its size: the broker looks at that before it looks for duplicates."""
    sender = wide()
    log = Log(leader=1)
    batch = begin(sender, numbers(0, 8))
    sender.sent()
    assert log.append(bytes(batch.data or b"")) == (0, 0)
    sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    log.max_message_bytes = 100
    run_against(sender, log)
    assert sender.newly_failed() == [batch]
    assert log.values() == numbers(0, 8)
    assert batch.error is not None
    assert batch.error.code is OUT_OF_ORDER
    log.max_message_bytes = 1000
    begin(sender, numbers(8, 9))
    run_against(sender, log)
    assert log.values() == numbers(0, 9)


def test_what_was_overtaken_is_not_told_as_stored_in_parts_either() -> None:
    """1. Two batches are stored, the first one's answer says REQUEST_TIMED_OUT. 2. The limit is
    lowered. 3. The first is refused for its size; its parts are out of order, as they would be if
    the broker had forgotten the producer and only had the second."""
    sender = wide()
    log = Log(leader=1)
    first, second = begin(sender, numbers(0, 8)), begin(sender, numbers(8, 12))
    for batch in sender.sent():
        assert log.append(bytes(batch.data or b""))[0] == 0
    sender.refuse(first, ErrorCode.REQUEST_TIMED_OUT)
    sender.acknowledge(second, 8)
    log.max_message_bytes = 100
    run_against(sender, log)
    assert sender.newly_failed() == [first]
    assert first.error is not None
    assert "it is unknown" in first.error.reason
    assert log.values() == numbers(0, 12)


def test_what_is_known_of_batches_behind_stays_known_when_their_numbers_move() -> None:
    sender = wide()
    batch, behind = begin(sender, numbers(0, 8)), begin(sender, numbers(8, 9))
    sender.sent()
    queue = sender.accumulator.queue(T0)
    queue.stored_number = queue.lost_number = behind.number
    sender.refuse(batch, TOO_LARGE)
    assert behind.number == len(queue.waiting) > 1
    assert queue.stored_number == queue.lost_number == behind.number
    assert queue.numbered == behind.number + 1


def test_a_batch_whose_request_was_lost_is_split_all_the_same() -> None:
    sender = wide()
    log = Log(leader=1, max_message_bytes=200)
    batch = begin(sender, numbers(0, 20))
    sender.sent()
    sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    run_against(sender, log)
    assert sender.newly_failed() == []
    assert log.values() == numbers(0, 20)
    assert batch.error is None


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("seed", suites.seeds(range(SEEDS), quick=QUICK))
def test_whatever_happens_records_are_stored_in_order_and_once(
    seed: int, is_idempotent: bool
) -> None:
    random = Random(seed)
    sender = wide(
        delivery_timeout_s=4.0,
        in_flight_max=random.choice([1, 3, 5]) if is_idempotent else 1,
        is_idempotent=is_idempotent,
    )
    sender.accumulator.queue(T0).is_known = False
    log = Log(leader=1, max_message_bytes=random.choice([90, 150, 300, 600]))
    pipeline: list[tuple[Batch, bool, int, int]] = []
    records: dict[bytes, tuple[Batch, int]] = {}
    while len(records) < 200 or sender.accumulator.unfinished() or pipeline:
        sender.now += random.uniform(0, 0.3)
        if len(records) < 200 and random.random() < 0.6 and sender.accumulator.buffer.has_room:
            values = numbers(len(records), len(records) + random.randrange(1, 30))
            values = [
                value + bytes(random.choice([300] if random.random() < 0.02 else [0, 10]))
                for value in values
            ]
            queue = sender.accumulator.queue(T0)
            rows = [(0, None, value, ()) for value in values]
            extended = sender.accumulator.extend(queue, sender.now, RowRun(rows), 0)
            assert extended is not None
            batch, first, count = extended
            assert first == 0
            records |= {value: (batch, at) for at, value in enumerate(values[:count])}
            sender.accumulator.seal(queue)
        sender.accumulator.expire(sender.now)
        drained = sender.drain()
        for batch in [each for request in drained.requests for each in request.batches]:
            pipeline.append((batch, *_arrive(random, log, batch)))
        while pipeline and random.random() < 0.5:
            batch, is_answered, code, offset = pipeline.pop(0)
            if not is_answered:
                for lost in (batch, *(each[0] for each in pipeline)):
                    sender.refuse(lost, ErrorCode.NETWORK_EXCEPTION)
                pipeline.clear()
                if random.random() < 0.5:
                    forget(log)
            elif code:
                sender.refuse(batch, ErrorCode(code))
            else:
                sender.acknowledge(batch, offset)
    sender.drain()
    _check(log, records, sender.failed(), is_idempotent=is_idempotent)
    assert sender.accumulator.buffer.used_bytes == 0
    assert sender.accumulator.unfinished() == []


def _arrive(random: Random, log: Log, batch: Batch) -> tuple[bool, int, int]:
    """What the broker does: whether its answer will come, with which code and offset."""
    chance = random.random()
    if chance < 0.05:
        return False, 0, -1  # the request is lost
    if chance < 0.1:
        return True, ErrorCode.NOT_ENOUGH_REPLICAS, -1
    if chance < 0.11:
        return True, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1
    assert batch.data is not None
    code, offset = log.append(bytes(batch.data))
    if chance < 0.13:
        log.max_message_bytes = random.choice([90, 150, 300, 600])
    return chance > 0.18, code, offset  # below that the answer is lost


def _check(
    log: Log,
    records: dict[bytes, tuple[Batch, int]],
    raised: tuple[ErrorCode, int] | None,
    *,
    is_idempotent: bool,
) -> None:
    stored = [each or b"" for each in log.values()]
    if is_idempotent:
        assert stored == sorted(set(stored)), "in order, and none twice"
    else:
        firsts = list(dict.fromkeys(stored))
        assert firsts == sorted(firsts)
    failed = 0
    for value, (batch, index) in records.items():
        assert batch.is_done
        if error_of(batch, index) is not None:
            failed += 1
            continue
        assert value in stored
        offset = sent_of(batch, index).offset
        if offset >= 0:
            assert stored[offset] == value, "it is where its delivery says"
    assert (raised[1] if raised else 0) == failed, "flush counts each that failed"


# The whole producer


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_every_record_arrives_and_everybody_hears_where(compression: str) -> None:
    random = Random(3)
    values = [b"%05d" % number + random.randbytes(40) for number in range(3000)]
    heard: list[tuple[Sent | None, KafkaError | None]] = []

    async def main(runtime: Runtime) -> tuple[list[Sent], list[SentRange], Any]:
        async with producer(runtime, compression_type=compression, linger_ms=5) as sender:
            deliveries = [
                await sender.send(
                    "t",
                    value,
                    partition=0,
                    on_delivery=lambda sent, error: heard.append((sent, error)),
                )
                for value in values[:1000]
            ]
            many = await sender.send_many("t", values[1000:2000], partition=0)
            for value in values[2000:]:
                deliveries.append(await sender.send("t", value, partition=0))
                if random.random() < 0.01:
                    await asyncio.sleep(0.02)
            sent = [await each for each in deliveries]
            return sent, await many, sender.metrics()["producer-metrics"]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 2000
        sent, ranges, metrics = world.run_client(main)
        assert log.values() == values
    assert [each.offset for each in sent] == [*range(1000), *range(2000, 3000)]
    assert heard == [(each, None) for each in sent[:1000]]
    assert sum(each.records for each in ranges) == 1000
    at = 1000
    for each in ranges:
        assert each.base_offset == at
        at += each.records
    assert 0 < log.too_large < 12
    assert metrics["batch-split-total"] >= log.too_large
    assert metrics["record-send-total"] == 3000
    assert metrics["record-error-total"] == 0


def test_the_record_that_is_too_large_is_named_by_every_way() -> None:
    heard: list[KafkaError | None] = []

    async def main(runtime: Runtime) -> tuple[KafkaError, KafkaError, KafkaError]:
        async with producer(runtime) as sender:
            note: Any = {"on_delivery": lambda _, error: heard.append(error)}
            small = await sender.send("t", b"small", partition=0, **note)
            large = await sender.send("t", bytes(5000), partition=0, **note)
            after = await sender.send("t", b"after", partition=0, **note)
            with pytest.raises(KafkaError) as caught:
                await large
            assert ((await small).offset, (await after).offset) == (0, 1)
            many: Deliveries = await sender.send_many("t", [b"1", bytes(5000), b"3"], partition=0)
            with pytest.raises(KafkaError) as of_many:
                await many
            await sender.send("t", bytes(5000), partition=0)
            await sender.send("t", b"last", partition=0)
            with pytest.raises(KafkaError) as of_flush:
                await sender.flush()
            await sender.flush()
            return caught.value, of_many.value, of_flush.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 2000
        errors = world.run_client(main)
        assert log.values() == [b"small", b"after", b"1", b"3", b"last"]
    assert [each.code if each else None for each in heard] == [None, TOO_LARGE, None]
    for error in errors:
        assert error.code is TOO_LARGE
        assert "max.message.bytes" in error.reason
        assert "max.request.size" in error.reason
        assert error.context["setting"] == "max.message.bytes"
        assert (error.context["topic"], error.context["partition"]) == ("t", 0)
        assert error.context["records"] == 1
        assert 5000 < error.context["size_bytes"] < 5100
    assert errors[2].context["failed_records"] == 1


@pytest.mark.parametrize("seed", range(8))
def test_lost_answers_and_moving_leaders_change_nothing(seed: int) -> None:
    async def main(runtime: Runtime) -> list[Sent]:
        async with producer(runtime, linger_ms=2, batch_size=1500) as sender:
            deliveries = []
            for number in range(2000):
                deliveries.append(await sender.send("t", b"%05d" % number, partition=0))
                if number % 10 == 0:
                    await asyncio.sleep(0.01)
            return [await each for each in deliveries]

    with ClientWorld(seed) as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 130
        random = world.random("faults")

        def fail() -> None:
            chosen = random.randrange(3)
            if chosen == 0:
                world.cluster.lose_answers.add(ProduceRequest)
            elif chosen == 1:
                world.network.reset("client1", random.choice(["b1", "b2"]))
            else:
                world.cluster.move("t", 0, random.choice([1, 2]))
            if world.now < 5:
                world.after(random.uniform(0.05, 0.3), fail)

        world.after(0.2, fail)
        world.cluster.delay_s = 0.02
        sent = world.run_client(main)
        assert log.values() == [b"%05d" % number for number in range(2000)]
        assert log.too_large > 0
        assert [each.offset for each in sent if each.offset >= 0] == [
            number for number, each in enumerate(sent) if each.offset >= 0
        ]
