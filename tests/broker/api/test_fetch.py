"""Fetch, edge by edge; what Kafka 4.3.1 answers was looked up by asking it."""

from __future__ import annotations

from errno import EIO
from random import Random
from typing import Any

import pytest

from moldau.broker.log.producer_state import Origin
from moldau.broker.log.slice import LogSlice
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from moldau.protocol.messages.fetch import FetchResponse, PartitionData, ReplicaState
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord, RemoveTopicRecord
from moldau.records import Producer
from tests.broker.api.requests import NOW, batch, delete_records, fetch, produce, want
from tests.broker.api.serving import Sent, Serving, fetched, serving
from tests.broker.controller.cluster import topic as new_topic
from tests.broker.log.producing import marker_batch

VERSIONS = range(4, 19)


def put(at: Serving, records: bytes, topic: str = "t", index: int = 0) -> None:
    """Appended at once."""
    answer = at.send(produce(topic, records, index=index), 12).answers[0]
    assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]


def put_marker(at: Serving, producer_id: int, *, abort: bool, topic: str = "t") -> None:
    """As the coordinator writes it."""
    partition = at.partition(topic)
    marker = marker_batch(producer_id, 0, abort=abort, timestamp=NOW)
    partition.log.append_as_leader(
        bytearray(marker.data), partition.leader_epoch, NOW, origin=Origin.COORDINATOR
    )
    partition.log.update_high_watermark(partition.log_end_offset)


async def one(at: Serving, *wanted: Any, version: int = 12, **more: Any) -> Any:
    """The answer to a request for one partition."""
    answer = await at.ask(fetch(*wanted, **more), FetchResponse, version)
    (data,) = fetched(answer).values()
    return data


def answered(sent: Sent) -> FetchResponse:
    (answer,) = sent.answers
    assert isinstance(answer, FetchResponse)
    return answer


@serving()
async def test_every_version_gives_the_bytes_and_the_marks_of_the_log(at: Serving) -> None:
    topic_id = at.create("t")
    put(at, batch(3, size=2_000))
    put(at, batch(2))
    log = at.partition("t").log
    for version in VERSIONS:
        topic = topic_id if version >= 13 else "t"
        sent = at.send(fetch((topic, want(offset=1))), version)
        data = fetched(answered(sent))[topic, 0]
        assert bytes(data.records) == log.read(0, 1 << 20).read()
        assert sent.has_slices, "no byte of a record was looked at"
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 5, 5)
        assert data.log_start_offset == (0 if version >= 5 else -1)
        assert data.aborted_transactions is None
        assert data.preferred_read_replica == -1
        assert answered(sent).session_id == 0


@serving()
async def test_the_records_of_a_small_response_leave_in_one_piece(at: Serving) -> None:
    at.create("t")
    put(at, batch(3))
    sent = at.send(fetch(("t", want())), 12)
    assert (
        bytes(fetched(answered(sent))["t", 0].records) == at.partition("t").log.read(0, 99).read()
    )
    assert not sent.has_slices


@serving()
async def test_a_file_that_cannot_be_read_is_left_to_the_connection(at: Serving) -> None:
    at.create("t")
    put(at, batch(3))

    reads = iter([OSError(EIO, "bad sector")])
    read = LogSlice.read

    def read_later(self: LogSlice) -> bytes:
        for error in reads:
            raise error
        return read(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogSlice, "read", read_later)
        sent = at.send(fetch(("t", want())), 12)
    assert sent.has_slices
    assert (
        bytes(fetched(answered(sent))["t", 0].records) == at.partition("t").log.read(0, 99).read()
    )


@serving()
async def test_an_offset_within_a_batch_gives_the_whole_batch(at: Serving) -> None:
    at.create("t")
    put(at, batch(3))
    put(at, batch(3))
    size = len(batch(3))
    assert len((await one(at, ("t", want(offset=4)))).records) == size
    assert len((await one(at, ("t", want(offset=6)))).records) == 0


