"""Waiting for `buffer.memory`: in which order, how many at a time, and that nobody is forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import Producer, TopicPartition
from moldau.client.producer.room import Room
from moldau.client.producer.sender import Sender
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.producer.scripted_producer import fill, free, producer, spin
from tests.client.world import BOOTSTRAP, ClientWorld

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


# The line


def test_as_many_have_their_turn_as_fit_into_batches_of_what_is_free() -> None:
    room = Room(batch_bytes=100)
    for number in range(10):
        room.come(number, A, 30)
    assert room.turns(free_bytes=100) == [0, 1, 2]
    assert room.turns(free_bytes=1000) == [], "until these have come for theirs"
    assert [room.leave(number) for number in (2, 0, 1)] == [False, False, True]
    assert room.turns(free_bytes=299) == [3, 4, 5, 6, 7, 8]


def test_whose_turn_it_is_takes_along_who_fits_into_the_batch_of_the_same_partition() -> None:
    room = Room(batch_bytes=100)
    for number, where in enumerate((A, B, B, A, A, B)):
        room.come(number, where, 40)
    assert room.turns(free_bytes=199) == [0, 3]
    for number in (0, 3):
        room.leave(number)
    assert room.turns(free_bytes=200) == [1, 2, 4]
    for number in (1, 2, 4):
        room.leave(number)
    assert room.turns(free_bytes=0) == [5]


def test_what_is_larger_than_a_batch_or_of_unknown_size_has_its_turn_too() -> None:
    room = Room(batch_bytes=100)
    room.come(0, A, 5000)
    room.come(1, A, None)
    room.come(2, A, None)
    assert room.turns(free_bytes=100) == [0]
    assert room.leave(0)
    assert room.turns(free_bytes=200) == [1, 2]


def test_who_comes_again_stands_where_it_stood() -> None:
    room = Room(batch_bytes=100)
    for number in range(4):
        room.come(number, A, 50)
    assert room.turns(free_bytes=100) == [0, 1]
    for number in (0, 1):
        room.leave(number)
        room.come(number, A, 50)
    assert room.turns(free_bytes=200) == [0, 1, 2, 3]


def test_who_gives_up_is_forgotten_and_hands_on_its_turn() -> None:
    room = Room(batch_bytes=100)
    for number in range(5):
        room.come(number, A, 100)
    assert room.turns(free_bytes=100) == [0]
    assert not room.leave(1)
    assert not room.leave(2)
    assert room.leave(0), "others wait, and nobody has a turn"
    assert room.turns(free_bytes=200) == [3, 4]
    assert not room.leave(3)
    assert not room.leave(4), "nobody is left"
    assert len(room) == 0
    assert (room._order, room._lines) == ([], {}), "and nothing of them"


STEPS = st.lists(st.tuples(st.sampled_from(["come", "leave", "again", "turns"]), st.integers(0, 9)))


@given(STEPS)
def test_while_anybody_waits_and_there_is_room_somebody_has_a_turn(
    steps: list[tuple[str, int]],
) -> None:
    room = Room(batch_bytes=100)
    waiting: dict[int, TopicPartition] = {}
    turns: dict[int, TopicPartition] = {}
    last = -1
    for what, which in steps:
        there = sorted(waiting | turns)
        if what == "come":
            last += 1
            waiting[last] = (A, B)[which % 2]
            room.come(last, waiting[last], which * 30 or None)
        elif what == "turns":
            given_now = room.turns(free_bytes=which * 50)
            assert bool(given_now) == (bool(waiting) and not turns)
            assert given_now[:1] == sorted(waiting)[: len(given_now[:1])], "the one that came first"
            for where in (A, B):
                numbers = [each for each in given_now if waiting[each] == where]
                line = sorted(each for each in waiting if waiting[each] == where)
                assert numbers == line[: len(numbers)]
            turns |= {each: waiting.pop(each) for each in given_now}
        elif there:
            number = there[which % len(there)]
            had_turn = number in turns
            where = turns.pop(number) if had_turn else waiting.pop(number)
            assert room.leave(number) == (had_turn and bool(waiting) and not turns)
            if what == "again" and had_turn:
                waiting[number] = where
                room.come(number, where, 30)
        assert len(room) == len(waiting) + len(turns)
    for number in (*waiting, *turns):
        room.leave(number)
    assert (room._order, room._lines) == ([], {})


# The senders


@pytest.mark.parametrize("has_keys", [False, True])
def test_each_of_many_who_wait_is_woken_about_once_and_they_fill_batches(
    has_keys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2000
    waits = 0
    wait_for_room = Sender.wait_for_room

    async def counted(self: Sender, *arguments: Any) -> Any:
        nonlocal waits
        waits += 1
        return await wait_for_room(self, *arguments)

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, buffer_memory=20_000, batch_size=2000) as sender:
            await (await sender.send("t", b"x"))
            deliveries = await asyncio.gather(
                *(
                    sender.send("t", b"%100d" % n, key=b"%d" % n if has_keys else None)
                    for n in range(count)
                )
            )
            await sender.flush()
            assert all(each.is_done for each in deliveries)

    monkeypatch.setattr(Sender, "wait_for_room", counted)
    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        world.run_client(main)
        assert sum(log.end for log in logs) == count + 1
        assert sum(len(log.batches) for log in logs) < count / 6, "14 fit into one"
        for log in logs:
            numbers = [int(each) for each in log.values() if each != b"x" and each is not None]
            assert numbers == sorted(numbers)
    assert count / 2 < waits < count * 1.2


def test_a_turn_that_is_not_taken_is_handed_on() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"x"))
            used = fill(sender)
            tasks = [asyncio.ensure_future(sender.send_many("t", [b"%d" % n])) for n in range(3)]
            await spin(5)
            sender._accumulator.buffer.used_bytes -= 2 * sender._accumulator.options.batch_bytes - 1
            sender._sender._wake_senders()  # the first: there is room for no second batch
            tasks[0].cancel()
            await spin(5)
            assert tasks[0].cancelled()
            assert tasks[1].done(), "though nothing else has happened since"
            free(sender, used)
            await asyncio.gather(*tasks[1:])

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x", b"1", b"2"]


def test_who_waits_for_room_is_woken_by_the_last_answer() -> None:
    """Nothing is under way or left to send then, so there is no other reason for a look."""

    async def main(runtime: Runtime) -> None:
        options = {"buffer_memory": 1000, "batch_size": 1000, "max_block_ms": 5000}
        async with producer(runtime, **options) as sender:
            await (await sender.send("t", b"x"))
            await asyncio.gather(*(sender.send("t", bytes(700)) for _ in range(5)))

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.cluster.delay_s = 0.05
        world.run_client(main)
        assert len(log.values()) == 6


class Looks(Sender):
    """Counts how often it looked for what may be sent."""

    count = 0

    def _send_what_may_go(self, now: float) -> None:
        self.count += 1
        super()._send_what_may_go(now)


class Looking(Producer):
    _sender_type = Looks


def test_the_last_answer_leaves_the_next_turn_to_others() -> None:
    async def main(runtime: Runtime) -> int:
        async with Looking(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            looks = sender._sender
            assert isinstance(looks, Looks)
            await (await sender.send("t", b"x"))
            await asyncio.sleep(1)
            before = looks.count
            await (await sender.send("t", b"y"))
            await asyncio.sleep(1)
            return looks.count - before

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main) == 1, "the one that has sent the record"


def test_no_room_is_told_with_the_partition_and_what_holds_up_the_records_there() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        options = {"buffer_memory": 1000, "batch_size": 500, "max_block_ms": 3000}
        async with producer(runtime, **options) as sender:
            with pytest.raises(KafkaError) as caught:
                await asyncio.gather(*(sender.send("t", bytes(300), partition=1) for _ in range(9)))
            world.cluster.refuse[ProduceRequest].clear()
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.cluster.refuse[ProduceRequest] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
        error = world.run_client(main)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert (error.context["topic"], error.context["partition"]) == ("t", 1)
    assert str(error.context["held_up"]).startswith("t-1: NOT_ENOUGH_REPLICAS")


def test_who_waits_for_room_hears_of_the_close() -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime)
        await sender.start()
        await (await sender.send("t", b"x"))
        used = fill(sender)
        tasks = [asyncio.ensure_future(sender.send("t", b"late")) for _ in range(3)]
        await spin(3)
        assert sender.metrics()["producer-metrics"]["waiting-threads"] == 3
        sender._accumulator.buffer.used_bytes = used
        await sender.aclose(abort=True)
        for task in tasks:
            with pytest.raises(KafkaError, match="closed"):
                await task

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"x"]
