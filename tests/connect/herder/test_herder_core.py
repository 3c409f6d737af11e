"""What a worker starts, stops and restarts, decided without a worker."""

from __future__ import annotations

import json

from moldau.connect.herder.herder_core import RETRY_MS, HerderCore, HerderReady, OwedStatus, What
from moldau.connect.herder.membership import Alone
from moldau.connect.herder.plan import Assignment, RunStepKind
from moldau.connect.storage.configs import ConfigImage, RestartRequest
from moldau.connect.storage.keys import TaskId
from moldau.connect.storage.statuses import ConnectorState, Status, StatusImage
from moldau.connect.task.membership import StopFor
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import NO_JITTER, RestartPolicy

A0, A1 = TaskId("a", 0), TaskId("a", 1)
POLICY = RestartPolicy(Backoff(100, 400), steady_ms=400)
FIRST = {
    "connector-a": {"properties": {"name": "a"}},
    "task-a-0": {"properties": {"n": "0"}},
    "task-a-1": {"properties": {"n": "1"}},
    "commit-a": {"tasks": 2},
}
CHANGED = {**FIRST, "task-a-0": {"properties": {"n": "new"}}}


class Group(Alone):
    """A group of one worker, with generations."""

    def __init__(self) -> None:
        self.generation = 1
        self.moved: set[TaskId] = set()

    def assignment(self, image: ConfigImage) -> Assignment:
        """All, without tasks that have moved to another worker."""
        found = super().assignment(image)
        return Assignment(found.connectors, found.tasks - self.moved)


class Worker:
    """Does what the core wants, and remembers it."""

    def __init__(self) -> None:
        self.group, self.image, self.statuses = Group(), ConfigImage(), StatusImage()
        self.core = HerderCore(self.group, self.image, self.statuses, lambda config: False)
        self.written: list[OwedStatus] = []
        self.write(FIRST)

    def write(self, records: dict[str, object]) -> None:
        for key, value in records.items():
            data = None if value is None else json.dumps(value).encode()
            self.image.apply(key.encode(), data)

    def settle(self, now_ms: int) -> list[tuple[str, What]]:
        """Act until there is nothing to do; return what was done."""
        done: list[tuple[str, What]] = []
        while True:
            ready = self.core.ready(now_ms)
            for what, why in ready.stops.items():
                done.append((f"stop to {why}", what))
                self.core.on_stopped(what)
            for step in ready.begins:
                done.append((step.kind.name, step.what))
                self.core.on_begin(step, now_ms)
            self.written += self.core.take_statuses()
            if not (ready.stops or ready.begins):
                return done

    def fail(self, what: What, now_ms: int) -> None:
        self.core.on_failure(what, "boom\nat x", POLICY, now_ms, NO_JITTER)


def started() -> Worker:
    worker = Worker()
    assert [what for _, what in worker.settle(0)] == ["a", A0, A1]
    return worker


def test_stops_come_before_starts_and_the_old_run_has_ended() -> None:
    worker = started()
    worker.write({"task-a-0": {"properties": {"n": "new"}}, "commit-a": {"tasks": 1}})
    ready = worker.core.ready(0)
    assert dict(ready.stops) == {A0: StopFor.RESTART, A1: StopFor.END}
    assert ready.begins == ()
    assert worker.settle(0)[2:] == [("START_TASK", A0)]
    assert worker.written == [
        OwedStatus(A0, ConnectorState.UNASSIGNED),
        OwedStatus(A1),
    ]


def test_a_task_that_stops_to_begin_again_and_is_deleted_meanwhile_gives_up_its_place() -> None:
    worker = started()
    worker.write(CHANGED)
    ready = worker.core.ready(0)
    assert dict(ready.stops) == {A0: StopFor.RESTART}
    worker.core.on_stopped(A0)
    worker.write({"connector-a": None})
    assert ("stop to end", A0) in worker.settle(0)
    assert worker.settle(0) == []


def test_a_task_that_stops_to_begin_again_and_moves_meanwhile_keeps_its_place() -> None:
    worker = started()
    worker.write(CHANGED)
    assert dict(worker.core.ready(0).stops) == {A0: StopFor.RESTART}
    worker.core.on_stopped(A0)
    worker.group.moved = {A0}
    assert worker.settle(0) == []