@serving()
async def test_offsets_outside_of_the_log_are_told_at_once(at: Serving) -> None:
    at.create("t")
    put(at, batch(3))
    await at.ask(delete_records("t", 2), DeleteRecordsResponse)
    for offset in (-5, 1, 4):
        start = at.now_ms
        sent = at.send(fetch(("t", want(offset=offset)), wait_ms=500), 12)
        data = fetched(answered(sent))["t", 0]
        assert sent.answered_ms == start
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (data.high_watermark, data.log_start_offset) == (-1, -1)
        assert data.aborted_transactions is None
    assert (await one(at, ("t", want(offset=2)))).log_start_offset == 2


@serving()
async def test_a_fetch_waits_exactly_as_long_as_it_may(at: Serving) -> None:
    at.create("t")
    await at.pass_ms(100)  # making the log kept the node busy
    for wait_ms in (1, 20, 500):
        start = at.now_ms
        sent = at.send(fetch(("t", want()), wait_ms=wait_ms), 12)
        assert not sent.answers
        await sent.answered.wait()
        assert sent.answered_ms - start in (wait_ms, wait_ms + 1)
        assert fetched(answered(sent))["t", 0].records == b""
    assert len(at.replicas.purgatory) == 0
    for wait_ms in (0, -1):
        assert at.send(fetch(("t", want()), wait_ms=wait_ms), 12).answers
    assert at.send(fetch(("t", want()), wait_ms=500, min_bytes=0), 12).answers


@serving()
async def test_a_fetch_that_waits_is_answered_by_the_next_append(at: Serving) -> None:
    at.create("t", 2)
    sent = at.send(fetch(("t", want(0)), ("t", want(1)), wait_ms=60_000), 12)
    await at.pass_ms(50)
    assert not sent.answers
    put(at, batch(2), index=1)
    await at.pass_ms(1)
    data = fetched(answered(sent))
    assert (len(data["t", 0].records), len(data["t", 1].records)) == (0, len(batch(2)))
    assert len(at.replicas.purgatory) == 0


@serving()
async def test_min_bytes_are_counted_over_partitions_and_appends(at: Serving) -> None:
    at.create("t", 2)
    size = len(batch(size=100))
    sent = at.send(fetch(("t", want(0)), ("t", want(1)), wait_ms=60_000, min_bytes=3 * size), 12)
    for index in (0, 1):
        put(at, batch(size=100), index=index)
        await at.pass_ms(1)
        assert not sent.answers
    put(at, batch(size=100), index=0)
    await at.pass_ms(1)
    data = fetched(answered(sent))
    assert (len(data["t", 0].records), len(data["t", 1].records)) == (2 * size, size)


@serving()
async def test_of_min_bytes_a_partition_counts_for_its_own_bound_only(at: Serving) -> None:
    at.create("t")
    size = len(batch(size=100))
    sent = at.send(
        fetch(("t", want(partition_max_bytes=size)), wait_ms=1000, min_bytes=2 * size), 12
    )
    for _ in range(3):
        put(at, batch(size=100))
    await at.pass_ms(1)
    assert not sent.answers
    await sent.answered.wait()
    assert len(fetched(answered(sent))["t", 0].records) == size


@serving()
async def test_what_is_there_after_the_time_is_over_is_given(at: Serving) -> None:
    at.create("t")
    put(at, batch())
    sent = at.send(fetch(("t", want()), wait_ms=300, min_bytes=1 << 20), 12)
    await at.pass_ms(1)
    assert not sent.answers
    await sent.answered.wait()
    assert len(fetched(answered(sent))["t", 0].records) == len(batch())


@serving()
async def test_an_error_ends_the_wait_of_the_others(at: Serving) -> None:
    at.create("t")
    at.create("u")
    sent = at.send(fetch(("t", want(offset=9)), ("u", want()), wait_ms=500), 12)
    assert [each.error_code for each in fetched(answered(sent)).values()] == [1, 0]


