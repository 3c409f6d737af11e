"""From what should run to the steps that lead there."""

from __future__ import annotations

import json

from moldau.connect.herder import plan
from moldau.connect.herder.plan import (
    Assignment,
    ConnectorRun,
    Fence,
    RunStep,
    RunStepKind,
    fence_due,
)
from moldau.connect.storage.configs import ConfigImage
from moldau.connect.storage.keys import TargetState, TaskId
from moldau.connect.worker.task_run import TaskRun

A0, A1 = TaskId("a", 0), TaskId("a", 1)


def image(target: str = "STARTED", **records: object) -> ConfigImage:
    found = ConfigImage()
    first = {
        "connector-a": {"properties": {"name": "a"}},
        "target-state-a": {"state.v2": target},
        "task-a-0": {"properties": {"n": "0"}},
        "task-a-1": {"properties": {"n": "1"}},
        "commit-a": {"tasks": 2},
    }
    for key, value in {**first, **records}.items():
        found.apply(key.encode(), json.dumps(value).encode())
    return found


def wanted(of: ConfigImage) -> dict[str | TaskId, ConnectorRun | TaskRun]:
    return plan.wanted(of, plan.assigned_alone(of))


def test_the_only_worker_runs_everything() -> None:
    steps = plan.steps(wanted(image()), {})

    assert [(step.kind, step.what) for step in steps] == [
        (RunStepKind.START_CONNECTOR, "a"),
        (RunStepKind.START_TASK, A0),
        (RunStepKind.START_TASK, A1),
    ]


def test_what_runs_as_it_should_is_left_alone() -> None:
    runs = wanted(image())

    assert plan.steps(runs, runs) == []


def test_a_pause_restarts_nothing() -> None:
    steps = plan.steps(wanted(image("PAUSED")), wanted(image()))

    assert {step.kind for step in steps} == {RunStepKind.CHANGE_CONNECTOR, RunStepKind.CHANGE_TASK}
    assert len(steps) == 3


def test_a_stopped_connector_has_no_tasks() -> None:
    assert set(wanted(image("STOPPED"))) == {"a"}


def test_a_changed_task_config_restarts_that_task_alone_and_stops_come_first() -> None:
    new = image()
    new.apply(b"task-a-0", b'{"properties":{"n":"0"}}')
    new.apply(b"task-a-1", b'{"properties":{"n":"changed"}}')
    new.apply(b"commit-a", b'{"tasks":2}')

    steps = plan.steps(wanted(new), wanted(image()))

    assert [(step.kind, step.what) for step in steps] == [
        (RunStepKind.STOP_TASK, A1),
        (RunStepKind.START_TASK, A1),
    ]


def test_a_changed_connector_config_reaches_tasks_with_their_next_commit() -> None:
    new = image()
    new.apply(b"connector-a", b'{"properties":{"name":"a","x":"y"}}')
    before = wanted(image())

    assert [step.what for step in plan.steps(wanted(new), before)] == ["a", "a"]

    new.apply(b"task-a-0", b'{"properties":{"n":"0"}}')
    new.apply(b"commit-a", b'{"tasks":1}')
    steps = plan.steps(wanted(new), before)
    assert [step.what for step in steps if step.kind is RunStepKind.STOP_TASK] == [A0, A1]
    assert [step.what for step in steps if step.kind is RunStepKind.START_TASK] == [A0]


def test_what_is_assigned_elsewhere_does_not_run_here() -> None:
    mine = Assignment(frozenset(), frozenset({A1}))

    assert list(plan.wanted(image(), mine)) == [A1]


def test_what_is_deleted_stops() -> None:
    gone = image()
    gone.apply(b"connector-a", None)

    steps = plan.steps(wanted(gone), wanted(image()))

    assert steps == [
        RunStep(RunStepKind.STOP_TASK, A0),
        RunStep(RunStepKind.STOP_TASK, A1),
        RunStep(RunStepKind.STOP_CONNECTOR, "a"),
    ]


def test_a_restart_of_failed_tasks_leaves_the_others() -> None:
    assert plan.restarted_tasks(image(), "a", {A1}, only_failed=True) == [A1]
    assert plan.restarted_tasks(image(), "a", {A1}, only_failed=False) == [A0, A1]
    assert plan.restarted_tasks(image(), "other", {A1}, only_failed=False) == []


def test_target_states_are_those_of_kafka_connect() -> None:
    assert [state.value for state in TargetState] == ["STARTED", "PAUSED", "STOPPED"]


def generations(of: ConfigImage, *, are_fenced: bool) -> list[int]:
    runs = plan.wanted(of, plan.assigned_alone(of), lambda config: are_fenced)
    return [run.generation for run in runs.values() if isinstance(run, TaskRun)]


def test_one_changed_task_restarts_all_if_the_start_fences_the_others() -> None:
    of = image()
    before = plan.wanted(of, plan.assigned_alone(of), lambda config: True)
    of.apply(b"task-a-0", b'{"properties":{"n":"0"}}')
    of.apply(b"task-a-1", b'{"properties":{"n":"changed"}}')
    of.apply(b"commit-a", b'{"tasks":2}')
    after = plan.wanted(of, plan.assigned_alone(of), lambda config: True)

    assert [
        step.what for step in plan.steps(after, before) if step.kind is RunStepKind.STOP_TASK
    ] == [
        A0,
        A1,
    ]
    assert generations(of, are_fenced=False) == [0, 0]


def fence(of: ConfigImage) -> Fence | None:
    entry = of.get("a")
    assert entry is not None
    return fence_due(entry)


def committed(of: ConfigImage, count: int) -> None:
    for number in range(count):
        of.apply(f"task-a-{number}".encode(), b'{"properties":{}}')
    of.apply(b"commit-a", json.dumps({"tasks": count}).encode())


def test_a_new_commit_of_task_configs_fences_as_many_producers_as_were_recorded() -> None:
    of = image()
    assert fence(of) == Fence(0, 2), "no task of an older commit had a producer"

    of.apply(b"tasks-fencing-a", b'{"task-count":2}')
    assert fence(of) is None
    committed(of, 1)

    assert fence(of) == Fence(2, 1)
    of.apply(b"tasks-fencing-a", b'{"task-count":1}')
    committed(of, 1)
    assert fence(of) == Fence(0, 1), "a single task is fenced by its successor"
    committed(of, 3)
    assert fence(of) == Fence(1, 3)


def test_a_connector_that_is_deleted_and_created_again_fences_its_old_tasks() -> None:
    of = image()
    of.apply(b"tasks-fencing-a", b'{"task-count":2}')
    of.apply(b"connector-a", None)
    of.apply(b"connector-a", b'{"properties":{"name":"a"}}')
    committed(of, 1)

    assert fence(of) == Fence(2, 1)
