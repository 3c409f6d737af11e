"""Warm-ups: a task with state stays where its state is until its next member has caught up.

A target that moves a task to a member without its state would make its partitions stand still while
the state is restored. So such a task stays with its owner, or goes to the copy that is least
behind, and its next member gets a copy to warm up (KIP-441). The member reports how far it is; when
that is near enough, the group computes a new target, and the task moves. A task moves at once if
its whole log is no longer than that.

Invariant: a warm-up that has caught up is not in the result, neither as a warm-up again nor beside
another member that should have the task. So a target that was computed because of it never leads to
the next one for the same reason.

A member that is about to leave is in a hurry: the copies of its tasks do not count against the
limit of warm-ups.

A member that does not report how far its copies are gets tasks at once, as without warm-ups.
"""

from __future__ import annotations

from moldau.broker.coordinator.group.streams.assignors.plan import Plan
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId


def keep_until_warm(plan: Plan) -> None:
    """Move a task back if its next member has not caught up, and let that warm up."""
    left = plan.work.warmup_count
    if left == 0:
        return
    lags = _lags_of_processes(plan)
    waiting = [
        (task not in plan.members[member_id].copies, task, member_id)
        for member_id, tasks in plan.active.items()
        for task in tasks
        if _must_wait(plan, lags, member_id, task)
    ]
    for _, task, member_id in sorted(waiting):
        keeper = _keeper(plan, lags, task, member_id)
        if keeper is None:
            continue
        plan.take(member_id, task)
        plan.give(keeper, task, Role.ACTIVE)
        is_urgent = plan.members[keeper].is_leaving
        if left > 0 or is_urgent:
            plan.give(member_id, task, Role.WARMUP)
            left -= not is_urgent


def _lags_of_processes(plan: Plan) -> dict[tuple[str, TaskId], int]:
    """Return the least known lag of each task in each process: its members share the state."""
    found: dict[tuple[str, TaskId], int] = {}
    for spec in plan.members.values():
        for task, lag in (spec.lags or {}).items():
            key = spec.process_id, task
            found[key] = min(lag, found.get(key, lag))
    return found


def _must_wait(
    plan: Plan, lags: dict[tuple[str, TaskId], int], member_id: str, task: TaskId
) -> bool:
    """Whether the member does not have the state of the task yet, and will say when it has."""
    spec = plan.members[member_id]
    if spec.lags is None or task.subtopology_id not in plan.work.stateful:
        return False
    owner = plan.owner.get(task)
    if owner is not None and plan.members[owner].process_id == spec.process_id:
        return False
    lag = lags.get((spec.process_id, task), plan.work.ends.get(task))
    return lag is None or lag > plan.work.acceptable_lag


def _keeper(
    plan: Plan, lags: dict[tuple[str, TaskId], int], task: TaskId, next_member: str
) -> str | None:
    """Return the member that runs the task meanwhile: its owner, unless that has said that it is
    behind too, else a copy that is near enough, else the owner after all if its state is not older.
    None: no member has the state.

    What an owner has reported may be older than the end that another member knows, so only the end
    that its process knew itself counts against it."""

    def lag_of(member_id: str) -> int | None:
        return lags.get((plan.members[member_id].process_id, task))

    limit = plan.work.acceptable_lag
    owner = plan.owner.get(task)
    behind = 0 if owner is None else lag_of(owner) or 0
    if owner is not None:
        together = plan.of_process[plan.members[owner].process_id]
        if min(plan.members[each].own_lags.get(task, behind) for each in together) <= limit:
            return owner
    near = [
        (lag, plan.load(each, Role.ACTIVE), each)
        for each in plan.had_copy.get(task, ())
        if (lag := lag_of(each)) is not None and lag <= limit
    ]
    if near:
        return min(near)[2]
    lag = lag_of(next_member)
    return owner if lag is None or lag >= behind else None
