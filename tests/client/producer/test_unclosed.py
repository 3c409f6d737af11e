"""Clients that nobody closes: what the log and Python's warnings say of them."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.client import Admin, ClientClosed, Consumer, Producer
from moldau.client.base.lifecycle import Lifecycle
from moldau.testing import SyncEmbeddedBroker

COUNT = 50
LOST = f"producer: not closed before the end of its event loop: {COUNT} records were not delivered"


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


async def sends(bootstrap: str, topic: str, kept: list[Producer] | None = None) -> Producer:
    """Sends what stays undecided, and forgets to close."""
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000)
    await producer.start()
    if kept is not None:
        kept.append(producer)
    for number in range(COUNT):
        await producer.send(topic, b"%d" % number)
    return producer


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def unclosed(main: Coroutine[Any, Any, Any]) -> list[str]:
    """The kinds of clients that are missed after a program."""
    with collected() as missed:
        asyncio.run(main)
    return missed


@contextmanager
def collected() -> Iterator[list[str]]:
    """Yield a list of the kinds of clients that are missed, which is filled at the end. Nothing of
    them is left then: a warning keeps its client, and so the client's open connections."""
    missed: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield missed
        gc.collect()
        while told:
            missed += named(told)
            told.clear()
            gc.collect()
    missed.sort()


def named(told: list[warnings.WarningMessage]) -> list[str]:
    """Those that are ours: asyncio and Python warn of what the clients left open."""
    assert all(each.category is ResourceWarning for each in told)
    return [str(each.message) for each in told if each.source.__class__ is Lifecycle]


def test_a_producer_that_is_not_closed_says_how_many_records_are_lost(
    bootstrap: str, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await sends(bootstrap, moldau_topic)

    assert unclosed(main()) == ["unclosed producer"]
    (message,) = said(caplog)
    assert message.startswith(LOST)
    assert "async with" in message
    assert "aclose()" in message


def test_it_is_told_as_soon_as_the_loop_ends_and_not_twice(
    bootstrap: str, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[Producer] = []
    with collected() as missed:
        asyncio.run(sends(bootstrap, moldau_topic, kept))
        assert len(said(caplog)) == 1
        with pytest.raises(ClientClosed):
            asyncio.run(kept[0].start())
        kept.clear()
    assert missed == ["unclosed producer"]
    assert len(said(caplog)) == 1


def test_it_is_told_of_a_producer_whose_loop_is_just_dropped(
    bootstrap: str, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with collected() as missed:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(sends(bootstrap, moldau_topic))
        loop.close()
        del loop
    assert missed == ["unclosed producer"]
    (message,) = said(caplog)
    assert message.startswith(LOST)


def test_where_nothing_is_lost_there_is_a_warning_and_no_error(
    bootstrap: str, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await (await sends(bootstrap, moldau_topic)).flush()
        for kind in (Consumer, Admin):
            await kind(bootstrap_servers=bootstrap).start()

    assert unclosed(main()) == [
        "unclosed admin client",
        "unclosed consumer",
        "unclosed producer",
    ]
    assert said(caplog) == []


@pytest.mark.parametrize("is_aborted", [True, False])
def test_of_those_that_are_closed_nobody_hears(
    bootstrap: str, moldau_topic: str, is_aborted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await (await sends(bootstrap, moldau_topic)).aclose(abort=is_aborted)
        Producer(bootstrap_servers=bootstrap)  # never started
        for kind in (Consumer, Admin):
            async with kind(bootstrap_servers=bootstrap):
                pass

    assert unclosed(main()) == []
    assert said(caplog) == []


def test_it_is_no_task_that_others_would_wait_for(bootstrap: str, moldau_topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await (await producer.send(moldau_topic, b"v"))
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.wait_for(asyncio.gather(*others), 60)

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(0, 12, 3))
def test_nothing_is_begun_anew_as_the_loop_ends(
    bootstrap: str, moldau_topic: str, turns: int
) -> None:
    """All tasks are cancelled then: what they had begun again would be left behind, half done."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        producer = Producer(bootstrap_servers=bootstrap)
        consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await producer.start()
        await producer.send(moldau_topic, b"v")
        await consumer.start()
        consumer.assign([(moldau_topic, 0)])
        for _ in range(turns):
            await asyncio.sleep(0)

    assert unclosed(main()) == ["unclosed consumer", "unclosed producer"]
    assert not asyncio.all_tasks(loops[0])
