"""A listener that takes longer than the close, in the consumer's own runtime: nobody cuts it short,
and who waits for it hears what he would hear without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.client import ClientClosed, Consumer, RebalanceListener
from moldau.runtime import Runtime
from moldau.testing import SyncEmbeddedBroker

WITHIN_S = 20.0

Kind = dict[str, str]
Wait = Callable[[Consumer, "Slow"], Coroutine[Any, Any, None]]


class Slow(RebalanceListener):
    """Works until it may end, when partitions go."""

    def __init__(self) -> None:
        self.is_told, self.may_end = asyncio.Event(), asyncio.Event()
        self.ends: list[str] = []
        self.does: Callable[[], Coroutine[Any, Any, object]] = self.may_end.wait

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.is_told.set()
        try:
            await self.does()
        except asyncio.CancelledError:
            self.ends.append("cut off")
            raise
        self.ends.append("returned")


async def unsubscribes(reader: Consumer, listener: Slow) -> None:
    await reader.unsubscribe()


async def polls(reader: Consumer, listener: Slow) -> None:
    await reader.subscribe(["another"], listener=listener)
    with pytest.raises(ClientClosed):
        await poll_on(reader)


async def poll_on(reader: Consumer) -> None:
    while True:
        await reader.poll(5.0)


async def iterates(reader: Consumer, listener: Slow) -> None:
    await reader.subscribe(["another"], listener=listener)
    async for _ in reader:
        pass


@pytest.fixture(params=["classic", "consumer"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return {"group_protocol": request.param}


@pytest.fixture(params=[unsubscribes, polls, iterates])
def waits(request: pytest.FixtureRequest) -> Wait:
    wait: Wait = request.param
    return wait


class Place:
    """Where consumers are opened."""

    def __init__(self, broker: SyncEmbeddedBroker, topic: str, kind: Kind) -> None:
        self._bootstrap, self._topic, self._kind = broker.bootstrap_servers, topic, kind

    @asynccontextmanager
    async def opened(self, listener: Slow) -> AsyncIterator[Consumer]:
        """A member that has its partitions."""
        options: Any = {**self._kind, "group_id": self._topic}
        reader = Consumer(bootstrap_servers=self._bootstrap, **options)
        async with asyncio.timeout(WITHIN_S), reader:
            await reader.subscribe([self._topic], listener=listener)
            while not reader.assignment:
                await reader.poll(0.1)
            try:
                yield reader
            finally:
                if not listener.is_told.is_set():
                    listener.may_end.set()  # else this close would wait for it


@pytest.fixture
def place(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, kind: Kind) -> Place:
    return Place(moldau_broker, moldau_topic, kind)


def test_a_listener_goes_on_beside_the_close_and_who_waits_for_it_is_not_cancelled(
    place: Place, waits: Wait
) -> None:
    async def main() -> None:
        listener = Slow()
        async with place.opened(listener) as reader:
            waiting = asyncio.create_task(waits(reader, listener))
            await listener.is_told.wait()
            await reader.aclose(0.1)
            assert not waiting.done()
            listener.may_end.set()
            await waiting
        assert listener.ends == ["returned"]

    asyncio.run(main())


def test_a_listener_that_closes_beside_another_who_closes_is_not_cut_off(
    place: Place, waits: Wait
) -> None:
    async def main() -> None:
        listener = Slow()
        async with place.opened(listener) as reader:
            cluster: Any = reader._cluster
            end, is_ending = cluster.aclose, asyncio.Event()

            async def ends() -> None:
                is_ending.set()
                await end()

            async def again() -> None:
                await is_ending.wait()
                await reader.aclose()

            cluster.aclose = ends
            listener.does = reader.aclose
            beside = asyncio.create_task(again())
            await waits(reader, listener)
            await beside
        assert listener.ends == ["returned"]

    asyncio.run(main())


def test_a_listener_that_the_end_of_its_loop_cuts_off_is_told_of(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> Slow:
        listener = Slow()
        async with place.opened(listener) as reader:
            leaving = asyncio.create_task(reader.unsubscribe())
            await listener.is_told.wait()
            leaving.cancel()
            await reader.aclose(0.1)
        return listener

    assert asyncio.run(main()).ends == ["cut off"]
    assert "the rebalance listener was cut off" in caplog.text


def test_what_is_told_first_when_the_runtime_ends_is_told_to_the_end(place: Place) -> None:
    """The commit before it, of which the close knows nothing more when it is cut off, ends only
    with the runtime."""

    async def main() -> None:
        listener = Slow()
        async with place.opened(listener) as reader:
            group: Any = reader._group
            has_begun = asyncio.Event()

            async def commit_before(_: object) -> None:
                has_begun.set()
                await asyncio.Event().wait()

            group.commits.commit_before = commit_before
            leaving = asyncio.create_task(reader.unsubscribe())
            await has_begun.wait()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await reader.aclose()
            await listener.is_told.wait()
            listener.may_end.set()
            await leaving
        assert listener.ends == ["returned"]

    asyncio.run(main())


def test_a_runtime_ends_all_its_tasks_but_those_that_it_spares() -> None:
    from moldau.runtime.real import RealRuntime

    async def main() -> None:
        runtime = RealRuntime()
        spared = set[asyncio.Task[Any]]()
        one, other = (_waits_in(runtime) for _ in range(2))
        spared.add(one)
        await runtime.aclose(spared)
        assert other.cancelled()
        assert not one.done()
        one.cancel()
        await asyncio.wait([one])

    asyncio.run(main())


def _waits_in(runtime: Runtime) -> asyncio.Task[Any]:
    return runtime.spawn(asyncio.Event().wait(), name="waits")
