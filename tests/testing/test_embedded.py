"""The embedded broker: with and without an event loop, in simulated time, and as fixtures."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from moldau.config import BadSettings
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Response
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import run
from moldau.runtime.threaded import ThreadedRuntime
from moldau.testing import EmbeddedBroker, EmbeddedBrokerMisused, SyncEmbeddedBroker
from moldau.testing.embedded import setting_texts
from tests.broker.server.wire import wired
from tests.runtime.arena import REAL_ARENAS, play

pytest_plugins = ["pytester"]


async def round_trip(runtime: Runtime, servers: str, topic: str, value: bytes) -> list[bytes]:
    """Creates, produces, and reads everything."""
    host, _, port = servers.rpartition(":")
    async with wired(runtime, host, int(port)) as wire:
        assert await wire.create(topic) in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        assert (await wire.produce(topic, [value])).error_code == ErrorCode.NONE
        return await wire.fetch_all(topic)


@pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])
def test_a_broker_on_the_callers_loop(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        own = runtime if arena == "simulated" else None
        async with EmbeddedBroker(runtime=own) as broker:
            servers, directory = broker.bootstrap_servers, broker.directory
            assert await round_trip(runtime, servers, "a", b"1") == [b"1"]
            await broker.restart()
            assert broker.bootstrap_servers == servers
            assert await round_trip(runtime, servers, "a", b"2") == [b"1", b"2"]
        assert not broker.is_running
        assert not runtime.files.exists(directory)

    play(arena, scenario)


def test_metrics_are_served_where_the_settings_say_until_the_broker_stops() -> None:
    (port,) = free_ports(1)
    with SyncEmbeddedBroker({"moldau.metrics.listener": f"127.0.0.1:{port}"}):
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            assert answer.status == 200
        with urlopen(f"http://127.0.0.1:{port}/history", timeout=30) as answer:
            assert json.load(answer)["node"] == 1
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_a_broker_in_a_thread() -> None:
    threads = threading.active_count()
    with SyncEmbeddedBroker() as broker:
        servers, directory = broker.bootstrap_servers, broker.directory
        assert run(lambda runtime: round_trip(runtime, servers, "a", b"1")) == [b"1"]
        broker.restart()
        assert run(lambda runtime: round_trip(runtime, servers, "a", b"2")) == [b"1", b"2"]
    assert not broker.is_running
    assert threading.active_count() == threads
    assert not os.path.exists(directory)


def test_a_directory_that_was_named_stays(tmp_path: object) -> None:
    directory = f"{tmp_path}/data"
    for life in range(2):
        with SyncEmbeddedBroker(directory=directory) as broker:
            servers = broker.bootstrap_servers
            found = run(lambda runtime, at=servers: round_trip(runtime, at, "a", b"1"))  # type: ignore[misc]
            assert len(found) == life + 1


def test_settings_are_a_brokers() -> None:
    with SyncEmbeddedBroker({"num.partitions": 4, "auto.create.topics.enable": True}) as broker:
        servers = broker.bootstrap_servers

        async def scenario(runtime: Runtime) -> Response:
            host, _, port = servers.rpartition(":")
            async with wired(runtime, host, int(port)) as wire:
                await wire.create("a", -1)
                return await wire.metadata("a")

        answer = run(scenario)
        assert len(answer.topics[0].partitions) == 4  # type: ignore[attr-defined]


def test_bad_settings_leave_nothing_behind() -> None:
    threads = threading.active_count()
    with pytest.raises(BadSettings, match=r"num\.partitions"):
        SyncEmbeddedBroker({"num.partitions": 0}).start()
    assert threading.active_count() == threads


@pytest.mark.parametrize("kind", [EmbeddedBroker, SyncEmbeddedBroker])
@pytest.mark.parametrize("value", ["bootstrap_servers", "host", "port", "directory"])
def test_one_that_is_not_started_says_how_to_start_it(
    kind: type[EmbeddedBroker | SyncEmbeddedBroker], value: str
) -> None:
    with pytest.raises(EmbeddedBrokerMisused, match=r"not running: use it in .*with.* start\(\)"):
        getattr(kind(), value)


def test_one_that_runs_is_not_started_again() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with EmbeddedBroker() as broker:
            with pytest.raises(EmbeddedBrokerMisused, match=r"started already: .* restart\(\)"):
                await broker.start()
            assert await round_trip(runtime, broker.bootstrap_servers, "a", b"1") == [b"1"]
        both = await asyncio.gather(broker.start(), broker.start(), return_exceptions=True)
        assert [type(each) for each in both] == [EmbeddedBroker, EmbeddedBrokerMisused]
        await broker.stop()

    run(scenario)
    with SyncEmbeddedBroker() as broker:
        with pytest.raises(EmbeddedBrokerMisused, match="started already"):
            broker.start()
        assert broker.is_running


def test_one_is_stopped_on_the_loop_that_it_was_started_on() -> None:
    with ThreadedRuntime() as there:
        broker = there.run(lambda runtime: EmbeddedBroker().start())
        for change in (broker.stop, broker.restart):
            with pytest.raises(EmbeddedBrokerMisused, match="started on another event loop"):
                run(lambda runtime, change=change: change())  # type: ignore[misc]
        assert broker.bootstrap_servers
        there.run(lambda runtime: broker.stop())
    assert not broker.is_running
    run(lambda runtime: broker.stop())


def test_settings_are_as_a_file_would_say_them() -> None:
    given = {"a": ["x", "y"], "b": ("z",), "c": [], "d": True, "e": 0.5, "f": "t,u"}
    texts = {"a": "x,y", "b": "z", "c": "", "d": "true", "e": "0.5", "f": "t,u"}
    assert setting_texts(given) == texts


@pytest.mark.parametrize("kind", [EmbeddedBroker, SyncEmbeddedBroker])
def test_none_is_no_value_of_a_setting(kind: type[EmbeddedBroker | SyncEmbeddedBroker]) -> None:
    with pytest.raises(BadSettings, match=r"num\.partitions: is None.* leave it out"):
        kind({"num.partitions": None})


def take(port: int) -> socket.socket:
    """Somebody else's now."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", port))
    taken.listen()
    return taken


