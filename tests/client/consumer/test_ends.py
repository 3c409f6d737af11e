"""Ends of a membership: a close that is cut off, listeners that raise, and several at once."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from moldau.client import ClientClosed, RebalanceListener
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from tests.client.consumer.group_consumer import member
from tests.client.consumer.numbered_records import fill, read_all
from tests.client.consumer.slow_listener import KINDS, Refused, Slow, begins_to_unsubscribe, run
from tests.client.world import ClientWorld


def named(what: str) -> list[str]:
    return [each.get_name() for each in asyncio.all_tasks() if what in each.get_name()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_close_that_is_cut_off_beside_a_listener_leaves_all_the_same(
    kind: str, times: int
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind)
        await reader.start()
        listener = Slow(20.0)
        leaving = await begins_to_unsubscribe(reader, listener)
        closing = asyncio.create_task(reader.aclose(30.0))
        for _ in range(times):
            await asyncio.sleep(1.0)
            closing.cancel()
        await asyncio.wait([closing])
        await reader.aclose()
        assert not named("member of g")
        if times == 1:
            assert world.cluster.groups.groups["g"].seats == {}
        with pytest.raises(ClientClosed):
            await reader.poll(1.0)
        await leaving
        assert listener.heard == ["assigned", "revoked"]

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_who_unsubscribes_hears_what_his_listener_raises_and_has_unsubscribed(kind: str) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, kind, enable_auto_commit=False) as reader:
            leaving = await begins_to_unsubscribe(reader, Slow(raises=True))
            with pytest.raises(Refused):
                await leaving
            assert reader.assignment == []
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(1.0)
            await reader.subscribe("t")
            await read_all(reader, 10)

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_who_unsubscribes_beside_one_who_is_cut_off_has_unsubscribed(kind: str) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, kind) as reader:
            leaving = await begins_to_unsubscribe(reader, Slow())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await reader.unsubscribe()
            await leaving
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(1.0)

    run(main)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("polls", [False, True])
def test_what_a_listener_raises_at_the_end_is_heard_once(kind: str, polls: bool) -> None:
    """By who waits for it, or else by who closes, who has left all the same."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind)
        await reader.start()
        leaving = await begins_to_unsubscribe(reader, Slow(raises=True))
        if not polls:
            leaving.cancel()
        ends = [leaving, asyncio.create_task(reader.aclose())]
        await asyncio.wait(ends)
        raised = [not each.cancelled() and each.exception() is not None for each in ends]
        assert raised == [polls, not polls]
        assert world.cluster.groups.groups["g"].seats == {}
        assert not named("member of g")

    run(main)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_listener_raises_after_the_close_is_logged(
    kind: str, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """When nobody waits for it, or not any more."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind)
        await reader.start()
        leaving = await begins_to_unsubscribe(reader, Slow(10.0, raises=True))
        if not waits:
            leaving.cancel()
        await reader.aclose(1.0)
        leaving.cancel()
        assert "Refused" not in caplog.text
        await asyncio.sleep(15.0)
        assert "has failed, and no call says so: Refused()" in caplog.text

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_was_begun_soon_is_not_cancelled_by_the_close(kind: str) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind, enable_auto_commit=False)
        await reader.start()
        await reader.subscribe("t")
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        commit = reader.commit_soon()
        await reader.aclose(1.0)
        with pytest.raises(KafkaError, match="closed meanwhile"):
            await commit

    run(main)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["cancelled", "late", "raises"])
def test_what_a_listener_raises_at_the_end_of_a_block_does_not_hide_why_it_ends(
    kind: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async def block() -> None:
            async with member(runtime, kind) as reader:
                listener = Slow(0.1, raises=True)
                await reader.subscribe("t", listener=listener)
                await read_all(reader, 10)
                if how == "raises":
                    raise ZeroDivisionError
                is_ready.set()
                await asyncio.Event().wait()

        async def timed() -> None:
            async with asyncio.timeout(30.0):
                await block()

        is_ready = asyncio.Event()
        task = asyncio.create_task(timed() if how == "late" else block())
        if how == "cancelled":
            await is_ready.wait()
            task.cancel()
        await asyncio.wait([task])
        if how == "cancelled":
            assert task.cancelled()
        else:
            expected = TimeoutError if how == "late" else ZeroDivisionError
            assert isinstance(task.exception(), expected)

    run(main)
    assert "what it did at its end failed: Refused()" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_that_ends_in_order_raises_what_its_listener_does(kind: str) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async def block() -> None:
            async with member(runtime, kind) as reader:
                await reader.subscribe("t", listener=Slow(raises=True))
                await read_all(reader, 10)

        with pytest.raises(Refused):
            await block()

    run(main)


@pytest.mark.parametrize("kind", KINDS)
def test_who_unsubscribes_beside_a_close_that_is_cut_off_is_told_all_the_same(kind: str) -> None:
    """What is committed before has no answer when the close gives up."""

    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind)
        await reader.start()
        listener = Slow(0.1)
        await reader.subscribe("t", listener=listener)
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        leaving = asyncio.create_task(reader.unsubscribe())
        await asyncio.sleep(0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.aclose()
        await leaving
        assert listener.heard == ["assigned", "revoked"]

    run(main)


@pytest.mark.parametrize("pattern", [re.compile("t"), "t"])
def test_who_unsubscribes_beside_a_subscription_to_a_pattern_has_unsubscribed(
    pattern: re.Pattern[str] | str,
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async with member(runtime, "eager") as reader:
            choosing = asyncio.create_task(reader.subscribe(pattern=pattern))
            await asyncio.sleep(0.0)
            await reader.unsubscribe()
            await choosing
            with pytest.raises(RuntimeError, match="nothing is chosen"):
                await reader.poll(1.0)

    run(main)


class Cancels(RebalanceListener):
    """Ends a task of its own, and hears of that what everybody hears."""

    async def on_partitions_revoked(self, partitions: Any) -> None:
        worker = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        worker.cancel()
        await worker


@pytest.mark.parametrize("kind", KINDS)
def test_a_listener_that_raises_cancelled_error_cancels_nobody(kind: str) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        async def block(*, fails: bool) -> None:
            async with member(runtime, kind) as reader:
                await reader.subscribe("t", listener=Cancels())
                await read_all(reader, 10)
                fill(world.cluster.topics["t"][0], 10)
                if fails:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block(fails=True)
        with pytest.raises(RuntimeError, match="listener raised CancelledError"):
            await block(fails=False)

    run(main)


class AtOnce(RebalanceListener):
    """Raises, and does not wait before."""

    def on_partitions_revoked(self, partitions: Any) -> None:
        raise Refused


@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_for_a_commit_that_the_close_gives_up_hears_what_the_listener_raises(
    kind: str,
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        reader = member(runtime, kind)
        await reader.start()
        await reader.subscribe("t", listener=AtOnce())
        await read_all(reader, 10)
        world.cluster.silence.add(OffsetCommitRequest)
        leaving = asyncio.create_task(reader.unsubscribe())
        await asyncio.sleep(0.5)
        await reader.aclose(1.0)
        with pytest.raises(Refused):
            await leaving

    run(main)


class Grows(RebalanceListener):
    """Takes long when more comes than it had."""

    def __init__(self) -> None:
        self.is_told = asyncio.Event()

    async def on_partitions_assigned(self, partitions: Any) -> None:
        if any(each.topic == "u" for each in partitions):
            self.is_told.set()
            await asyncio.sleep(3.0)


@pytest.mark.parametrize("kind", ["cooperative", "consumer"])
@pytest.mark.parametrize("options", [{}, {"group_instance_id": "i"}], ids=["dynamic", "static"])
def test_who_unsubscribes_and_closes_while_more_comes_has_committed(
    kind: str, options: dict[str, str]
) -> None:
    async def main(runtime: Runtime, world: ClientWorld) -> None:
        world.cluster.add_topic("u", [1])
        reader = member(runtime, kind, **options)
        await reader.start()
        listener = Grows()
        await reader.subscribe("t", listener=listener)
        await read_all(reader, 10)
        await reader.subscribe(["t", "u"], listener=listener)
        polling = asyncio.create_task(reader.poll(60.0))
        await listener.is_told.wait()
        polling.cancel()
        leaving = asyncio.create_task(reader.unsubscribe())
        await asyncio.sleep(0)
        await reader.aclose()
        await leaving
        assert world.cluster.groups.offsets["g"][("t", 0)] == 10

    run(main)
