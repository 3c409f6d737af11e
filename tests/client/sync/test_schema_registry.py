"""The Schema Registry's client for threads, against a registry on a real socket."""

from __future__ import annotations

import asyncio
import gc
import pickle
import ssl
from collections.abc import Iterator
from typing import Any
from weakref import ref

import pytest

from moldau.client.base.blocking import ClientState
from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    Place,
    RegistryError,
    Schema,
)
from moldau.client.settings import serdes as rows
from moldau.client.sync import ClientClosed, Producer, SchemaRegistry, WrongThread
from moldau.runtime.loop_thread import _PROCESS
from tests.client.serdes.served_registry import ServedRegistry, served_registry
from tests.client.sync.loop_guest import entered
from tests.client.sync.programs import WITHOUT_UVLOOP, run
from tests.client.sync.topic_contents import in_threads

TEXT, NUMBER = Schema('"string"'), Schema('"int"')
ONCE: dict[str, Any] = {"max_retries": 0, "http_read_timeout_ms": 20_000}
PLACE = Place("t", False)


@pytest.fixture
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


def test_it_answers_in_a_with_block_and_without(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url, **ONCE) as registry:
        assert registry.register("t-value", TEXT) == 1
        assert registry.schema(1) == TEXT
        assert registry.latest("t-value").version == 1
        assert registry.known_schema(1) == TEXT
    alone = SchemaRegistry({"schema.registry.url": served.url}, max_retries=0)
    assert alone.subjects() == ["t-value"]
    with pytest.raises(RegistryError, match="not found"):
        alone.latest("other")
    alone.close()
    assert alone.settings[rows.retries_max] == 0


def test_it_is_closed_once_and_says_so(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    registry.subjects()
    registry.close()
    registry.close()
    with pytest.raises(ClientClosed):
        registry.subjects()
    with pytest.raises(ClientClosed), registry:
        pass


def test_threads_share_one(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url, **ONCE) as registry:
        found: list[int] = []
        in_threads(8, lambda thread: found.append(registry.register(f"t-{thread % 2}", TEXT)))
    assert found == [1] * 8
    assert len(served.script.asked) == 2


def test_it_does_not_wait_on_the_clients_own_thread(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url, **ONCE) as registry, entered() as thread:

        async def ask() -> None:
            for call in (registry.subjects, registry.close):
                with pytest.raises(WrongThread):
                    call()

        thread.call(ask())


def test_serdes_take_it_wherever_they_are_used(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    write, read = AvroSerializer(registry), AvroDeserializer(registry)

    async def both() -> object:
        data = await write("text", PLACE)  # type: ignore[misc]  # the first waits for the registry
        return await read(data, PLACE)

    assert asyncio.run(both()) == "text"
    registry.close()
    with pytest.raises(RegistryError, match="is closed"):
        asyncio.run(registry.asynchronous.subjects())


def test_it_pickles_and_its_configuration_too(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url, **ONCE) as registry:
        registry.register("t-value", TEXT)
        again = pickle.loads(pickle.dumps(registry))  # noqa: S301 - our own
        assert type(again) is SchemaRegistry
        assert again.configuration == registry.configuration
        with again.configuration.open() as another:
            assert another.subjects() == ["t-value"]
        assert again.configuration.shared() is registry.configuration.shared()
        registry.configuration.shared().close()
    tls = ssl.create_default_context()
    with pytest.raises(TypeError, match="`tls`"):
        pickle.dumps(SchemaRegistry("https://h", tls=tls))
    assert SchemaRegistry("https://h", tls=tls).configuration.options == {"tls": tls}


CLOSED_BEFORE = """
import os, sys
from moldau.client.sync import ClientClosed, SchemaRegistry

registry = SchemaRegistry(sys.argv[1])
registry.subjects()
registry.close()
other = SchemaRegistry(sys.argv[1])
other.subjects()
child = os.fork()
if not child:
    try:
        registry.subjects()
    except ClientClosed:
        other.close()
        sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), other.subjects())
"""


def test_in_a_child_it_goes_on_and_one_that_was_closed_stays_closed(served: ServedRegistry) -> None:
    assert run(CLOSED_BEFORE, served.url) == "7 []\n"


def test_one_that_is_being_closed_is_closed_in_a_child(served: ServedRegistry) -> None:
    with SchemaRegistry(served.url, **ONCE) as registry:
        registry._state = ClientState.CLOSING
        registry.forked()
        with pytest.raises(ClientClosed):
            registry.subjects()
        registry._state, registry._thread = ClientState.OPEN, _PROCESS.thread


def test_one_that_nobody_has_any_more_is_collected_with_its_connection(
    served: ServedRegistry,
) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    registry.subjects()
    before = len(_PROCESS.tenants)
    collected = ref(registry)
    del registry
    gc.collect()
    assert collected() is None
    assert len(_PROCESS.tenants) == before - 1
    assert served.script.ended.wait(20)


def test_serdes_go_on_with_one_that_nobody_else_has(served: ServedRegistry) -> None:
    registry = SchemaRegistry(served.url, **ONCE)
    registry.subjects()
    write = AvroSerializer(registry)
    del registry
    gc.collect()
    waits: Any = write("text", PLACE)  # at first
    with entered() as thread:
        assert thread.call(waits)
        assert served.script.connections == 1


AT_EXIT = """
import atexit, sys
from moldau.client.sync import SchemaRegistry

registry = SchemaRegistry(sys.argv[1], max_retries=0)
first, used = sys.argv[2:]
if first == "first":
    atexit.register(registry.close)
if used == "used":
    registry.subjects()
if first != "first":
    atexit.register(registry.close)
"""


@pytest.mark.parametrize("first", ["first", "later"])
@pytest.mark.parametrize("used", ["used", "unused"])
@pytest.mark.parametrize("loop", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_an_exit_function_may_close_it(
    served: ServedRegistry, first: str, used: str, loop: str
) -> None:
    assert run(loop + AT_EXIT, served.url, first, used) == ""


def test_one_that_was_never_used_is_closed_without_a_thread(served: ServedRegistry) -> None:
    with entered():
        pass  # so there is none
    registry = SchemaRegistry(served.url, **ONCE)
    write = AvroSerializer(registry)
    registry.close()
    assert _PROCESS.thread is None
    with pytest.raises(ClientClosed):
        registry.subjects()
    with pytest.raises(RegistryError, match="is closed"):
        asyncio.run(write("text", PLACE))  # type: ignore[arg-type]


def test_what_keeps_a_client_from_being_shared_is_named() -> None:
    registry = SchemaRegistry("http://h:1")
    serializer = AvroSerializer(registry, '"long"', to_dict=lambda value: value)
    configuration = Producer(bootstrap_servers="h:1", value_serializer=serializer).configuration
    with pytest.raises(TypeError, match=r"value_serializer does not pickle.*lambda.*open\(\)"):
        configuration.shared()
    given = {"key.serializer": JsonDeserializer(int), "value.serializer": lambda value: value}
    with pytest.raises(TypeError, match=r"^value\.serializer does not pickle"):
        Producer(given, bootstrap_servers="h:1").configuration.shared()
