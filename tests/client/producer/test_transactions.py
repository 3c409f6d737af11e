"""The producer's transactions against Apache Kafka and moldau's broker, in both versions of the
protocol: what is committed is read as a whole, what is aborted not at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import (
    AbortableTransactionError,
    Admin,
    ErrorCode,
    FatalTransactionError,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionError,
)
from moldau.client import sync as blocking
from moldau.client.producer import transactions
from moldau.config import BadSettings
from tests.client.producer.transaction_space import Space
from tests.client.producer.transaction_space import space as space
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

VALUES = [b"%d" % number for number in range(300)]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of the transactions: as with the cluster's feature level below 2, and with 2."""
    if request.param == 1:
        monkeypatch.setattr(transactions, "_speaks_v2", lambda connection: False)
    return int(request.param)


@pytest.mark.real
@pytest.mark.usefixtures("version")
def test_what_is_committed_is_read_and_what_is_aborted_is_not(space: Space) -> None:
    async def main() -> None:
        async with space.producer(linger_ms=0) as producer:
            for number in range(6):
                await producer.begin_transaction()
                sent = [await producer.send(space.topic, b"%d one" % number) for _ in range(3)]
                await producer.send_many(space.topic, [b"%d" % number] * 50)
                if number % 2:
                    await producer.commit_transaction()
                    assert all(each.is_done for each in sent)
                else:
                    await producer.abort_transaction()
        expected = [value for n in (1, 3, 5) for value in [b"%d one" % n] * 3 + [b"%d" % n] * 50]
        await space.check(sorted(expected))

    space.run(main)


@pytest.mark.real
@pytest.mark.usefixtures("version")
def test_an_abort_hides_records_that_the_brokers_have(space: Space) -> None:
    async def main() -> None:
        async with space.producer() as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(space.topic, b"aborted", partition=0)
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(space.topic, b"committed", partition=0)
            await producer.commit_transaction()
        await space.check([b"committed"])
        assert await space.read("read_uncommitted") == [b"aborted", b"committed"]

    space.run(main)


@pytest.mark.real
@pytest.mark.usefixtures("version")
def test_offsets_are_committed_with_the_records_or_not_at_all(space: Space) -> None:
    group = GroupMetadata(f"group-{space.topic}", -1, "", None)
    where = TopicPartition(space.topic, 0)

    async def main() -> None:
        async with space.producer() as producer, Admin(bootstrap_servers=space.servers) as admin:
            for offset, commits in ((3, True), (5, False)):
                await producer.begin_transaction()
                await producer.send(space.topic, b"%d" % offset, partition=0)
                await producer.send_offsets({where: offset}, group)
                if commits:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
            found = await admin.group_offsets(group.group_id, require_stable=True)
            assert found[where].offset == 3
            await producer.begin_transaction()
            await producer.send_offsets({where: OffsetAndMetadata(7, "note")}, group)
            await producer.commit_transaction()
            found = await admin.group_offsets(group.group_id, require_stable=True)
            assert (found[where].offset, found[where].metadata) == (7, "note")
        await space.check([b"3"])

    space.run(main)


@pytest.mark.real
@pytest.mark.usefixtures("version")
def test_an_empty_transaction_commits_and_aborts(space: Space) -> None:
    async def main() -> None:
        async with space.producer() as producer:
            for _ in range(2):
                await producer.begin_transaction()
                await producer.commit_transaction()
                await producer.begin_transaction()
                await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send(space.topic, b"after")
            await producer.commit_transaction()
        await space.check([b"after"])

    space.run(main)


@pytest.mark.real
@pytest.mark.usefixtures("version")
def test_a_newer_producer_fences_the_older_one(space: Space) -> None:
    async def main() -> None:
        async with space.producer() as older:
            await older.begin_transaction()
            await older.send_and_wait(space.topic, b"older")
            async with space.producer() as newer:
                await newer.begin_transaction()
                await newer.send(space.topic, b"newer")
                await newer.commit_transaction()
                with pytest.raises(TransactionError) as first:
                    await older.commit_transaction()
                if isinstance(first.value, AbortableTransactionError):
                    with pytest.raises(FatalTransactionError) as first:
                        await older.abort_transaction()
                assert isinstance(first.value, FatalTransactionError)
                assert "fenced" in first.value.reason
                with pytest.raises(FatalTransactionError):
                    await older.send(space.topic, b"older")
        await space.check([b"newer"])

    space.run(main)


