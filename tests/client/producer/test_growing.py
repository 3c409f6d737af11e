"""Batches that have to wait take more records than others, and are none the later for it."""

from __future__ import annotations

from random import Random

import pytest

from moldau.client.producer.accumulator import WAITS_S
from moldau.client.producer.batch import Batch
from moldau.client.producer.producer import Producer
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.run import RowRun
from moldau.errors.codes import ErrorCode
from moldau.link.metadata import TopicPartition
from tests import suites
from tests.client.producer.simulated_sender import T0, T1, Pipeline, Sender, Wire, hear
from tests.client.scripted import Log

STEP = 200
GROWN = 800
VALUE = b"v" * 40
IN_A_STEP = 2
SEEDS = 200
QUICK = 60


def growing(**changed: int | float) -> Sender:
    options: dict[str, int | float] = {"batch_bytes": STEP, "grown_bytes": GROWN, **changed}
    return Sender(**options)  # type: ignore[arg-type]  # of these none is a flag or a name


def add(sender: Sender, count: int = 1, where: TopicPartition = T0) -> list[Batch]:
    """Records one by one, as a producer appends them; the batch of each."""
    accumulator, queue = sender.accumulator, sender.accumulator.queue(where)
    found = []
    for _ in range(count):
        while (batch := queue.open) is not None and batch.append(0, None, VALUE, ()) is None:
            accumulator.full(queue)
        if batch is None:
            batch = accumulator.begin(queue, sender.now, 0, None, VALUE, ())
        found.append(batch)
    return found


def counts(batches: list[Batch]) -> list[int]:
    return [batch.count for batch in batches]


def test_a_batch_in_front_of_which_none_waits_is_full_at_its_size() -> None:
    sender = growing()
    first = add(sender, IN_A_STEP + 1)
    assert counts(sender.sent()) == [IN_A_STEP]
    assert first[0] is first[IN_A_STEP - 1]


def test_one_that_waits_grows_by_steps_up_to_its_bound() -> None:
    sender = growing(memory_bytes=10_000)
    add(sender, 30)
    sender.accumulator.is_flushing = True
    sizes = [batch.reserved_bytes for batch in sender.sent()]
    assert sizes[0] <= STEP
    assert STEP < sizes[1] <= GROWN
    assert GROWN - sizes[1] < STEP


@pytest.mark.parametrize(
    "changed",
    [{"grown_bytes": 0}, {"grown_bytes": STEP}, {"request_bytes": STEP}],
    ids=["not given", "no larger", "no larger request"],
)
def test_none_grows_that_may_not(changed: dict[str, int]) -> None:
    sender = growing(**changed)
    add(sender, 4 * IN_A_STEP)
    sender.accumulator.is_flushing = True
    assert counts(sender.sent()) == [IN_A_STEP] * 4


def test_none_grows_beyond_the_memory() -> None:
    sender = growing(memory_bytes=2 * STEP)
    add(sender, IN_A_STEP + 1)
    used_bytes = sender.accumulator.buffer.used_bytes
    assert used_bytes <= 2 * STEP
    queue = sender.accumulator.queue(T0)
    batch = queue.open
    assert batch is not None
    while batch.append(0, None, VALUE, ()) is not None:
        pass
    sender.accumulator.full(queue)
    assert queue.open is None, "sealed, as there is no memory for a step"
    assert sender.accumulator.buffer.used_bytes <= 2 * STEP


def test_none_grows_where_the_broker_has_refused_large_ones() -> None:
    sender = growing(request_bytes=2000)
    (large,) = set(add(sender, IN_A_STEP))
    sender.accumulator.is_flushing = True
    assert sender.sent() == [large]
    sender.accumulator.is_flushing = False
    sender.refuse(large, ErrorCode.MESSAGE_TOO_LARGE)
    queue = sender.accumulator.queue(T0)
    assert queue.waiting, "its parts"
    before = add(sender, 6)
    assert all(batch.reserved_bytes <= STEP for batch in before)


def test_a_grown_one_goes_as_soon_as_it_is_first() -> None:
    """In the same turn, each in a request of its own, and not after the linger."""
    sender = growing(linger_s=60.0)
    grown = add(sender, 2 * IN_A_STEP + 1)[-1]
    assert sender.accumulator.queue(T0).open is grown
    assert counts(sender.sent()) == [IN_A_STEP, IN_A_STEP + 1]
    assert sender.accumulator.queue(T0).open is None


def test_it_goes_also_when_the_one_in_front_has_failed() -> None:
    sender = growing(linger_s=60.0, delivery_timeout_s=100.0)
    sender.accumulator.queue(T0).not_before = 1000.0
    add(sender, IN_A_STEP)
    sender.now = 50.0
    grown = add(sender, IN_A_STEP + 1)[-1]
    sender.accumulator.expire(100.0)
    assert len(sender.newly_failed()) == 1, "the first one"
    sender.accumulator.queue(T0).not_before = 0.0
    assert sender.sent(100.0) == [grown]


def test_one_behind_another_stays_open_past_its_linger() -> None:
    sender = growing(linger_s=0.01, in_flight_max=1)
    front, second = sender.send(), sender.send()
    assert sender.sent() == [front]
    (late,) = add(sender)
    assert sender.sent(0.05) == []
    queue = sender.accumulator.queue(T0)
    assert queue.open is late
    assert sender.accumulator.next_wake(0.05) == WAITS_S
    sender.acknowledge(front)
    assert sender.sent(0.05) == [second]
    assert list(queue.waiting) == [late], "complete, as it is the first now"
    sender.acknowledge(second)
    assert sender.sent(0.05) == [late]


