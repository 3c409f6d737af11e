"""A seed says it all: in this process, in any other, and with any hash seed."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from contextvars import copy_context
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import Fingerprint, NotRepeatable, Simulation, run_seeds
from moldau.runtime.simulated.incarnation import CURRENT, Incarnation
from moldau.runtime.simulated.loop import SimulatedLoop
from tests.runtime.simulated.cluster import play

ROOT = Path(__file__).parents[3]

SCRIPT = """
import gc, random, sys
noise = [object() for _ in range(int(sys.argv[1]))]
gc.set_threshold(int(sys.argv[1]) + 50)
from tests.runtime.simulated.cluster import play
for seed in range(4):
    print(play(seed))
"""


def in_another_process(hash_seed: str, noise: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(  # noqa: S603 (our own script)
        [sys.executable, "-c", SCRIPT, str(noise)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def test_processes_with_other_hash_seeds_see_the_same_runs() -> None:
    first = in_another_process("1", noise=0)

    assert first == in_another_process("2", noise=1000)
    assert first == "".join(f"{play(seed)}\n" for seed in range(4))


def test_seeds_differ() -> None:
    assert len({play(seed, seconds=5).digest for seed in range(5)}) == 5


def test_running_seeds_checks_that_they_repeat() -> None:
    runs: list[int] = []

    def scenario(seed: int) -> Fingerprint:
        runs.append(seed)
        return play(seed, seconds=2)

    fingerprints = run_seeds(scenario, range(6), twice_every=3)

    assert runs == [0, 0, 1, 2, 3, 3, 4, 5]
    assert list(fingerprints) == list(range(6))


def test_a_run_that_does_not_repeat_is_found() -> None:
    chance = itertools.count()

    def scenario(seed: int) -> Fingerprint:
        with Simulation(seed) as world:
            world.note("world", "from outside", next(chance))
            return world.fingerprint

    with pytest.raises(NotRepeatable, match="seed 5 gave"):
        run_seeds(scenario, [5])


def test_milestones_tell_where_runs_parted() -> None:
    common = (20_000, 10**9, 1), (40_000, 2 * 10**9, 2)
    first = Fingerprint("a", 60_000, 3 * 10**9, (*common, (60_000, 3 * 10**9, 3)))
    second = Fingerprint("b", 60_000, 3 * 10**9, (*common, (60_000, 3 * 10**9, 4)))

    assert first.first_difference(second) == "equal up to event 40000 at 2.000000000 s"


def test_payloads_are_part_of_the_digest() -> None:
    def digest(payload: bytes) -> str:
        async def server(runtime: Runtime) -> None:
            await runtime.network.listen(asyncio.Protocol, "", 1)
            await asyncio.Event().wait()

        async def client(runtime: Runtime) -> None:
            await asyncio.sleep(1)
            transport, _ = await runtime.network.connect(asyncio.Protocol, "server", 1)
            transport.write(payload)
            await asyncio.Event().wait()

        with Simulation(1) as world:
            world.add_node("server", server)
            world.add_node("client", client)
            world.run_for(2)
            return world.digest

    assert digest(b"one") == digest(b"one")
    assert digest(b"one") != digest(b"two")


def test_which_node_runs_is_part_of_the_digest() -> None:
    def digest(number: int) -> int:
        loop = SimulatedLoop()
        context = copy_context()
        context.run(CURRENT.set, Incarnation("node", 1, number))
        loop.call_later(1, lambda: None, context=context)
        loop.drive(2 * 10**9)
        loop.close()
        return loop.trace.digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_what_gather_returns_has_one_order_in_a_set() -> None:
    def order() -> list[int]:
        seen: list[int] = []

        async def driver() -> None:
            made = [asyncio.gather(asyncio.sleep(1)) for _ in range(50)]
            seen.extend(made.index(each) for each in set(made))
            await asyncio.gather(*made)

        with Simulation(1) as world:
            world.run(driver)
        return seen

    first = order()
    noise = [bytearray(size * 37) for size in range(500)]
    assert first == order()
    assert noise
