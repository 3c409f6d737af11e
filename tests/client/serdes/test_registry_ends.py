"""What becomes of a registry's connections when it is closed, in a child, and at the exit."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any, cast

import pytest

from moldau.client.serdes import RegistryError, SchemaRegistry
from moldau.client.serdes.registry.shell import Registry, RetryPolicy, _InLoop
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import HttpTimeouts, _Stream
from tests.client.serdes.served_registry import served_registry
from tests.client.sync.programs import WITHOUT_UVLOOP, run

ONCE = RetryPolicy(HttpTimeouts(1, 1), 0, Backoff(1, 1))


class Branch:
    """One of a parent process."""

    def __init__(self) -> None:
        self.told = 0

    def forked(self) -> None:
        self.told += 1


def registry_of(branch: Branch, loop: asyncio.AbstractEventLoop) -> Registry:
    made = Registry([], ONCE, None, None)
    made._branches[loop] = cast("_InLoop", branch)
    return made


def test_in_a_child_it_has_no_branch_of_its_parent_any_more() -> None:
    async def main() -> None:
        loop, branch = asyncio.get_running_loop(), Branch()
        registry = registry_of(branch, loop)
        registry.forked()
        assert branch.told == 1
        assert isinstance(await registry._branch(), _InLoop)
        await registry.aclose()

    asyncio.run(main())


def test_in_a_child_it_does_not_wait_for_a_thread_of_its_parent() -> None:
    registry = Registry([], ONCE, None, None)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go_on.wait()

    lock = registry._lock
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    registry.forked()
    is_free = registry._lock.acquire(blocking=False)
    go_on.set()
    thread.join()
    assert is_free


class Writer:
    """Of a connection, as far as a fork wants to know it."""

    def __init__(self, its_socket: object) -> None:
        self._socket = its_socket

    def get_extra_info(self, name: str) -> object:
        assert name == "socket"
        return self._socket


def line_over(its_socket: object) -> _Stream:
    return _Stream(cast("Any", None), cast("Any", None), cast("Any", Writer(its_socket)))


def test_in_a_child_a_connection_leads_nowhere() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line_over(ours).forked()
        theirs.setblocking(False)
        assert theirs.recv(1) == b""  # nobody has the other end


def test_in_a_child_a_connection_that_was_closed_or_is_no_socket_is_left_alone() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        line_over(ours).forked()
    line_over(None).forked()
    line_over(object()).forked()


def test_who_waits_for_an_answer_hears_of_the_close_and_is_not_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        waits = asyncio.Event()

        def wait_s(self: Backoff, failures: int, random: object) -> float:
            waits.set()
            return 600.0

        monkeypatch.setattr(Backoff, "wait_s", wait_s)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        registry = SchemaRegistry(f"http://127.0.0.1:{port}")
        asking = asyncio.create_task(registry.latest("t"))
        await waits.wait()
        await registry.aclose()
        with pytest.raises(RegistryError, match="is closed"):
            await asking

    asyncio.run(main())


ASKS_AT_EXIT = """
import atexit, sys
from moldau.client.sync import SchemaRegistry
from moldau.runtime.loop_thread import enter

class Other:
    def finish(self): pass
    def close(self): pass

enter(Other())
atexit.register(lambda: print(registry.subjects()))
registry = SchemaRegistry(sys.argv[1], max_retries=0)
registry.subjects()
"""


@pytest.mark.parametrize("first", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_an_exit_function_may_ask_on_the_connection_that_there_is(first: str) -> None:
    """Also one that runs behind the collector's part of the exit."""
    with served_registry() as served:
        assert run(first + ASKS_AT_EXIT, served.url) == "[]\n"
        assert served.script.connections == 1


CLOSED_AT_EXIT = """
import sys
from moldau.client.sync import SchemaRegistry
from moldau.runtime.loop_thread import enter

class Other:
    def finish(self): pass
    def close(self): pass

class Tells(SchemaRegistry):
    def close(self):
        print("closed")
        super().close()

enter(Other())
registry = Tells(sys.argv[1], max_retries=0)
registry.subjects()
"""


def test_one_that_nobody_closes_is_closed_at_the_exit() -> None:
    """Also when the loop's thread is older than the registry, and so than the collector's part of
    the exit."""
    with served_registry() as served:
        assert run(CLOSED_AT_EXIT, served.url) == "closed\n"
