"""Blocking clients that several threads close at once, and closes that fail."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final

import pytest

from moldau.client.base.blocking import BlockingClient, ClientState
from moldau.client.serdes import RegistryError
from moldau.client.sync import (
    Admin,
    ClientClosed,
    Consumer,
    Producer,
    RebalanceListener,
    SchemaRegistry,
)
from moldau.errors.codes import KafkaError
from moldau.runtime.loop_thread import _PROCESS, LoopThread
from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.served_registry import ServedRegistry, served_registry
from tests.client.sync.interrupts import heeds_ctrl_c as heeds_ctrl_c
from tests.client.sync.loop_guest import entered, threads
from tests.client.sync.topic_contents import create, in_threads
from tests.client.sync.turned_records import reading, write

KINDS: Final = [Admin, Consumer, Producer, SchemaRegistry]
THREADS: Final = 6


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


@pytest.fixture
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


@pytest.fixture(params=KINDS)
def started(request: pytest.FixtureRequest, bootstrap: str, served: ServedRegistry) -> Any:
    if request.param is SchemaRegistry:
        registry = SchemaRegistry(served.url)
        registry.subjects()
        return registry
    client = request.param(bootstrap_servers=bootstrap)
    client.start()
    return client


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_whoever_closes_it_finds_it_closed(started: Any) -> None:
    found: list[ClientState] = []

    def close(_: int) -> None:
        started.close()
        found.append(started._state)

    in_threads(THREADS, close)
    assert found == [ClientState.CLOSED] * THREADS
    assert _PROCESS.thread is None


def test_who_comes_second_waits_until_the_first_has_closed_it(started: Any) -> None:
    came: list[int] = []
    both, first, closes = threading.Event(), threading.Event(), started._client.aclose
    go_on = asyncio.Event()
    found: list[ClientState] = []

    async def aclose(*arguments: Any, **named: Any) -> None:
        came.append(1)
        if len(came) == 2:
            both.set()
            return
        first.set()
        await go_on.wait()
        await closes(*arguments, **named)

    def close() -> None:
        started.close()
        found.append(started._state)

    started._client.aclose = aclose
    closing = [in_thread(close)]
    assert first.wait(30)
    closing.append(in_thread(close))
    assert both.wait(30)
    assert started._thread.soon(go_on.set)
    for each in closing:
        each.join()
    assert found == [ClientState.CLOSED, ClientState.CLOSED]


def test_one_that_is_not_started_is_closed_by_several_at_once() -> None:
    for kind in (Admin, Consumer, Producer):
        client = kind(bootstrap_servers="h:1")
        in_threads(THREADS, lambda _, client=client: client.close())  # type: ignore[misc]
        assert client._state is ClientState.CLOSED
    registry = SchemaRegistry("http://h:1")
    in_threads(THREADS, lambda _: registry.close())
    assert registry._state is ClientState.CLOSED


class Vanishes(BlockingClient):
    """Another thread closes it."""

    looks: list[LoopThread | None]

    @property
    def _thread(self) -> LoopThread | None:
        return self.looks.pop() if len(self.looks) > 1 else self.looks[0]

    @_thread.setter
    def _thread(self, thread: LoopThread | None) -> None:
        self.looks = [thread]


def test_its_thread_may_go_between_two_looks_at_it() -> None:
    class AnAdmin(Vanishes, Admin):
        pass

    with entered() as thread:
        admin = AnAdmin(bootstrap_servers="h:1")
        for call in (admin._check_may_wait, admin.close):
            admin.looks = [None, thread]
            call()
        admin.looks = [None, thread]
        assert admin._is_served()
        admin.looks = [None, thread]
        assert "thread has ended" not in str(admin._refusal())


def test_a_program_may_end_while_a_thread_closes_its_producer(bootstrap: str) -> None:
    """1. The program ends and looks whether the producer is open. 2. A thread closes it. 3. The
    program would flush it."""

    class AProducer(Vanishes, Producer):
        pass

    producer = AProducer(bootstrap_servers=bootstrap)
    producer.start()
    thread = producer._thread
    producer.close()
    producer.looks = [None, thread, thread]

    producer.finish()

    assert producer.looks == [None]


def test_a_close_that_has_less_time_does_not_wait_for_one_that_has_more() -> None:
    with SyncEmbeddedBroker() as broker:
        create(broker.bootstrap_servers, "t")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=900_000)
        producer.start()
        producer.send("t", b"there").result(30)
    delivery = producer.send("t", b"too late")
    client, waits = producer._client, threading.Event()
    flush = client._sender.settle_or_give_up

    async def flushes(timeout_s: float | None) -> None:
        waits.set()
        await flush(timeout_s)

    client._sender.settle_or_give_up = flushes  # type: ignore[method-assign]
    told: list[type[Exception]] = []

    def close() -> None:
        try:
            producer.close()
        except KafkaError as error:
            told.append(type(error))

    patient = in_thread(close)
    assert waits.wait(30)
    with pytest.raises(KafkaError, match="not all records"):
        producer.close(0.01)
    after_the_first = delivery.is_done
    producer.close(abort=True)
    assert (after_the_first, delivery.is_done) == (False, True)
    patient.join()
    assert told == [KafkaError]


def test_a_listener_may_close_it_while_another_thread_does(
    bootstrap: str, moldau_topic: str
) -> None:
    write(bootstrap, moldau_topic, 3)
    hears, closes, found = threading.Event(), threading.Event(), list[ClientState]()

    class Closes(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[object]) -> None:
            hears.set()
            assert closes.wait(30)
            consumer.close()
            found.append(consumer._state)

    def close() -> None:
        assert hears.wait(30)
        consumer.close(600.0)

    async def aclose(*arguments: Any, **named: Any) -> None:
        closes.set()
        await closing(*arguments, **named)

    consumer = reading(bootstrap, moldau_topic)
    consumer.start()
    closing = consumer._client.aclose
    consumer._client.aclose = aclose  # type: ignore[method-assign]
    consumer.subscribe([moldau_topic], listener=Closes())
    other = in_thread(close)
    with suppress(KafkaError):
        while not found:
            consumer.poll(0.5)
    other.join()
    assert found == [ClientState.CLOSING]
    assert consumer._state is ClientState.CLOSED


def test_what_is_neither_yes_nor_no_is_refused_and_nothing_is_closed(bootstrap: str) -> None:
    given: Any = "no"
    with Consumer(bootstrap_servers=bootstrap, group_id="g") as consumer:
        with pytest.raises(TypeError, match="leave_group is True or False, not str 'no'"):
            consumer.close(leave_group=given)
        assert isinstance(consumer.list_topics(), list)


def failing(call: Callable[[], object]) -> tuple[threading.Thread, list[Exception]]:
    """A thread that calls, and what it hears."""
    told: list[Exception] = []

    def heed() -> None:
        try:
            call()
        except (KafkaError, RegistryError) as error:
            told.append(error)

    return in_thread(heed), told


def test_who_waits_for_a_registry_hears_of_the_close(served: ServedRegistry) -> None:
    served.script.stalls = True
    registry = SchemaRegistry(served.url)
    with entered():
        thread, told = failing(registry.subjects)
        assert served.script.stalled.wait(30)
        registry.close()
        thread.join()
    assert [type(each) for each in told] in ([RegistryError], [ClientClosed])


def test_who_waits_for_a_broker_hears_of_the_close() -> None:
    with SyncEmbeddedBroker() as broker:
        admin = Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=900_000)
        admin.start()
    began, describe = threading.Event(), admin._client.describe_cluster

    async def describes(**named: Any) -> Any:
        began.set()
        return await describe(**named)

    admin._client.describe_cluster = describes  # type: ignore[method-assign]
    with entered():
        thread, told = failing(admin.describe_cluster)
        assert began.wait(30)
        admin.close()
        thread.join()
    assert len(told) == 1
    assert isinstance(told[0], KafkaError)


class Broken(Exception):
    """Of a close."""


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_close_that_fails_says_so_and_leaves_nothing(
    started: Any, served: ServedRegistry, is_alone: bool
) -> None:
    with nullcontext() if is_alone else entered():
        _close_in_vain(started)
        tasks = None if _PROCESS.thread is None else _PROCESS.thread.call(_tasks())
    assert tasks == (None if is_alone else set())
    assert "moldau-clients-loop" not in threads()
    if isinstance(started, SchemaRegistry):
        assert served.script.ended.wait(30)
    else:
        assert started._client._cluster.connections == 0


def test_a_member_whose_close_fails_ends_too(bootstrap: str, moldau_topic: str) -> None:
    write(bootstrap, moldau_topic, 1)
    with entered() as thread:
        consumer = reading(bootstrap, moldau_topic)
        consumer.start()
        consumer.subscribe([moldau_topic])
        while not consumer.poll(0.5):
            pass
        _close_in_vain(consumer)
        assert thread.call(_tasks()) == set()


def test_what_cuts_a_close_off_is_raised_whatever_happens_at_the_end(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As Ctrl-C does, where a listener fails that hears what is lost then."""
    consumer = reading(bootstrap, "t")
    consumer.start()
    drop = consumer._client.drop

    async def fails() -> None:
        await drop()
        raise ValueError("at the end")

    consumer._client.drop = fails  # type: ignore[method-assign]
    _close_in_vain(consumer)
    assert "consumer: closed by Broken" in caplog.text
    assert "at the end" in caplog.text


