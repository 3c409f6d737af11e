"""The fork server: children as from a fresh interpreter, but at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime.children import Child, FreshChild
from moldau.runtime.forking import UNKNOWN, ForkedChild, ForkServer

pytestmark = pytest.mark.real

CHILD = "tests.runtime.forked"
PATIENCE_S = 30

Test = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server(*modules: str, refused: list[str] | None = None) -> AsyncIterator[ForkServer]:
    told = [] if refused is None else refused
    found = ForkServer(modules, told.append)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield found
    finally:
        await found.aclose()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def gone(*pids: int) -> None:
    """Returns when none of them runs."""
    for pid in pids:
        while state_of(pid) not in ("", "Z"):  # noqa: ASYNC110 - another process tells nothing
            await asyncio.sleep(0.01)


def state_of(pid: int) -> str:
    """Z for a zombie, nothing for a process that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


async def answer(child: Child, word: str) -> str:
    child.send(word.encode())
    line = await child.read_line()
    assert line is not None
    return line.decode()


async def ended(child: Child) -> int:
    """Its exit code, when it has closed its side."""
    while await child.read_line() is not None:
        pass
    return await child.wait()


def test_children_answer_and_tell_how_they_end() -> None:
    async def run() -> None:
        async with server("xml.dom.minidom") as forks:
            one, two = [await forks.start_child(CHILD) for _ in range(2)]
            assert isinstance(one, ForkedChild)

            assert await answer(one, "hello") == f"hello {one.pid}"
            assert await answer(two, "modules") == "True"
            one.send(b"exit")
            assert (await ended(one), one.exit_code) == (7, 7)
            assert two.exit_code is None
            two.kill()
            assert await ended(two) == -signal.SIGKILL
            two.kill()  # nothing happens to one that has ended
            two.send(b"lost")
            assert state_of(one.pid) == ""

    asyncio.run(run())


def test_a_server_that_was_prepared_has_its_modules() -> None:
    async def run() -> None:
        async with server("no.such.module") as forks:
            await forks.prepare()
            await forks.prepare(["xml.dom.minidom", "no.such.module"])

            assert await answer(await forks.start_child(CHILD), "modules") == "True"

    asyncio.run(run())


def test_a_server_that_ends_while_it_is_prepared_is_not_waited_for() -> None:
    async def run() -> None:
        forks = ForkServer([])
        preparing = asyncio.create_task(forks.prepare(["tests.runtime.forked"]))
        await asyncio.sleep(0)
        await forks.aclose()
        await preparing
        await forks.aclose()

    asyncio.run(run())


def test_what_children_need_is_imported_once() -> None:
    async def run() -> None:
        async with server() as forks:
            before = await forks.start_child(CHILD)
            assert await answer(before, "modules") == "False"
            await forks.start_child(CHILD, imports=["xml.dom.minidom", "no.such.module"])

            assert await answer(await forks.start_child(CHILD), "modules") == "True"

    asyncio.run(run())


def test_a_server_with_threads_forks_nothing_and_says_why() -> None:
    async def run() -> None:
        told: list[str] = []
        async with server("tests.runtime.threading_module", refused=told) as forks:
            children = [await forks.start_child(CHILD) for _ in range(2)]

            assert all(isinstance(child, FreshChild) for child in children)
            assert await answer(children[0], "hello") == f"hello {children[0].pid}"
            assert len(told) == 1
            assert "a module that it imports starts them" in told[0]
            for child in children:
                child.kill()
                await child.wait()

    asyncio.run(run())


def test_a_lost_server_leaves_its_children_and_is_replaced() -> None:
    async def run() -> None:
        async with server() as forks:
            child = await forks.start_child(CHILD)
            parent = parent_of(child.pid)
            os.kill(parent, signal.SIGKILL)
            await gone(parent)

            assert await answer(child, "still") == f"still {child.pid}"
            second = await forks.start_child(CHILD)
            assert await answer(second, "hello") == f"hello {second.pid}"
            child.kill()
            assert await ended(child) == UNKNOWN
            second.kill()
            assert await ended(second) == -signal.SIGKILL

    asyncio.run(run())


PARENT = """
import asyncio
from moldau.runtime.forking import ForkServer

async def run():
    forks = ForkServer([])
    child = await forks.start_child("tests.runtime.forked")
    print(child.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(run())
"""


def test_children_and_server_end_with_a_parent_that_is_killed() -> None:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        server_pid = parent_of(pid)
        process.kill()
        await process.wait()
        async with asyncio.timeout(PATIENCE_S):
            await gone(pid, server_pid)

    asyncio.run(run())
