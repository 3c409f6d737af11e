"""A thread that does not end is abandoned: it does not speak for the next run of its task."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from moldau.connect.storage.statuses import ConnectorState
from moldau.connect.task.membership import StopFor
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.worker import worker as workers
from moldau.connect.worker.hosts import OnEnd, OnMessage, TaskConnection
from moldau.connect.worker.worker import Worker
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import run

RUNNING: Message = {"type": "state", "state": "RUNNING"}
FAILED: Message = {"type": "state", "state": "FAILED", "trace": "too late"}


class _Thread(TaskConnection):
    """A task that hangs, and cannot be killed."""

    async def start(self, spec: TaskSpec) -> None:
        self.on_message(RUNNING)

    def send(self, message: Message) -> None:
        """It hears nothing."""

    def kill(self) -> bool:
        return False


def test_the_late_end_of_an_abandoned_run_is_not_that_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[_Thread] = []
    spec = TaskSpec("orders", 0, {"bootstrap.servers": "localhost:1"}, {}, {})

    def connection(config: object, on_message: OnMessage, on_end: OnEnd) -> _Thread:
        threads.append(_Thread(on_message, on_end))
        return threads[-1]

    async def main(runtime: Runtime) -> None:
        listener = Mock()
        settings = {"task.shutdown.graceful.timeout.ms": "1"}
        worker = Worker(runtime, settings, Loggers(runtime.clock, lambda line: None), listener)
        monkeypatch.setattr(worker._hosts, "connection", connection)
        await worker.start_task(spec)
        await worker.stop_task(spec.id, StopFor.RESTART)
        await worker.start_task(spec)
        listener.reset_mock()

        threads[0].on_message(FAILED)
        threads[0].on_end(None)

        assert worker.is_running(spec.id), "it would run on, unseen, beside a third run"
        assert listener.method_calls == []
        threads[1].on_message(RUNNING)
        listener.on_task_state.assert_called_once_with(spec.id, ConnectorState.RUNNING, None)
        threads[1].on_end(None)
        assert not worker.is_running(spec.id)

    monkeypatch.setattr(workers, "KILL_S", 0.01)
    run(main)
