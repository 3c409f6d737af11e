"""Computes the steps from what runs to what should run. No IO.

A task runs with the connector config that its task configs were made of, so that a changed
connector config reaches tasks only when its owner has committed new task configs. Stops come first,
so that a task never runs twice, and no task of an old config runs beside one of a new config.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import TypeAlias

from moldau.connect.storage.configs import ConfigImage, ConnectorEntry
from moldau.connect.storage.keys import TargetState, TaskId
from moldau.connect.worker.task_run import TaskRun
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class ConnectorRun:
    """A connector as it should run, or as it runs."""

    config: Mapping[str, str]
    target: TargetState


Runs: TypeAlias = "Mapping[str | TaskId, ConnectorRun | TaskRun]"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The connectors and tasks that a worker has to run."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()


class RunStepKind(IntEnum):
    """The kinds of steps, in the order in which they are done."""

    STOP_TASK = 0
    STOP_CONNECTOR = 1
    START_CONNECTOR = 2
    CHANGE_CONNECTOR = 3
    START_TASK = 4
    CHANGE_TASK = 5


@dataclass(frozen=True, slots=True)
class RunStep:
    """One start, stop or change. CHANGE means that only the target state differs."""

    kind: RunStepKind
    what: str | TaskId
    run: ConnectorRun | TaskRun | None = None


def assigned_alone(image: ConfigImage) -> Assignment:
    """Return the assignment of the only worker: everything."""
    names = image.names()
    tasks = frozenset(task for name in names for task in image.tasks(name))
    return Assignment(frozenset(names), tasks)


def _never(config: Mapping[str, str]) -> bool:
    return False


def wanted(
    image: ConfigImage, mine: Assignment, is_fenced: Callable[[Mapping[str, str]], bool] = _never
) -> dict[str | TaskId, ConnectorRun | TaskRun]:
    """Return what should run on this worker. A stopped connector has no instance and no tasks.

    Of a connector that `is_fenced` all tasks have to start again when one of them has changed.
    """
    found: dict[str | TaskId, ConnectorRun | TaskRun] = {}
    for name in sorted(mine.connectors):
        entry = image.get(name)
        if entry is not None and entry.config is not None:
            found[name] = ConnectorRun(entry.config, entry.target)
    for task in sorted(mine.tasks):
        entry = image.get(task.connector)
        if entry is None or entry.config is None or entry.target is TargetState.STOPPED:
            continue
        if task in image.tasks(task.connector):
            applied = entry.applied if entry.applied is not None else entry.config
            generation = entry.commits if is_fenced(applied) else 0
            found[task] = TaskRun(applied, entry.tasks[task.task], entry.target, generation)
    return found


def steps(runs_wanted: Runs, running: Runs) -> list[RunStep]:
    """Return the steps that lead from `running` to `runs_wanted`, in order."""
    found = []
    for what, old in running.items():
        new = runs_wanted.get(what)
        if new is None or _needs_restart(old, new):
            stop = RunStepKind.STOP_TASK if isinstance(what, TaskId) else RunStepKind.STOP_CONNECTOR
            found.append(RunStep(stop, what))
            if new is not None:
                found.append(RunStep(_start(what), what, new))
        elif old.target is not new.target:
            change = (
                RunStepKind.CHANGE_TASK
                if isinstance(what, TaskId)
                else RunStepKind.CHANGE_CONNECTOR
            )
            found.append(RunStep(change, what, new))
    found += [RunStep(_start(what), what, new) for what, new in runs_wanted.items()
              if what not in running]  # fmt: skip
    return sorted(found, key=lambda step: (step.kind, str(step.what)))


def _start(what: str | TaskId) -> RunStepKind:
    return RunStepKind.START_TASK if isinstance(what, TaskId) else RunStepKind.START_CONNECTOR


def _needs_restart(old: ConnectorRun | TaskRun, new: ConnectorRun | TaskRun) -> bool:
    if isinstance(old, TaskRun) and isinstance(new, TaskRun):
        return not old.is_same_work(new)
    return (
        isinstance(old, ConnectorRun)
        and isinstance(new, ConnectorRun)
        and (old.config != new.config)
    )


def restarted_tasks(
    image: ConfigImage, connector: str, failed: Collection[TaskId], *, only_failed: bool
) -> list[TaskId]:
    """Return the tasks that a restart request includes (KIP-745)."""
    tasks = image.tasks(connector)
    return [task for task in tasks if not only_failed or task in failed]


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence the producers of the tasks below `producers`, then record that there are `tasks`."""

    producers: int
    tasks: int


def fence_due(entry: ConnectorEntry) -> Fence | None:
    """Return what has to be fenced before a task of this connector may start; None for nothing.

    A single task is fenced by its successor, which has the same transactional id.
    """
    if not entry.is_unfenced:
        return None
    before = entry.fenced_tasks or 0
    is_single = before == 1 and entry.task_count == 1
    return Fence(0 if is_single else before, entry.task_count)
