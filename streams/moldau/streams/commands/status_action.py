"""`moldau streams status`: which worker has which task of an app, and how far its standbys are.

The broker's description of the group says it, so no worker has to serve queries. In a classic group
it has the partitions of the members, and there are no standbys.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json, write_table
from moldau.deferred import dataclass
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client.group.descriptions import GroupDescription, MemberDescription
    from moldau.streams.plan.plan import Plan

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
"""The states in which a classic group shows no addresses."""
_REBALANCE_S: Final = 60.0
_LOOK_S: Final = 0.5
_ACTIVE: Final = "active"
_ROLES: Final = (_ACTIVE, "standby", "warmup")


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What one worker does with one task."""

    task: str
    role: str
    worker: str
    host: str
    queries: str
    topology: int
    offset: int | None
    lag: int | None


def show_status(arguments: Namespace, context: Context) -> int:
    """Print the number of workers, and a line for each task of each of them. Fail if the app has no
    worker."""
    plan = plan_of(arguments)
    group = described_group(arguments, context, plan)
    tasks = statuses(group, plan)
    if arguments.json:
        found = {"app": plan.app, "group": group.type, "state": group.state}
        rows = [asdict(each) for each in tasks]
        write_json(context.out, {**found, "workers": len(group.members), "tasks": rows})
    else:
        write_status(context.out, plan.app, group, tasks)
    return Exit.DONE if group.members else Exit.FAILED


def write_status(
    out: TextIO, app: str, group: GroupDescription, tasks: Sequence[TaskStatus]
) -> None:
    """Write the number of workers and their tasks, or why there are none."""
    kind = f"{group.type} group, {group.state}"
    print(f"app {app}: {kind}, {count_of_workers(len(group.members))}", file=out)
    if tasks:
        _write(out, tasks)
    elif group.members:
        print("no worker has a task now: look again when the group is stable", file=out)
    else:
        print("none of its workers runs: start it with moldau streams run", file=out)


def plan_of(arguments: Namespace) -> Plan:
    """Return the plan of the app that the arguments name."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.commands.given_app import load_app

    return load_app(arguments.app, absolute_path(".")).plan()


def count_of_workers(count: int) -> str:
    """Return a number of workers for people."""
    return counted(count, "worker")


def described_group(
    arguments: Namespace, context: Context, plan: Plan | None = None
) -> GroupDescription:
    """Return the group of the app that the arguments name. Raise UsageError if it has none."""
    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.client import KafkaError
    from moldau.client.sync import Admin
    from moldau.errors.codes import ErrorCode
    from moldau.streams.running import checked

    plan = plan or plan_of(arguments)
    settings = checked(client_settings(arguments, context)).of("admin")
    with Admin(settings) as admin:
        try:
            return admin.describe_group(plan.app)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            raise UsageError(
                f"app={plan.app}: it has no group: none of its workers has run"
            ) from None


def settled_group(
    arguments: Namespace, context: Context, plan: Plan | None = None
) -> GroupDescription:
    """Return the group of the app as soon as it shows the addresses of its workers: a classic group
    shows none while it rebalances, which is waited for as long as members may take to join."""
    from moldau.runtime.node_processes import monotonic_s, pause_s

    until_s = monotonic_s() + _REBALANCE_S
    while True:
        group = described_group(arguments, context, plan)
        if group.state not in REBALANCING or monotonic_s() > until_s:
            return group
        pause_s(_LOOK_S)


def statuses(group: GroupDescription, plan: Plan) -> list[TaskStatus]:
    """Return the tasks of all members, in the order of their names and roles."""
    found = [each for member in group.members for each in _of_member(member, plan)]
    return sorted(found, key=lambda each: (_order(each.task), _ROLES.index(each.role), each.worker))


def _order(task: str) -> tuple[int, ...]:
    return tuple(int(each) for each in task.split("_"))


def _of_member(member: MemberDescription, plan: Plan) -> Iterable[TaskStatus]:
    from moldau.streams.worker.owners import address_in
    from moldau.streams.worker.tasks import tasks_of

    tasks = member.tasks
    if tasks is None:
        name, queries = member.instance_id or member.member_id, address_in(member.user_data).server
        for each in tasks_of(plan, member.assignment):
            yield TaskStatus(str(each), "active", name, member.host, queries, -1, None, None)
        return
    for role in _ROLES:
        for task in getattr(tasks, role):
            known = tasks.positions if role != _ACTIVE else {}  # it reported those as a copy
            offset, end = known.get(task, (None, None))
            lag = None if offset is None or end is None else max(0, end - offset)
            yield TaskStatus(
                task,
                role,
                member.member_id,
                member.host,
                tasks.endpoint,
                tasks.topology_epoch,
                offset,
                lag,
            )


def _write(out: TextIO, tasks: Sequence[TaskStatus]) -> None:
    head = ("TASK", "ROLE", "WORKER", "HOST", "QUERIES", "TOPOLOGY", "OFFSET", "LAG")
    rows = [
        (
            each.task,
            each.role,
            each.worker,
            each.host,
            each.queries or "-",
            "-" if each.topology < 0 else str(each.topology),
            "-" if each.offset is None else str(each.offset),
            "-" if each.lag is None else str(each.lag),
        )
        for each in tasks
    ]
    write_table(out, head, rows)
