"""A process that is kept running, in virtual time: its end and its restart are reported once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from moldau.runtime.backoff import Backoff
from moldau.runtime.interface import Clock
from moldau.runtime.node_processes import NodeProcess
from moldau.runtime.restarts import RestartPolicy
from moldau.runtime.supervised import ProcessEnd, Supervised, stop_supervised

POLICY = RestartPolicy(Backoff(1_000, 2_000))


class Machine:
    """Processes that end when the test says so, and a clock that it turns."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.started: list[Any] = []
        self.one = Supervised(self.launch, cast("Clock", self), POLICY)

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def launch(self) -> NodeProcess:
        process = SimpleNamespace(exit_code=None, asked=[])
        process.wait = lambda _: process.exit_code
        process.kill = process.resume = lambda: None
        process.terminate = lambda: process.asked.append("stop")
        self.started.append(process)
        return cast("NodeProcess", process)


def test_an_end_and_a_restart_are_reported_once_and_pauses_grow() -> None:
    machine = Machine()
    one = machine.one
    one.start()
    assert one.take_end() is None
    for pause_ms in (1_000, 2_000, 2_000):
        machine.started[-1].exit_code = -9
        end = one.take_end()
        assert end == ProcessEnd(-9, pause_ms)
        assert end.how == "signal 9"
        assert (one.take_end(), one.take_restart()) == (None, False)
        machine.now_ms += pause_ms
        assert (one.take_restart(), one.take_restart()) == (True, False)
    assert (len(machine.started), one.restarts.total) == (4, 3)


def test_an_end_that_is_no_failure_has_no_restart() -> None:
    machine = Machine()
    machine.one.start().wait(0)
    machine.started[0].exit_code = 0
    assert machine.one.take_end() == ProcessEnd(0, None)
    machine.now_ms += 100_000
    assert not machine.one.take_restart()


def test_a_stop_ends_the_process_and_forgets_a_restart_that_is_due() -> None:
    running, ended = Machine(), Machine()
    for each in (running, ended):
        each.one.start()
    ended.started[0].exit_code = 1
    assert ended.one.take_end() is not None
    assert stop_supervised([running.one, ended.one], 1.0) == 1
    ended.now_ms += 100_000
    assert (running.started[0].asked, ended.one.take_restart()) == (["stop"], False)
