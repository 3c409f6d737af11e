"""Processes that are kept alive, and that end with their supervisor."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from os import getpid, kill
from pathlib import Path

import pytest

from moldau.runtime import Runtime, node_processes
from moldau.streams.supervisor.supervisor import Supervisor
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real

WORKER = """
import asyncio, pathlib, os, sys
from moldau.runtime.real import run
from moldau.runtime.signals import until_signal
folder, index = pathlib.Path(sys.argv[1]), sys.argv[2]
async def work():
    with (folder / f"started-{index}").open("a") as out:
        out.write(f"{os.getpid()}\\n")
    try:
        await asyncio.sleep(1000)
    finally:
        with (folder / f"stopped-{index}").open("a") as out:
            out.write(f"{os.getpid()}\\n")
run(lambda runtime: until_signal(work()))
"""
WAITS = """
        print(os.getpid(), file=(folder / f"stopping-{index}").open("w"))
        while not (folder / "go").exists():
            await asyncio.sleep(0.01)
"""
ASKS = """
if index == "1":
    from moldau.streams.supervisor.supervisor import ask_for_workers
    ask_for_workers(4)
elif index == "3":
    sys.exit(2)
"""
SUPERVISOR = f"""
import sys
from moldau.runtime import node_processes
from moldau.runtime.real import run
from moldau.streams.supervisor.supervisor import Supervisor
node_processes.MAIN = {WORKER!r}
run(lambda runtime: Supervisor(lambda index: [sys.argv[1], str(index)], 2, runtime).run())
"""


def pids(folder: Path, name: str) -> list[int]:
    file = folder / name
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def wait_for(folder: Path, name: str, count: int = 1) -> list[int]:
    eventually(lambda: len(pids(folder, name)) >= count, within_s=30)
    return pids(folder, name)


async def test_a_killed_worker_is_started_again_and_all_stop_in_order(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_processes, "MAIN", WORKER)
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    running = asyncio.ensure_future(supervisor.run())
    [first] = await runtime.run_blocking(wait_for, tmp_path, "started-0")
    [other] = await runtime.run_blocking(wait_for, tmp_path, "started-1")
    kill(first, signal.SIGKILL)
    [_, second] = await runtime.run_blocking(wait_for, tmp_path, "started-0", 2)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert pids(tmp_path, "stopped-0") == [second]
    assert pids(tmp_path, "stopped-1") == [other]
    assert supervisor.code == 0


async def test_wrong_arguments_end_the_supervisor(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        node_processes, "MAIN", f"import sys\nsys.argv[2] == '1' and sys.exit(2){WORKER}"
    )
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    async with asyncio.timeout(30):
        await supervisor.run()
    assert supervisor.code == 2


async def test_a_worker_that_is_to_stay_ended_leaves_the_others_until_all_are(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = f"import sys\nif (pathlib.Path(sys.argv[1]) / 'go').exists(): sys.exit(3){WORKER}"
    ends = ends.replace("import sys", "import pathlib, sys", 1)
    monkeypatch.setattr(
        node_processes, "MAIN", f"import sys\nsys.argv[2] == '1' and sys.exit(3)\n{ends}"
    )
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    running = asyncio.ensure_future(supervisor.run())
    [first] = await runtime.run_blocking(wait_for, tmp_path, "started-0")
    assert supervisor.code == 0
    (tmp_path / "go").touch()
    kill(first, signal.SIGKILL)  # it starts again, and ends by itself
    async with asyncio.timeout(30):
        await running
    assert supervisor.code == 3
    assert not pids(tmp_path, "started-1")


async def test_fewer_workers_end_the_newest_and_a_number_that_comes_back_is_a_new_process(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_processes, "MAIN", WORKER)
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    running = asyncio.ensure_future(supervisor.run())
    for index in range(2):
        await runtime.run_blocking(wait_for, tmp_path, f"started-{index}")
    supervisor.set_count(3)
    await runtime.run_blocking(wait_for, tmp_path, "started-2")
    kill(getpid(), signal.SIGTTIN)
    await runtime.run_blocking(wait_for, tmp_path, "started-3")
    supervisor.set_count(2)
    for index in (2, 3):
        [stopped] = await runtime.run_blocking(wait_for, tmp_path, f"stopped-{index}")
        assert [stopped] == pids(tmp_path, f"started-{index}")
    for _ in range(3):  # there stays one
        kill(getpid(), signal.SIGTTOU)
    await runtime.run_blocking(wait_for, tmp_path, "stopped-1")
    supervisor.set_count(2)
    await runtime.run_blocking(wait_for, tmp_path, "started-1", 2)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert pids(tmp_path, "stopped-0") == pids(tmp_path, "started-0")
    assert pids(tmp_path, "stopped-1") == pids(tmp_path, "started-1")


async def test_a_worker_that_is_wanted_again_while_it_ends_starts_when_it_has_ended(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in order meanwhile: it gets no second signal, which would end it at once."""
    monkeypatch.setattr(
        node_processes, "MAIN", WORKER.replace("    finally:", f"    finally:{WAITS}", 1)
    )
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    running = asyncio.ensure_future(supervisor.run())
    for index in range(2):
        await runtime.run_blocking(wait_for, tmp_path, f"started-{index}")
    supervisor.set_count(1)
    [first] = await runtime.run_blocking(wait_for, tmp_path, "stopping-1")
    supervisor.set_count(2)
    supervisor._look()
    assert pids(tmp_path, "started-1") == [first]
    (tmp_path / "go").touch()
    [_, second] = await runtime.run_blocking(wait_for, tmp_path, "started-1", 2)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert pids(tmp_path, "stopped-1") == [first, second]


async def test_a_worker_asks_for_more_and_one_that_cannot_run_leaves_the_others(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = WORKER.replace("async def work", f"{ASKS}async def work", 1)
    monkeypatch.setattr(node_processes, "MAIN", program)
    supervisor = Supervisor(lambda index: [str(tmp_path), str(index)], 2, runtime)
    running = asyncio.ensure_future(supervisor.run())
    await runtime.run_blocking(wait_for, tmp_path, "started-2")
    is_less = partial(eventually, lambda: supervisor._count == 3, within_s=30)
    await runtime.run_blocking(is_less)
    assert (supervisor.code, pids(tmp_path, "stopped-2")) == (0, [])
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    for index in range(3):
        assert pids(tmp_path, f"stopped-{index}") == pids(tmp_path, f"started-{index}")


def test_workers_stop_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)]) as supervisor:  # noqa: S603
        started = [wait_for(tmp_path, f"started-{index}") for index in range(2)]
        supervisor.kill()
        stopped = [wait_for(tmp_path, f"stopped-{index}") for index in range(2)]
    assert stopped == started
