"""Produce requests like an earlier one: the same fields, effects and answers as with the codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.api import produce_usual
from moldau.broker.api.produce_usual import (
    BATCHES_MAX,
    OUTLINES_MAX,
    SEVERAL_MAX,
    Outline,
    Usual,
    UsualAnswer,
    learn,
    outlined,
)
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from moldau.records import Codec, Producer
from tests.broker.api.requests import NOW, batch, produce, produce_all
from tests.broker.api.serving import Serving, serving

VERSIONS = range(9, 14)
ID = b"0123456789abcdef"
SIZES = (61, 62, 125, 126, 127, 128, 129, 16_381, 16_382, 16_383, 16_384, 2_097_149, 2_097_150)

names = st.text("abcxyz.-_09", min_size=1, max_size=249)
int64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(autouse=True)
def no_outlines() -> Iterator[None]:
    """Each test learns its own outlines."""
    forget()
    yield
    forget()


def forget() -> None:
    for known in produce_usual._outlines.values():
        known.clear()


def encoded(message: ProduceRequest, version: int) -> memoryview:
    return memoryview(bytearray(message.encode(version)))


def place(version: int, name: str, number: int = 0) -> str | bytes:
    return bytes([number]) + ID[1:] if version == 13 else name


indexes_of_a_topic = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4, unique=True)
requests = st.builds(
    lambda version, topics, acks, timeout_ms: (
        version,
        produce_all(
            {
                (place(version, name, number), index): b""
                for number, (name, indexes) in enumerate(topics.items())
                for index in indexes
            },
            acks=acks,
            timeout_ms=timeout_ms,
        ),
    ),
    st.sampled_from(VERSIONS),
    st.dictionaries(names, indexes_of_a_topic, min_size=1, max_size=3),
    st.sampled_from((-1, 0, 1)),
    st.integers(0, 2**31 - 1),
)


def with_records(message: ProduceRequest, size: int) -> ProduceRequest:
    for topic in message.topic_data:
        for data in topic.partition_data:
            data.records = b"e" * size
    return message


def fields(message: ProduceRequest) -> tuple[object, ...]:
    batches = [
        (topic.name, topic.topic_id, data.index, bytes(data.records or b""))
        for topic in message.topic_data
        for data in topic.partition_data
    ]
    return message.acks, message.timeout_ms, batches


def known_fields(found: Usual) -> tuple[object, ...]:
    outline, batches = found
    read = [
        (*outline.place(number), index, bytes(records))
        for number, (index, records) in enumerate(batches)
    ]
    assert outline.keys == [name or topic_id for name, topic_id, _, _ in read]
    return outline.acks, outline.timeout_ms, read


@given(requests, st.sampled_from(SIZES))
def test_a_known_start_gives_the_fields_that_the_codec_reads(
    drawn: tuple[int, ProduceRequest], size: int
) -> None:
    forget()
    version, message = drawn
    body = encoded(with_records(message, 100), version)
    assert outlined(body, version) is None
    learn(ProduceRequest.decode(body, version), body, version)
    later = encoded(with_records(message, size), version)
    found = outlined(later, version)
    if size + 1 >= 1 << 21:
        assert found is None, "lengths of four bytes are the codec's"
    elif found is None:
        assert version < 13
        assert any(len(each.name) > 126 for each in message.topic_data), "a length of two bytes"
    else:
        assert known_fields(found) == fields(ProduceRequest.decode(later, version))


@given(
    requests,
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3)), min_size=1),
)
def test_changed_bytes_are_read_as_the_codec_reads_them_or_left_to_it(
    drawn: tuple[int, ProduceRequest], changes: list[tuple[int, int, bytes]]
) -> None:
    forget()
    version, message = drawn
    body = encoded(with_records(message, 100), version)
    learn(ProduceRequest.decode(body, version), body, version)
    changed = bytearray(body)
    for at, removed, put in changes:
        changed[at % len(changed) : at % len(changed) + removed] = put
        if len(changed) < 4:
            return
    found = outlined(memoryview(changed), version)
    if found is not None:
        assert known_fields(found) == fields(ProduceRequest.decode(bytes(changed), version))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_cut_and_each_longer_request_is_left_to_the_codec(version: int) -> None:
    to, other = place(version, "t" * 120), place(version, "u", 1)
    message = with_records(produce_all({(to, 3): b"", (to, 1): b"", (other, 2): b""}), 100)
    body = encoded(message, version)
    learn(ProduceRequest.decode(body, version), body, version)
    assert outlined(body, version) is not None
    for size in range(len(body)):
        assert outlined(body[:size], version) is None
        with pytest.raises(MalformedMessage):
            ProduceRequest.decode(body[:size], version)
    assert outlined(memoryview(bytes(body) + b"\0"), version) is None


def test_unusual_requests_are_not_learned() -> None:
    unusual: list[tuple[ProduceRequest, int]] = [
        (produce("t", bytes(100)), 8),
        (produce("t", bytes(100), transactional_id="x"), 12),
        (produce_all({("t", index): bytes(100) for index in range(BATCHES_MAX + 1)}), 12),
        (produce_all({(f"t{number}", 0): bytes(100) for number in range(BATCHES_MAX + 1)}), 12),
        (produce_all({}), 12),
    ]
    for message, version in unusual:
        body = encoded(message, version)
        learn(ProduceRequest.decode(body, version), body, version)
    assert not any(produce_usual._outlines.values())


def test_the_number_of_outlines_is_bounded() -> None:
    for index in range(OUTLINES_MAX + 10):
        message = produce("t", bytes(100), timeout_ms=index)
        body = encoded(message, 12)
        learn(message, body, 12)
        assert outlined(body, 12) is not None
        assert len(produce_usual._outlines[12]) <= OUTLINES_MAX


def test_requests_of_many_topics_are_learned_until_they_are_too_many() -> None:
    for index in range(SEVERAL_MAX + 2):
        message = produce_all({("t", 0): bytes(100), ("u", 0): bytes(100)}, timeout_ms=index)
        body = encoded(message, 12)
        learn(message, body, 12)
        assert (outlined(body, 12) is not None) is (index < SEVERAL_MAX)


@given(requests, st.lists(st.tuples(int64, int64, int64), min_size=12), st.integers(0, 2**31 - 1))
def test_an_answer_has_the_bytes_that_the_codec_writes(
    drawn: tuple[int, ProduceRequest], offsets: list[tuple[int, int, int]], throttle_ms: int
) -> None:
    version, message = drawn
    outline = Outline(message, version)
    values: list[Any] = []
    marks, before = iter(offsets), iter(outline.before)
    topics = []
    for topic in message.topic_data:
        rows = []
        for data in topic.partition_data:
            base, time_ms, start = next(marks)
            row = PartitionProduceResponse(
                index=data.index,
                error_code=0,
                base_offset=base,
                log_append_time_ms=time_ms,
                log_start_offset=start,
            )
            rows.append(row)
            values += [next(before), data.index, base, time_ms, start]
        topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)
        )
    whole = ProduceResponse(responses=topics, throttle_time_ms=throttle_ms)
    answer = UsualAnswer(outline, values)
    answer.throttle_time_ms = throttle_ms
    assert answer.encode_parts(version) == [whole.encode(version)]


# Effects and answers, with outlines and without.


def damaged(records: bytes) -> bytes:
    return records[:70] + bytes([records[70] ^ 1]) + records[71:]


def in_transaction(first: int) -> bytes:
    return batch(producer=Producer(9, 0, first, True))


STEPS: dict[str, tuple[bytes, int]] = {
    "one record": (batch(), 1),
    "many records": (batch(300, size=50), -1),
    "compressed": (batch(50, codec=Codec.ZSTD), 1),
    "without acks": (batch(2), 0),
    "an idempotent producer": (batch(2, producer=Producer(7, 0, 0)), -1),
    "its next batch": (batch(3, producer=Producer(7, 0, 2)), -1),
    "the same again": (batch(3, producer=Producer(7, 0, 2)), -1),
    "a gap": (batch(3, producer=Producer(7, 0, 50)), -1),
    "an old epoch": (batch(producer=Producer(7, -1, 5)), 1),
    "a wrong checksum": (damaged(batch(5)), 1),
    "too new": (batch(at=NOW + 10**10), 1),
    "a base offset": (b"\0" * 7 + b"\5" + batch()[8:], 1),
    "of a transaction": (in_transaction(0), 1),
    "no batch": (b"", 1),
    "half a batch": (batch(9)[:-3], 1),
    "two batches": (batch() + batch(), 1),
    "too much when decompressed": (batch(2, size=1 << 20, codec=Codec.LZ4), 1),
    "a record at the end": (batch(), -1),
}


async def outcomes(
    at: Serving, version: int, prepare: Callable[[], None], *, is_alone: bool
) -> list[object]:
    """What comes of each step: the answers, and what it left. `prepare` runs before each request.
    A batch that is not alone has one before it and two behind it, for other partitions and another
    topic."""
    topic: Any = at.create("t", 3)
    internal: Any = at.create("__consumer_offsets", 3)
    stamped: Any = at.create("s", 3, message__timestamp__type="LogAppendTime")
    other: Any = at.create("u", 1)
    if version < 13:
        topic, internal, stamped, other = "t", "__consumer_offsets", "s", "u"
    found: list[object] = []
    for name, (records, acks) in STEPS.items():
        for to, index in ((topic, 0), (internal, 0), (stamped, 0), (topic, 5)):
            prepare()
            given: dict[Any, bytes | None] = {(to, index): records}
            if not is_alone:
                given = {(to, 2): batch(), **given, (to, 1): batch(2), (other, 0): batch()}
            sent = at.send(produce_all(given, acks=acks), version)
            await sent.answered.wait()
            answers = [each.encode(version) for each in sent.answers]
            found.append((name, to, index, answers, sent.is_silent, sent.is_closed))
    written = [("u", 0), *((name, index) for name in ("t", "s") for index in range(3))]
    for partition in (at.partition(*each) for each in written):
        traffic = partition.traffic
        numbers = {each: getattr(traffic, each) for each in traffic.__slots__ if each != "remote"}
        read = partition.log.read(0, 1 << 20).read()
        found.append((partition.log_end_offset, partition.high_watermark, numbers, read))
    return found


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_batch_has_the_same_effect_and_answer(version: int, *, is_alone: bool) -> None:
    found: dict[str, list[object]] = {}

    @serving()
    async def with_the_codec(at: Serving) -> None:
        found["codec"] = await outcomes(at, version, forget, is_alone=is_alone)

    @serving()
    async def with_outlines(at: Serving) -> None:
        found["outlines"] = await outcomes(at, version, lambda: None, is_alone=is_alone)
        assert produce_usual._outlines[version]

    with_the_codec()
    with_outlines()
    assert found["outlines"] == found["codec"]


@serving()
async def test_a_usual_batch_waits_for_the_replicas_that_acks_requires(at: Serving) -> None:
    at.create("t")
    at.cluster.join(2)
    at.begin_epoch("t")
    for number in range(3):
        waits = at.send(produce("t", batch(), acks=-1, timeout_ms=50), 12)
        assert not waits.answers
        at_once = at.send(produce("t", batch(), acks=1, timeout_ms=50), 12)
        ((row,),) = [each.partition_responses for each in at_once.answers[0].responses]  # type: ignore[attr-defined]
        assert (row.error_code, row.base_offset) == (0, 2 * number + 1)
        await waits.answered.wait()
        ((row,),) = [each.partition_responses for each in waits.answers[0].responses]  # type: ignore[attr-defined]
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert row.base_offset == 2 * number


@serving()
async def test_of_several_usual_batches_those_that_are_safe_do_not_fail(at: Serving) -> None:
    at.create("t", 2)
    at.cluster.join(2)
    at.begin_epoch("t")
    given: dict[Any, bytes | None] = {("t", 1): batch(), ("t", 0): batch()}
    for number in range(2):
        waits = at.send(produce_all(given, timeout_ms=50), 12)
        assert not waits.answers
        await waits.answered.wait()
        (rows,) = [each.partition_responses for each in waits.answers[0].responses]  # type: ignore[attr-defined]
        outcome = [(row.index, row.error_code, row.base_offset) for row in rows]
        assert outcome == [(1, 0, number), (0, ErrorCode.REQUEST_TIMED_OUT, number)]
    assert produce_usual._outlines[12]


@serving()
async def test_a_usual_batch_is_refused_where_the_partition_went_elsewhere(at: Serving) -> None:
    topic_id = at.create("t")
    for version, to in ((12, "t"), (13, topic_id)):
        assert (
            not (await at.ask(produce(to, batch()), ProduceResponse, version))
            .responses[0]
            .partition_responses[0]
            .error_code
        )
    at.cluster.join(2)
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2, replicas=[2])
    at.cluster.append([change])
    at.replicas.resign("t", 0, topic_id, 1)
    for version, to in ((12, "t"), (13, topic_id)):
        answer = await at.ask(produce(to, batch()), ProduceResponse, version)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert row.current_leader.leader_id == 2


@serving()
async def test_a_usual_batch_that_cannot_be_written_is_refused(at: Serving) -> None:
    at.create("t")
    assert at.send(produce("t", batch()), 12).answers
    at.disk.fail_next("write", path_part=f"{at.directory_of('t')}/t-0")
    for _ in range(2):
        answer = await at.ask(produce("t", batch()), ProduceResponse, 12)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert row.base_offset == -1
