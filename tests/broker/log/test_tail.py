"""Appends on the usual way leave what the careful way leaves, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin, ProducerState
from moldau.broker.log.segment import Segment
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Codec, Producer
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch, contents

SEQUENCE_MAX = 2**31 - 1
TIMED = replace(SMALL, segment_ms=500)
ROOMY = replace(SMALL, segment_bytes=4000, segment_index_bytes=10_000)

Sent = tuple[int, int, int, bool]
"""Records, milliseconds and leader epochs since the last batch, whether it is compressed."""


def files_of(machine: Machine) -> dict[str, bytes]:
    found = {}
    for name in machine.files.list(DIRECTORY):
        with machine.files.open(f"{DIRECTORY}/{name}") as file:
            found[name] = file.read_at(0, file.size)
    return found


def append_all(machine: Machine, sent: list[Sent], *, is_read_only: bool) -> PartitionLog:
    log = machine.open()
    now_ms, epoch = NOW, 0
    for count, passed_ms, epochs, is_compressed in sent:
        now_ms, epoch = now_ms + passed_ms, epoch + epochs
        codec = Codec.LZ4 if is_compressed else Codec.NONE
        data = batch(count, timestamp=now_ms - 20, codec=codec)
        log.append_batch(bytes(data) if is_read_only else memoryview(data), epoch, now_ms)
    return log


@given(
    st.lists(
        st.tuples(
            st.integers(1, 12), st.integers(0, 200), st.sampled_from((0, 0, 0, 1)), st.booleans()
        ),
        max_size=30,
    ),
    st.sampled_from((SMALL, TIMED, ROOMY)),
)
def test_the_usual_way_leaves_the_same_files(sent: list[Sent], config: LogConfig) -> None:
    usual, careful = Machine(config=config), Machine(config=config)
    log = append_all(usual, sent, is_read_only=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "append_usual", lambda *_: False)
        expected = append_all(careful, sent, is_read_only=True)
    assert contents(log) == contents(expected)
    assert log.log_end_offset == expected.log_end_offset == sum(count for count, *_ in sent)
    assert files_of(usual) == files_of(careful)
    log.close()
    expected.close()
    assert files_of(usual) == files_of(careful)


def test_most_batches_go_the_usual_way() -> None:
    log = Machine(config=ROOMY).open()
    taken = []
    append_usual = Segment.append_usual

    def counted(segment: Segment, *batch: object) -> bool:
        taken.append(append_usual(segment, *batch))  # type: ignore[arg-type] # passed on
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "append_usual", counted)
        for number in range(20):
            assert log.append_usual(memoryview(batch(timestamp=NOW + number)), 0, NOW) is not None
    assert taken.count(True) >= 17


def test_what_is_read_only_or_not_right_is_left_alone() -> None:
    log = Machine().open()
    data = batch()
    assert log.append_usual(bytes(data), 0, NOW) is None
    damaged = bytearray(data)
    damaged[-1] ^= 1
    before = bytes(damaged)
    assert log.append_usual(memoryview(damaged), 0, NOW) is None
    assert bytes(damaged) == before
    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    "config",
    [
        replace(SMALL, is_append_time=True),
        replace(SMALL, compression=Codec.NONE),
        replace(SMALL, max_message_bytes=100),
    ],
)
def test_a_topic_that_changes_batches_or_finds_them_too_large_looks_closer(
    config: LogConfig,
) -> None:
    log = Machine(config=config).open()
    assert log.append_usual(memoryview(batch()), 0, NOW) is None
    log.configure(SMALL)
    assert log.append_usual(memoryview(batch()), 0, NOW) == (0, 2, -1, False)


def test_a_log_that_is_out_of_service_takes_nothing_on_either_way() -> None:
    log = Machine().open()
    log.state.take_out_of_service(OSError("gone"))
    assert log.append_usual(memoryview(batch()), 0, NOW) is None
    with pytest.raises(KafkaError) as error:
        log.append_batch(memoryview(batch()), 0, NOW)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_producer_is_known_again_on_the_usual_way() -> None:
    log = Machine().open()
    data = batch(producer=Producer(5, 0, 0))
    assert log.append_usual(memoryview(bytearray(data)), 0, NOW) == (0, 2, -1, False)
    again = log.append_usual(memoryview(bytearray(data)), 0, NOW)
    assert again is not None
    assert (again[0], again[1], again[3]) == (0, 2, True)
    assert log.log_end_offset == 3
    with pytest.raises(KafkaError) as error:
        log.append_usual(memoryview(batch(producer=Producer(5, 0, 9))), 0, NOW)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


Turn = tuple[int, int, int, int, bool]
"""Producer, its epoch, how far its sequence is from where it should be, records, transactional."""


def produce_all(log: PartitionLog, turns: list[Turn]) -> list[object]:
    """What became of each batch."""
    heard: list[object] = []
    due: dict[tuple[int, int], int] = {}
    for number, (producer_id, epoch, jump, count, is_transactional) in enumerate(turns):
        sequence = (due.get((producer_id, epoch), SEQUENCE_MAX - 4) + jump) & SEQUENCE_MAX
        producer = Producer(producer_id, epoch, sequence, is_transactional)
        data = batch(count, timestamp=NOW + number, producer=producer)
        try:
            fields = log.append_batch(memoryview(data), 0, NOW)
        except KafkaError as error:
            heard.append(error.code)
            continue
        heard.append(fields)
        if not fields[3]:
            due[producer_id, epoch] = (sequence + count) & SEQUENCE_MAX
    return heard


@given(
    st.lists(
        st.tuples(
            st.integers(5, 6),
            st.sampled_from((0, 0, 0, 1)),
            st.sampled_from((0, 0, 0, 0, -3, 1)),
            st.integers(1, 3),
            st.sampled_from((False, False, False, True)),
        ),
        max_size=25,
    )
)
def test_a_producer_that_goes_on_is_remembered_as_one_that_is_judged(turns: list[Turn]) -> None:
    """Over the wrap of sequences, with duplicates, gaps, old epochs and open transactions."""
    usual, careful = Machine(config=ROOMY), Machine(config=ROOMY)
    log, expected = usual.open(), careful.open()
    heard = produce_all(log, turns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProducerState, "going_on", lambda *_: None)
        assert heard == produce_all(expected, turns)
    assert dict(log.producers.entries) == dict(expected.producers.entries)
    assert log.producers.end_offset == expected.producers.end_offset == log.log_end_offset
    assert log.last_stable_offset == expected.last_stable_offset
    log.close()
    expected.close()
    assert files_of(usual) == files_of(careful)


def test_a_producer_that_goes_on_is_not_judged() -> None:
    log = Machine(config=ROOMY).open()
    judged = []
    prepare = ProducerState.prepare

    def counted(state: ProducerState, origin: Origin) -> object:
        judged.append(origin)
        return prepare(state, origin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProducerState, "prepare", counted)
        for number in range(10):
            data = batch(producer=Producer(5, 0, 3 * number))
            assert log.append_usual(memoryview(data), 0, NOW) is not None
    assert len(judged) == 1
    assert [each.last_offset for each in log.producers.entries[5].batches] == [17, 20, 23, 26, 29]