@serving()
async def test_an_unknown_topic_alone_is_told_at_once_beside_others_it_waits(at: Serving) -> None:
    topic_id = at.create("t")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version, topic, nowhere, code in (
        (12, "t", "nope", unknown),
        (13, topic_id, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        alone = at.send(fetch((nowhere, want()), wait_ms=500), version)
        data = fetched(answered(alone))[nowhere, 0]
        assert (data.error_code, data.high_watermark) == (code, -1)
        assert data.aborted_transactions == []
        start = at.now_ms
        both = at.send(fetch((nowhere, want()), (topic, want()), wait_ms=500), version)
        await both.answered.wait()
        assert both.answered_ms - start in (500, 501)
        assert fetched(answered(both))[nowhere, 0].error_code == code
    data = await one(at, ("t", want(7)))
    assert data.error_code == unknown
    assert (await one(at, (topic_id, want(7)), version=13)).error_code == unknown


@serving()
async def test_bounds_of_partition_and_answer(at: Serving) -> None:
    at.create("t", 3)
    for index in range(3):
        for _ in range(3):
            put(at, batch(3), index=index)
    size = len(batch(3))

    async def sizes(*bounds: int, **more: Any) -> list[int]:
        wanted = [
            ("t", want(index, partition_max_bytes=bound)) for index, bound in enumerate(bounds)
        ]
        answer = await at.ask(fetch(*wanted, **more), FetchResponse, 12)
        return [len(each.records) for each in fetched(answer).values()]

    whole = 3 * size
    assert await sizes(1 << 20, 1 << 20) == [whole, whole]
    assert await sizes(10, 1 << 20) == [size, whole], "the first gives one batch at least"
    assert await sizes(1 << 20, 10) == [whole, 0], "the second has no such right"
    assert await sizes(size + 50) == [size + 50], "a last batch may be cut"
    assert await sizes(1 << 20, 1 << 20, 1 << 20, max_bytes=whole + size) == [whole, size, 0]
    assert await sizes(1 << 20, 1 << 20, max_bytes=whole + 10) == [whole, 0]
    assert await sizes(1 << 20, 1 << 20, max_bytes=0) == [size, 0]
    assert await sizes(0, 1 << 20) == [size, whole]
    assert await sizes(-1, -1, max_bytes=-1) == [size, 0]


@serving(fetch__max__bytes="1024")
async def test_the_broker_has_a_bound_too_and_nobody_waits_for_more(at: Serving) -> None:
    at.create("t")
    for _ in range(3):
        put(at, batch(size=500))
    sent = at.send(fetch(("t", want()), wait_ms=500, min_bytes=1 << 20), 12)
    assert len(fetched(answered(sent))["t", 0].records) == 1024


@serving()
async def test_the_rest_of_an_older_segment_is_given_at_once(at: Serving) -> None:
    at.create("t")
    put(at, batch())
    at.partition("t").log.rolling.roll(at.wall_ms)
    put(at, batch())
    sent = at.send(fetch(("t", want()), wait_ms=500, min_bytes=1 << 20), 12)
    assert len(fetched(answered(sent))["t", 0].records) == len(batch())
    waits = at.send(fetch(("t", want(offset=1)), wait_ms=60_000, min_bytes=1 << 20), 12)
    assert not waits.answers
    at.partition("t").log.rolling.roll(at.wall_ms)
    put(at, batch())
    await at.pass_ms(1)
    assert len(fetched(answered(waits))["t", 0].records) == len(batch())


@serving()
async def test_leader_epochs_are_checked_and_a_newer_leader_named(at: Serving) -> None:
    topic_id = at.create("t")
    put(at, batch())
    row = await one(at, ("t", want(current_leader_epoch=5)))
    assert row.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await one(at, ("t", want(current_leader_epoch=0)))).error_code == 0
    at.cluster.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=[1])])
    at.lead("t")
    for version in (12, 16):
        topic = "t" if version < 13 else topic_id
        answer = await at.ask(
            fetch((topic, want(current_leader_epoch=0)), wait_ms=500), FetchResponse, version
        )
        data = fetched(answer)[topic, 0]
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        if version >= 16:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
            assert [each.host for each in answer.node_endpoints] == ["here"]
        else:
            assert data.current_leader.leader_id == -1


