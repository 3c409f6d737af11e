"""Code of a node that reaches past the runtime into the standard library is stopped and told."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import RealWorldRefused, Simulation
from moldau.runtime.simulated.guard import GUARD

REACHES: dict[str, Callable[[], object]] = {
    "builtins": lambda: open(__file__),  # noqa: SIM115 (what is tested)
    "os.open": lambda: os.open(__file__, os.O_RDONLY),
    "os.system": lambda: os.system("true"),  # noqa: S605, S607
    "os.urandom": lambda: os.urandom(4),
    "random.random": lambda: random.random(),
    "random.randint": lambda: random.randint(1, 6),
    "secrets.token_bytes": lambda: secrets.token_bytes(4),
    "signal.signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
    "socket.socket": lambda: socket.socket().close(),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 1),
    "subprocess": lambda: subprocess.run(["true"], check=True),  # noqa: S607
    "threading": lambda: threading.Thread(target=print).start(),
    "time.monotonic": lambda: time.monotonic(),
    "time.sleep": lambda: time.sleep(0),
    "time.time": lambda: time.time(),
    "uuid.uuid4": lambda: uuid.uuid4(),
}


def in_a_node(reach: Callable[[], object]) -> list[object]:
    """What it returned or raised."""
    outcome: list[object] = []

    async def main(runtime: Runtime) -> None:
        try:
            outcome.append(reach())
        except RealWorldRefused as error:
            outcome.append(error)

    with Simulation(1) as world:
        world.add_node("node", main)
        world.run_for(1)
    return outcome


@pytest.mark.parametrize("what", REACHES)
def test_a_node_that_reaches_for_the_real_world_is_refused(what: str) -> None:
    (outcome,) = in_a_node(REACHES[what])
    assert isinstance(outcome, RealWorldRefused)
    assert "not there in a simulation" in str(outcome)


def test_blocking_work_of_a_node_is_guarded_too() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(RealWorldRefused, match=r"time\.sleep"):
            await runtime.run_blocking(lambda: time.sleep(0))

    with Simulation(1) as world:
        node = world.add_node("node", main)
        world.run_for(1)
        assert node.starts == 1


def test_the_standard_library_and_who_measures_go_on_working(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.write_text("by pathlib")

    def work() -> object:
        logging.getLogger(__name__).warning("a record has a time")
        return random.Random().random() + time.perf_counter(), path.read_text()

    (outcome,) = in_a_node(work)
    assert not isinstance(outcome, RealWorldRefused)


def test_the_driver_and_the_test_around_it_are_not_refused() -> None:
    async def driver() -> None:
        for reach in (time.time, lambda: os.urandom(4), lambda: uuid.uuid4(), lambda: time.time()):
            reach()
        await asyncio.sleep(1)

    with Simulation(1) as world:
        world.add_invariant(lambda: time.time())
        world.run(driver)


def test_every_door_is_as_it_was_when_the_loop_stands_still() -> None:
    before = (time.time, os.urandom, open, random.random, threading.Thread.start)
    with Simulation(1) as world:

        async def driver() -> bool:
            return time.time is not before[0]

        assert world.run(driver), "shut while it runs"
        assert (time.time, os.urandom, open, random.random, threading.Thread.start) == before
        with pytest.raises(LookupError), GUARD:
            raise LookupError
    assert (time.time, os.urandom, open, random.random, threading.Thread.start) == before
