"""A process of tasks whose messages the worker cannot handle: it ends, and its tasks hear of it."""

from __future__ import annotations

import asyncio

import pytest

from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.worker.host_process import HostProcess
from moldau.connect.worker.hosts import HostedTask, Hosts
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.forking import ForkServer
from moldau.runtime.real import RealClock, RealRuntime, run


class _Run:
    def on_message(self, message: Message) -> None:
        raise ZeroDivisionError("a fault in the worker")

    def on_ended(self) -> None:
        """The task has ended."""


def spec() -> TaskSpec:
    return TaskSpec("orders", 0, {"bootstrap.servers": "localhost:1"}, {}, {})


def test_tasks_hear_of_a_process_that_the_worker_no_longer_hears() -> None:
    failures: list[str] = []

    async def main() -> str:
        async with RealRuntime(on_failure=lambda name, error: failures.append(name)) as runtime:
            forks = ForkServer((), lambda why: None)
            crashed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            host = HostProcess(runtime, forks, (), crashed.set_result)
            try:
                async with asyncio.timeout(60):
                    await host.started()
                    host.add(1, _Run(), {**spec().message(), "is_alone": True})
                    cause = await crashed
                    assert host.has_ended
                    await host.end()
            finally:
                await forks.aclose()
            return cause

    cause = asyncio.run(main())

    assert "a fault in the worker" in cause
    assert failures == ["hear a host of tasks"]


def test_a_task_that_cannot_start_again_ends_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(runtime: Runtime) -> str | None:
        hosts = Hosts(runtime, {}, Loggers(RealClock(), lambda line: None))
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        task = HostedTask(hosts, False, lambda message: None, ended.set_result)
        task.spec = spec()

        async def admit(hosts: Hosts, task: HostedTask) -> None:
            raise ZeroDivisionError("a fault in the worker")

        monkeypatch.setattr(Hosts, "admit", admit)
        task.on_process_end("it was killed", starts_again=True)
        async with asyncio.timeout(20):
            return await ended

    assert "a fault in the worker" in str(run(main))