@serving()
async def test_a_partition_that_moves_away_answers_who_waits_with_its_leader(at: Serving) -> None:
    topic_id = at.create("t")
    sent = at.send(fetch((topic_id, want()), wait_ms=60_000), 17)
    at.cluster.join(2)
    at.cluster.append(
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2, replicas=[2], isr=[2])]
    )
    at.replicas.resign("t", 0, topic_id, 1)
    await at.pass_ms(1)
    data = fetched(answered(sent))[topic_id, 0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == 2
    assert [each.host for each in answered(sent).node_endpoints] == ["h"]


@serving()
async def test_a_deleted_topic_and_a_failed_disk_answer_who_waits(at: Serving) -> None:
    at.create("t", 2)
    first = at.send(fetch(("t", want(0)), wait_ms=60_000), 12)
    second = at.send(fetch(("t", want(1)), wait_ms=60_000), 12)
    at.disk.fail_next("write", path_part=f"{at.directory_of('t', 1)}/t-1")
    at.send(produce("t", batch(), index=1), 12)
    at.cluster.append(removed(at, "t"))
    at.replicas.remove("t", 0)
    await at.pass_ms(1)
    assert fetched(answered(first))["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(answered(second))["t", 1].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def removed(at: Serving, name: str) -> Any:
    made = at.node.image.topics.by_name(name)
    assert made is not None
    return [RemoveTopicRecord(topic_id=made.topic_id)]


@serving()
async def test_diverging_epochs_are_told_instead_of_records(at: Serving) -> None:
    topic_id = at.create("t")
    put(at, batch(3))
    at.cluster.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=[1])])
    at.lead("t")
    put(at, batch(3))

    async def diverges(offset: int, epoch: int) -> tuple[int, int, int]:
        data = await one(at, ("t", want(offset=offset, last_fetched_epoch=epoch)))
        where = data.diverging_epoch
        assert (where.epoch == -1) or data.records == b""
        return data.error_code, where.epoch, where.end_offset

    assert await diverges(3, 0) == (0, -1, -1)
    assert await diverges(5, 0) == (0, 0, 3)
    assert await diverges(6, 1) == (0, -1, -1)
    assert await diverges(9, 1) == (0, 1, 6)
    assert await diverges(6, 7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)
    start = at.now_ms
    sent = at.send(fetch(("t", want(offset=5, last_fetched_epoch=0)), wait_ms=500), 12)
    await sent.answered.wait()
    assert sent.answered_ms == start
    await at.ask(delete_records("t", 2), DeleteRecordsResponse)
    assert await diverges(1, 0) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)


@serving()
async def test_who_is_no_replica_cannot_follow(at: Serving) -> None:
    topic_id = at.create("t")
    put(at, batch())
    data = await one(at, ("t", want()), replica_id=5)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = await one(at, ("t", want(current_leader_epoch=0)), replica_id=5)
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    state = ReplicaState(replica_id=5, replica_epoch=1)
    data = await one(at, (topic_id, want()), version=17, replica_state=state)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len((await one(at, ("t", want()), replica_id=-2)).records) == len(batch())


@serving()
async def test_a_replica_reads_what_consumers_may_not_yet(at: Serving) -> None:
    at.cluster.join(2)
    (made,) = at.cluster.create(new_topic("t", placed={0: [1, 2]}))
    assert made.error_code == 0
    at.lead("t", is_new=True)
    at.send(produce("t", batch(), acks=1), 12)
    consumer = await one(at, ("t", want()))
    assert (len(consumer.records), consumer.high_watermark) == (0, 0)
    follower = await one(at, ("t", want()), replica_id=2)
    assert len(follower.records) == len(batch())
    data = await one(at, ("t", want()), replica_id=1)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody follows himself"


@serving()
async def test_readers_of_committed_records_stop_at_the_last_stable_offset(at: Serving) -> None:
    at.create("t")
    put(at, batch())
    log = at.partition("t").log
    for producer_id in (7, 8):
        log.append_as_leader(batch(producer=Producer(producer_id, 0, 0, True)), 0, NOW)
    log.update_high_watermark(3)
    uncommitted = await one(at, ("t", want()))
    assert (uncommitted.last_stable_offset, uncommitted.high_watermark) == (1, 3)
    assert len(uncommitted.records) == 3 * len(batch())
    committed = await one(at, ("t", want()), isolation_level=1)
    assert len(committed.records) == len(batch())
    assert committed.aborted_transactions == []
    sent = at.send(fetch(("t", want(offset=1)), wait_ms=60_000, isolation_level=1), 12)
    put_marker(at, 7, abort=True)
    at.replicas.purgatory.moved(at.partition("t"))
    await at.pass_ms(1)
    data = fetched(answered(sent))["t", 0]
    assert data.last_stable_offset == 2
    assert len(data.records) == len(batch())