def _close_in_vain(client: Any) -> None:
    async def aclose(*_: object, **__: object) -> None:
        raise Broken

    client._client.aclose = aclose
    with pytest.raises(Broken):
        client.close()
    assert client._state is ClientState.CLOSED
    assert client._as_tenant() not in _PROCESS.tenants


async def _tasks() -> set[str]:
    """Those that go on by themselves."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return {each.get_name() for each in tasks}


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("raises", [False, True])
def test_who_polls_tells_what_is_lost_after_a_close_that_ctrl_c_has_cut_off(
    bootstrap: str, moldau_topic: str, *, raises: bool
) -> None:
    """There is no further close that could: it is told in the poll, after what is told there."""
    write(bootstrap, moldau_topic, 1)
    heard: list[str] = []
    ended_by: list[type[Exception]] = []
    is_told, may_end = threading.Event(), threading.Event()

    class Hears(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[Any]) -> None:
            is_told.set()
            may_end.wait(30)
            heard.append("assigned")
            if raises:
                raise ZeroDivisionError

        def on_partitions_lost(self, partitions: Sequence[Any]) -> None:
            heard.append("lost")

    def polls() -> None:
        try:
            consumer.poll(30.0)
        except (ClientClosed, ZeroDivisionError) as error:
            ended_by.append(type(error))

    def interrupts() -> None:
        while not consumer._client._is_closing:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with entered():
        consumer = reading(bootstrap, moldau_topic)
        consumer.start()
        consumer.subscribe([moldau_topic], listener=Hears())
        polling = in_thread(polls)
        assert is_told.wait(30)
        interrupting = in_thread(interrupts)
        with pytest.raises(KeyboardInterrupt):
            consumer.close()
        interrupting.join(30)
        assert heard == []
        may_end.set()
        polling.join(30)
        assert heard == ["assigned", "lost"]
        assert ended_by == [ZeroDivisionError if raises else ClientClosed]
