"""A call that is refused leaves nothing behind: no coroutine that nobody has awaited."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from moldau.client.base.blocking import ClientState
from moldau.client.producer.record import ProducerInterceptor
from moldau.client.serdes import Place
from moldau.client.sync import (
    Admin,
    ClientClosed,
    ClientNotStarted,
    Consumer,
    Producer,
    SchemaRegistry,
    Sent,
    WrongProcess,
    WrongThread,
)
from moldau.errors import MoldauError
from moldau.runtime.loop_thread import _PROCESS
from moldau.testing import SyncEmbeddedBroker
from tests.client.sync.topic_contents import create

KINDS: Final = [Admin, Consumer, Producer, SchemaRegistry]
_OTHERS: Final = frozenset(
    {
        *("asynchronous", "batches", "close", "configuration", "finish", "forked", "from_config"),
        "start",
    }
)
"""What does not ask the loop for anything, or not yet."""


def made(kind: Any, bootstrap: str = "h:1") -> Any:
    return kind("http://h:1" if kind is SchemaRegistry else {"bootstrap.servers": bootstrap})


def asks(client: Any) -> list[Callable[[], object]]:
    """All that asks the loop, methods and properties, each with as few arguments as it takes."""
    found: list[Callable[[], object]] = []
    for name in dir(client_type := type(client)):
        if name.startswith(("_", "is_forked", "is_over")) or name in _OTHERS:
            continue
        asked = inspect.getattr_static(client_type, name)
        if isinstance(asked, property):
            found.append(partial(getattr, client, name))
        elif inspect.isfunction(asked):
            found.append(partial(asked, client, *_arguments(asked)))
    assert len(found) >= 6
    return found


def _arguments(function: Callable[..., object]) -> list[object]:
    """As few as it takes, behind `self`."""
    _, *others = inspect.signature(function).parameters.values()
    return [
        "t"
        for each in others
        if each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty
    ]


def refused(client: Any, *errors: type[Exception]) -> None:
    for ask in asks(client):
        with pytest.raises(errors):
            ask()
    gc.collect()  # a coroutine that nobody has awaited says so then, and warnings are errors


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_before_the_start(kind: Any) -> None:
    refused(made(kind), ClientNotStarted)


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_close(kind: Any) -> None:
    client = made(kind)
    client.close()
    refused(client, ClientClosed)
    client.close()
    gc.collect()


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_in_a_child(kind: Any) -> None:
    client = made(kind)
    client._state = ClientState.OPEN
    client.forked()
    refused(client, WrongProcess)
    client.close()
    gc.collect()


@pytest.mark.parametrize("reading", [iter, Consumer.batches])
def test_nor_is_there_an_end_of_what_is_read_in_a_child(
    reading: Callable[[Consumer], Iterator[object]],
) -> None:
    client = made(Consumer)
    client._state = ClientState.OPEN
    client.forked()
    with pytest.raises(WrongProcess):
        next(reading(client))
    client.close()
    assert list(reading(made_and_closed(Consumer))) == []


def made_and_closed(kind: Any) -> Any:
    client = made(kind)
    client.close()
    return client


def test_a_signal_handler_that_has_interrupted_a_send(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    """Its thread has what the loop waits for: 1. the main thread appends a record, 2. there comes
    SIGTERM, 3. the handler flushes, or closes any client, before the append ends."""
    create(moldau_broker.bootstrap_servers, moldau_topic)
    with (
        Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=moldau_broker.bootstrap_servers, linger_ms=60_000) as producer,
    ):
        sent = producer.send(moldau_topic, b"1")
        with producer._client._accumulator.lock:
            calls = (partial(sent.result, 1), producer.flush, producer.close, admin.close)
            for call in calls:
                with pytest.raises(WrongThread, match="signal handler"):
                    call()
        producer.flush()
        assert sent.result(60).offset == 0


def test_a_signal_handler_that_has_interrupted_a_read(moldau_broker: SyncEmbeddedBroker) -> None:
    with Consumer(bootstrap_servers=moldau_broker.bootstrap_servers) as consumer:
        with consumer._client._core.progress._lock:
            for call in (lambda: consumer.assignment, consumer.close):
                with pytest.raises(WrongThread, match="signal handler"):
                    call()
        assert consumer.assignment == []


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_loops_own_thread(moldau_broker: SyncEmbeddedBroker, kind: Any) -> None:
    async def ask() -> None:
        refused(client, WrongThread)
        with pytest.raises(WrongThread):
            client.close()
        gc.collect()

    with made(kind, moldau_broker.bootstrap_servers) as client:
        client._thread.call(ask())
    assert _PROCESS.thread is None


class Told(ProducerInterceptor):
    """What became of records."""

    def __init__(self) -> None:
        self.errors: list[MoldauError | None] = []

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        self.errors.append(error)


async def _later(value: bytes) -> bytes:
    return value


def later(value: bytes, place: Place) -> Awaitable[bytes]:
    """A serializer that has to ask somebody."""
    return _later(value)


def test_a_record_whose_serializers_may_not_be_waited_for_is_told_of(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    create(moldau_broker.bootstrap_servers, moldau_topic)
    told = Told()

    async def send() -> None:
        with pytest.raises(WrongThread):
            producer.send(moldau_topic, b"value", key=b"key")
        gc.collect()

    with Producer(
        bootstrap_servers=moldau_broker.bootstrap_servers,
        key_serializer=later,
        value_serializer=later,
        interceptors=[told],
    ) as producer:
        producer.send(moldau_topic, b"value", key=b"key").result(30)
        assert producer._thread is not None
        producer._thread.call(send())
    assert [type(each) for each in told.errors] == [type(None), WrongThread]
