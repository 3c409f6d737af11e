"""`moldau streams workers`: another number of workers under the supervisor of a running app.

Any worker passes the number on to its supervisor. The workers of one supervisor answer with its
name, so it is asked once; one that ends meanwhile need not be asked.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json
from moldau.streams.commands.pause_action import NO_SERVER, WorkerClient, add_http_config, addresses
from moldau.streams.commands.status_action import (
    REBALANCING,
    count_of_workers,
    described_group,
    plan_of,
    settled_group,
)

if TYPE_CHECKING:
    from moldau.client.group.descriptions import GroupDescription

AUTO: Final = "auto"
DESCRIPTION: Final = (
    "Has the supervisor of the app (moldau streams run --workers N, N at least 2) run another "
    "number of workers, and waits until they are in the app's group. It is asked by way of a "
    "worker, at the address that it serves queries at (--listen); if the app has supervisors on "
    "several machines, each of them gets this number. New workers join; of too many the newest "
    "ones commit and leave. The state of a worker stays in its directory."
)
_WAIT_S: Final = 90.0
_LOOK_S: Final = 0.5


def processes(text: str) -> int:
    """Return the number of processes of an app: a number, or `auto` for most cores of the machine.
    Raise ArgumentTypeError."""
    if text != AUTO:
        return _count(text)
    from moldau.runtime.process_figures import most_cores

    return most_cores()


def add_workers(parser: ArgumentParser) -> None:
    """Add the number, and the options by which workers are reached."""
    parser.add_argument("count", metavar="N", type=_count, help="the number of worker processes")
    add_http_config(parser)


def _count(text: str) -> int:
    from moldau.cli.numbers import whole
    from moldau.streams.query.supervised import WORKERS_MAX

    return whole(1, WORKERS_MAX)(text)


def change_workers(arguments: Namespace, context: Context) -> int:
    """Change the number of workers, and wait until the group has them. Fail if a worker was not
    reached or has no supervisor, or if the workers do not come."""
    plan, count = plan_of(arguments), arguments.count
    group = settled_group(arguments, context, plan)
    if not group.members:
        start = f"start it with moldau streams run {arguments.app} --workers {count}"
        raise UsageError(f"app={plan.app}: none of its workers runs: {start}")
    from moldau.streams.query.supervised import change_of_count

    client = WorkerClient(arguments.http_config, context)
    found, problems = _supervisors(group, client)
    for server, workers in found.items():
        _, problem = client.ask("POST", server, f"/workers?count={count}")
        if problem:
            problems.update(dict.fromkeys(workers, problem))
        elif not arguments.json:
            print(f"{server}: {change_of_count(len(workers), count)}", file=context.out)
    others = set(problems)
    wanted = count * sum(others.isdisjoint(workers) for workers in found.values())
    if not arguments.json:
        for name, problem in problems.items():
            print(f"{name}: {problem}", file=context.out)
    running = _await_workers(partial(described_group, arguments, context, plan), others, wanted)
    if arguments.json:
        write_json(context.out, {"app": plan.app, "workers": running, "problems": problems})
    elif running == wanted and wanted:
        print(f"app {plan.app} has {count_of_workers(running + len(others))}", file=context.out)
    if running != wanted:
        missing = f"after {_WAIT_S:.0f} s {running} of {count_of_workers(wanted)} are in its group"
        log = "the log of moldau streams run says why"
        print(f"moldau: app={plan.app}: {missing}: {log}", file=context.err)
    return Exit.DONE if running == wanted and not others else Exit.FAILED


def _supervisors(
    group: GroupDescription, client: WorkerClient
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the workers of each supervisor, by the address of one of them, and the problem of each
    worker without one."""
    servers: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for name, server in sorted(addresses(group), key=itemgetter(1)):
        answer, problem = client.ask("GET", server, "/workers") if server else (None, NO_SERVER)
        if answer is not None and answer.status == HTTPStatus.NOT_FOUND:
            from moldau.streams.query.supervised import NO_SUPERVISOR

            problem = NO_SUPERVISOR
        if answer is None or problem:
            problems[name] = problem
            continue
        at = servers.setdefault(answer.json()["supervisor"], server)
        found.setdefault(at, []).append(name)
    return found, problems


def _await_workers(
    describe: Callable[[], GroupDescription], others: Collection[str], wanted: int
) -> int:
    """Wait until the group has so many workers beside the others. Return how many it has."""
    from moldau.runtime.node_processes import monotonic_s, pause_s

    until_s = monotonic_s() + _WAIT_S
    while True:
        group = describe()
        running = sum(name not in others for name, _ in addresses(group))
        is_settled = running == wanted and group.state not in REBALANCING
        if is_settled or monotonic_s() > until_s:
            return running
        pause_s(_LOOK_S)