@serving()
async def test_committed_records_that_do_not_fit_leave_nothing_said_of_aborted_ones(
    at: Serving,
) -> None:
    """As Kafka: null where a batch is there and does not fit, none where there is nothing to read
    or nothing left to read it with."""
    for name in ("first", "t"):
        at.create(name)
        put(at, batch(), name)
    for asked, whole, aborted in (
        (want(partition_max_bytes=10), 10_000, None),
        (want(partition_max_bytes=0), 10_000, []),
        (want(), 1, []),
        (want(offset=1), 10_000, []),
        (want(offset=2, last_fetched_epoch=0), 10_000, None),
    ):
        request = fetch(("first", want()), ("t", asked), max_bytes=whole, isolation_level=1)
        found = fetched(await at.ask(request, FetchResponse, 12))
        assert found["first", 0].aborted_transactions == []
        assert not found["t", 0].records
        assert found["t", 0].aborted_transactions == aborted


@serving()
async def test_aborted_transactions_are_told_in_the_order_of_their_first_offsets(
    at: Serving,
) -> None:
    at.create("t")
    log = at.partition("t").log
    for producer_id in (7, 8, 9):
        log.append_as_leader(batch(producer=Producer(producer_id, 0, 0, True)), 0, NOW)
    put_marker(at, 8, abort=True)
    put_marker(at, 9, abort=False)
    put_marker(at, 7, abort=True)
    put(at, batch())
    for version in (4, 12):
        data = await one(at, ("t", want()), isolation_level=1, version=version)
        assert [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ] == [
            (7, 0),
            (8, 1),
        ]
    late = await one(at, ("t", want(offset=6)), isolation_level=1)
    assert late.aborted_transactions == []


@serving()
async def test_an_unknown_isolation_level_is_refused(at: Serving) -> None:
    at.create("t")
    answer = await at.ask(fetch(("t", want()), isolation_level=7), FetchResponse, 12)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    for version in (4, 6):  # no code for the whole answer
        answer = await at.ask(fetch(("t", want()), isolation_level=7), FetchResponse, version)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@serving()
async def test_a_partition_that_is_named_twice_counts_once(at: Serving) -> None:
    at.create("t")
    put(at, batch(3))
    put(at, batch(3))
    answer = await at.ask(fetch(("t", want()), ("t", want(offset=3))), FetchResponse, 12)
    assert [len(each.partitions) for each in answer.responses] == [1]
    assert len(fetched(answer)["t", 0].records) == len(batch(3))


@serving()
async def test_nothing_waits_for_a_connection_that_is_gone(at: Serving) -> None:
    at.create("t", flush__messages="1")
    sent = at.send(fetch(("t", want()), wait_ms=2**31 - 1), 12)
    at.disk.faults.slow_sync = 1.0
    producer = at.send(produce("t", batch(), timeout_ms=2**31 - 1), 12)
    assert len(at.replicas.purgatory) == 2
    for each in (sent, producer):
        at.service.closed(each.connection)
    assert len(at.replicas.purgatory) == 0
    assert not sent.answers
    assert not producer.answers


@serving()
async def test_who_was_answered_is_remembered_nowhere(at: Serving) -> None:
    at.create("t")
    sent = at.send(fetch(("t", want()), wait_ms=60_000), 12)
    put(at, batch())
    await at.pass_ms(1)
    assert sent.answers
    assert not sent.connection.session.waiting
    at.service.closed(sent.connection)


def enough_at(
    appends: list[tuple[int, int, int]], bounds: list[int], min_bytes: int, deadline_ms: int
) -> int:
    """When a fetch of all of these partitions has to be answered."""
    sizes = [0] * len(bounds)
    for now_ms, index, size in appends:
        sizes[index] += size
        if sum(min(pair) for pair in zip(sizes, bounds, strict=True)) >= min_bytes:
            return min(now_ms, deadline_ms)
    return deadline_ms


