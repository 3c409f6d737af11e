"""`moldau consume` beside partitions that nobody leads: it reads the others, and goes on with these
when they have a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.cli.commands.consume import ConsumeReader
from moldau.cli.commands.consume_place import BEGINNING, OffsetOrTime, Stretch
from moldau.cli.commands.consume_reading import LeaderlessPartitions, PartitionsReader
from moldau.cli.shell import unless
from moldau.client import Consumer, PartitionRecords, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Clock, Runtime
from tests.cli.topic_reading import GROUPED, read_to_the_end, reading
from tests.client.consumer.numbered_records import consumer, fill, offsets
from tests.client.scripted import Log
from tests.client.world import ClientWorld

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LEFT_OUT = "t-1 has no leader: it is left out until it has one"
IS_LED = "t-1 has a leader now"
GONE = 9  # none of the brokers that can be reached
READS = "group g reads now t-0, t-1"
PLACES = pytest.mark.parametrize(
    ("place", "first"),
    [
        (BEGINNING, 0),
        (OffsetOrTime(is_end=True), 10),
        (OffsetOrTime(offset=3), 3),
        (OffsetOrTime(offset=30), 10),
        (OffsetOrTime(timestamp_ms=4), 4),
    ],
)


def half_led(world: ClientWorld) -> Log:
    """A topic of ten records in each partition. Nobody leads the second, which is returned."""
    logs = world.cluster.add_topic("t", [1, 2])
    for each in logs:
        fill(each, 10)
    world.cluster.move("t", 1, -1)
    return logs[1]


async def read_until_whole(reader: ConsumeReader, most: int = 1000) -> list[PartitionRecords]:
    parts: list[PartitionRecords] = []
    while not reader.is_whole:
        parts += await reader.next(most)
    return parts


def without_membership(notes: Iterable[str]) -> list[str]:
    """The notes that are about leaders."""
    return [each for each in notes if each != READS and not each.endswith("is beyond it")]


@GROUPED
@PLACES
def test_the_others_are_read_at_once(place: OffsetOrTime, first: int, *, is_group: bool) -> None:
    async def main(runtime: Runtime) -> None:
        begun = runtime.clock.monotonic()
        async with reading(runtime, place, is_group=is_group) as reader:
            await reader.begin(["t"])
            found = await read_to_the_end(reader)
            assert found == ({0: list(range(first, 10))} if first < 10 else {})
            assert runtime.clock.monotonic() - begun < 5
            assert without_membership(reader.notes) == [LEFT_OUT]
            assert not reader.is_whole

    with ClientWorld() as world:
        half_led(world)
        world.run_client(main)
        assert ("t", 1) not in world.cluster.groups.offsets.get("g", {})


@GROUPED
@PLACES
def test_what_gets_a_leader_is_read_from_its_place(
    place: OffsetOrTime, first: int, *, is_group: bool
) -> None:
    async def main(runtime: Runtime) -> None:
        clock = runtime.clock
        async with reading(runtime, place, is_group=is_group, follow=True) as reader:
            await reader.begin(["t"])
            while clock.monotonic() < 8:
                assert 1 not in offsets(await reader.next(1000))
            assert not reader.is_whole
            healed = clock.monotonic()
            in_the_midst_of_a_poll = 0.3
            asyncio.get_running_loop().call_later(
                in_the_midst_of_a_poll, world.cluster.move, "t", 1, 2
            )
            parts = await read_until_whole(reader)
            assert clock.monotonic() - healed < 5
            fill(log, 10)
            while not parts or parts[-1].next_offset < 20:
                parts += await reader.next(1000)
            assert offsets(parts) == {1: list(range(first, 20))}
            told = without_membership(reader.notes)
            beyond = [] if is_group else [each for each in told if "the log ends at 10" in each]
            assert [each for each in told if each not in beyond] == [LEFT_OUT, IS_LED]
            await reader.finish()

    with ClientWorld() as world:
        log = half_led(world)
        world.run_client(main)
        stored = world.cluster.groups.offsets.get("g", {})
        assert stored.get(("t", 1)) == (20 if is_group else None)


def test_nothing_is_read_before_its_place_is_known() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, auto_offset_reset="earliest") as client:
            place = OffsetOrTime(is_end=True)
            reader = PartitionsReader(
                client, runtime.clock, Stretch(place), partitions=None, follow=True
            )
            await reader.begin(["t"])
            assert (client.assignment, client.paused) == ([A, B], [B])

    with ClientWorld() as world:
        half_led(world)
        world.run_client(main)


@GROUPED
def test_what_gets_a_leader_in_time_is_read_to_its_end(*, is_group: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with reading(runtime, is_group=is_group) as reader:
            await reader.begin(["t"])
            world.cluster.move("t", 1, 2)
            parts = await read_until_whole(reader, 1)
            late = [*offsets(parts).get(1, []), *(await read_to_the_end(reader)).get(1, [])]
            assert late == list(range(10))

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        fill(logs[0], 1000)
        fill(logs[1], 10)
        world.cluster.move("t", 1, -1)
        world.run_client(main)


@GROUPED
def test_where_nobody_leads_the_client_waits(*, is_group: bool) -> None:
    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with reading(runtime, is_group=is_group) as reader:
            heals = asyncio.get_running_loop().call_later(5, world.cluster.move, "t", 0, 1)
            await reader.begin(["t"])
            assert heals.when() <= asyncio.get_running_loop().time()
            assert (without_membership(reader.notes), reader.is_whole) == ([], True)
            return await read_to_the_end(reader)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.cluster.move("t", 0, -1)
        assert world.run_client(main) == {0: list(range(10))}


@GROUPED
@PLACES
def test_one_whose_leader_has_just_gone_is_left_out_when_the_cluster_notices(
    place: OffsetOrTime, first: int, *, is_group: bool
) -> None:
    async def main(runtime: Runtime) -> None:
        async with reading(runtime, place, is_group=is_group) as reader:
            asyncio.get_running_loop().call_later(8, world.cluster.move, "t", 1, -1)
            await reader.begin(["t"])
            found = await read_to_the_end(reader)
            assert found == ({0: list(range(first, 10))} if first < 10 else {})
            assert runtime.clock.monotonic() < 12
            assert without_membership(reader.notes) == [LEFT_OUT]
            assert not reader.is_whole

    with ClientWorld() as world:
        half_led(world)
        world.cluster.move("t", 1, GONE)
        world.run_client(main)


def test_one_that_loses_its_leader_before_its_beginning_is_known_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. It is known where it ends. 2. Its broker goes. 3. The cluster notices."""
    seek = Consumer.seek_to_beginning

    async def seek_late(client: Consumer, led: list[TopicPartition]) -> None:
        if B in led:
            world.cluster.move("t", 1, GONE)
            asyncio.get_running_loop().call_later(8, world.cluster.move, "t", 1, -1)
        await seek(client, led)

    async def main(runtime: Runtime) -> None:
        async with reading(runtime, is_group=False) as reader, asyncio.timeout(60):
            await reader.begin(["t"])
            assert await read_to_the_end(reader) == {0: list(range(10))}
            assert reader.notes == [LEFT_OUT]
            assert not reader.is_whole

    monkeypatch.setattr(Consumer, "seek_to_beginning", seek_late)
    with ClientWorld() as world:
        half_led(world)
        world.cluster.move("t", 1, 2)
        world.run_client(main)