def test_a_failed_task_is_restarted_when_its_pause_is_over() -> None:
    worker = started()
    worker.fail(A0, 0)
    assert worker.settle(0) == []
    assert worker.core.ready(0).wake_ms == 100
    assert worker.settle(99) == []
    assert worker.settle(100) == [("stop to restart", A0), ("START_TASK", A0)]
    assert worker.core.history(A0).last_error == "boom"
    assert worker.core.failed == set()
    worker.fail(A0, 150)
    assert worker.core.ready(150).wake_ms == 350, "the row of failures goes on"


def test_a_connector_that_is_resumed_while_it_stops_publishes_its_tasks_again() -> None:
    worker = started()
    worker.write({"target-state-a": {"state.v2": "STOPPED"}, "commit-a": {"tasks": 0}})
    assert worker.core.ready(0).stops.keys() == {A0, A1}
    worker.write({"target-state-a": {"state.v2": "STARTED"}})
    assert worker.settle(0) == [
        ("stop to end", A0),
        ("stop to end", A1),
        ("CHANGE_CONNECTOR", "a"),
    ]
    assert worker.settle(0) == []


def test_a_connector_that_is_resumed_after_its_stop_begins_once() -> None:
    worker = started()
    worker.write({"target-state-a": {"state.v2": "STOPPED"}, "commit-a": {"tasks": 0}})
    assert worker.settle(0)[2:] == [("CHANGE_CONNECTOR", "a")]
    worker.write({"target-state-a": {"state.v2": "STARTED"}})
    assert worker.settle(0) == [("CHANGE_CONNECTOR", "a")]


def test_a_restart_by_a_user_is_written_and_begins_the_row_anew() -> None:
    worker = started()
    worker.fail(A1, 0)
    worker.core.on_restart_request(RestartRequest("a", include_tasks=True, only_failed=True))
    assert worker.settle(0) == [
        ("stop to restart", A1),
        ("START_TASK", A1),
    ]
    assert worker.written == [
        OwedStatus(A1, ConnectorState.FAILED, "boom\nat x"),
        OwedStatus(A1, ConnectorState.RESTARTING),
    ]
    assert worker.core.history(A1).restarts.in_a_row == 0


def test_a_fenced_task_is_restarted_in_another_generation_only() -> None:
    worker = started()
    worker.core.on_stays_failed(A0, "fenced", is_fenced=True)
    assert worker.settle(1_000_000) == []
    worker.group.generation += 1
    assert worker.settle(1_000_000) == [("stop to restart", A0), ("START_TASK", A0)]


def test_a_failed_task_that_is_paused_gets_its_target_when_it_is_restarted() -> None:
    worker = started()
    worker.core.on_stays_failed(A0, "bad", is_fenced=False)
    worker.write({"target-state-a": {"state.v2": "PAUSED"}})
    worker.settle(0)
    assert A0 in worker.core.failed
    assert A1 not in worker.core.failed


def test_outdated_values_are_read_again_once() -> None:
    worker = started()
    worker.core.on_outdated("a", 5_000, 0)
    worker.core.on_outdated("gone", 5_000, 0)
    assert worker.core.ready(0).wake_ms == 5_000
    assert worker.core.ready(5_000).reloads == ("a",)
    worker.core.on_reloaded("a")
    assert worker.core.ready(5_000) == HerderReady()


def test_after_a_failed_round_nothing_is_done_for_a_while() -> None:
    worker = Worker()
    worker.core.on_round_failed(10)
    ready = worker.core.ready(11)
    assert (ready.is_paused, ready.wake_ms, ready.begins) == (True, 10 + RETRY_MS, ())
    assert worker.core.ready(10 + RETRY_MS).begins[0].kind is RunStepKind.START_CONNECTOR


def test_the_leader_deletes_statuses_of_what_is_gone() -> None:
    worker = started()
    worker.statuses.tasks[TaskId("b", 0)] = Status(ConnectorState.RUNNING, "w", 1, None, None)
    assert worker.core.ready(0).deletions == (TaskId("b", 0),)


def test_a_deleted_connector_ends_and_its_statuses_go() -> None:
    worker = started()
    worker.write({"connector-a": None})
    assert worker.settle(0) == [("stop to end", A0), ("stop to end", A1), ("stop to end", "a")]
    assert worker.written == [OwedStatus(A0), OwedStatus(A1), OwedStatus("a")]
    assert not worker.core.has_tasks("a")
