"""Reading, processing and writing in transactions, against Apache Kafka and moldau's broker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from moldau.client import (
    AbortableTransactionError,
    Admin,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
    Transaction,
)
from moldau.client import sync as blocking
from tests.client.producer.transaction_space import PARTITIONS, Space
from tests.client.producer.transaction_space import space as space
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real

VALUES = [b"%d" % number for number in range(40)]
PROTOCOLS = ["classic", "consumer"]


class Copy:
    """A topic that is read and one that is written, with a group of its own."""

    def __init__(self, space: Space, **options: Any) -> None:
        self.space = space
        self.source = f"in-{space.topic}"
        self.group = f"group-{space.topic}"
        self.options = options

    async def fill(self) -> None:
        async with Admin(bootstrap_servers=self.space.servers) as admin:
            await admin.create_topic(NewTopic(self.source, PARTITIONS, 1))
        async with Producer(bootstrap_servers=self.space.servers) as producer:
            for number, value in enumerate(VALUES):
                await producer.send(self.source, value, partition=number % PARTITIONS)

    def consumer(self, **options: Any) -> Consumer[Any, Any]:
        return Consumer(
            bootstrap_servers=self.space.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **{**self.options, **options},
        )

    async def copied(self, producer: Producer[Any, Any], consumer: Consumer[Any, Any]) -> int:
        """Poll once, and send what has come."""
        count = 0
        for part in await consumer.poll(0.5, max_records=7):
            for value in part.values():
                await producer.send(self.space.topic, value)
                count += 1
        return count

    async def committed(self) -> int:
        """The sum of the group's offsets."""
        async with Admin(bootstrap_servers=self.space.servers) as admin:
            found = await admin.group_offsets(self.group, require_stable=True)
            return sum(each.offset for each in found.values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_block_commits_what_it_wrote_and_read(space: Space, protocol: str) -> None:
    copy = Copy(space, group_protocol=protocol)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            done = 0
            while done < len(VALUES):
                async with producer.transaction(consumer):
                    done += await copy.copied(producer, consumer)
            assert done == len(VALUES)
        await space.check(VALUES)
        assert await copy.committed() == len(VALUES)

    space.run(main)


def test_a_block_that_raises_reads_its_records_again(space: Space) -> None:
    copy = Copy(space)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            done = blocks = 0
            while done < len(VALUES):
                try:
                    async with producer.transaction(consumer) as transaction:
                        count = await copy.copied(producer, consumer)
                        blocks += 1 if count else 0
                        if count and blocks % 3 == 1:
                            await producer.flush()
                            raise RuntimeError("in the middle")
                        if blocks % 3 == 2:
                            transaction.abort()
                except RuntimeError:
                    continue
                done += count if blocks % 3 == 0 else 0
        await space.check(VALUES)
        assert await copy.committed() == len(VALUES)

    space.run(main)


def test_what_was_polled_before_the_block_counts_for_it(space: Space) -> None:
    copy = Copy(space, enable_auto_commit=False)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            done = 0
            while done < len(VALUES):
                parts = await consumer.poll(0.5, max_records=9)
                async with producer.transaction(consumer):
                    for part in parts:
                        await producer.send_many(space.topic, list(part.values()))
                        done += len(part.values())
        await space.check(VALUES)
        assert await copy.committed() == len(VALUES)

    space.run(main)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_that_goes_to_another_member_aborts_the_block(
    space: Space, protocol: str
) -> None:
    copy = Copy(space, group_protocol=protocol)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            block = producer.transaction(consumer)
            await block.__aenter__()
            seen: set[TopicPartition] = set()
            while len(seen) < PARTITIONS:
                for part in await consumer.poll(0.5, max_records=1):
                    seen.add(TopicPartition(part.topic, part.partition))
                    await producer.send_many(space.topic, list(part.values()))
            async with copy.consumer(enable_auto_commit=False) as other:
                await other.subscribe([copy.source])
                while not other.assignment:
                    await asyncio.gather(other.poll(0.1, max_records=1), consumer.poll(0.1))
            with pytest.raises(AbortableTransactionError, match="rebalanced"):
                await block.__aexit__(None)
            done = 0
            while done < len(VALUES):
                async with producer.transaction(consumer):
                    done += await copy.copied(producer, consumer)
        await space.check(VALUES)

    space.run(main)


async def make_again(copy: Copy, values: list[bytes]) -> None:
    """Delete the source, and make another topic of its name with these values."""
    async with Admin(bootstrap_servers=copy.space.servers) as admin:
        await admin.delete_topics([copy.source])
        await admin.create_topic(NewTopic(copy.source, PARTITIONS, 1))
    async with Producer(bootstrap_servers=copy.space.servers) as producer:
        for number, value in enumerate(values):
            await producer.send(copy.source, value, partition=number % PARTITIONS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_a_deleted_source_are_refused(moldau_broker: Broker, protocol: str) -> None:
    """Brokers before Kafka 4.4 take offsets in transactions by the name of the topic alone."""
    copy = Copy(space := Space(moldau_broker), group_protocol=protocol, enable_auto_commit=False)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            await producer.begin_transaction()
            while not await copy.copied(producer, consumer):
                pass
            offsets, group = consumer.consumed(), consumer.group_metadata()
            await make_again(copy, [b"new"])
            with pytest.raises(AbortableTransactionError) as refused:
                await producer.send_offsets(offsets, group)
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
            await producer.abort_transaction()
        assert await copy.committed() == 0

    space.run(main)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_source_that_is_made_again_in_a_block_is_copied_once(
    moldau_broker: Broker, protocol: str
) -> None:
    """The block commits without the offsets of the old source if the consumer knows of the new one
    by then, else it is aborted."""
    copy = Copy(space := Space(moldau_broker), group_protocol=protocol, enable_auto_commit=False)
    new = [b"new-%d" % number for number in range(5)]

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            done = 0
            with suppress(AbortableTransactionError):
                async with producer.transaction(consumer):
                    while not done:
                        done = await copy.copied(producer, consumer)
                    await make_again(copy, new)
            while await copy.committed() != len(new):
                async with producer.transaction(consumer):
                    await copy.copied(producer, consumer)
        found = await space.read()
        assert [each for each in found if each.startswith(b"new")] == new
        assert len(found) == len(set(found))

    space.run(main)


def test_work_is_done_again_until_it_is_committed(space: Space) -> None:
    copy = Copy(space)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            tries = 0

            async def work(transaction: Transaction) -> int:
                nonlocal tries
                tries += 1
                count = await copy.copied(producer, consumer)
                if tries in (2, 3, 5):
                    raise AbortableTransactionError(120)
                return count

            done = 0
            while done < len(VALUES):
                done += await producer.run_transaction(work, consumer)
            assert tries > 5
        await space.check(VALUES)

    space.run(main)


def test_a_consumer_that_has_committed_by_itself_is_refused(space: Space) -> None:
    copy = Copy(space)

    async def main() -> None:
        await copy.fill()
        async with space.producer() as producer, copy.consumer() as consumer:
            await consumer.subscribe([copy.source])
            while not await consumer.poll(1.0):
                pass
            with pytest.raises(KafkaError, match=r"enable_auto_commit=False"):
                async with producer.transaction(consumer):
                    pass
            await consumer.unsubscribe()
        async with (
            space.producer() as producer,
            Consumer(bootstrap_servers=space.servers) as alone,
        ):
            with pytest.raises(KafkaError, match="needs a group"):
                async with producer.transaction(alone):
                    pass

    space.run(main)


def test_threads_read_and_write_in_transactions(space: Space) -> None:
    copy = Copy(space)
    space.run(copy.fill)
    with (
        blocking.Producer(bootstrap_servers=space.servers, transactional_id=space.name) as producer,
        blocking.Consumer(
            bootstrap_servers=space.servers,
            isolation_level="read_committed",
            group_id=copy.group,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        consumer.subscribe([copy.source])

        def work(transaction: blocking.Transaction) -> int:
            parts = consumer.poll(0.5, max_records=9)
            for part in parts:
                producer.send_many(space.topic, list(part.values()))
            return sum(len(part.values()) for part in parts)

        done = 0
        while done < len(VALUES):
            with producer.transaction(consumer) as transaction:
                work(transaction)
                transaction.abort()
            done += producer.run_transaction(work, consumer)
    asyncio.run(space.check(VALUES))
    assert asyncio.run(copy.committed()) == len(VALUES)