@pytest.mark.real
def test_arrow_and_threads_write_in_transactions(space: Space) -> None:
    pyarrow = pytest.importorskip("pyarrow")

    async def main() -> None:
        async with space.producer() as producer:
            await producer.begin_transaction()
            await producer.send_many(space.topic, pyarrow.table({"value": VALUES[:100]}))
            table = pyarrow.table({"value": VALUES[100:200]})
            await producer.send_batch((space.topic, 1), table)
            await producer.commit_transaction()

    space.run(main)
    with blocking.Producer(
        bootstrap_servers=space.servers, transactional_id=space.name
    ) as producer:
        producer.begin_transaction()
        deliveries = [producer.send(space.topic, value) for value in VALUES[200:]]
        producer.commit_transaction()
        assert all(each.is_done for each in deliveries)
        with pytest.raises(TransactionError):
            producer.send(space.topic, b"outside")
        producer.begin_transaction()
        producer.send(space.topic, b"aborted")
        producer.abort_transaction()
    asyncio.run(space.check(VALUES))


@pytest.mark.real
def test_threads_cannot_commit_without_a_record_that_was_refused(space: Space) -> None:
    async def main() -> None:
        """The topic is made."""

    def work(transaction: blocking.Transaction) -> None:
        tries.append("delivery")
        producer.send(space.topic, bytes(1_500_000)).result()

    tries: list[str] = []
    space.run(main)
    with blocking.Producer(
        bootstrap_servers=space.servers, transactional_id=space.name, max_request_size=2_000_000
    ) as producer:
        refused: Any
        for refused in (bytes(3_000_000), "text"):
            producer.begin_transaction()
            producer.send(space.topic, b"incomplete")
            with pytest.raises((AbortableTransactionError, TypeError)):
                producer.send(space.topic, refused)
            with pytest.raises(AbortableTransactionError, match="abort_transaction"):
                producer.commit_transaction()
            producer.abort_transaction()
        with pytest.raises(AbortableTransactionError) as too_large:
            producer.run_transaction(work)
        assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert tries == ["delivery"]  # the next one would fail as well
        producer.run_transaction(lambda transaction: producer.send(space.topic, b"whole"))
    asyncio.run(space.check([b"whole"]))


@pytest.mark.real
def test_closing_in_a_transaction_aborts_it(space: Space) -> None:
    async def main() -> None:
        async with space.producer() as producer:
            await producer.begin_transaction()
            sent = await producer.send(space.topic, b"open")
        with pytest.raises(KafkaError) as lost:
            await sent
        assert lost.value.code is ErrorCode.TRANSACTION_ABORTABLE
        async with space.producer() as producer:
            await producer.begin_transaction()
            await producer.send(space.topic, b"next")
            await producer.commit_transaction()
        await space.check([b"next"])

    space.run(main)


@pytest.mark.real
def test_what_is_not_possible_says_what_to_do(space: Space) -> None:
    async def main() -> None:
        async with space.producer() as producer:
            for call in (
                producer.send(space.topic, b"outside"),
                producer.send_many(space.topic, [b"outside"]),
                producer.commit_transaction(),
                producer.abort_transaction(),
                producer.send_offsets({(space.topic, 0): 1}, GroupMetadata("g", -1, "", None)),
            ):
                with pytest.raises(TransactionError, match="begin_transaction"):
                    await call
            await producer.begin_transaction()
            with pytest.raises(TransactionError, match="commit or abort it first"):
                await producer.begin_transaction()
            with pytest.raises(TypeError, match="GroupMetadata"):
                await producer.send_offsets({(space.topic, 0): 1}, "a group")  # type: ignore[arg-type]
        async with Producer(bootstrap_servers=space.servers) as plain:
            with pytest.raises(TransactionError, match="needs a transactional"):
                await plain.begin_transaction()
        await space.check([])

    space.run(main)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"acks": "1"}, "acks=all"),
        ({"enable_idempotence": False}, "enable.idempotence"),
        ({"retries": 0}, "retries"),
        ({"transaction_two_phase_commit_enable": True}, "two.phase"),
        ({"transaction_timeout_ms": 0}, "transaction.timeout.ms"),
    ],
)
def test_settings_that_rule_transactions_out_are_refused(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadSettings, match=named):
        Producer(bootstrap_servers="b:9092", transactional_id="a", **options)