def test_a_restart_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the port between the stop and the start."""
    others_threads = set(threading.enumerate())

    async def scenario(runtime: Runtime) -> None:
        broker = await EmbeddedBroker().start()
        port, directory = broker.port, broker.directory
        with ExitStack() as others:
            stop = broker._broker().aclose

            async def aclose() -> None:
                await stop()
                others.enter_context(take(port))

            monkeypatch.setattr(broker._broker(), "aclose", aclose)
            with pytest.raises(MoldauError, match="cannot listen"):
                await broker.restart()
        assert not broker.is_running
        assert not runtime.files.exists(directory)
        left = set(threading.enumerate()) - others_threads
        assert not [each for each in left if "embedded-broker" in each.name]
        await broker.stop()
        async with broker:  # a new life, with nothing of the old one
            assert (broker.port, runtime.files.exists(broker.directory)) == (port, True)

    run(scenario)


def test_a_restart_in_a_thread_that_fails_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threading.active_count()
    broker = SyncEmbeddedBroker().start()
    directory = broker.directory

    async def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EmbeddedBroker, "_run", fail)
    with pytest.raises(OSError, match="No space"):
        broker.restart()
    assert not broker.is_running
    assert not os.path.exists(directory)
    assert threading.active_count() == threads


def test_the_fixtures_are_there_for_everybodys_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import socket

        seen = []

        def test_one(moldau_broker, moldau_topic):
            socket.create_connection((moldau_broker.host, moldau_broker.port)).close()
            seen.append((moldau_broker.bootstrap_servers, moldau_topic))

        def test_two(moldau_broker, moldau_topic):
            seen.append((moldau_broker.bootstrap_servers, moldau_topic))
            assert seen[0][0] == seen[1][0]
            assert seen[0][1] != seen[1][1]
            assert moldau_topic.startswith("test_two-")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=2)


def test_the_plugin_imports_no_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"asyncio", "moldau.broker", "moldau.protocol.declare", "moldau.runtime.real"}
            assert not heavy & sys.modules.keys()
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:anyio")
    result.assert_outcomes(passed=1)
