"""The blocking consumer, against a broker in this process."""

from __future__ import annotations

import os
import signal
import threading
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from moldau.client import (
    ConsumerInterceptor,
    ConsumerRecord,
    NewTopic,
    PartitionRecords,
    RebalanceListener,
    TopicPartition,
)
from moldau.client.sync import (
    Admin,
    ClientNotStarted,
    Consumer,
    OffsetAndMetadata,
    Producer,
    WrongThread,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing import SyncEmbeddedBroker
from moldau.values.failures import DeserializationFailed
from tests.client.sync.interrupts import heeds_ctrl_c as heeds_ctrl_c
from tests.client.sync.turned_records import reading, write


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


def test_iterating_gives_every_record_once_and_commits_what_was_worked_on(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 1200)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        first = []
        for record in consumer:
            first.append(int(record.value))
            if len(first) == 700:
                break
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        rest = []
        for record in consumer:
            rest.append(int(record.value))
            if record.value == b"1199":
                break
        consumer.commit()
        assert consumer.committed() == {
            TopicPartition(moldau_topic, 0): OffsetAndMetadata(1200, "", 0)
        }

    assert first == list(range(700))
    assert rest == list(range(700, 1200))


def test_polls_and_batches_give_records_by_partition(bootstrap: str, moldau_topic: str) -> None:
    write(bootstrap, moldau_topic, 100, partitions=2)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = consumer.partitions(moldau_topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found = {0: 0, 1: 0}
        while sum(found.values()) < 100:
            for part in consumer.poll(5.0, max_records=30):
                found[part.partition] += len(part.records)
        assert found == {0: 50, 1: 50}

        assert consumer.assignment == partitions
        assert consumer.position((moldau_topic, 0)) == 50
        assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 50)
        consumer.pause([(moldau_topic, 0)])
        assert consumer.paused == [TopicPartition(moldau_topic, 0)]
        consumer.seek_to_beginning()
        part = next(iter(consumer.batches(max_records=10)))
        assert (part.partition, len(part.records)) == (1, 10)


def test_while_one_thread_goes_through_records_no_other_reads(
    bootstrap: str, moldau_topic: str
) -> None:
    """Else it would commit past what the first one has in hand."""
    write(bootstrap, moldau_topic, 300)

    def refused(read: Callable[[], object]) -> bool:
        found: list[bool] = []

        def other() -> None:
            try:
                read()
            except WrongThread:
                found.append(True)
            else:
                found.append(False)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return found[0]

    held: list[Iterator[ConsumerRecord]] = []

    def begin() -> None:
        held.append(iter(consumer))
        next(held[0])

    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        reads: list[Callable[[], object]] = [
            lambda: next(iter(consumer)),
            lambda: next(iter(consumer.batches(max_records=1))),
            lambda: consumer.poll(1.0, max_records=1),
            consumer.commit,
            lambda: consumer.commit_soon().result(60),
        ]
        for record in consumer:
            assert all(map(refused, reads))
            if record.offset == 1:
                break
        assert not any(map(refused, reads)), "it was left"
        for part in consumer.batches(max_records=1):
            assert part.offsets() == [5]
            assert all(map(refused, reads))
            break
        assert not refused(begin)
        assert next(iter(consumer)).offset == 7, "the thread that began with that has ended"


class Follower(RebalanceListener):
    """Uses the consumer that it listens for, as one may."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.told: list[tuple[str, int]] = []

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("assigned", threading.get_ident()))
        for where in partitions:
            self.consumer.seek(where, 90)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("revoked", threading.get_ident()))
        self.consumer.commit({partitions[0]: 95})


def test_a_listener_is_called_by_the_thread_that_polls_and_may_call_back(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 100)
    with reading(bootstrap, moldau_topic, enable_auto_commit=False) as consumer:
        listener = Follower(consumer)
        consumer.subscribe(moldau_topic, listener=listener)
        record = next(iter(consumer))
        assert record.offset == 90
        consumer.unsubscribe()
        consumer.assign([(moldau_topic, 0)])
        assert consumer.committed()[TopicPartition(moldau_topic, 0)] == OffsetAndMetadata(95)

    here = threading.get_ident()
    assert listener.told == [("assigned", here), ("revoked", here)]


def test_a_listener_may_commit_while_the_consumer_is_closed(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 100)
    with reading(bootstrap, moldau_topic, enable_auto_commit=False) as consumer:
        listener = Follower(consumer)
        consumer.subscribe(moldau_topic, listener=listener)
        assert next(iter(consumer)).offset == 90
    assert [what for what, _ in listener.told] == ["assigned", "revoked"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.group_offsets(moldau_topic)
    assert committed == {TopicPartition(moldau_topic, 0): OffsetAndMetadata(95)}


class BadListener(RebalanceListener):
    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        raise ValueError("cannot take them")


def test_what_a_listener_raises_is_raised_by_the_poll_and_reading_goes_on(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 3)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe(moldau_topic, listener=BadListener())
        with pytest.raises(ValueError, match="cannot take them"):
            next(consumer.batches())
        assert next(iter(consumer)).value == b"0"


def test_deserializers_give_values_and_a_bad_record_can_be_passed_over(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 3)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(moldau_topic, b"not a number").result(30)
        producer.send(moldau_topic, b"4").result(30)
    found: list[Any] = []
    with reading(bootstrap, moldau_topic, value_deserializer=int) as consumer:
        consumer.assign([(moldau_topic, 0)])
        for record in consumer:
            found.append(record.value)
            if record.offset == 2:
                break
        with pytest.raises(DeserializationFailed) as caught:
            consumer.poll(30.0)
        assert caught.value.context["offset"] == 3
        consumer.seek((moldau_topic, 0), 4)
        found += [record.value for part in consumer.poll(30.0) for record in part.records]
    assert found == [0, 1, 2, 4]


def test_commits_that_are_not_waited_for_can_be_asked_later(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 10)
    where = TopicPartition(moldau_topic, 0)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.assign([where])
        commits = [consumer.commit_soon({where: offset}) for offset in (1, 2, 3)]
        assert [each.result(60) for each in commits] == [None] * 3
        assert consumer.committed() == {where: OffsetAndMetadata(3)}


class Interrupting(ConsumerInterceptor):
    """Ctrl-C at the worst moment: the poll has its records, and nobody was given them."""

    def __init__(self) -> None:
        self.is_armed = True

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        if self.is_armed:
            self.is_armed = False
            os.kill(os.getpid(), signal.SIGINT)
        return parts


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_records_that_an_interrupted_poll_had_found_come_with_the_next_one(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 100)
    where = TopicPartition(moldau_topic, 0)
    with reading(bootstrap, moldau_topic, interceptors=[Interrupting()]) as consumer:
        consumer.assign([where])
        with pytest.raises(KeyboardInterrupt):
            next(consumer.batches(max_records=30))
        found: list[int] = []
        consumer.commit()
        assert (consumer.committed()[where] or OffsetAndMetadata(0)).offset == 0
        while len(found) < 100:
            found += _values(consumer.poll(5.0, max_records=30))
        assert found == list(range(100))


def _values(parts: list[PartitionRecords]) -> list[int]:
    return [int(record.value or b"") for part in parts for record in part.records]


class Found(ConsumerInterceptor):
    """How many partitions the last poll found something of."""

    def __init__(self) -> None:
        self.count = 0

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        self.count = len({part.partition for part in parts})
        return parts


def behind_one(consumer: Consumer, found: Found, topic: str) -> Iterator[PartitionRecords]:
    """Batches behind a first part whose poll found the other three as well."""
    consumer.assign(consumer.partitions(topic))
    for _ in range(100):
        consumer.seek_to_beginning()
        parts = consumer.batches()
        next(parts)
        if found.count == 4:
            return parts
    raise AssertionError("they never came together")


def test_who_leaves_after_one_part_commits_that_one_and_the_next_member_gets_the_others(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 40, partitions=4)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        found = _values([next(consumer.batches())])
    assert sum(committed_of(bootstrap, moldau_topic)) == len(found) < 40
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        for part in consumer.batches():
            found += _values([part])
            if len(found) >= 40:
                break
    assert sorted(found) == list(range(40))


@pytest.mark.parametrize("kind", ["records", "batches"])
def test_nothing_comes_after_the_end_and_what_was_not_given_is_not_committed(
    bootstrap: str, moldau_topic: str, kind: str
) -> None:
    write(bootstrap, moldau_topic, 40, partitions=4)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic])
        count = 0
        for each in consumer if kind == "records" else consumer.batches():
            count += len(each.records) if isinstance(each, PartitionRecords) else 1
            consumer.close()
    assert count == sum(committed_of(bootstrap, moldau_topic)) < 40


def test_commits_seeks_and_pauses_inside_see_the_parts_that_were_not_given(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 40, partitions=4)
    seen = Found()
    with reading(
        bootstrap, moldau_topic, enable_auto_commit=False, interceptors=[seen]
    ) as consumer:
        parts = behind_one(consumer, seen, moldau_topic)
        consumer.commit()
        assert sorted(committed_of(bootstrap, moldau_topic)) == [0, 0, 0, 10]
        others = [each for each in consumer.assignment if not consumer.position(each)]
        sought, paused, last = others
        consumer.seek(sought, 7)
        consumer.pause([paused])
        found = {part.partition: part.offsets() for part in (next(parts), next(parts))}
        assert found == {sought.partition: [7, 8, 9], last.partition: list(range(10))}
        consumer.resume([paused])
        part = next(parts)
        assert (part.partition, part.offsets()) == (paused.partition, list(range(10)))


def test_nothing_of_a_partition_comes_after_it_was_paused_inside(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 40, partitions=4)
    with reading(bootstrap, moldau_topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([moldau_topic])
        records = iter(consumer)
        first = next(records)
        where = TopicPartition(moldau_topic, first.partition)
        consumer.pause([where])
        others = [next(records) for _ in range(30)]
        assert where.partition not in {each.partition for each in others}
        consumer.resume([where])
        left = [next(records) for _ in range(9)]
        assert [(each.partition, each.offset) for each in left] == [
            (where.partition, offset) for offset in range(1, 10)
        ]


def test_columns_are_polled_and_sent_on(bootstrap: str, moldau_topic: str) -> None:
    write(bootstrap, moldau_topic, 200, partitions=2)
    copy = f"{moldau_topic}-copy"
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    with (
        reading(bootstrap, moldau_topic) as consumer,
        Producer(bootstrap_servers=bootstrap) as producer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        admin.create_topic(NewTopic(copy))
        consumer.subscribe(moldau_topic)
        while sum(map(len, found.values())) < 200:
            for part in consumer.poll_batches(5.0):
                found[part.partition] += part.values.tolist()
                sent = producer.send_batch((copy, 0), part).result()
                assert sum(each.records for each in sent) == len(part)
        assert found == {n: [b"%d" % each for each in range(n, 200, 2)] for n in (0, 1)}
        consumer.commit()
        assert {each.offset for each in consumer.consumed().values()} == {100}
        assert consumer.end_offsets([(copy, 0)]) == {(copy, 0): 200}


def test_a_poll_can_be_limited_to_partitions(bootstrap: str, moldau_topic: str) -> None:
    write(bootstrap, moldau_topic, 20, partitions=2)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(moldau_topic, 0), (moldau_topic, 1)])
        assert {each.partition for each in consumer.poll(5.0, partitions=[(moldau_topic, 1)])} == {
            1
        }
        for part in consumer.batches(partitions=[(moldau_topic, 0)]):
            assert part.partition == 0
            if part.next_offset == 10:
                break


class Signalled(Consumer):
    """Has Ctrl-C sent to the main thread as soon as a poll begins."""

    def poll(self, timeout_s: float = 0.0, **given: Any) -> list[PartitionRecords]:
        main = threading.main_thread().ident
        assert main is not None
        threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
        return super().poll(timeout_s, **given)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_while_it_waits_leaves_the_consumer_usable(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 1)
    with Signalled(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(moldau_topic, 0)])
        consumer.seek_to_end()
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(600.0)
        consumer.seek((moldau_topic, 0), 0)
        assert next(iter(consumer)).value == b"0"


def test_two_threads_may_not_read_at_a_time_but_one_may_close(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 1)
    failures: list[KafkaError] = []
    begins = threading.Event()

    class Tells(ConsumerInterceptor):
        def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
            begins.set()
            return parts

    def read(consumer: Consumer) -> None:
        while not failures:
            with suppress(WrongThread):
                try:
                    consumer.poll(60.0)
                except KafkaError as error:
                    failures.append(error)

    with reading(bootstrap, moldau_topic, interceptors=[Tells()]) as consumer:
        consumer.assign([(moldau_topic, 0)])
        thread = threading.Thread(target=read, args=(consumer,))
        thread.start()
        begins.wait()
        seen: Exception | None = None
        while seen is None:
            try:
                consumer.poll(0)
            except WrongThread as error:
                seen = error
        assert "consumer of its own" in str(seen)
    thread.join()

    assert [each.code for each in failures] == [ErrorCode.NETWORK_EXCEPTION]


@pytest.mark.parametrize("going", [iter, Consumer.batches])
def test_who_waits_for_more_when_another_thread_closes_has_come_to_the_end(
    bootstrap: str, moldau_topic: str, going: Callable[[Consumer], Iterator[object]]
) -> None:
    write(bootstrap, moldau_topic, 1)
    consumer = reading(bootstrap, moldau_topic)
    consumer.start()
    consumer.assign([(moldau_topic, 0)])
    asked, reads_on = [], threading.Event()
    fill = consumer._fill

    def told(coroutine: Coroutine[Any, Any, None]) -> None:
        asked.append(coroutine)
        if len(asked) == 2:  # the first has given the record
            reads_on.set()
        fill(coroutine)

    consumer._fill = told  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as threads:
        count = threads.submit(lambda: len(list(going(consumer))))
        assert reads_on.wait(60)
        consumer.close()
        assert count.result() == 1


def committed_of(bootstrap: str, group: str) -> list[int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return [each.offset for each in admin.group_offsets(group).values()]


def test_another_thread_that_closes_commits_nothing_of_what_is_worked_on(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 10)
    for is_elsewhere in (True, False):
        consumer = reading(bootstrap, moldau_topic)
        consumer.start()
        consumer.subscribe([moldau_topic])

        def work(consumer: Consumer = consumer) -> None:
            assert next(iter(consumer)).offset == 0

        if is_elsewhere:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
        consumer.close()
        assert committed_of(bootstrap, moldau_topic) == ([] if is_elsewhere else [1])


class Gate(RebalanceListener):
    """Keeps a poll from going on."""

    def __init__(self) -> None:
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.is_reached.set()
        assert self.is_open.wait(30)


def test_nobody_commits_what_another_thread_has_not_been_given_yet(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 10)
    gate = Gate()
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic], listener=gate)
        thread = threading.Thread(target=lambda: consumer.poll(30.0))
        thread.start()
        assert gate.is_reached.wait(30)
        for commit in (consumer.commit, consumer.commit_soon):
            with pytest.raises(WrongThread):
                commit()
        gate.is_open.set()
        thread.join()
        consumer.commit()
        assert committed_of(bootstrap, moldau_topic) == [10]


class LastCommit(RebalanceListener):
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.consumer.commit()


def test_a_listener_may_commit_while_another_thread_closes_over_a_poll(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 3)
    has_read, failures = threading.Event(), []
    consumer = reading(bootstrap, moldau_topic, enable_auto_commit=False)
    consumer.start()
    consumer.subscribe([moldau_topic], listener=LastCommit(consumer))

    def read() -> None:
        found = 0
        while found < 3:
            found += len(_values(consumer.poll(30.0)))
        has_read.set()
        try:
            consumer.poll(60.0)
        except KafkaError as error:
            failures.append(error.code)

    thread = threading.Thread(target=read)
    thread.start()
    assert has_read.wait(30)
    consumer.close()
    thread.join()
    assert failures == [ErrorCode.NETWORK_EXCEPTION]
    assert committed_of(bootstrap, moldau_topic) == [3]


def test_a_consumer_that_is_not_open_says_so(bootstrap: str) -> None:
    consumer = Consumer(bootstrap_servers=bootstrap)
    with pytest.raises(ClientNotStarted, match="consumer is not started"):
        consumer.poll()
    with consumer:
        pass
    with pytest.raises(KafkaError, match="the consumer is closed"):
        consumer.poll()
    with pytest.raises(KafkaError, match="the consumer is closed"):
        consumer.start()
    assert list(consumer) == []
    consumer.close()


@pytest.mark.parametrize("timeout", ["1", -1, None])
def test_a_close_that_is_given_no_time_does_nothing(
    timeout: Any, bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 2)
    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe(moldau_topic)
        for wait in (consumer.close, consumer.poll):
            with pytest.raises((TypeError, ValueError), match="timeout_s is "):
                wait(timeout)
        assert consumer.poll(30.0)
    assert consumer.is_over


def test_an_error_of_the_cluster_is_raised_as_it_is(bootstrap: str) -> None:
    with (
        Consumer(bootstrap_servers=bootstrap) as consumer,
        pytest.raises(KafkaError, match="needs a group") as caught,
    ):
        consumer.commit()
    assert caught.value.context["setting"] == "group.id"
    away = {"bootstrap.servers": "localhost:1", "start.timeout.ms": "100"}
    with pytest.raises(KafkaError), Consumer(away):
        pass


def test_partitions_that_are_resumed_while_iterating_waits_go_on_where_they_were(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 1000, partitions=2)
    both = [(moldau_topic, 0), (moldau_topic, 1)]
    given: dict[int, list[int]] = {0: [], 1: []}
    with reading(bootstrap, moldau_topic, enable_auto_commit=False) as consumer:
        consumer.assign(both)
        resuming = threading.Timer(0.3, consumer.resume, [both])
        for record in consumer:
            mine = given[record.partition]
            mine.append(record.offset)
            if len(mine) == 100:
                consumer.pause([(moldau_topic, record.partition)])
                if len(consumer.paused) == 2:
                    resuming.start()
            if sum(map(len, given.values())) == 1000:
                break
        resuming.join()
    assert given == {0: list(range(500)), 1: list(range(500))}


@pytest.mark.parametrize("closes", [False, True])
def test_a_listener_may_unsubscribe_and_close(
    bootstrap: str, moldau_topic: str, closes: bool
) -> None:
    write(bootstrap, moldau_topic, 10)
    heard: list[str] = []

    class Leaves(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            consumer.close() if closes else consumer.unsubscribe()
            heard.append("assigned")

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            heard.append("revoked")

    with reading(bootstrap, moldau_topic) as consumer:
        consumer.subscribe([moldau_topic], listener=Leaves())
        with suppress(KafkaError):
            while not heard:
                assert consumer.poll(0.5) == []
        if not closes:
            assert consumer.assignment == []
            consumer.subscribe([])
    assert heard == ["revoked", "assigned"]


def test_a_deserializer_that_raises_cancelled_error_does_not_look_like_a_close(
    bootstrap: str, moldau_topic: str
) -> None:
    is_cancelled = True

    def decode(data: bytes) -> bytes:
        if is_cancelled:
            raise CancelledError
        return data

    write(bootstrap, moldau_topic, 1)
    with reading(bootstrap, moldau_topic, value_deserializer=decode) as consumer:
        consumer.assign([(moldau_topic, 0)])
        with pytest.raises(DeserializationFailed, match="CancelledError"):
            consumer.poll(30.0)
        is_cancelled = False
        (part,) = consumer.poll(30.0)
        assert part.values() == [b"0"]


def test_going_through_records_is_a_sign_of_life_and_lets_others_join(
    bootstrap: str, moldau_topic: str
) -> None:
    """Each record takes a while, and all of one poll more than `max.poll.interval.ms`."""
    write(bootstrap, moldau_topic, 400, partitions=2)
    often = {"heartbeat_interval_ms": 100, "max_poll_interval_ms": 2500}
    lost: list[object] = []
    has_joined = threading.Event()

    class Told(RebalanceListener):
        def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
            lost.extend(partitions)

    def joins() -> None:
        with reading(bootstrap, moldau_topic, **often) as second:
            second.subscribe(moldau_topic)
            while not second.assignment:
                second.poll(0.1)
            has_joined.set()

    with ThreadPoolExecutor() as pool, reading(bootstrap, moldau_topic, **often) as consumer:
        consumer.subscribe(moldau_topic, listener=Told())
        given, joining = 0, None
        for given, _ in enumerate(consumer, 1):
            has_joined.wait(0.04 if joining is None else 0.2)
            if given == 70:
                joining = pool.submit(joins)
            if has_joined.is_set():
                break
            assert given < 350, "the other one waits until all of the poll is given"
        assert joining is not None
        joining.result()
        assert not lost