@pytest.mark.parametrize("linger_s", [0.01, 1.0])
def test_but_not_for_long_because_it_is_too_late_with_its_first_record(linger_s: float) -> None:
    """1. The broker is away; 2. records come one by one; 3. each has about its time, though they
    all are of the same partition."""
    sender = growing(linger_s=linger_s, delivery_timeout_s=6.0, in_flight_max=1)
    longest = max(linger_s, WAITS_S)
    sender.send()
    (front,) = sender.sent()
    begun: dict[Batch, float] = {}
    ended: dict[Batch, float] = {}
    for step in range(1, 300):
        sender.now = step * 0.05
        (batch,) = add(sender)
        begun[batch] = sender.now  # of the latest record
        sender.accumulator.expire(sender.now)
        for late in sender.newly_failed():
            ended[late] = sender.now
        sender.drain()
    assert front in ended
    lives = [ended[batch] - begun[batch] for batch in ended if batch in begun]
    assert lives
    assert min(lives) > 6.0 - longest - 0.1


def test_without_a_batch_size_a_batch_still_ends() -> None:
    sender = growing(batch_bytes=0)
    add(sender, 30)
    sender.accumulator.is_flushing = True
    assert counts(sender.sent())[0] == 1
    assert not sender.accumulator.queue(T0).open


def test_a_flush_completes_it() -> None:
    sender = growing(linger_s=60.0, in_flight_max=1)
    grown = add(sender, 2 * IN_A_STEP + 1)[-1]
    sender.accumulator.is_flushing = True
    (front,) = sender.sent()
    (new,) = set(add(sender))
    assert new is not grown, "what comes after the flush began is in another batch"
    sender.acknowledge(front)
    assert sender.sent() == [grown]


def test_records_without_a_key_move_on_from_a_partition_that_is_blocked() -> None:
    """Where only the loop's turn is missing they stay, until the batch is complete."""
    told: list[tuple[PartitionQueue, int]] = []
    sender = growing(memory_bytes=10_000)
    for where in (T0, T1):
        sender.accumulator.queue(where).on_filled = lambda *given: told.append(given)
    add(sender, 5 * IN_A_STEP)
    ((queue, front),) = told
    assert STEP / 2 < front <= STEP
    assert queue.open is not None
    assert queue.open.reserved_bytes == 3 * STEP
    assert sender.accumulator.waiting(queue) == 1 + 3
    assert sender.accumulator.waiting(sender.accumulator.queue(T1)) == 0

    assert not sender.drain(room={1: 0, 2: 0}).requests
    add(sender, 2 * IN_A_STEP)
    assert told[1:] == [(queue, STEP)], "no request could be sent"
    assert len(sender.sent()) == 2
    add(sender, 3 * IN_A_STEP)
    assert [size < STEP for _, size in told[3:]] == [True], "the first again; what is behind stays"


@pytest.mark.parametrize(
    ("given", "grown_bytes"),
    [
        ({}, 262_144),
        ({"batch.size": "16384"}, 0),
        ({"acks": "0"}, 0),
        ({"acks": "1"}, 0),
        ({"enable.idempotence": "false"}, 0),
        ({"acks": "1", "max.in.flight.requests.per.connection": "1"}, 262_144),
        ({"acks": "0", "max.in.flight.requests.per.connection": "1"}, 0),
        ({"acks": "0", "batch.waiting.size": "5000"}, 5000),
        ({"batch.waiting.size": "100000"}, 100_000),
        ({"batch.size": "1000", "batch.waiting.size": "5000"}, 5000),
    ],
)
def test_who_gives_a_size_alone_gets_just_that(given: dict[str, str], grown_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": "localhost:9092", **given})
    assert producer._options.grown_bytes == grown_bytes


@pytest.mark.parametrize("seed", suites.seeds(range(SEEDS), quick=QUICK))
def test_whatever_happens_records_are_stored_once_and_in_order(seed: int) -> None:
    """As of batches that do not grow: answers and requests lost, batches refused or too late."""
    random = Random(seed)
    sender = growing(delivery_timeout_s=3.0, in_flight_max=random.choice([1, 3, 5]))
    queue = sender.accumulator.queue(T0)
    queue.is_known = False
    log = Log(leader=1)
    wire = Wire(random, log)
    pipeline: Pipeline = []
    homes: list[Batch] = []
    largest = 0
    while len(homes) < 200 or sender.accumulator.unfinished() or pipeline:
        sender.now += random.uniform(0, 0.3)
        if len(homes) < 200:
            rows = [(0, None, b"%04d" % (len(homes) + each), ()) for each in range(20)]
            run, start = RowRun(rows[: random.randrange(1, 20)]), 0
            while start < len(run) and (
                part := sender.accumulator.extend(queue, sender.now, run, start)
            ):
                homes += [part[0]] * part[2]
                start += part[2]
                if start < len(run):
                    sender.accumulator.full(queue)
        sender.accumulator.expire(sender.now)
        assert sender.accumulator.buffer.used_bytes <= sender.accumulator.options.memory_bytes
        for batch in sender.sent():
            largest = max(largest, batch.reserved_bytes)
            pipeline.append((batch, *wire.arrive(batch)))
        assert queue.waiting or queue.open is None or queue.open.reserved_bytes <= STEP
        while pipeline and random.random() < 0.5:
            if not hear(sender, pipeline):
                wire.end()
        wire.arrive_late()
    values = [each or b"" for each in log.values()]
    assert values == sorted(set(values)), "in order, and none twice"
    for number, batch in enumerate(homes):
        if batch.error is None:
            assert b"%04d" % number in values
    assert STEP < largest <= GROWN
    sender.drain()
    assert sender.accumulator.buffer.used_bytes == 0
