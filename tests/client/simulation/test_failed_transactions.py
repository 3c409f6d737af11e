"""What fails in a transaction, on a simulated cluster: each error says what to do, and no commit
lacks a record that its sender meant to be in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.client import (
    AbortableTransactionError,
    Admin,
    Consumer,
    ErrorCode,
    FatalTransactionError,
    GroupMetadata,
    KafkaError,
    NewTopic,
    Producer,
    RetriableTransactionError,
    SerializationFailed,
    TopicPartition,
    Transaction,
)
from moldau.client.producer import transactions
from moldau.records import ColumnBuffers, Spans
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.testing import SimulatedCluster

pytestmark = pytest.mark.usefixtures("no_world_is_left")

OUT = TopicPartition("out", 0)
LARGE = bytes(5_000)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
LONGER_S = 30.0
"""Longer than the transactions' timeout, and than it takes a broker to look for it."""
CLIENT = {"transaction.timeout.ms": 1500, "max.block.ms": 5000, "max.request.size": 2000}


class OneBroker:
    """A broker with the topic `out`, and the clients of one test."""

    def __init__(self, world: Simulation) -> None:
        self.cluster = SimulatedCluster(world, brokers=1, settings=SETTINGS)
        self.cluster.await_up()
        self.cluster.run(self._prepare)

    async def _prepare(self, runtime: Runtime) -> None:
        async with Admin(**self._options(runtime)) as admin:
            await admin.create_topic(NewTopic("out", 1, 1))

    def _options(self, runtime: Runtime) -> dict[str, Any]:
        return {"runtime": runtime, "bootstrap_servers": self.cluster.bootstrap_servers}

    def run(self, main: Callable[[Runtime], Awaitable[None]]) -> None:
        self.cluster.run(main, within=300)  # type: ignore[arg-type]

    def producer(self, runtime: Runtime, **options: Any) -> Producer[Any, Any]:
        return Producer(CLIENT, transactional_id="a", **self._options(runtime), **options)

    def consumer(self, runtime: Runtime, **options: Any) -> Consumer[Any, Any]:
        return Consumer(
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **self._options(runtime),
            **options,
        )

    async def committed(self, runtime: Runtime) -> list[bytes | None]:
        """The committed values, in order."""
        found: list[bytes | None] = []
        async with self.consumer(runtime) as reader:
            reader.assign([OUT])
            end = (await reader.end_offsets([OUT]))[OUT]
            while (reader.position(OUT) or 0) < end:
                for part in await reader.poll(1.0):
                    found += part.values()
        return found


@pytest.fixture
def one() -> Iterator[OneBroker]:
    with Simulation(1) as world:
        yield OneBroker(world)


def test_work_is_done_again_after_a_delivery_that_an_abort_heals(one: OneBroker) -> None:
    async def main(runtime: Runtime) -> None:
        raised: list[KafkaError] = []

        async def work(transaction: Transaction) -> int:
            await producer.send("out", b"1")
            await producer.flush()
            if len(raised) < 2:
                await asyncio.sleep(LONGER_S)
            delivery = await producer.send("out", b"2")
            try:
                await (producer.flush() if len(raised) else delivery)
            except KafkaError as error:
                raised.append(error)
                raise
            return len(raised)

        async with one.producer(runtime) as producer:
            assert await producer.run_transaction(work) == 2
        for error in raised:
            assert isinstance(error, AbortableTransactionError)
            assert error.code is ErrorCode.INVALID_PRODUCER_EPOCH
            assert "transaction.timeout.ms" in error.reason
            assert "abort_transaction" in error.reason
        assert await one.committed(runtime) == [b"1", b"2"]

    one.run(main)


def test_a_commit_after_the_timeout_says_so_and_ends_the_producer(one: OneBroker) -> None:
    async def main(runtime: Runtime) -> None:
        async with one.producer(runtime) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("out", b"late")
            await asyncio.sleep(LONGER_S)
            with pytest.raises(FatalTransactionError, match=r"transaction\.timeout\.ms") as late:
                await producer.commit_transaction()
            assert late.value.code is ErrorCode.INVALID_TXN_STATE
            assert "start a new one" in late.value.reason
        async with one.producer(runtime) as producer, producer.transaction():
            await producer.send("out", b"next")
        assert await one.committed(runtime) == [b"next"]

    one.run(main)