@pytest.mark.parametrize("seed", range(30))
def test_a_fetch_is_answered_when_there_is_enough_or_its_time_is_over(seed: int) -> None:
    random = Random(seed)

    @serving()
    async def run(at: Serving) -> None:
        at.create("t", 3)
        await at.pass_ms(1000)
        start = at.now_ms
        bounds = [random.choice([100, 500, 1 << 20]) for _ in range(3)]
        wait_ms, min_bytes = random.randrange(1, 200), random.randrange(1, 2000)
        wanted = [("t", want(index, partition_max_bytes=each)) for index, each in enumerate(bounds)]
        sent = at.send(fetch(*wanted, wait_ms=wait_ms, min_bytes=min_bytes), 12)
        appends = []
        for _ in range(random.randrange(20)):
            await at.pass_ms(random.randrange(30))
            index, records = random.randrange(3), batch(size=random.randrange(300))
            if sent.answers:
                break
            appends.append((at.now_ms - start, index, len(records)))
            put(at, records, index=index)
        await sent.answered.wait()
        expected = enough_at(appends, bounds, min_bytes, wait_ms)
        assert 0 <= sent.answered_ms - start - expected <= 2, (appends, bounds, min_bytes, wait_ms)

    run()


@serving()
async def test_a_request_without_partitions_is_answered_at_once(at: Serving) -> None:
    assert answered(at.send(fetch(wait_ms=500), 12)).responses == []


@serving()
async def test_a_slice_outlives_the_deletion_of_its_segment(at: Serving) -> None:
    at.create("t")
    put(at, batch())
    part = at.partition("t").read(0, 1 << 20, 1, True)
    assert isinstance(part, LogSlice)
    at.replicas.remove("t", 0)
    await at.pass_ms(100)
    assert len(part.read()) == len(batch())


# Sessions.


class Session:
    """A reader that goes on in one session."""

    def __init__(self, at: Serving, version: int = 12) -> None:
        self.at = at
        self.version = version
        self.session_id = 0
        self.epoch = 0

    async def next(self, *wanted: Any, **more: Any) -> dict[Any, PartitionData]:
        request = fetch(*wanted, session_id=self.session_id, session_epoch=self.epoch, **more)
        answer = await self.at.ask(request, FetchResponse, self.version)
        assert answer.error_code == 0
        if self.epoch:
            assert answer.session_id == self.session_id
        self.session_id = answer.session_id
        self.epoch += 1
        return fetched(answer)


@serving()
async def test_a_session_tells_what_changed_only(at: Serving) -> None:
    at.create("t", 2)
    at.create("u")
    put(at, batch(3))
    reader = Session(at)
    first = await reader.next(("t", want(0)), ("t", want(1)), ("u", want()))
    assert list(first) == [("t", 0), ("t", 1), ("u", 0)]
    assert reader.session_id
    assert await reader.next(("t", want(0, 3))) == {}
    put(at, batch(2), index=1)
    assert list(await reader.next()) == [("t", 1)]
    second = await reader.next(("t", want(1, 2)))
    assert second == {}
    await at.ask(delete_records("t", 1), DeleteRecordsResponse)
    moved = await reader.next()
    assert [(place, data.log_start_offset, data.records) for place, data in moved.items()] == [
        (("t", 0), 1, b"")
    ]


