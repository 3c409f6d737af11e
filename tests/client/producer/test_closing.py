"""How clients begin and end: what they say before `start`, and how long it may take to flush
and close."""

from __future__ import annotations

import asyncio
import logging
from inspect import getmembers
from typing import Any
from unittest.mock import create_autospec

import pytest

from moldau.client import Admin, ClientNotStarted, Consumer, Producer, Sent
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


# Before it is started


def test_a_client_that_is_not_started_says_so() -> None:
    async def main() -> None:
        sender = Producer(bootstrap_servers=BOOTSTRAP)
        admin = Admin(bootstrap_servers=BOOTSTRAP)
        for kind, call in (
            ("producer", sender.send("t", b"v")),
            ("producer", sender.send("t", b"v", partition=0)),
            ("producer", sender.send_many("t", [b"v"])),
            ("producer", sender.flush()),
            ("producer", sender.partitions("t")),
            ("admin client", admin.list_groups()),
            ("admin client", admin.list_topics()),
            ("admin client", admin.describe_group("g")),
            ("admin client", admin.describe_cluster()),
        ):
            words = f"the {kind} is not started: use it in an `async with` block, or await start"
            with pytest.raises(ClientNotStarted, match=words):
                await call
        for method in (sender.metrics, sender.troubles):
            with pytest.raises(ClientNotStarted):
                method()
        with pytest.raises(ClientNotStarted):
            _ = sender.registry
        await sender.aclose()
        await admin.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_a_client_can_be_looked_into_and_mocked(client: type[Any]) -> None:
    """Which asks the class for all that it has."""
    assert "aclose" in dict(getmembers(client))
    double = create_autospec(client, instance=True)
    with pytest.raises(AttributeError):
        double.no_such_method()


# How long it may take


def test_a_flush_may_be_bounded_and_gives_nothing_up() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, float, list[Sent]]:
        async with producer(runtime) as sender:
            begun = runtime.clock.monotonic()
            sent = [await sender.send("t", b"%d" % number, partition=0) for number in range(3)]
            await sender.send_many("t", [b"3", b"4"], partition=1)
            with pytest.raises(KafkaError) as caught:
                await sender.flush(2.0)
            seconds = runtime.clock.monotonic() - begun
            world.cluster.silence.clear()
            await sender.flush(100.0)
            return caught.value, seconds, [await each for each in sent]

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 1])
        world.cluster.silence.add(ProduceRequest)
        error, seconds, sent = world.run_client(main)
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert (error.context["records"], error.context["timeout_s"]) == (5, 2.0)
        assert 2.0 <= seconds < 2.1
        assert [each.offset for each in sent] == [0, 1, 2]
        assert logs[1].values() == [b"3", b"4"]


def test_a_flush_whose_time_is_over_as_the_last_record_is_decided_has_not_failed() -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime)
        await sender.start()
        delivery = await sender.send("t", b"v", partition=0)
        await asyncio.sleep(1)
        flush = asyncio.ensure_future(sender.flush(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not flush.done(), "its time is over, and it has not gone on yet"
        delivery.batch.finish(0)
        await flush
        await sender.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        world.run_client(main)


@pytest.mark.parametrize(
    ("timeout_s", "error", "told"),
    [
        ("1", TypeError, "timeout_s is a number of seconds, not str '1'"),
        (True, TypeError, "timeout_s is a number of seconds, not bool True"),
        (-1, ValueError, "timeout_s is not negative, as int -1 is"),
    ],
)
def test_what_is_no_time_is_refused_and_nothing_is_closed(
    timeout_s: Any, error: type[Exception], told: str
) -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            for call in (sender.flush, sender.aclose):
                with pytest.raises(error, match=told):
                    await call(timeout_s)
            await (await sender.send("t", b"v"))

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


def test_a_close_may_be_bounded_and_fails_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[KafkaError | None] = []

    async def main(runtime: Runtime) -> tuple[KafkaError, KafkaError, float]:
        sender = producer(runtime)
        await sender.start()
        awaited = await sender.send("t", b"awaited", partition=0)
        await sender.send("t", b"told", partition=0, on_delivery=lambda _, e: heard.append(e))
        await sender.send_many("t", [b"forgotten"] * 3, partition=0)
        waits = asyncio.ensure_future(awaited.batch.outcome(awaited.index))
        begun = runtime.clock.monotonic()
        with pytest.raises(KafkaError) as caught:
            await sender.aclose(2.0)
        seconds = runtime.clock.monotonic() - begun
        with pytest.raises(KafkaError) as failed:
            await waits
        with pytest.raises(KafkaError, match="closed"):
            await sender.send("t", b"late")
        await sender.aclose(2.0)
        return caught.value, failed.value, seconds

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        world.cluster.silence.add(ProduceRequest)
        told, failed, seconds = world.run_client(main)
        assert log.values() == []
    assert 2.0 <= seconds < 2.1
    assert failed.code is ErrorCode.REQUEST_TIMED_OUT
    assert failed.context["timeout_s"] == 2.0
    assert [str(each) for each in heard] == [str(failed)]
    assert told.context["failed_records"] == 3, "those that nobody hears of otherwise"
    said = [each.getMessage() for each in caplog.records if "producer: closed" in each.getMessage()]
    assert len(said) == 1
    assert "closed before all was delivered: 5 records" in said[0]


def test_a_close_that_is_bounded_takes_no_longer_than_it_needs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> float:
        sender = producer(runtime, linger_ms=100)
        await sender.start()
        await sender.send("t", b"v")
        begun = runtime.clock.monotonic()
        await sender.aclose(20.0)
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        assert world.run_client(main) < 1.0
        assert log.values() == [b"v"]
    assert not caplog.records


def test_a_close_of_no_time_drops_what_is_not_sent_and_counts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> None:
        sender = producer(runtime, linger_ms=1000)
        await sender.start()
        for _ in range(4):
            await sender.send("t", b"v", partition=0)
        with pytest.raises(KafkaError):
            await sender.aclose(0)

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert "closed before all was delivered: 4 records" in caplog.text


def test_an_admin_that_is_closed_says_so_at_once() -> None:
    async def main(runtime: Runtime) -> float:
        admin = Admin(runtime=runtime, bootstrap_servers=BOOTSTRAP)
        await admin.start()
        await admin.aclose()
        await admin.aclose()
        begun = runtime.clock.monotonic()
        for call in (admin.list_topics(), admin.list_groups(), admin.describe_topics(["t"])):
            with pytest.raises(KafkaError, match="closed"):
                await call
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world:
        assert world.run_client(main) == 0.0
