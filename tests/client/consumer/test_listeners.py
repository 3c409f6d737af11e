"""What a rebalance listener may do: unsubscribe, close, be cut off; and what is no listener."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.client import ClientClosed, Consumer, RebalanceListener, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import fill, read_all
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.world import ClientWorld

T0 = TopicPartition("t", 0)


class Calls(RebalanceListener):
    """Does something when partitions come, in a task of its own or not."""

    def __init__(self, does: Callable[[], Awaitable[Any]], *, in_task: bool = False) -> None:
        self.heard: list[str] = []
        self._does = does
        self._in_task = in_task

    async def on_partitions_assigned(self, partitions: Any) -> None:
        self.heard.append("assigned")
        if self._in_task:
            await asyncio.gather(self._does())
        else:
            await self._does()
        self.heard.append("done")

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.heard.append("revoked")


@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_may_unsubscribe(kind: str, in_task: bool) -> None:
    """It hears that its partitions go before its call ends, and the member leaves."""

    async def main(runtime: Runtime) -> list[str]:
        async with member(runtime, kind) as reader:
            listener = Calls(reader.unsubscribe, in_task=in_task)
            await reader.subscribe("t", listener=listener)
            assert await reader.poll(3.0) == []
            assert (reader.assignment, reader.member_id) == ([], "")
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(1.0)
            await reader.subscribe("t")
            await read_all(reader, 10)
            return listener.heard

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == ["assigned", "revoked", "done"]


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_may_close(kind: str) -> None:
    async def main(runtime: Runtime) -> list[str]:
        reader: Consumer = member(runtime, kind)
        await reader.start()
        listener = Calls(reader.aclose)
        await reader.subscribe("t", listener=listener)
        with pytest.raises(KafkaError, match="closed"):
            await reader.poll(10.0)
        assert runtime.clock.monotonic() < 10.0
        return listener.heard

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == ["assigned", "revoked", "done"]
        assert not any(each.seats for each in world.cluster.groups.groups.values())


def test_a_consumer_that_is_closed_beside_a_listener_that_never_ends_keeps_to_its_time() -> None:
    async def main(runtime: Runtime) -> float:
        reader = member(runtime, "eager")
        await reader.start()
        await reader.subscribe("t", listener=Calls(asyncio.Event().wait))
        poll = asyncio.create_task(reader.poll(60.0))
        await asyncio.sleep(2.0)
        began = runtime.clock.monotonic()
        await reader.aclose(3.0)
        poll.cancel()
        return runtime.clock.monotonic() - began

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert 3.0 <= world.run_client(main) < 3.3


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_what_is_assigned_after_an_unsubscribe_that_was_cancelled_stays_and_is_committed(
    kind: str,
) -> None:
    class Slow(RebalanceListener):
        async def on_partitions_revoked(self, partitions: Any) -> None:
            await asyncio.sleep(3.0)

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind, enable_auto_commit=False) as reader:
            await reader.subscribe("t", listener=Slow())
            await read_all(reader, 10)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await reader.unsubscribe()
            reader.assign([T0])
            fill(log, 10)
            await read_all(reader, 10)
            assert reader.assignment == [T0]
            await reader.commit(timeout_s=3.0)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 10)
        world.run_client(main)
        assert world.cluster.groups.offsets["g"] == {("t", 0): 20}


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_poll_that_nobody_cancels_is_not_cancelled_by_its_listener(kind: str) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            await reader.subscribe("t", listener=Calls(cancelled))
            with pytest.raises(RuntimeError, match="listener raised CancelledError"):
                await reader.poll(5.0)
            await read_all(reader, 10)

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_what_is_no_listener_is_refused_at_once() -> None:
    class Told:
        def on_partitions_revoked(self, partitions: Any) -> None: ...
        def on_partitions_assigned(self, partitions: Any) -> None: ...
        def on_partitions_lost(self, partitions: Any) -> None: ...

    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            for bad in (object(), RebalanceListener, print):
                with pytest.raises(TypeError, match="on_partitions_assigned"):
                    await reader.subscribe("t", listener=bad)
            assert reader.subscription == frozenset()
            await reader.subscribe("t", listener=Told())

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_an_empty_list_of_topics_unsubscribes() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            await reader.subscribe("t")
            await read_all(reader, 10)
            await reader.subscribe([])
            assert (reader.subscription, reader.assignment) == (frozenset(), [])
            reader.assign([T0])
            await reader.subscribe([])
            assert reader.assignment == []
            with pytest.raises(ValueError, match="names of topics or to a pattern"):
                await reader.subscribe()

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


class CallsAtTheEnd(RebalanceListener):
    """Does something when partitions go."""

    def __init__(self, does: Callable[[], Awaitable[Any]]) -> None:
        self.heard: list[str] = []
        self._does = does

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.heard.append("revoked")
        await self._does()


@pytest.mark.parametrize("kind", list(OPTIONS))
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
def test_what_is_chosen_while_an_unsubscribe_runs_stays(
    kind: str, inside: bool, by_hand: bool
) -> None:
    """Beside it, or by the listener that it tells."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind, enable_auto_commit=False) as reader:

            async def choose() -> None:
                if by_hand:
                    reader.assign([("u", 0)])
                else:
                    await reader.subscribe("u")

            async def does() -> None:
                await (choose() if inside else asyncio.sleep(3.0))

            await reader.subscribe("t", listener=CallsAtTheEnd(does))
            await read_all(reader, 10)
            task = asyncio.create_task(reader.unsubscribe())
            await asyncio.sleep(1.0)
            if not inside:
                await choose()
            await task
            await read_all(reader, 20, within_s=60.0)
            assert reader.assignment == [TopicPartition("u", 0)]
            await reader.unsubscribe()
            assert reader.assignment == []

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        fill(world.cluster.add_topic("u", [1])[0], 20)
        world.run_client(main)


