"""Calls that are cut off while a listener works, or one after the other fails: what is said then,
and what is committed in the last moment of a close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import ClientClosed, RebalanceListener
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import read_all
from tests.client.consumer.slow_listener import KINDS, Refused, Slow, begins_to_unsubscribe, run
from tests.client.world import ClientWorld

TOLD = "a rebalance listener has failed, and no call says so"


@pytest.mark.parametrize("kind", KINDS)
def test_who_polls_after_an_unsubscribe_that_was_cut_off_is_told_that_nothing_is_chosen(
    kind: str,
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, kind) as reader:
            leaving = await begins_to_unsubscribe(reader, Slow())
            leaving.cancel()
            await asyncio.wait([leaving])
            assert await reader.poll(5.0) == []
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(5.0)

    run(main)


class Fails(RebalanceListener):
    """Takes its time and raises, when `u` comes and when all goes."""

    def __init__(self) -> None:
        self.is_told = {"assigned": asyncio.Event(), "revoked": asyncio.Event()}

    async def on_partitions_assigned(self, partitions: Any) -> None:
        if any(each.topic == "u" for each in partitions):
            await self._fail("assigned")

    async def on_partitions_revoked(self, partitions: Any) -> None:
        await self._fail("revoked")

    async def _fail(self, what: str) -> None:
        self.is_told[what].set()
        await asyncio.sleep(3.0)
        raise Refused(what)


@pytest.mark.parametrize("kind", ["cooperative", "consumer"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_of_two_things_that_listeners_raise_one_is_raised_and_the_other_is_logged(
    kind: str, is_cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when the call that was to raise it is cut off: by the next one."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        world.cluster.add_topic("u", [1])
        async with member(runtime, kind) as reader:
            listener = Fails()
            await reader.subscribe("t", listener=listener)
            await read_all(reader, 10)
            await reader.subscribe(["t", "u"], listener=listener)
            polling = asyncio.create_task(reader.poll(60.0))
            await listener.is_told["assigned"].wait()
            polling.cancel()
            leaving = asyncio.create_task(reader.unsubscribe())
            await listener.is_told["revoked"].wait()
            if is_cut:
                leaving.cancel()
                await asyncio.sleep(4.0)
            with pytest.raises(Refused, match="assigned"):
                await (reader.poll(1.0) if is_cut else leaving)
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(1.0)

    run(main)
    assert [each for each in caplog.messages if TOLD in each] == [
        f"consumer: {TOLD}: Refused('revoked') (group='g')"
    ]


class RaisesWhenTold(RebalanceListener):
    """At the moment that a test chooses."""

    def __init__(self) -> None:
        self.is_told, self.may_raise = asyncio.Event(), asyncio.Event()

    async def on_partitions_revoked(self, partitions: Any) -> None:
        self.is_told.set()
        await self.may_raise.wait()
        raise Refused


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ticks", range(5))
def test_what_a_listener_raises_just_when_the_close_is_cut_off_is_logged(
    kind: str, ticks: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader, listener = member(runtime, kind), RaisesWhenTold()
        await reader.start()
        await reader.subscribe("t", listener=listener)
        await read_all(reader, 10)
        leaving = asyncio.create_task(reader.unsubscribe())
        await listener.is_told.wait()
        leaving.cancel()
        closing = asyncio.create_task(reader.aclose())
        await asyncio.sleep(0.5)
        listener.may_raise.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        await reader.aclose()

    run(main)
    assert caplog.text.count(f"{TOLD}: Refused()") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_goodbye_that_was_cut_off_before_it_was_told_is_told_by_the_next_close(kind: str) -> None:
    """Once; the member has left by then, so it is lost."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        heard: list[str] = []

        class Hears(RebalanceListener):
            def on_partitions_revoked(self, partitions: Any) -> None:
                heard.append("revoked")

            def on_partitions_lost(self, partitions: Any) -> None:
                heard.append(f"lost {list(partitions)}")
                raise Refused

        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t", listener=Hears())
        await read_all(reader, 10)
        owned = reader.assignment
        world.cluster.silence.add(OffsetCommitRequest)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await reader.aclose()
        assert heard == []
        with pytest.raises(Refused):
            await reader.aclose()
        await reader.aclose()
        assert heard == [f"lost {owned}"]
        assert world.cluster.groups.groups["g"].seats == {}

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_close_tells_the_rest_after_a_listener_that_still_works(kind: str) -> None:
    """A listener is told of one thing at a time."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        heard: list[str] = []
        is_told = asyncio.Event()

        class Hears(RebalanceListener):
            async def on_partitions_assigned(self, partitions: Any) -> None:
                is_told.set()
                await asyncio.sleep(5.0)
                heard.append("assigned")

            def on_partitions_lost(self, partitions: Any) -> None:
                heard.append("lost")

        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t", listener=Hears())
        polling = asyncio.create_task(reader.poll(60.0))
        await is_told.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await reader.aclose()
        await reader.aclose()
        assert heard == ["assigned", "lost"]
        with pytest.raises(ClientClosed):
            await polling

    run(main)


@pytest.mark.parametrize("turns", [0, 1, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_listener_is_told_of_meanwhile_is_not_told_to_be_lost_beside_it(
    kind: str, turns: int
) -> None:
    """The close is cut off before the commit that comes before a change is answered; the change
    goes on, as somebody waits for it, and the next close comes."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        heard: list[str] = []

        class Hears(RebalanceListener):
            def on_partitions_lost(self, partitions: Any) -> None:
                heard.append("lost")

            async def on_partitions_revoked(self, partitions: Any) -> None:
                heard.append("revoked")
                await asyncio.sleep(3.0)
                heard.append("has ended")

        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t", listener=Hears())
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        leaving = asyncio.create_task(reader.unsubscribe())
        await asyncio.sleep(3.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.aclose()
        for _ in range(turns):
            await asyncio.sleep(0)
        await reader.aclose(0.5)
        await leaving
        await reader.aclose()
        assert heard == ["revoked", "has ended"]

    run(main)


def test_a_commit_that_ends_with_the_runtime_it_was_given_cancels_nobody() -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, "eager", enable_auto_commit=False)
        await reader.start()
        reader.assign([("t", 0)])
        world.cluster.silence.add(OffsetCommitRequest)
        waiting = asyncio.create_task(reader.commit({("t", 0): 1}))
        await asyncio.sleep(1.0)
        (commit,) = reader._group.commits.pending
        commit.cancel()
        with pytest.raises(KafkaError, match="not committed"):
            await waiting
        await reader.aclose(1.0)

    run(main)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_commit_that_is_begun_as_the_close_ends_says_so(is_cut: bool) -> None:
    """Just before commits end it is begun, and just after it is refused; it is never cancelled."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, "eager", enable_auto_commit=False)
        await reader.start()
        reader.assign([("t", 0)])
        await read_all(reader, 10)
        loop, group = asyncio.get_running_loop(), reader._group
        inner = group._leave
        begun: list[asyncio.Task[None]] = []
        refused: list[str] = []

        def commit() -> None:
            try:
                begun.append(reader.commit_soon())
            except ClientClosed as error:
                refused.append(error.reason)

        async def leave(*given: Any) -> None:
            await inner(*given)
            if is_cut:
                closing.cancel()
            commit()
            loop.call_soon(commit)

        group._leave = leave
        closing = asyncio.create_task(reader.aclose(1.0))
        await asyncio.wait([closing])
        assert closing.cancelled() is is_cut
        await asyncio.sleep(0)
        assert refused == ["the consumer is closed"]
        (task,) = begun
        with pytest.raises(KafkaError, match="closed meanwhile"):
            await task

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_goes_on_to_tell_is_told_by_the_next_close(kind: str) -> None:
    """The close is cut off, and then who would have told the listener of the change."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        heard: list[str] = []

        class Hears(RebalanceListener):
            def on_partitions_lost(self, partitions: Any) -> None:
                heard.append("lost")

            def on_partitions_revoked(self, partitions: Any) -> None:
                heard.append("revoked")

        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t", listener=Hears())
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        leaving = asyncio.create_task(reader.unsubscribe())
        await asyncio.sleep(3.0)
        closing = asyncio.create_task(reader.aclose())
        await asyncio.sleep(0.5)
        for each in (closing, leaving):
            each.cancel()
        await asyncio.wait([closing, leaving])
        await reader.aclose()
        await reader.aclose()
        assert heard == ["lost"]

    run(main)
