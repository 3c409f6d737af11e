"""What `poll_batches` gives: columns in buffers, of every kind of batch."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client import (
    BinaryColumn,
    ConsumerInterceptor,
    CorruptRecord,
    PartitionColumns,
    TimestampType,
    TopicPartition,
)
from moldau.records import Codec, ConsumerRecord, encode_batch, stamp
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.consumer.polled_rows import ROWS, polled
from tests.client.world import ClientWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def reading(runtime: Runtime, *partitions: TopicPartition, **options: Any) -> Any:
    reader = consumer(runtime, auto_offset_reset="earliest", **options)
    await reader.start()
    reader.assign(partitions or [T0])
    return reader


def columns_of(batch: bytearray, **options: Any) -> PartitionColumns:
    async def main(runtime: Runtime) -> PartitionColumns:
        reader = await reading(runtime, **options)
        found: list[PartitionColumns] = await reader.poll_batches(5.0)
        await reader.aclose()
        (part,) = found
        return part

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])[0].put(batch)
        found: PartitionColumns = world.run_client(main)
        return found


@pytest.mark.parametrize("codec", Codec)
def test_columns_have_all_of_the_records(codec: Codec) -> None:
    part = columns_of(encode_batch(ROWS, codec=codec))
    assert len(part) == 3
    assert (part.first_offset, part.next_offset, part.high_watermark) == (0, 3, 3)
    assert part.offsets.tolist() == [0, 1, 2]
    assert part.timestamps.tolist() == [1_000, 2_000, -1]
    assert part.keys.tolist() == list(part.keys) == [b"k", None, b""]
    assert part.values.tolist() == [b"one", b"two", None]
    assert bytes(part.values.data) == b"onetwo"
    assert part.values.ends.tolist() == [0, 3, 6, 6]
    assert part.values.validity is not None
    assert bytes(part.values.validity) == b"\x03"
    assert (part.values[0], part.values[-1], part.keys[1]) == (b"one", None, None)
    assert part.headers is not None
    assert part.headers.tolist() == [(("h", b"1"), ("h", None)), (), ()]
    assert len(part.headers) == len(part.keys) == 3
    assert part.records() == [
        ConsumerRecord("t", 0, n, row[0], row[1], row[2], row[3], part.leader_epoch, 0)
        for n, row in enumerate(ROWS)
    ]
    assert part.timestamp_type is TimestampType.CREATE_TIME
    with pytest.raises(IndexError):
        part.values[3]
    with pytest.raises(TypeError):
        part.offsets[0] = 7


def test_columns_without_nulls_and_headers_have_no_buffers_for_them() -> None:
    part = columns_of(encode_batch([(1, b"a", b"b", ())]))
    assert part.headers is None
    assert part.keys.validity is part.values.validity is None
    (record,) = part.records()
    assert (record.offset, record.timestamp, record.key, record.headers) == (0, 1, b"a", ())


def test_the_brokers_time_is_told() -> None:
    batch = encode_batch(ROWS)
    stamp(batch, 0, 0, append_time_ms=5_000)
    part = columns_of(batch)
    assert part.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert part.timestamps.tolist() == [5_000] * 3


def test_arrow_is_what_records_would_make_of_it() -> None:
    pytest.importorskip("pyarrow")
    assert columns_of(encode_batch(ROWS)).to_arrow().equals(polled(partition=0).to_arrow())
    plain = columns_of(encode_batch([(1, None, b"v", ())])).to_arrow()
    assert plain.column("headers").to_pylist() == [[]]
    assert plain.column("key").null_count == 1
    plain.validate(full=True)


def test_deserializers_do_not_see_what_is_given_as_columns() -> None:
    def refuse(data: bytes) -> object:
        raise AssertionError("nobody wanted a record")

    part = columns_of(encode_batch(ROWS), value_deserializer=refuse)
    assert part.values.tolist() == [b"one", b"two", None]


def test_interceptors_are_not_passed_over_in_silence() -> None:
    with pytest.raises(Exception, match="interceptors look at records"):
        columns_of(encode_batch(ROWS), interceptor_classes=[ConsumerInterceptor()])


def test_all_comes_once_however_it_is_polled_and_is_committed_as_polled() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime, T0, T1, group_id="g", enable_auto_commit=False)
        found: dict[int, list[int]] = {0: [], 1: []}
        turn = 0
        while sum(map(len, found.values())) < 600:
            turn += 1
            if turn % 3:
                for part in await reader.poll_batches(1.0, max_records=25):
                    assert part.values.tolist() == [b"%d" % each for each in part.offsets]
                    found[part.partition] += part.offsets.tolist()
            else:
                for each in await reader.poll(1.0, max_records=7):
                    found[each.partition] += each.offsets()
            if turn == 5:
                async for record in reader:
                    found[record.partition].append(record.offset)
                    break
            consumed = {where.partition: each.offset for where, each in reader.consumed().items()}
            told = {number: each[-1] + 1 for number, each in found.items() if each}
            assert {each: consumed[each] for each in told} == told
        assert found == {0: list(range(300)), 1: list(range(300))}
        await reader.commit()
        assert {each.offset for each in (await reader.committed()).values() if each} == {300}
        await reader.aclose()

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 300)
        world.run_client(main)


def test_a_poll_of_batches_can_be_limited_and_begins_where_it_was_sought() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime, T0, T1)
        reader.seek(T1, 15)
        (part,) = await reader.poll_batches(5.0, max_records=1, partitions=[T1])
        assert (part.partition, part.offsets.tolist()) == (1, list(range(15, 20)))
        with pytest.raises(ValueError, match="partitions is empty"):
            await reader.poll_batches(partitions=[])
        with pytest.raises(ValueError, match="at least 1"):
            await reader.poll_batches(max_records=0)
        await reader.aclose()

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 50)
        world.run_client(main)


def test_what_is_damaged_is_raised_behind_what_is_not() -> None:
    async def main(runtime: Runtime) -> None:
        reader = await reading(runtime)
        (part,) = await reader.poll_batches(5.0)
        assert part.offsets.tolist() == list(range(10))
        with pytest.raises(CorruptRecord) as caught:
            await reader.poll_batches(5.0)
        assert caught.value.context["position"] == 10
        reader.seek(T0, 20)
        (part,) = await reader.poll_batches(5.0)
        assert part.offsets.tolist() == list(range(20, 30))
        await reader.aclose()

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        log.batches[1][-1] ^= 1
        world.run_client(main)


def test_a_column_is_a_sequence() -> None:
    column: BinaryColumn = columns_of(encode_batch(ROWS)).values
    assert repr(column) == "<BinaryColumn of 3>"
    assert b"two" in list(column)
