"""The producer among scripted brokers that fail: nothing is lost, doubled or reordered."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from moldau.client import ClientClosed, Producer, Sent
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.versions import Versions
from moldau.records import open_batch, partition_for_key
from moldau.runtime import Runtime
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


async def _send_numbers(runtime: Runtime, count: int, **options: Any) -> list[Sent]:
    async with producer(runtime, **options) as sender:
        deliveries = []
        for number in range(count):
            deliveries.append(await sender.send("t", b"%d" % number, partition=number % 2))
            if number % 10 == 0:
                await asyncio.sleep(0.01)
        return [await each for each in deliveries]


def _numbers(count: int, partition: int) -> list[bytes]:
    return [b"%d" % number for number in range(count) if number % 2 == partition]


def test_records_arrive_once_in_order_with_their_offsets() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        sent = world.run_client(lambda runtime: _send_numbers(runtime, 100))
        for partition, log in enumerate(logs):
            assert log.values() == _numbers(100, partition)
        offsets = defaultdict(list)
        for each in sent:
            offsets[each.partition].append(each.offset)
        assert offsets == {0: list(range(50)), 1: list(range(50))}


def test_send_and_wait_returns_where_the_record_is() -> None:
    async def main(runtime: Runtime) -> list[Sent]:
        async with producer(runtime) as sender:
            first = await sender.send_and_wait("t", b"0", partition=1, timestamp_ms=7)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await sender.send_and_wait("t", b"1", partition=5)
            return [first, await sender.send_and_wait("t", b"2", key=b"k", partition=1)]

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        first, second = world.run_client(main)
        assert first == Sent("t", 1, 0, 7)
        assert second[:3] == ("t", 1, 1)
        assert logs[1].values() == [b"0", b"2"]


@pytest.mark.parametrize("seed", range(8))
def test_lost_answers_resets_and_moving_leaders_change_nothing(seed: int) -> None:
    with ClientWorld(seed) as world:
        logs = world.cluster.add_topic("t", [1, 2])
        random = world.random("faults")

        def fail() -> None:
            chosen = random.randrange(4)
            if chosen == 0:
                world.cluster.lose_answers.add(ProduceRequest)
            elif chosen == 1:
                world.network.reset("client1", random.choice(["b1", "b2"]))
            elif chosen == 2:
                world.cluster.move("t", random.randrange(2), random.choice([1, 2]))
            else:
                world.cluster.refuse[ProduceRequest].append(ErrorCode.NOT_ENOUGH_REPLICAS)
            if world.now < 5:
                world.after(random.uniform(0.05, 0.3), fail)

        world.after(0.2, fail)
        world.cluster.delay_s = 0.02
        world.run_client(lambda runtime: _send_numbers(runtime, 2000, linger_ms=2, batch_size=300))
        for partition, log in enumerate(logs):
            assert log.values() == _numbers(2000, partition)


def test_a_half_open_connection_delays_but_loses_nothing() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        world.after(0.05, world.network.sever, "client1", "b1")
        world.run_client(lambda runtime: _send_numbers(runtime, 200, request_timeout_ms=2000))
        assert world.now > 2
        assert logs[0].values() == _numbers(200, 0)


def test_a_broker_that_is_down_for_a_while_gets_its_records_later() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        world.after(0.05, world.nodes["b1"].crash)
        world.after(20, world.nodes["b1"].start)
        world.run_client(lambda runtime: _send_numbers(runtime, 200))
        assert logs[0].values() == _numbers(200, 0)


def test_keys_go_where_java_sends_them_and_others_stick() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, batch_size=100) as sender:
            for number in range(50):
                await sender.send("t", b"keyed", key=b"key-%d" % number)
            for _ in range(200):
                await sender.send("t", b"free")

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2, 1, 2])
        world.run_client(main)
        assert {b"free" in log.values() for log in logs} == {True}
        keyed = {
            record.key: partition
            for partition, log in enumerate(logs)
            for data in log.batches
            for record in open_batch(data).records()
            if record.key is not None
        }
        assert keyed == {
            key: partition_for_key(key, 4) for key in (b"key-%d" % number for number in range(50))
        }


def test_many_records_at_once_keep_order_and_tell_their_ranges() -> None:
    async def main(runtime: Runtime) -> int:
        values = [b"%d" % number for number in range(5000)]
        async with producer(runtime, batch_size=1000, buffer_memory=4000) as sender:
            ranges = await (await sender.send_many("t", values, partition=1))
            keyed = await sender.send_many("t", values[:100], keys=values[:100])
            assert keyed.count == 100
            await keyed
            assert [each.base_offset for each in ranges] == sorted(
                each.base_offset for each in ranges
            )
            return sum(each.records for each in ranges)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        assert world.run_client(main) == 5000
        assert logs[1].values()[:5000] == [b"%d" % number for number in range(5000)]
        assert logs[0].end + logs[1].end == 5100


def test_old_brokers_get_names_and_old_versions() -> None:
    with ClientWorld() as world:
        world.cluster.served[0] = Versions(3, 7)
        logs = world.cluster.add_topic("t", [1, 2], has_id=False)
        world.run_client(lambda runtime: _send_numbers(runtime, 20))
        assert logs[0].values() == _numbers(20, 0)
        assert {version for key, version in world.cluster.versions if key == 0} == {7}


def test_acks_0_waits_for_nothing() -> None:
    async def main(runtime: Runtime) -> Sent:
        async with producer(runtime, acks=0) as sender:
            return await (await sender.send("t", b"v", partition=0))

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1])
        assert world.run_client(main).offset == -1
        world.run_for(1)
        assert logs[0].values() == [b"v"]
        assert not any(
            isinstance(each, InitProducerIdRequest) for _, each in world.cluster.requests
        )


def test_acks_0_sends_all_there_is_and_no_batch_that_a_topic_may_refuse() -> None:
    """Nobody is told of a refusal, and no answer says that more may be sent."""

    async def main(runtime: Runtime) -> int:
        async with producer(runtime, acks=0, max_request_size=100_000) as sender:
            await sender.send_many("t", [b"x" * 1000] * 2000, partition=0)
            await sender.flush(30.0)
            return sender._accumulator.buffer.used_bytes

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 0
        world.run_for(1)
        assert len(logs[0].values()) == 2000
        assert max(len(batch) for batch in logs[0].batches) < 20_000


def test_a_failure_that_nobody_awaits_is_raised_by_flush() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        sender = producer(runtime)
        await sender.start()
        await sender.send("t", b"v", partition=0)
        with pytest.raises(KafkaError) as caught:
            await sender.flush()
        await sender.send("t", b"w", partition=0)
        await sender.flush()
        await sender.aclose()
        return caught.value

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = world.run_client(main)
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        where = {"topic": "t", "partition": 0, "api": "Produce"}
        assert error.context == {**where, "records": 1, "failed_records": 1}
        assert logs[0].values() == [b"w"]


def test_a_flush_hears_of_what_failed_because_nobody_could_tell_any_more() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"v", partition=0))
            world.cluster.refuse[ProduceRequest] += [
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ]
            await sender.send_many("t", [bytes(10_000)] * 2, partition=0)
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert error.context["failed_records"] == 2


def test_what_cannot_be_delivered_fails_in_time_with_the_reason() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        async with producer(runtime, delivery_timeout_ms=8000, request_timeout_ms=2000) as sender:
            start = runtime.clock.monotonic()
            delivery = await sender.send("t", b"v", partition=0)
            with pytest.raises(KafkaError) as caught:
                await delivery
            return caught.value, runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        error, seconds = world.run_client(main)
        assert "delivery.timeout.ms" in error.reason
        assert 8.0 <= seconds < 8.5


def test_an_advertised_address_that_leads_nowhere_is_named() -> None:
    """What happens to everybody once: the bootstrap server answers, its advertised address not."""

    async def main(runtime: Runtime) -> KafkaError:
        sender = Producer(
            runtime=runtime,
            bootstrap_servers="b1:9092",
            delivery_timeout_ms=8000,
            request_timeout_ms=2000,
            enable_idempotence=False,
        )
        async with sender:
            delivery = await sender.send("t", b"v", partition=0)
            with pytest.raises(KafkaError) as caught:
                await delivery
            return caught.value

    with ClientWorld() as world:
        world.cluster.names = {1: "b1", 7: "elsewhere"}
        world.cluster.add_topic("t", [7])
        assert "elsewhere:9092" in str(world.run_client(main).context["last_error"])


def test_an_unknown_topic_or_partition_is_told_where_it_is_sent() -> None:
    async def main(runtime: Runtime) -> list[KafkaError]:
        errors = []
        async with producer(runtime, max_block_ms=1000) as sender:
            for topic, partition in (("nope", None), ("t", 7)):
                with pytest.raises(KafkaError) as caught:
                    await sender.send(topic, b"v", partition=partition)
                errors.append(caught.value)
        return errors

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        unknown, beyond = world.run_client(main)
        assert (unknown.code, unknown.context["topic"]) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "nope",
        )
        assert unknown.context["setting"] == "max.block.ms"
        assert (beyond.context["partition"], beyond.context["partitions"]) == (7, 1)


def test_a_name_that_no_topic_may_have_is_refused_at_once_and_no_wait_is_blamed() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            begun = runtime.clock.monotonic()
            with pytest.raises(KafkaError) as caught:
                await sender.send("bad topic!", b"v")
            assert runtime.clock.monotonic() - begun < 1
            return caught.value

    with ClientWorld() as world:
        world.cluster.refused_topics["bad topic!"] = ErrorCode.INVALID_TOPIC_EXCEPTION
        error = world.run_client(main)
        assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert error.context == {"topic": "bad topic!"}


def test_who_waits_for_a_topic_when_the_producer_is_closed_hears_that_for_good() -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime)
        await sender.start()
        task = asyncio.ensure_future(sender.send("nope", b"v"))
        await asyncio.sleep(1)
        await sender.aclose(abort=True)
        with pytest.raises(ClientClosed):
            await task

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("is_many", [False, True])
def test_full_memory_makes_senders_wait_and_then_fail_with_the_setting(is_many: bool) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        sender = producer(runtime, buffer_memory=1000, batch_size=200, max_block_ms=3000)
        await sender.start()
        with pytest.raises(KafkaError, match=r"max\.block\.ms") as caught:
            await sender.send_many("t", [b"x" * 100] * 100, partition=0)
        if not is_many:
            with pytest.raises(KafkaError, match=r"max\.block\.ms") as caught:
                await sender.send("t", b"x" * 100, partition=0)
        await sender.aclose(abort=True)
        return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        facts = world.run_client(main).context
        assert (facts["topic"], facts["partition"], facts["setting"]) == ("t", 0, "buffer.memory")
        assert facts["buffer_memory"] == 1000


def test_no_bootstrap_server_is_told_with_all_that_was_tried() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        with pytest.raises(KafkaError) as caught:
            await Producer(runtime=runtime, bootstrap_servers="b1:1,nowhere:9092").start()
        return caught.value

    with ClientWorld() as world:
        error = world.run_client(main)
        assert error.code is ErrorCode.BROKER_NOT_AVAILABLE
        tried = error.context["tried"]
        assert isinstance(tried, dict)
        assert set(tried) == {"b1:1", "nowhere:9092"}


def test_closing_without_flush_fails_what_is_left() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        sender = producer(runtime)
        await sender.start()
        delivery = await sender.send("t", b"v", partition=0)
        await sender.aclose(abort=True)
        with pytest.raises(KafkaError) as caught:
            await delivery
        with pytest.raises(KafkaError, match="closed"):
            await sender.send("t", b"v")
        await sender.aclose()
        return caught.value

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1])
        assert "closed" in world.run_client(main).reason
        assert logs[0].values() == []


def test_a_deleted_topic_that_came_back_is_written_under_its_new_id() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"old", partition=0))
            recreate()
            await (await sender.send("t", b"new", partition=0))

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])

        def recreate() -> None:
            world.cluster.add_topic("other", [1])
            world.cluster.add_topic("t", [1])

        world.run_client(main)
        assert world.cluster.topics["t"][0].values() == [b"new"]


def test_metadata_is_not_asked_for_in_a_tight_loop_while_a_leader_is_missing() -> None:
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [-1, 2])
        world.after(10, world.cluster.move, "t", 0, 1)
        world.run_client(lambda runtime: _send_numbers(runtime, 10))
        assert logs[0].values() == _numbers(10, 0)
        asked = [each for _, each in world.cluster.requests if isinstance(each, MetadataRequest)]
        assert len(asked) < 40


def test_a_batch_that_is_begun_while_another_is_under_way_waits_no_longer_than_its_linger() -> None:
    async def main(runtime: Runtime) -> float:
        async with producer(runtime, linger_ms=50) as sender:
            await (await sender.send("t", b"0", partition=0))
            world.cluster.silence.add(ProduceRequest)
            await sender.send("t", b"1", partition=0)
            await asyncio.sleep(1)
            world.cluster.silence.clear()
            start = runtime.clock.monotonic()
            await (await sender.send("t", b"2", partition=1))
            took_s = runtime.clock.monotonic() - start
            await sender.aclose(abort=True)
            return took_s

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        assert 0.045 <= world.run_client(main) < 0.1


@pytest.mark.parametrize(("linger_ms", "ms_min"), [(1, 0.5), (2, 1), (5, 3.2), (50, 48.2)])
def test_a_record_waits_for_others_but_not_until_its_linger_is_over(
    linger_ms: int, ms_min: float
) -> None:
    """The timers of a real loop end up to a millisecond late; simulated ones do not."""
    there_and_back_ms = 0.4

    async def main(runtime: Runtime) -> float:
        async with producer(runtime, linger_ms=linger_ms) as sender:
            await (await sender.send("t", b"0"))
            start = runtime.clock.monotonic()
            await (await sender.send("t", b"1"))
            return (runtime.clock.monotonic() - start) * 1000

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        took_ms = world.run_client(main)
        assert ms_min + there_and_back_ms <= took_ms < ms_min + there_and_back_ms + 0.5


def test_only_what_was_sent_before_a_flush_goes_before_its_linger() -> None:
    async def main(runtime: Runtime) -> float:
        async with producer(runtime, linger_ms=3000, batch_size=200) as sender:
            await sender.send("t", b"0", partition=0)
            start = runtime.clock.monotonic()
            await asyncio.gather(sender.flush(), sender.flush())
            assert runtime.clock.monotonic() - start < 1
            delivery = await sender.send("t", b"1", partition=0)
            for _ in range(3):  # full batches, which go at once
                await sender.send("t", bytes(100), partition=1)
            await delivery
            return runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 1])
        assert world.run_client(main) >= 2.99


def test_a_record_that_is_too_large_is_refused_with_the_setting() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, max_request_size=1000) as sender:
            await sender.send("t", bytes(500), partition=0)
            with pytest.raises(KafkaError, match=r"max\.request\.size") as caught:
                await sender.send("t", bytes(1001), partition=0)
            await sender.send("t", b"after", partition=0)
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert error.code is ErrorCode.MESSAGE_TOO_LARGE
        assert (error.context["topic"], error.context["partition"]) == ("t", 0)
        assert error.context["setting"] == "max.request.size"
        assert error.context["max_request_size"] == 1000
        assert log.values() == [bytes(500), b"after"]


def test_retries_are_counted_if_the_settings_say_so() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, retries=2) as sender:
            with pytest.raises(KafkaError) as caught:
                await (await sender.send("t", b"v", partition=0))
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest] += [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
        assert world.run_client(main).code is ErrorCode.NOT_ENOUGH_REPLICAS
        asked = [each for _, each in world.cluster.requests if isinstance(each, ProduceRequest)]
        assert len(asked) == 3
        assert log.values() == []


def test_partitions_that_were_added_lately_can_be_written_to() -> None:
    async def main(runtime: Runtime) -> list[str]:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"old", partition=0))
            assert [str(each) for each in await sender.partitions("t")] == ["t-0"]
            world.cluster.topics["t"].append(Log(leader=2))
            await (await sender.send("t", b"new", partition=1))
            world.cluster.topics["t"].append(Log(leader=1))
            await (await sender.send_many("t", [b"a", b"b"], partition=[2, 0]))
            return [str(each) for each in await sender.partitions("t")]

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == ["t-0", "t-1", "t-2"]
        assert [log.values() for log in world.cluster.topics["t"]] == [
            [b"old", b"b"],
            [b"new"],
            [b"a"],
        ]


def test_topics_that_are_not_written_to_are_asked_about_no_more() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime, metadata_max_idle_ms=10_000, metadata_max_age_ms=4_000
        ) as sender:
            for number in range(30):
                await sender.send("busy", b"%d" % number, partition=0)
                if number in (0, 29):
                    await sender.send("idle", b"%d" % number, partition=0)
                await asyncio.sleep(1)

    with ClientWorld() as world:
        world.cluster.add_topic("busy", [1])
        (idle,) = world.cluster.add_topic("idle", [2])
        world.run_client(main)
        assert idle.values() == [b"0", b"29"]
        asked = [
            {topic.name for topic in each.topics or ()}
            for _, each in world.cluster.requests
            if isinstance(each, MetadataRequest)
        ]
        both = asked.index({"busy", "idle"})
        assert {"busy"} in asked[both:], "the other one was forgotten"
        assert asked[-1] == {"busy", "idle"}, "and found again"


def test_a_topic_that_is_written_to_for_long_stays_known() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, metadata_max_age_ms=60_000) as sender:
            for number in range(10):
                await sender.send("busy", b"%d" % number)
                await asyncio.sleep(70)

    with ClientWorld() as world:
        world.cluster.add_topic("busy", [1])
        world.run_client(main, within=1_000)
        asked = [
            [topic.name for topic in each.topics or ()]
            for _, each in world.cluster.requests
            if isinstance(each, MetadataRequest)
        ]
        first = asked.index(["busy"])
        assert len(asked[first:]) >= 10
        assert all(each == ["busy"] for each in asked[first:])


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_topic_that_was_never_found_is_asked_about_no_more_either(is_cancelled: bool) -> None:
    """Each such question could make it, whoever deletes it."""

    async def main(runtime: Runtime) -> int:
        async with producer(
            runtime, metadata_max_idle_ms=10_000, metadata_max_age_ms=4_000, max_block_ms=2_000
        ) as sender:
            await sender.send("busy", b"1", partition=0)
            if is_cancelled:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(sender.send("nowhere", b"v"), 1.0)
            else:
                with pytest.raises(KafkaError):
                    await sender.send("nowhere", b"v")
            await asyncio.sleep(5)
            asked_at_first = len(asked("nowhere"))
            await asyncio.sleep(25)
            await sender.send("busy", b"2", partition=0)
            forgotten = len(asked("nowhere"))
            await asyncio.sleep(60)
            assert len(asked("nowhere")) == forgotten
            world.cluster.add_topic("nowhere", [1])
            await (await sender.send("nowhere", b"v"))
            return asked_at_first

    def asked(name: str) -> list[MetadataRequest]:
        return [
            each
            for _, each in world.cluster.requests
            if isinstance(each, MetadataRequest) and name in {it.name for it in each.topics or ()}
        ]

    with ClientWorld() as world:
        world.cluster.add_topic("busy", [1])
        assert world.run_client(main) > 0
        assert world.cluster.topics["nowhere"][0].values() == [b"v"]


def test_troubles_tell_what_records_wait_for() -> None:
    async def main(runtime: Runtime) -> list[dict[str, Any]]:
        told = []

        def note() -> None:
            told.append({str(where): error.code for where, error in sender.troubles().items()})

        async with producer(runtime) as sender:
            note()
            world.cluster.refuse[ProduceRequest] += [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
            delivery = await sender.send("t", b"v", partition=0)
            leaderless = await sender.send("t", b"v", partition=2)
            await asyncio.sleep(0.3)
            note()
            world.nodes["b2"].crash()
            unreachable = await sender.send("t", b"v", partition=1)
            await delivery
            world.nodes["b1"].crash()
            await asyncio.sleep(0.5)
            note()
            for node in ("b1", "b2"):
                world.nodes[node].start()
            world.cluster.move("t", 2, 1)
            await unreachable
            await leaderless
            note()
        return told

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2, -1])
        first, refused, gone, last = world.run_client(main)
    assert first == last == {}
    assert refused == {
        "t-0": ErrorCode.NOT_ENOUGH_REPLICAS,
        "t-2": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    assert set(gone) == {"t-1", "t-2"}


def test_many_tasks_that_send_at_once_keep_the_order_of_each() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, batch_size=500, buffer_memory=2000) as sender:

            async def one(task: int) -> None:
                for number in range(200):
                    await sender.send("t", b"%d %d" % (task, number), key=b"%d" % task)

            await asyncio.gather(*(one(task) for task in range(8)))

    with ClientWorld() as world:
        world.cluster.delay_s = 0.01
        logs = world.cluster.add_topic("t", [1, 2])
        world.run_client(main)
        by_task: dict[bytes, list[int]] = defaultdict(list)
        for log in logs:
            for value in log.values():
                task, number = (value or b"").split()
                by_task[task].append(int(number))
        assert by_task == {b"%d" % task: list(range(200)) for task in range(8)}


def test_who_sends_without_a_pause_lets_the_loop_have_its_turn() -> None:
    """Else nothing would leave before memory is full."""

    async def main(runtime: Runtime) -> list[float]:
        async with producer(runtime, linger_ms=1000) as sender:
            await (await sender.send("t", b"v", partition=0))
            under_way = []
            for way in ("send", "send_many"):
                if way == "send":
                    for _ in range(6000):
                        await sender.send("t", bytes(100))
                else:
                    await sender.send_many("t", [bytes(100)] * 6000)
                under_way.append(sender.metrics()["producer-metrics"]["requests-in-flight"])
                await sender.flush()
            return under_way

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        assert min(world.run_client(main)) > 0


def test_records_have_the_time_at_which_they_were_sent() -> None:
    async def main(runtime: Runtime) -> list[int]:
        sent_at = []
        async with producer(runtime, linger_ms=500) as sender:
            for pause_s in (0, 0.1, 0.2, 3600):
                await asyncio.sleep(pause_s)
                sent_at.append(runtime.clock.wall_ms())
                await sender.send("t", b"v", key=b"same")
            await sender.send("t", b"v", key=b"same", timestamp_ms=77)
        return [*sent_at, 77]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        expected = world.run_client(main, within=4000)
        found = [each.timestamp for data in log.batches for each in open_batch(data).records()]
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert abs(one - other) <= 1


def test_an_unstarted_producer_can_be_closed() -> None:
    asyncio.run(Producer(bootstrap_servers="a:1").aclose())
