"""A fold of a topic on a simulated cluster: its start, its errors, and its barriers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.client import Admin, KafkaError, NewTopic, Producer, TopicPartition
from moldau.errors import ConfigError
from moldau.folds.topic import FoldTopic
from moldau.folds.topic_fold import Record, TopicFold
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import RealRuntime
from moldau.runtime.simulated import Simulation
from moldau.testing import EmbeddedBroker, SimulatedCluster

Cluster = SimulatedCluster
TOPIC = FoldTopic("kept", "the topic of things", setting="things.storage")
WHERE = TopicPartition("kept", 0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"transaction.state.log.num.partitions": "1"}
    with Simulation(1) as world:
        cluster = SimulatedCluster(world, brokers=1, settings=settings)
        cluster.await_up()
        yield cluster


class Fold(TopicFold):
    """A fold of values, and of the lines that it logs."""

    def __init__(self, servers: str, runtime: Runtime, topic: FoldTopic = TOPIC) -> None:
        self.values: list[bytes | None] = []
        self.lines: list[str] = []
        log = Loggers(runtime.clock, self.lines.append).get("folds")
        settings = {"bootstrap.servers": servers}
        super().__init__(runtime, settings, topic, self.take, log)

    def take(self, record: Record) -> None:
        if record.value == b"damaged":
            raise ValueError("the record is damaged")
        self.values.append(record.value)


def make(cluster: Cluster, partitions: int, **configs: str) -> None:
    async def main(runtime: Runtime) -> None:
        servers = cluster.bootstrap_servers
        async with Admin(bootstrap_servers=servers, runtime=runtime) as admin:
            await admin.create_topic(NewTopic("kept", partitions, 1, configs))

    cluster.run(main)


def play(cluster: Cluster, scenario: Callable[[Fold, Producer[Any, Any]], Awaitable[None]]) -> None:
    async def main(runtime: Runtime) -> None:
        servers = cluster.bootstrap_servers
        fold = Fold(cluster.bootstrap_servers, runtime)
        async with Producer(bootstrap_servers=servers, runtime=runtime) as producer:
            await fold.start()
            await scenario(fold, producer)
            await fold.aclose()

    cluster.run(main, within=300)


@pytest.mark.parametrize(
    ("partitions", "configs", "topic", "facts"),
    [
        (1, {}, TOPIC, {"cleanup_policy": "delete", "setting": "things.storage.topic"}),
        (1, {"cleanup.policy": "compact,delete"}, TOPIC, {"cleanup_policy": "compact,delete"}),
        (
            2,
            {"cleanup.policy": "compact"},
            FoldTopic("kept", "the topic of things", is_ordered=True),
            {"partitions": 2},
        ),
        (
            0,
            {},
            FoldTopic("kept", "the topic of things", replicas=3, setting="things.storage"),
            {"value": 3, "setting": "things.storage.replication.factor"},
        ),
        (
            0,
            {},
            FoldTopic("kept", "the topic of things", is_made=False, setting="things.storage"),
            {"setting": "things.storage.topic"},
        ),
        (
            1,
            {"cleanup.policy": "delete"},
            FoldTopic("kept", "the topic of things", is_made=False),
            {"cleanup_policy": "delete"},
        ),
    ],
)
def test_a_topic_that_cannot_hold_the_state_is_refused(
    cluster: Cluster,
    partitions: int,
    configs: dict[str, str],
    topic: FoldTopic,
    facts: dict[str, object],
) -> None:
    async def main(runtime: Runtime) -> None:
        fold = Fold(cluster.bootstrap_servers, runtime, topic)
        with pytest.raises(ConfigError) as refused:
            await fold.start()
        assert refused.value.context.items() >= {"topic": "kept", **facts}.items()
        await fold.aclose()

    if partitions:
        make(cluster, partitions, **configs)
    cluster.run(main)


def test_a_missing_topic_is_made_and_its_records_are_known_in_order(cluster: Cluster) -> None:
    async def scenario(fold: Fold, producer: Producer[Any, Any]) -> None:
        for number in range(250):
            await producer.send("kept", b"%d" % number, key=b"k")
        await producer.flush()
        await fold.catch_up()
        assert fold.values == [b"%d" % number for number in range(250)]

    play(cluster, scenario)


def test_a_topic_that_may_not_be_made_is_used_where_it_exists(cluster: Cluster) -> None:
    async def main(runtime: Runtime) -> None:
        topic = FoldTopic("kept", "the topic of things", is_made=False)
        fold = Fold(cluster.bootstrap_servers, runtime, topic)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, runtime=runtime
        ) as producer:
            await fold.start()
            await producer.send("kept", b"1", key=b"k")
            await producer.flush()
            await fold.catch_up()
        assert fold.values == [b"1"]
        await fold.aclose()

    make(cluster, 1, **{"cleanup.policy": "compact"})
    cluster.run(main)


def test_a_record_without_a_known_offset_is_read_back_by_the_end(cluster: Cluster) -> None:
    async def scenario(fold: Fold, producer: Producer[Any, Any]) -> None:
        for number in range(20):
            sent = await (await producer.send("kept", b"%d" % number, key=b"k"))
            # An earlier try had stored it: the broker names no offset.
            await fold.read_back([sent._replace(offset=-1)])
            assert fold.values[-1] == b"%d" % number

    play(cluster, scenario)


def test_the_end_of_a_transaction_is_waited_for_where_others_have_them(cluster: Cluster) -> None:
    """A start does not wait: the transaction may be one that only its next owner can end."""

    async def main(runtime: Runtime) -> None:
        servers = cluster.bootstrap_servers
        topic = FoldTopic("kept", "the topic of things", has_transactions=True)
        fold = Fold(cluster.bootstrap_servers, runtime, topic)
        async with Producer(
            bootstrap_servers=servers, runtime=runtime, transactional_id="a"
        ) as producer:
            await producer.begin_transaction()
            await producer.send("kept", b"1", key=b"k")
            await producer.flush()
            await fold.start()
            barrier = asyncio.ensure_future(fold.catch_up())
            await asyncio.sleep(5.0)
            assert (barrier.done(), fold.values) == (False, [])
            await producer.commit_transaction()
            await barrier
            assert fold.values == [b"1"]
        await fold.aclose()

    make(cluster, 1, **{"cleanup.policy": "compact"})
    cluster.run(main, within=300)


@pytest.mark.real
def test_a_record_that_cannot_be_replayed_ends_the_barriers() -> None:
    """Each later one too, at once: none waits until its time is over."""
    failed: list[BaseException] = []

    async def main() -> None:
        async with (
            RealRuntime("fold", on_failure=lambda name, error: failed.append(error)) as runtime,
            EmbeddedBroker() as broker,
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            fold = Fold(broker.bootstrap_servers, runtime)
            await fold.start()
            await (await producer.send("kept", b"damaged", key=b"k"))
            for _ in range(2):
                with pytest.raises(ValueError, match="damaged") as found:
                    await fold.catch_up()
                assert found.value is failed[0]
            await fold.aclose()

    asyncio.run(main())


def test_a_barrier_names_the_topic_that_cannot_be_read(cluster: Cluster) -> None:
    async def scenario(fold: Fold, producer: Producer[Any, Any]) -> None:
        await (await producer.send("kept", b"1", key=b"k"))
        with pytest.raises(TimeoutError, match="the topic of things"):
            await fold.read_to({WHERE: 9})
        await fold.catch_up()
        assert fold.values == [b"1"]

    play(cluster, scenario)


def test_a_fold_follows_again_when_its_broker_is_back(cluster: Cluster) -> None:
    async def main(runtime: Runtime) -> None:
        servers = cluster.bootstrap_servers
        fold = Fold(cluster.bootstrap_servers, runtime)
        async with Producer(bootstrap_servers=servers, runtime=runtime) as producer:
            await fold.start()
            cluster.world.after(0.0, cluster.kill, 1)
            cluster.world.after(8.0, cluster.start, 1)
            await asyncio.sleep(1.0)
            await (await producer.send("kept", b"1", key=b"k"))
            await fold.catch_up()
            assert fold.values == [b"1"]
        await fold.aclose()

    cluster.run(main, within=300)


def test_no_broker_is_an_error_of_the_start(cluster: Cluster) -> None:
    async def main(runtime: Runtime) -> None:
        fold = Fold(cluster.bootstrap_servers, runtime)
        with pytest.raises(KafkaError):
            await fold.start()
        await fold.aclose()

    cluster.kill(1)
    cluster.run(main, within=300)