def test_a_producer_of_version_1_is_fenced_after_the_timeout(
    one: OneBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_speaks_v2", lambda connection: False)

    async def main(runtime: Runtime) -> None:
        async def work(transaction: Transaction) -> None:
            await producer.send_and_wait("out", b"1")
            await asyncio.sleep(LONGER_S)
            await producer.send_and_wait("out", b"2")

        async with one.producer(runtime) as producer:
            with pytest.raises(FatalTransactionError, match=r"transaction\.timeout\.ms"):
                await producer.run_transaction(work)
        assert await one.committed(runtime) == []

    one.run(main)


def test_an_abort_after_the_timeout_heals_the_producer(one: OneBroker) -> None:
    async def main(runtime: Runtime) -> None:
        async with one.producer(runtime) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("out", b"late")
            await asyncio.sleep(LONGER_S)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("out", b"next")
        assert await one.committed(runtime) == [b"next"]

    one.run(main)


def _serialized(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("only bytes")
    return value


def _buffers(value: bytes) -> ColumnBuffers:
    ends = b"".join(each.to_bytes(4, "little") for each in (0, len(value)))
    nulls = Spans(None, bytes(8), 4, b"\0", 0, 1)
    return ColumnBuffers(1, b"", bytes(8), nulls, Spans(value, ends, 4, None, 0, 1), None)


Send = Callable[[Producer[Any, Any]], Awaitable[object]]
REFUSED: list[tuple[dict[str, Any], Send, type[Exception]]] = [
    ({}, lambda each: each.send("out", LARGE), AbortableTransactionError),
    ({}, lambda each: each.send("out", LARGE, partition=0), AbortableTransactionError),
    ({}, lambda each: each.send("out", b"v", partition=7), AbortableTransactionError),
    ({}, lambda each: each.send_many("out", [b"v", LARGE]), AbortableTransactionError),
    ({}, lambda each: each.send_batch(OUT, _buffers(LARGE)), AbortableTransactionError),
    ({}, lambda each: each.send("out", 5), TypeError),
    ({}, lambda each: each.send("out", b"v", timestamp_ms=-5), ValueError),
    ({}, lambda each: each.send_many("out", [b"v"], keys=[]), ValueError),
    ({}, lambda each: each.send_batch(OUT, [b"v"]), TypeError),
    ({"value_serializer": _serialized}, lambda each: each.send("out", 5), SerializationFailed),
    (
        {"value_serializer": _serialized},
        lambda each: each.send_many("out", [b"v", 5]),
        SerializationFailed,
    ),
]


def test_a_transaction_whose_send_was_refused_cannot_be_committed(one: OneBroker) -> None:
    async def main(runtime: Runtime) -> None:
        for options, send, kind in REFUSED:
            async with one.producer(runtime, **options) as producer:
                await producer.begin_transaction()
                await producer.send("out", b"incomplete")
                with pytest.raises(kind):
                    await send(producer)
                with pytest.raises(AbortableTransactionError, match="abort_transaction") as refused:
                    await producer.commit_transaction()
                assert not refused.value.may_pass
                await producer.abort_transaction()
                await producer.begin_transaction()
                await producer.send("out", b"whole")
                await producer.commit_transaction()
        assert await one.committed(runtime) == [b"whole"] * len(REFUSED)

    one.run(main)


def test_a_flush_that_takes_too_long_is_to_be_called_again(one: OneBroker) -> None:
    async def main(runtime: Runtime) -> None:
        async with one.producer(runtime, linger_ms=500) as producer, producer.transaction():
            await producer.send("out", b"v")
            with pytest.raises(RetriableTransactionError, match="not all"):
                await producer.flush(0)
            await producer.flush()
        assert await one.committed(runtime) == [b"v"]

    one.run(main)


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
def test_offsets_of_a_topic_that_does_not_exist_are_refused(
    one: OneBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == 1:
        monkeypatch.setattr(transactions, "_speaks_v2", lambda connection: False)
    group = GroupMetadata("g", -1, "", None)
    tries: list[str] = []

    async def main(runtime: Runtime) -> None:
        async def work(transaction: Transaction) -> None:
            tries.append("once")
            await producer.send_offsets({("out", 3): 1}, group)

        async with one.producer(runtime, transaction_timeout_ms=60_000) as producer:
            await producer.begin_transaction()
            with pytest.raises(AbortableTransactionError) as missing:
                await producer.send_offsets({("nowhere", 2): 1}, group)
            facts = missing.value.context
            assert (facts["topic"], facts["partition"]) == ("nowhere", 2)
            assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(AbortableTransactionError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            with pytest.raises(AbortableTransactionError) as missing:
                await producer.run_transaction(work)
            facts = missing.value.context
            assert (facts["topic"], facts["partition"]) == ("out", 3)
            assert tries == ["once"]
            async with producer.transaction():
                await producer.send("out", b"next")
        assert await one.committed(runtime) == [b"next"]

    one.run(main)


def test_a_consumer_whose_offsets_are_in_the_transaction_commits_none_itself(
    one: OneBroker,
) -> None:
    async def main(runtime: Runtime) -> None:
        async with one.producer(runtime) as producer, one.consumer(runtime, group_id="g") as reader:
            reader.assign([OUT])
            async with producer.transaction(reader):
                with pytest.raises(KafkaError, match="leave the consumer's own commit out"):
                    await reader.commit({OUT: 0})
                with pytest.raises(KafkaError, match="transaction"):
                    reader.commit_soon()
            await reader.commit({OUT: 0})

    one.run(main)
