"""Columns in buffers that are sent: polled ones, and Arrow's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import KafkaError, Producer, ProducerInterceptor, TopicPartition
from moldau.client.producer.column_buffers import ColumnRun, buffers_in
from moldau.records import BatchBuilder, Codec, Record, encode_batch, open_batch
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer
from tests.client.consumer.polled_rows import ROWS
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.records.strategies import rows

pyarrow = pytest.importorskip("pyarrow")
HEADERS = pyarrow.map_(pyarrow.string(), pyarrow.binary())


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


def records_in(log: Log) -> list[Record]:
    return [record for batch in log.batches for record in open_batch(batch).records()]


def table_of(given_rows: list[Any]) -> Any:
    stamps, keys, values, headers = zip(*given_rows, strict=True) if given_rows else [()] * 4
    return pyarrow.table(
        {
            "timestamp": pyarrow.array(stamps, pyarrow.int64()),
            "key": pyarrow.array(keys, pyarrow.binary()),
            "value": pyarrow.array(values, pyarrow.large_binary()),
            "headers": pyarrow.array(list(map(list, headers)), HEADERS),
        }
    )


@given(rows, rows, st.integers(0, 10), st.integers(0, 20))
def test_a_sliced_and_chunked_table_is_written_from_its_buffers(
    first: list[Any], second: list[Any], start: int, size: int
) -> None:
    whole = pyarrow.concat_tables([table_of(first), table_of(second)])
    expected = (first + second)[start : start + size]
    runs = [ColumnRun(each) for each in buffers_in(whole.slice(start, size), 0)]
    assert sum(map(len, runs)) == len(expected)
    builder, plain = BatchBuilder(), BatchBuilder()
    for run in runs:
        for at in range(len(run)):
            assert run.row(at) == expected[builder.count + at]
        assert run.fill(builder, 0) == len(run)
    plain.extend(expected)
    if expected:
        assert builder.build() == plain.build()


def test_what_was_polled_is_sent_on_with_timestamps_and_headers() -> None:
    async def main(runtime: Runtime) -> None:
        async with (
            consumer(runtime, auto_offset_reset="earliest") as reader,
            producer(runtime, compression_type="lz4") as writer,
        ):
            reader.assign([("t", 0)])
            (part,) = await reader.poll_batches(5.0)
            for partition, columns in enumerate((part, part.buffers, part.to_arrow())):
                sent = await (await writer.send_batch(("copy", partition), columns))
                assert [each.records for each in sent] == [3]
            await writer.flush()

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.put(encode_batch(ROWS, codec=Codec.ZSTD))
        copies = world.cluster.add_topic("copy", [1, 2, 1])
        world.run_client(main)
    for copy in copies:
        found = [(each.timestamp, each.key, each.value, each.headers) for each in records_in(copy)]
        expected = [tuple(row) for row in ROWS]
        if copy is copies[2]:  # Arrow has null for no timestamp, which is then sent as now
            assert found[2][0] > 0
            found[2] = (-1, *found[2][1:])
        assert found == expected


def test_many_records_fill_many_batches_in_order() -> None:
    table = pyarrow.table({"value": [b"%d" % number for number in range(5_000)]})

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, batch_size=1_000) as writer:
            deliveries = await writer.send_batch(TopicPartition("t", 1), table)
            sent = await deliveries
            assert sum(each.records for each in sent) == 5_000
            assert len(sent) > 10

    with ClientWorld() as world:
        _, log = world.cluster.add_topic("t", [1, 2])
        world.run_client(main)
        assert log.values() == [b"%d" % number for number in range(5_000)]


def test_what_cannot_be_sent_is_said_before_anything_is() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, max_block_ms=500) as writer:
            with pytest.raises(TypeError, match="for lists there is send_many"):
                await writer.send_batch(("t", 0), [b"1"])
            for name, column, reason in (
                ("value", [1], "value must be binary or text"),
                ("key", [1], "key must be binary or text"),
                ("timestamp", ["now"], "timestamp must be"),
                ("headers", ["h"], "headers must be a map"),
                ("size", [1], "a table of records has"),
            ):
                table = pyarrow.table({"value": [b"v"], name: column})
                with pytest.raises(TypeError, match=reason):
                    await writer.send_batch(("t", 0), table)
            with pytest.raises(KafkaError, match="partition"):
                await writer.send_batch(("t", 7), pyarrow.table({"value": [b"v"]}))
        async with producer(runtime, interceptors=[ProducerInterceptor()]) as writer:
            with pytest.raises(ValueError, match="interceptors look at records"):
                await writer.send_batch(("t", 0), pyarrow.table({"value": [b"v"]}))

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == []
