"""The production runtime: tasks, threads, clocks, and what a process sets at its start."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.process import (
    GC_THRESHOLDS,
    has_uvloop,
    new_event_loop,
    tune_process,
)
from moldau.runtime.real import RealRuntime, run
from tests.runtime.arena import REAL_ARENAS, simulate


def test_spawned_tasks_survive_collections_although_nobody_refers_to_them() -> None:
    async def main(runtime: Runtime) -> list[int]:
        done: list[int] = []
        gates: list[asyncio.Future[None]] = []

        async def work(number: int) -> None:
            gate = asyncio.get_running_loop().create_future()
            gates.append(gate)
            await gate
            done.append(number)

        for number in range(10):
            runtime.spawn(work(number), name="work")
        await asyncio.sleep(0)
        gc.collect()
        for gate in gates:
            gate.set_result(None)
        await asyncio.sleep(0)
        return done

    assert run(main) == list(range(10))


def test_what_is_spawned_begins_later_also_where_the_loop_makes_eager_tasks() -> None:
    """As with asyncio.eager_task_factory of Python 3.12."""
    order: list[str] = []

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **_: Any) -> asyncio.Future[Any]:
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return asyncio.Task(asyncio.sleep(0), loop=loop)

    async def work() -> None:
        order.append("begun")

    async def main(runtime: Runtime) -> None:
        asyncio.get_running_loop().set_task_factory(eager)
        task = runtime.spawn(work(), name="work")
        order.append("spawned")
        asyncio.get_running_loop().set_task_factory(None)
        await task
        assert task.get_name() == "work"

    run(main)
    assert order == ["spawned", "begun"]


def test_a_failing_task_is_reported_at_once() -> None:
    failures: list[tuple[str, BaseException]] = []

    async def main() -> None:
        async def fail() -> None:
            raise ValueError("broken")

        async def owned() -> None:
            raise ValueError("owned")

        async with RealRuntime(on_failure=lambda *failure: failures.append(failure)) as runtime:
            failing = runtime.spawn(fail(), name="failing")
            mine = runtime.spawn(owned(), name="owned", reported=False)
            cancelled = runtime.spawn(asyncio.Event().wait(), name="cancelled")
            await asyncio.wait([failing, mine])
            cancelled.cancel()
            await asyncio.wait([cancelled])
            assert isinstance(mine.exception(), ValueError)

    asyncio.run(main())

    assert [(name, str(error)) for name, error in failures] == [("failing", "broken")]


def test_without_a_listener_failures_go_to_the_loop() -> None:
    contexts: list[object] = []

    async def main(runtime: Runtime) -> None:
        async def fail() -> None:
            raise ValueError("broken")

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: contexts.append(context["exception"]))
        await asyncio.wait([runtime.spawn(fail(), name="failing")])
        await asyncio.sleep(0)

    run(main)

    assert [str(error) for error in contexts] == ["broken"]


def test_the_end_of_a_runtime_ends_its_tasks() -> None:
    ended: list[str] = []

    async def main(runtime: Runtime) -> None:
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")

        runtime.spawn(wait(), name="wait")
        await asyncio.sleep(0)

    run(main)

    assert ended == ["cleaned up"]


def test_blocking_work_runs_beside_the_loop() -> None:
    async def main(runtime: Runtime) -> str:
        gate = threading.Event()
        waiting = runtime.run_blocking(gate.wait)
        name = await runtime.run_blocking(lambda: threading.current_thread().name)
        gate.set()
        assert await waiting
        with pytest.raises(OSError, match="no disk"):
            await runtime.run_blocking(fail)
        return name

    def fail() -> None:
        raise OSError("no disk")

    assert run(main, node="broker-1").startswith("broker-1-blocking")


def test_clocks_are_the_machines() -> None:
    async def main(runtime: Runtime) -> None:
        clock = runtime.clock
        assert abs(clock.wall_ms() - time.time() * 1000) < 1000
        assert abs(clock.monotonic() - time.monotonic()) < 1
        assert clock.monotonic_ns() <= clock.monotonic_ns()
        assert abs(asyncio.get_running_loop().time() - clock.monotonic()) < 1

    run(main)


def test_randomness_is_not_repeatable() -> None:
    async def main(runtime: Runtime) -> bytes:
        return runtime.random.randbytes(16)

    assert run(main) != run(main)


@pytest.mark.parametrize("kind", [*REAL_ARENAS, "auto"])
def test_the_kind_of_loop_can_be_chosen(kind: str) -> None:
    loop = new_event_loop(kind)  # type: ignore[arg-type]
    name = type(loop).__module__
    loop.close()

    assert name.startswith("uvloop") == (has_uvloop() and kind != "asyncio")


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert not has_uvloop()
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("asyncio")


def test_tuning_sets_the_collector_and_glibc() -> None:
    before = gc.get_threshold()
    gc.unfreeze()
    try:
        tuned = tune_process()
        assert gc.get_threshold() == GC_THRESHOLDS
        assert gc.get_freeze_count() > 0
        assert tuned == sys.platform.startswith("linux")
    finally:
        gc.set_threshold(*before)


BUFFERS_IN_TURN = """
import threading
from moldau.runtime.process import share_freed_memory, tune_allocator
from moldau.runtime.process_figures import resident_bytes

assert tune_allocator()
assert share_freed_memory()
before, ends = resident_bytes(), []

def use(done, end):
    b"".join([bytes(1000)] * 8000)
    done.set()
    end.wait()

for _ in range(8):
    done, end = threading.Event(), threading.Event()
    threading.Thread(target=use, args=(done, end)).start()
    done.wait()
    ends.append(end)
grown = resident_bytes() - before
for end in ends:
    end.set()
assert grown < 30 << 20, grown
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_threads_use_the_freed_buffers_of_others() -> None:
    subprocess.run([sys.executable, "-c", BUFFERS_IN_TURN], check=True, timeout=60)  # noqa: S603


FEW_OPEN_FILES = """
import resource
from moldau.runtime.process import raise_open_files

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
assert raise_open_files() == most
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""


def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    subprocess.run([sys.executable, "-c", FEW_OPEN_FILES], check=True, timeout=60)  # noqa: S603


IMPORTING = """
import gc

before = gc.get_threshold()
import moldau.runtime.process
import moldau.runtime.real
assert gc.get_threshold() == before != moldau.runtime.process.GC_THRESHOLDS
"""


def test_importing_the_runtime_tunes_nothing() -> None:
    subprocess.run([sys.executable, "-c", IMPORTING], check=True, timeout=60)  # noqa: S603


def test_an_exception_of_main_comes_out() -> None:
    async def main(runtime: Runtime) -> None:
        raise LookupError(runtime.node)

    with pytest.raises(LookupError, match="local"):
        run(main)


def test_the_end_of_a_runtime_ends_what_dying_tasks_start() -> None:
    ended: list[str] = []

    async def main() -> None:
        async with RealRuntime() as runtime:

            async def last() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("last")

            async def first() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    runtime.spawn(last(), name="last")
                    await asyncio.sleep(0)
                    ended.append("first")

            runtime.spawn(first(), name="first")
            await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(main())

    assert ended == ["first", "last"]


def test_the_end_of_a_runtime_waits_for_its_threads() -> None:
    done: list[str] = []
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()
        done.append("work")

    async def main() -> None:
        async with RealRuntime() as runtime:
            runtime.run_blocking(work)
            await asyncio.to_thread(begun.wait)
            asyncio.get_running_loop().call_later(0.01, gate.set)
        assert done == ["work"]

    asyncio.run(main())


def test_blocking_work_cannot_stop_its_caller_from_hearing() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await runtime.run_blocking(next, iter(()))
        with pytest.raises(Unusual):
            await runtime.run_blocking(fail)

    class Unusual(BaseException):
        pass

    def fail() -> None:
        raise Unusual

    run(main)
    simulate(main)


def test_a_connection_that_was_accepted_before_its_listener_closed_gets_its_protocol() -> None:
    async def main(runtime: Runtime) -> None:
        made: list[asyncio.BaseTransport] = []
        is_made = asyncio.Event()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(transport)
                is_made.set()

        listener = await runtime.network.listen(Accepted, "127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", listener.port)):
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # now it is accepted, and a task is to set it up
            listener.close()
            async with asyncio.timeout(30):
                await is_made.wait()
            made[0].abort()  # type: ignore[attr-defined]

    run(main, loop="asyncio")