@pytest.mark.parametrize("fails", [False, True])
def test_what_has_ended_while_somebody_asked_whether_it_is_futile_has_ended(*, fails: bool) -> None:
    async def main(_: Runtime) -> None:
        goes_on, has_ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            await goes_on.wait()
            has_ended.set()
            if fails:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

        async def is_futile() -> bool:
            goes_on.set()
            await has_ended.wait()
            return True

        if not fails:
            assert await unless(work(), 1.0, is_futile)
        else:
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await unless(work(), 1.0, is_futile)

    with ClientWorld() as world:
        world.run_client(main)


def test_one_that_loses_its_leader_before_it_is_assigned_begins_where_it_ended_at_first() -> None:
    async def main(runtime: Runtime) -> None:
        async with reading(runtime, OffsetOrTime(is_end=True), is_group=True) as reader:
            await reader.begin(["t"])
            fill(log, 10)
            world.cluster.move("t", 1, -1)
            while not reader.notes:
                await reader.next(1000)
            assert (reader.notes, reader.is_whole) == ([READS, LEFT_OUT], False)
            world.cluster.move("t", 1, 2)
            assert await read_to_the_end(reader) == {1: list(range(10, 20))}
            assert reader.is_whole

    with ClientWorld() as world:
        log = half_led(world)
        world.cluster.move("t", 1, 2)
        world.run_client(main)


