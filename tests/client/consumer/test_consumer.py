"""The consumer among scripted brokers that fail: every record once and in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Consumer
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction, FetchRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.versions import Versions
from moldau.records import Producer, encode_batch
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import ClientWorld


async def _from_the_beginning(runtime: Runtime, count: int, **options: Any) -> dict[int, list[int]]:
    async with consumer(runtime, **options) as reader:
        reader.assign(await reader.partitions("t"))
        await reader.seek_to_beginning()
        return await read_all(reader, count)


def test_all_records_of_all_partitions_come_once_and_in_order() -> None:
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2, 1]):
            fill(log, 300)
        found = world.run_client(lambda runtime: _from_the_beginning(runtime, 900))
        assert found == {index: list(range(300)) for index in range(3)}


@pytest.mark.parametrize("seed", range(6))
def test_faults_change_nothing(seed: int) -> None:
    with ClientWorld(seed) as world:
        for log in world.cluster.add_topic("t", [1, 2]):
            fill(log, 3000)
        random = world.random("faults")

        def fail() -> None:
            chosen = random.randrange(4)
            if chosen == 0:
                world.cluster.lose_answers.add(FetchRequest)
            elif chosen == 1:
                world.network.reset("client1", random.choice(["b1", "b2"]))
            elif chosen == 2:
                world.cluster.move("t", random.randrange(2), random.choice([1, 2]))
            else:
                world.cluster.refuse[FetchRequest].append(ErrorCode.UNKNOWN_LEADER_EPOCH)
            if world.now < 4:
                world.after(random.uniform(0.02, 0.2), fail)

        world.after(0.1, fail)
        world.cluster.delay_s = 0.02
        found = world.run_client(
            lambda runtime: _from_the_beginning(runtime, 6000, max_partition_fetch_bytes=900)
        )
        assert found == {0: list(range(3000)), 1: list(range(3000))}


def test_a_half_open_connection_is_left_after_the_request_timeout() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, request_timeout_ms=2000) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            first = await read_all(reader, 10)
            world.network.sever("client1", "b1")
            fill(log, 10)
            second = await read_all(reader, 10)
            return {0: first[0] + second[0]}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        assert world.run_client(main) == {0: list(range(20))}
        assert world.now > 2


def test_places_to_begin() -> None:
    async def main(runtime: Runtime) -> list[int]:
        firsts = []
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            for seek in (reader.seek_to_beginning(), reader.seek_to_time(73), _seek(reader, 42)):
                await seek
                part = (await reader.poll(5.0, max_records=1))[0]
                firsts.append(part.records[0].offset)
                assert reader.position(("t", 0)) == part.records[0].offset + 1
            await reader.seek_to_time(10**9)
            assert reader.position(("t", 0)) == 100
            await reader.seek_to_end()
            assert await reader.poll(0.6) == []
            fill(log, 10)
            firsts.append((await reader.poll(5.0))[0].records[0].offset)
        return firsts

    async def _seek(reader: Consumer, offset: int) -> None:
        reader.seek(("t", 0), offset)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        log.start = 5
        assert world.run_client(main) == [5, 73, 42, 100]


@pytest.mark.parametrize(("reset", "first"), [("earliest", 50), ("latest", 100)])
def test_a_position_that_is_gone_goes_where_the_setting_says(reset: str, first: int) -> None:
    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, auto_offset_reset=reset) as reader:
            reader.assign([("t", 0)])
            reader.seek(("t", 0), 10)
            await reader.poll(1.0)
            fill(log, 10)
            position = reader.position(("t", 0))
            assert position is not None
            return min(position, first)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        log.start = 50
        del log.batches[:5]
        assert world.run_client(main) == first


def test_without_a_reset_the_position_is_the_users_business() -> None:
    async def main(runtime: Runtime) -> list[KafkaError]:
        errors = []
        async with consumer(runtime, auto_offset_reset="none") as reader:
            reader.assign([("t", 0)])
            for offset in (None, 10):
                if offset is not None:
                    reader.seek(("t", 0), offset)
                with pytest.raises(KafkaError) as caught:
                    await reader.poll(1.0)
                errors.append(caught.value)
            reader.seek(("t", 0), 50)
            assert await read_all(reader, 50) == {0: list(range(50, 100))}
        return errors

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        log.start = 50
        unknown, gone = world.run_client(main)
        assert "seek first" in unknown.reason
        assert gone.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (gone.context["topic"], gone.context["partition"], gone.context["offset"]) == (
            "t",
            0,
            10,
        )


def test_damaged_records_are_told_and_can_be_stepped_over() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            before = await read_all(reader, 10)
            with pytest.raises(CorruptRecord, match="seek past it") as caught:
                await reader.poll(5.0)
            assert caught.value.context["position"] == 10
            reader.seek(("t", 0), 20)
            after = await read_all(reader, 10)
            return {0: before[0] + after[0]}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        log.batches[1][-1] ^= 1
        assert world.run_client(main) == {0: [*range(10), *range(20, 30)]}


def test_read_committed_hides_what_was_aborted() -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime, isolation_level="read_committed") as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            parts = await reader.poll(5.0)
            return [record.offset for part in parts for record in part.records]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        for producer_id in (1, 2):
            rows = [(0, None, b"v", ())] * 2
            log.put(encode_batch(rows, producer=Producer(producer_id, 0, 0, True)))
        log.aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
        assert world.run_client(main) == [2, 3]


def test_a_paused_partition_gives_nothing_and_keeps_what_it_has() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            reader.pause([("t", 0)])
            assert await read_all(reader, 10) == {1: list(range(10))}
            assert await reader.poll(1.0) == []
            reader.resume()
            assert await read_all(reader, 10) == {0: list(range(10))}

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 10)
        world.run_client(main)


def test_a_consumer_that_is_not_read_has_a_bounded_memory() -> None:
    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, max_partition_fetch_bytes=2000) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await asyncio.sleep(10)
            return sum(each.buffered_bytes for each in reader._core.positions.values())

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10_000)
        assert 2000 <= world.run_client(main) <= 4000


def test_a_partition_is_read_to_its_end_while_others_have_nothing_new() -> None:
    async def main(runtime: Runtime) -> float:
        async with consumer(runtime, max_partition_fetch_bytes=2000) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            begun = runtime.clock.monotonic()
            for _ in range(100):
                await asyncio.sleep(0.01)  # work on what came, while more is fetched ahead
                await read_all(reader, 50, most=50)
            took = runtime.clock.monotonic() - begun
            # Nor does it ask again and again while it is not read.
            fill(log, 1_000)
            await reader.poll(5.0, max_records=1)
            await asyncio.sleep(5)
            return took

    with ClientWorld() as world:
        log, _ = world.cluster.add_topic("t", [1, 1])
        fill(log, 5_000)
        assert world.run_client(main) < 3.0
        fetches = [each for _, each in world.cluster.requests if isinstance(each, FetchRequest)]
        assert len(fetches) < 400


def test_partitions_take_turns() -> None:
    async def main(runtime: Runtime) -> list[int]:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            await asyncio.sleep(1)
            return [(await reader.poll(1.0, max_records=10))[0].partition for _ in range(4)]

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 100)
        assert world.run_client(main) == [0, 1, 0, 1]


def test_old_brokers_are_asked_by_name() -> None:
    with ClientWorld() as world:
        world.cluster.served[1] = Versions(4, 11)
        (log,) = world.cluster.add_topic("t", [1], has_id=False)
        fill(log, 50)
        found = world.run_client(lambda runtime: _from_the_beginning(runtime, 50))
        assert found == {0: list(range(50))}
        assert {version for key, version in world.cluster.versions if key == 1} == {11}


def test_an_idle_consumer_waits_at_the_broker_and_not_in_a_loop() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_end()
            assert await reader.poll(20.0) == []

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
        fetches = [each for _, each in world.cluster.requests if isinstance(each, FetchRequest)]
        assert 35 <= len(fetches) <= 42
        asked = [each for _, each in world.cluster.requests if isinstance(each, MetadataRequest)]
        assert len(asked) <= 3


def test_a_partition_that_there_is_not_is_told() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(runtime, auto_offset_reset="earliest") as reader:
            reader.assign([("t", 5)])
            with pytest.raises(KafkaError) as caught:
                await reader.poll(30.0)
            with pytest.raises(KafkaError, match="not assigned"):
                reader.seek(("t", 0), 1)
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert error.context["partition"] == 5


def test_what_was_sought_away_from_does_not_come_any_more() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            reader.seek(("t", 0), 0)
            await asyncio.sleep(0.005)  # the fetch is under way
            reader.seek(("t", 0), 90)
            return await read_all(reader, 10)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 100)
        world.cluster.delay_s = 0.02
        assert world.run_client(main) == {0: list(range(90, 100))}


def test_without_a_reset_a_log_that_has_diverged_is_not_read_until_somebody_seeks() -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, metadata_max_age_ms=200, auto_offset_reset="none") as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await read_all(reader, 30)
            log.truncate(20)
            world.cluster.move("t", 0, 2)
            fill(log, 30)
            for _ in range(3):
                with pytest.raises(KafkaError, match="seek to go on") as caught:
                    await reader.poll(5.0)
                told = caught.value.context
                assert (told["offset"], told["log_ends"]) == (30, 20)
                assert reader.position(("t", 0)) == 30
            reader.seek(("t", 0), 20)
            return await read_all(reader, 30)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        assert world.run_client(main) == {0: list(range(20, 50))}


def test_records_that_an_unclean_election_took_back_are_noticed() -> None:
    """The new log is as long as the old one was: only its epochs tell that it is another one."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, metadata_max_age_ms=200) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            before = await read_all(reader, 30)
            log.truncate(20)
            world.cluster.move("t", 0, 2)
            fill(log, 10)
            after = await read_all(reader, 10)
            return {0: before[0], 1: after[0]}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 30)
        assert world.run_client(main) == {0: list(range(30)), 1: list(range(20, 30))}


