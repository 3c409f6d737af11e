"""Share consumers on simulated clusters: deliveries, locks in virtual time, crashes and moves."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from moldau.client import (
    Admin,
    ConfigError,
    ErrorCode,
    KafkaError,
    Message,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    ShareConsumer,
    TopicPartition,
)
from moldau.client.consumer.share.reader import ShareReader
from moldau.client.consumer.share.session import AcquiredFetch
from moldau.records import walk
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.testing import SimulatedCluster

GROUP: Final = "mailer"
LOCK_S: Final = 30.0
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}
Messages = list[Message[Any, Any]]


class Queues:
    """A cluster with the topic `orders`, and clients beside it."""

    def __init__(self, world: Simulation, brokers: int = 1) -> None:
        self.world = world
        self.cluster = SimulatedCluster(world, brokers=brokers, settings=SETTINGS)
        self.cluster.await_up()
        self.brokers = brokers

    def run(self, program: Callable[[Runtime], Coroutine[Any, Any, Any]]) -> Any:
        """What the program returns on a machine of its own."""
        return self.cluster.run(program, within=900.0)

    async def prepare(self, runtime: Runtime, count: int, partitions: int = 2) -> None:
        """Make the topic with so many records, and let the group begin at its start."""
        servers = self.cluster.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic("orders", partitions, self.brokers)])
            earliest = {"share.auto.offset.reset": "earliest"}
            await admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=earliest)
        async with Producer(runtime=runtime, bootstrap_servers=servers) as producer:
            for number in range(count):
                await producer.send("orders", b"%d" % number, partition=number % partitions)

    def consumer(self, runtime: Runtime, **options: Any) -> ShareConsumer[Any, Any]:
        """A member of the group."""
        servers = self.cluster.bootstrap_servers
        return ShareConsumer(
            "orders", group=GROUP, runtime=runtime, bootstrap_servers=servers, **options
        )


@pytest.fixture
def queues() -> Iterator[Queues]:
    with Simulation(seed=5) as world:
        yield Queues(world)


def number(message: Message[Any, Any]) -> int:
    return int(message.value)


async def some(queue: ShareConsumer[Any, Any], count: int) -> Messages:
    """So many messages, in one or several polls."""
    found: Messages = []
    while len(found) < count:
        found += await queue.poll(30.0, max_records=count - len(found))
    return found


def test_each_message_comes_once_and_what_is_released_comes_again(queues: Queues) -> None:
    async def program(runtime: Runtime) -> tuple[list[int], dict[int, int]]:
        await queues.prepare(runtime, 20)
        done: list[int] = []
        deliveries: dict[int, int] = {}
        async with queues.consumer(runtime) as queue:
            async for message in queue:
                deliveries[number(message)] = message.delivery_count
                if number(message) == 7 and message.delivery_count < 3:
                    assert message.release()
                elif number(message) == 8:
                    assert message.reject("never")
                else:
                    assert message.ack()
                    done.append(number(message))
                if len(done) == 19:
                    break
            assert await queue.commit() == {}
            assert await queue.poll(2.0) == []
        return done, deliveries

    done, deliveries = queues.run(program)
    assert sorted(done) == [each for each in range(20) if each != 8]
    assert deliveries == {**dict.fromkeys(range(20), 1), 7: 3}


def test_implicit_mode_acknowledges_what_was_returned_before_and_closing_gives_back_the_last(
    queues: Queues,
) -> None:
    async def program(runtime: Runtime) -> tuple[list[int], list[int]]:
        await queues.prepare(runtime, 10, partitions=1)
        async with queues.consumer(runtime) as queue:
            first = [number(each) for each in await some(queue, 4)]
            second = [number(each) for each in await some(queue, 2)]
        assert (first, second) == ([0, 1, 2, 3], [4, 5])
        async with queues.consumer(runtime) as queue:
            again = await some(queue, 6)
            counts = {number(each): each.delivery_count for each in again}
            assert (counts[4], counts[5]) == (2, 2)
            return first, sorted(counts)

    assert queues.run(program) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])


def test_implicit_mode_leaves_what_was_answered_and_what_is_not_held_any_more(
    queues: Queues,
) -> None:
    """Neighbours are acknowledged together: one that is released, and one that the session has
    lost, part them."""

    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 8, partitions=1)
        async with queues.consumer(runtime) as queue:
            found = await some(queue, 8)
            assert found[2].release()
            for each in queue._reader._brokers.values():
                each.session.held[found[5].where].pop(found[5].offset, None)
            again = await some(queue, 1)
            assert [number(each) for each in again] == [2]
            failures = await queue.commit()
            assert [each.context["offset"] for each in failures.values()] == [5]
        async with queues.consumer(runtime) as queue:
            left = await some(queue, 2)
            assert sorted(number(each) for each in left) == [2, 5]
            assert await queue.poll(2.0) == []

    queues.run(program)


def test_who_waits_for_more_than_the_window_gets_it_before_any_answer(queues: Queues) -> None:
    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 100)
        async with queues.consumer(runtime, share_acknowledgement_mode="explicit") as queue:
            found = await some(queue, 100)
            assert all(each.ack() for each in found)
            assert await queue.commit() == {}

    queues.run(program)


def test_a_lock_lasts_as_long_as_its_message_is_worked_on(queues: Queues) -> None:
    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 1, partitions=1)
        async with queues.consumer(runtime) as slow, queues.consumer(runtime) as other:
            message = (await some(slow, 1))[0]
            assert await other.poll(4 * LOCK_S) == [], "renewed three times and more"
            assert message.ack()
            assert await slow.commit() == {}
            assert await other.poll(4 * LOCK_S) == []

    queues.run(program)


def test_a_message_of_a_consumer_that_is_gone_goes_to_another(queues: Queues) -> None:
    async def taking(runtime: Runtime) -> None:
        queue = queues.consumer(runtime, share_acknowledgement_mode="explicit")
        await queue.start()
        found = await some(queue, 6)
        assert len(found) == 6
        taken.append(True)
        await asyncio.Event().wait()

    async def program(runtime: Runtime) -> dict[int, int]:
        async with queues.consumer(runtime) as queue:
            found = await some(queue, 6)
            return {number(each): each.delivery_count for each in found}

    taken: list[bool] = []
    queues.run(lambda runtime: queues.prepare(runtime, 6))
    node = queues.world.add_node("gone", taking)
    queues.world.run_until(lambda: bool(taken), within=60.0)
    node.crash()
    assert queues.run(program) == dict.fromkeys(range(6), 2)


def test_map_acknowledges_on_return_and_rejects_what_fails_too_often(queues: Queues) -> None:
    async def program(runtime: Runtime) -> tuple[Counter[int], int]:
        await queues.prepare(runtime, 40)
        calls: Counter[int] = Counter()
        at_once = most = 0
        is_over = asyncio.Event()

        async def handle(message: Message[Any, Any]) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            calls[number(message)] += 1
            await asyncio.sleep(1.0)
            at_once -= 1
            if calls.total() == 43:
                is_over.set()
            if number(message) == 3 or (number(message) == 4 and message.delivery_count == 1):
                raise ValueError("cannot be done")

        async with queues.consumer(runtime) as queue:
            mapping = runtime.spawn(queue.map(handle, concurrency=5, attempts=3), name="map")
            await is_over.wait()
            assert await queue.commit() == {}
            await asyncio.sleep(60.0)
            metrics = queue.metrics()["consumer-share-fetch-manager-metrics"]
            assert metrics["acknowledgements-reject-total"] == 1
            mapping.cancel()
        return calls, most

    calls, most = queues.run(program)
    assert calls == Counter({**dict.fromkeys(range(40), 1), 3: 3, 4: 2})
    assert most == 5


def test_an_answer_after_the_lock_has_ended_says_so(queues: Queues) -> None:
    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 2, partitions=1)
        async with Admin(
            runtime=runtime, bootstrap_servers=queues.cluster.bootstrap_servers
        ) as admin:
            off = {"share.renew.acknowledge.enable": "false"}
            await admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=off)
        async with queues.consumer(runtime, share_acknowledgement_mode="explicit") as queue:
            message = (await some(queue, 1))[0]
            await asyncio.sleep(LOCK_S * 2)
            assert not message.ack()
            failures = await queue.commit()
            assert failures[TopicPartition("orders", 0)].code is ErrorCode.INVALID_RECORD_STATE
            found = await some(queue, 2)
            assert message.offset in {each.offset for each in found}

    queues.run(program)


def test_messages_without_an_answer_come_again_when_their_locks_have_ended(queues: Queues) -> None:
    """They fill what the consumer may hold, and are given up with their locks."""

    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 2, partitions=1)
        servers = queues.cluster.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            off = {"share.renew.acknowledge.enable": "false"}
            await admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=off)
        options = {"share_acknowledgement_mode": "explicit", "max_poll_records": 2}
        async with queues.consumer(runtime, **options) as queue:
            await some(queue, 2)
            again = await some(queue, 2)
            assert [each.delivery_count for each in again] == [2, 2]
            assert all(each.ack() for each in again)
            assert await queue.commit() == {}

    queues.run(program)


def test_a_pattern_matches_topics_that_come_later(queues: Queues) -> None:
    async def program(runtime: Runtime) -> list[str]:
        await queues.prepare(runtime, 1, partitions=1)
        servers = queues.cluster.bootstrap_servers
        async with (
            Admin(runtime=runtime, bootstrap_servers=servers) as admin,
            Producer(runtime=runtime, bootstrap_servers=servers) as producer,
            ShareConsumer(
                re.compile("order.*"),
                group=GROUP,
                runtime=runtime,
                bootstrap_servers=servers,
                metadata_max_age_ms=5000,
            ) as queue,
        ):
            found = await some(queue, 1)
            await admin.create_topics([NewTopic("orders-eu", 1, 1), NewTopic("no-orders", 1, 1)])
            for topic in ("no-orders", "orders-eu"):
                await producer.send_and_wait(topic, b"1")
            found += await some(queue, 1)
            assert await queue.poll(30.0) == []
            return [each.topic for each in found]

    assert queues.run(program) == ["orders", "orders-eu"]


def test_a_second_answer_is_a_mistake(queues: Queues) -> None:
    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 1)
        async with queues.consumer(runtime) as queue:
            message = (await some(queue, 1))[0]
            message.ack()
            with pytest.raises(ValueError, match="orders-0@0"):
                message.release()

    queues.run(program)


def test_a_record_that_cannot_be_decoded_is_rejected_and_the_others_come(queues: Queues) -> None:
    def decode(data: bytes, _: object) -> int:
        if data == b"3":
            raise ValueError("no three")
        return int(data)

    async def program(runtime: Runtime) -> list[int]:
        await queues.prepare(runtime, 6, partitions=1)
        async with queues.consumer(runtime, value_deserializer=decode) as queue:
            found = await some(queue, 5)
            await queue.poll(1.0)
            metrics = queue.metrics()["consumer-share-fetch-manager-metrics"]
            assert metrics["acknowledgements-reject-total"] == 1
            return [each.value for each in found]

    assert queues.run(program) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("at", [16, 40], ids=["magic", "body"])
def test_damaged_records_are_rejected_and_those_before_them_and_of_other_partitions_come(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, at: int, batch: int
) -> None:
    arrive = ShareReader._arrive

    async def damage(reader: ShareReader, fetched: AcquiredFetch) -> None:
        if fetched.where.partition == 0:
            data = bytearray(fetched.data)
            data[[*walk(data)][batch].position + at] ^= 0xFF
            fetched = replace(fetched, data=bytes(data))
        await arrive(reader, fetched)

    async def program(runtime: Runtime) -> list[int]:
        await queues.prepare(runtime, 0)
        servers = queues.cluster.bootstrap_servers
        async with Producer(runtime=runtime, bootstrap_servers=servers) as producer:
            for each in range(6):  # a batch for each
                await producer.send_and_wait("orders", b"%d" % each, partition=each % 2)
        async with queues.consumer(runtime) as queue:
            found = await some(queue, 3 + batch)
            await queue.poll(1.0)
            metrics = queue.metrics()["consumer-share-fetch-manager-metrics"]
            assert metrics["acknowledgements-reject-total"] == 3 - batch
            return sorted(map(number, found))

    monkeypatch.setattr(ShareReader, "_arrive", damage)
    assert queues.run(program) == sorted([1, 3, 5, *[0][:batch]])


@pytest.mark.parametrize("seed", range(3))
def test_every_message_is_handled_while_brokers_are_killed(seed: int) -> None:
    with Simulation(seed=seed) as world:
        queues = Queues(world, brokers=3)
        queues.run(lambda runtime: queues.prepare(runtime, 300))
        handled: Counter[int] = Counter()

        def reached(count: int) -> bool:
            return len(handled) >= count

        async def work(runtime: Runtime) -> None:
            async def handle(message: Message[Any, Any]) -> None:
                await asyncio.sleep(runtime.random.random() * 0.3)
                handled[number(message)] += 1

            async with queues.consumer(runtime, request_timeout_ms=2000) as queue:
                await queue.map(handle, concurrency=4, attempts=100)

        for name in ("w1", "w2"):
            world.add_node(name, work)
        for killed in (1, 2, 3):
            world.run_until(partial(reached, 60 * killed), within=300.0)
            queues.cluster.kill(killed)
            world.run_for(2.0)
            queues.cluster.start(killed)
        world.run_until(lambda: len(handled) == 300, within=600.0)


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        ShareConsumer("orders", bootstrap_servers="h:1")
    with pytest.raises(ValueError, match="topics is empty"):
        ShareConsumer([], group="g", bootstrap_servers="h:1")
    mode: dict[str, Any] = {"share_acknowledgement_mode": "maybe"}
    with pytest.raises(ConfigError, match=r"share\.acknowledgement\.mode"):
        ShareConsumer("t", group="g", bootstrap_servers="h:1", **mode)
    others: dict[str, Any] = {"auto_offset_reset": "earliest"}
    with pytest.raises(ConfigError, match=r"group, share\.auto\.offset\.reset"):
        ShareConsumer("t", group="g", bootstrap_servers="h:1", **others)


def test_a_group_of_another_kind_is_refused(queues: Queues) -> None:
    from moldau.client import Consumer

    async def program(runtime: Runtime) -> None:
        await queues.prepare(runtime, 1)
        servers = queues.cluster.bootstrap_servers
        async with Consumer(
            runtime=runtime, bootstrap_servers=servers, group_id=GROUP, group_protocol="consumer"
        ) as consumer:
            await consumer.subscribe(["orders"])
            await consumer.poll(5.0)
            async with queues.consumer(runtime) as queue:
                with pytest.raises(KafkaError, match="another type"):
                    await queue.poll(30.0)

    queues.run(program)


def test_its_own_settings_are_not_said_to_have_no_effect(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(runtime: Runtime) -> None:
        modes = {"share_acquire_mode": "batch_optimized", "share_acknowledgement_mode": "explicit"}
        async with queues.consumer(runtime, **modes):
            pass

    queues.run(program)
    assert "no effect" not in caplog.text


def test_a_file_with_a_setting_of_the_group_is_warned_of(
    queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(runtime: Runtime) -> None:
        servers = queues.cluster.bootstrap_servers
        settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        async with ShareConsumer("orders", settings, group=GROUP, runtime=runtime):
            pass

    queues.run(program)
    assert "share.auto.offset.reset" in caplog.text