@serving()
async def test_partitions_are_added_changed_and_forgotten(at: Serving) -> None:
    at.create("t", 3)
    for index in range(3):
        put(at, batch(), index=index)
    reader = Session(at)
    await reader.next(("t", want(0)), ("t", want(1)))
    found = await reader.next(("t", want(0, 1)), ("t", want(2)))
    assert list(found) == [("t", 1), ("t", 2)]
    found = await reader.next(("t", want(1)), forget=(("t", [0, 2, 9]),))
    assert list(found) == [("t", 1)]
    put(at, batch(), index=0)
    assert await reader.next(("t", want(1, 1))) == {}
    request = fetch(forget=(("t", [1]),), session_id=reader.session_id, session_epoch=reader.epoch)
    assert (await at.ask(request, FetchResponse, 12)).session_id == 0
    request = fetch(session_id=reader.session_id, session_epoch=reader.epoch + 1)
    answer = await at.ask(request, FetchResponse, 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "an empty session is over"


@pytest.mark.parametrize("uses_ids", [False, True])
def test_errors_are_told_again_until_they_are_over(uses_ids: bool) -> None:
    @serving()
    async def run(at: Serving) -> None:
        made = at.create("t")
        topic: str | bytes = made if uses_ids else "t"
        reader = Session(at, 13 if uses_ids else 12)
        await reader.next((topic, want()))
        for _ in range(2):
            found = await reader.next((topic, want(offset=5)))
            assert found[topic, 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = await reader.next((topic, want()))
        assert (found[topic, 0].error_code, found[topic, 0].high_watermark) == (0, 0)
        nowhere: str | bytes = b"x" * 16 if uses_ids else "nope"
        for asked in ((nowhere, want()),), ():
            found = await reader.next(*asked)
            assert list(found) == [(nowhere, 0)]

    run()


@serving()
async def test_partitions_take_turns_in_a_session(at: Serving) -> None:
    at.create("t", 3)
    size = len(batch(3))
    for index in range(3):
        put(at, batch(3), index=index)
        put(at, batch(3), index=index)
    reader = Session(at)
    wanted = [("t", want(index)) for index in range(3)]
    first: dict[Any, Any] = await reader.next(*wanted, max_bytes=size)
    assert [len(each.records) for each in first.values()] == [size, 0, 0]
    turns = [list(await reader.next(max_bytes=size)) for _ in range(5)]
    assert turns == [[("t", index)] for index in (0, 1, 2, 0, 1)]


@serving()
async def test_a_session_is_not_continued_by_the_wrong_request(at: Serving) -> None:
    topic_id = at.create("t")
    names, ids = Session(at), Session(at, 13)
    await names.next(("t", want()))
    await ids.next((topic_id, want()))

    async def code(version: int, session_id: int, epoch: int) -> int:
        request = fetch(session_id=session_id, session_epoch=epoch, wait_ms=500)
        sent = at.send(request, version)
        answer = answered(sent)
        assert (answer.session_id, answer.responses) == (0, [])
        return answer.error_code

    wrong = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert await code(12, names.session_id, 2) == wrong
    assert await code(12, names.session_id + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert await code(13, names.session_id, 1) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await code(12, ids.session_id, 1) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await code(12, 0, 5) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert await code(12, 0, -7) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await names.next(wait_ms=0)
    assert await code(12, names.session_id, 1) == wrong, "an epoch is used once"


@serving()
async def test_a_full_fetch_ends_the_session_it_names(at: Serving) -> None:
    at.create("t")
    for last_epoch in (-1, 0):
        reader = Session(at)
        await reader.next(("t", want()))
        request = fetch(("t", want()), session_id=reader.session_id, session_epoch=last_epoch)
        answer = await at.ask(request, FetchResponse, 12)
        assert len(fetched(answer)) == 1
        assert (answer.session_id == 0) == (last_epoch == -1)
        assert answer.session_id != reader.session_id
        assert reader.session_id not in at.node.fetch_sessions.sessions


@serving()
async def test_a_later_request_of_the_session_ends_one_that_waits(at: Serving) -> None:
    at.create("t", 2)
    reader = Session(at)
    await reader.next(("t", want(0)))
    waits = at.send(fetch(wait_ms=500, session_id=reader.session_id, session_epoch=1), 12)
    later = at.send(
        fetch(("t", want(1)), session_id=reader.session_id, session_epoch=2, wait_ms=100), 12
    )
    await waits.answered.wait()
    assert answered(waits).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answered(waits).session_id == reader.session_id
    assert list(fetched(answered(later))) == [("t", 1)]


@serving(max__incremental__fetch__session__cache__slots="0")
async def test_without_slots_every_fetch_is_a_full_one(at: Serving) -> None:
    at.create("t")
    answer = await at.ask(fetch(("t", want()), session_epoch=0), FetchResponse, 12)
    assert answer.session_id == 0
    assert len(fetched(answer)) == 1


@serving()
async def test_a_topic_id_that_is_deleted_while_a_session_reads_it(at: Serving) -> None:
    topic_id = at.create("t")
    reader = Session(at, 13)
    await reader.next((topic_id, want()))
    at.cluster.append(removed(at, "t"))
    at.replicas.remove("t", 0)
    for _ in range(2):
        found = await reader.next()
        assert found[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found[topic_id, 0].aborted_transactions == []
    at.create("t")
    await at.replicas.logs_made()
    for _ in range(2):
        found = await reader.next()
        assert found[topic_id, 0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert found[topic_id, 0].aborted_transactions is None
    anew = Session(at, 13)
    found = await anew.next((topic_id, want()))
    assert found[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID, "this one never knew it"