def test_a_partition_between_two_leaders_is_read_on_as_soon_as_the_next_one_leads() -> None:
    """As when a broker stops: it gives its partitions up, and they have a new epoch meanwhile."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await read_all(reader, 10)
            world.cluster.move("t", 0, -1)
            assert await reader.poll(3.0) == []
            world.cluster.move("t", 0, 2)
            fill(log, 10)
            return await read_all(reader, 10, within_s=5.0)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        assert world.run_client(main) == {0: list(range(10, 20))}


def test_a_fetch_that_says_nothing_new_names_no_partition() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0), ("t", 1)])
            await reader.seek_to_beginning()
            await read_all(reader, 40)
            assert await reader.poll(3.0) == []

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 1]):
            fill(log, 20)
        world.run_client(main)
        told = [each for _, each in world.cluster.requests if isinstance(each, FetchRequest)]
        assert (told[0].session_epoch, len(told[0].topics)) == (0, 1)
        assert [each.session_epoch for each in told] == list(range(len(told)))
        assert [each.topics for each in told[-3:]] == [[], [], []]


def test_a_duration_begins_with_the_first_record_that_is_young_enough() -> None:
    async def main(runtime: Runtime) -> int:
        now = runtime.clock.wall_ms()
        log.put(encode_batch([(now - age, None, b"v", ()) for age in (90_000, 50_000, 10_000)]))
        async with consumer(runtime, auto_offset_reset="by_duration:PT1M") as reader:
            reader.assign([("t", 0)])
            return (await reader.poll(5.0))[0].records[0].offset

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1