@dataclass
class Half:
    """A client whose first partition is led, and the second if a test says so; and a clock."""

    is_led: bool = False
    seconds: float = 0.0
    looks: int = 0
    gone_on_with: list[list[TopicPartition]] = field(default_factory=list)
    fails: KafkaError | None = None

    def monotonic(self) -> float:
        return self.seconds

    async def offsets(self, _: Mapping[TopicPartition, int]) -> dict[TopicPartition, object]:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def list_topics(self, *, internal: bool) -> list[Any]:
        self.looks += 1
        leaders = (1, 2 if self.is_led else -1)
        partitions = [SimpleNamespace(index=i, leader=each) for i, each in enumerate(leaders)]
        return [SimpleNamespace(name="t", partitions=partitions)]

    async def go_on(self, led: list[TopicPartition]) -> None:
        self.gone_on_with.append(led)
        if self.fails is not None:
            raise self.fails


def leaderless(half: Half, notes: list[str]) -> LeaderlessPartitions:
    return LeaderlessPartitions(cast(Consumer, half), cast(Clock, half), notes, half.go_on)


def test_it_is_looked_now_and_then() -> None:
    half = Half(seconds=100.0)
    waits = leaderless(half, [])

    async def main() -> None:
        await waits.look()
        assert half.looks == 0, "nobody waits"
        await waits.add([B])
        for each in (100.5, 101.0, 101.5):
            half.seconds = each
            await waits.look()
        assert half.looks == 2

    asyncio.run(main())


def test_what_a_broker_that_goes_away_keeps_from_its_place_waits_on() -> None:
    half = Half(is_led=True, fails=KafkaError(ErrorCode.BROKER_NOT_AVAILABLE))
    notes: list[str] = []
    waits = leaderless(half, notes)

    async def main() -> None:
        await waits.add([B])
        assert waits.waiting == {B}
        half.fails, half.seconds = None, 1.0
        await waits.look()
        half.seconds = 2.0
        await waits.look()

    asyncio.run(main())
    assert half.gone_on_with == [[B], [B]]
    assert (waits.waiting, notes) == (set(), [])


def test_what_will_go_on_failing_is_an_error() -> None:
    half = Half(is_led=True, fails=KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        asyncio.run(leaderless(half, []).add([B]))


def test_what_is_removed_is_told_of_anew_when_it_comes_again() -> None:
    half = Half()
    notes: list[str] = []
    waits = leaderless(half, notes)

    async def main() -> None:
        await waits.add([A, B])
        await waits.add([B])
        assert notes == [LEFT_OUT]
        waits.remove([B])
        assert waits.waiting == set()
        await waits.add([B])

    asyncio.run(main())
    assert half.gone_on_with == [[A]]
    assert notes == [LEFT_OUT, LEFT_OUT]


@GROUPED
@pytest.mark.parametrize("delay_s", [0.3, 3.0])
def test_a_slow_cluster_is_waited_for(delay_s: float, *, is_group: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with reading(runtime, is_group=is_group) as reader:
            world.cluster.delay_s = delay_s
            await reader.begin(["t"])
            world.cluster.delay_s = 0.0
            assert await read_to_the_end(reader) == {0: list(range(10))}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        world.run_client(main)


@GROUPED
@pytest.mark.parametrize(("delay_s", "most_s"), [(0.0, 1.0), (0.3, 3.0)])
def test_an_unknown_topic_is_told_soon(delay_s: float, most_s: float, *, is_group: bool) -> None:
    async def main(runtime: Runtime) -> None:
        async with reading(runtime, is_group=is_group) as reader:
            world.cluster.delay_s = delay_s
            begun = runtime.clock.monotonic()
            with pytest.raises(KafkaError) as caught:
                await reader.begin(["t"])
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert runtime.clock.monotonic() - begun < most_s

    with ClientWorld() as world:
        world.run_client(main)