def test_an_unsubscribe_after_one_that_was_cancelled_waits_for_what_that_began() -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, "eager") as reader:
            heard: list[str] = []

            async def does() -> None:
                await asyncio.sleep(3.0)
                heard.append("done")

            await reader.subscribe("t", listener=CallsAtTheEnd(does))
            await read_all(reader, 10)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await reader.unsubscribe()
            await reader.unsubscribe()
            assert (heard, reader.assignment) == (["done"], [])

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_that_polls_is_told_that_it_cannot(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            listener = CallsAtTheEnd(lambda: reader.poll(1.0))
            await reader.subscribe("t", listener=listener)
            await read_all(reader, 10)
            with pytest.raises(RuntimeError, match="listener cannot poll"):
                async with asyncio.timeout(10.0):
                    await reader.unsubscribe()

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_that_unsubscribes_while_its_consumer_is_closed_hears_of_it_once(
    kind: str,
) -> None:
    async def main(runtime: Runtime) -> list[str]:
        async with member(runtime, kind) as reader:
            listener = CallsAtTheEnd(lambda: reader.unsubscribe())
            await reader.subscribe("t", listener=listener)
            await read_all(reader, 10)
        return listener.heard

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == ["revoked"]


class Slow(RebalanceListener):
    """Takes its time when partitions come."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_told = asyncio.Event()

    async def on_partitions_assigned(self, partitions: Any) -> None:
        self.heard.append("assigned")
        self.is_told.set()
        await asyncio.sleep(3.0)

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.heard.append("revoked")
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_who_closes_beside_an_unsubscribe_makes_nobody_hear_of_it_twice(kind: str) -> None:
    async def main(runtime: Runtime) -> list[str]:
        listener = Slow()
        async with member(runtime, kind) as reader:
            await reader.subscribe("t", listener=listener)
            polling = asyncio.create_task(reader.poll(60.0))
            await listener.is_told.wait()
            leaving = asyncio.create_task(reader.unsubscribe())
            await asyncio.sleep(0.1)
        await leaving
        with pytest.raises(ClientClosed):
            await polling
        return listener.heard

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == ["assigned", "revoked"]


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_what_a_cancelled_unsubscribe_has_not_told_is_told_by_the_close(kind: str) -> None:
    """Also to who assigned partitions himself since."""

    async def main(runtime: Runtime) -> list[str]:
        listener = Slow()
        async with member(runtime, kind) as reader:
            await reader.subscribe("t", listener=listener)
            polling = asyncio.create_task(reader.poll(60.0))
            await listener.is_told.wait()
            leaving = asyncio.create_task(reader.unsubscribe())
            await asyncio.sleep(0.1)
            leaving.cancel()
            await asyncio.wait([leaving])
            reader.assign([("t", 0)])
        with pytest.raises(ClientClosed):
            await polling
        return listener.heard

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        assert world.run_client(main) == ["assigned", "revoked"]


class UnsubscribesAsTheyGo(RebalanceListener):
    def __init__(self, reader: Consumer) -> None:
        self._reader = reader
        self.has_begun = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.has_begun.set()
        self._reader.commit_soon()
        await self._reader.unsubscribe()
        self.has_ended.set()


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_listener_that_unsubscribes_beside_a_close_leaves_no_task(kind: str) -> None:
    """It waits for what it commits, and by then the user has subscribed anew, and another task has
    closed."""

    async def main(runtime: Runtime) -> None:
        async with member(runtime, kind) as reader:
            listener = UnsubscribesAsTheyGo(reader)
            await reader.subscribe("t", listener=listener)
            await read_all(reader, 10)
            await reader.subscribe("u", listener=listener)
            polling = asyncio.create_task(reader.poll(10.0))
            world.cluster.delay_s = 0.5
            await listener.has_begun.wait()
            await reader.subscribe("t", listener=listener)
            await reader.aclose(0.0)
            await listener.has_ended.wait()
            with pytest.raises(ClientClosed):
                await polling
            await asyncio.sleep(1.0)
            left = asyncio.all_tasks()
            assert not [each for each in left if "member of" in each.get_name()]

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.cluster.add_topic("u", [1])
        world.run_client(main)
