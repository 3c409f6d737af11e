"""`moldau broker drain|decommission`: replicas leave a broker, and then the broker the cluster.

Invariant: a broker is unregistered only when it has no replica and has stopped.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import Opened, add_action_arguments, opened_admin
from moldau.cli.commands.reassign import (
    clear_throttle,
    current_replicas,
    known_brokers,
    set_throttle,
    start_moves,
)
from moldau.cli.commands.reassign_plan import Brokers, evacuation, plan_text
from moldau.cli.commands.reassign_watch import wait_until_moved
from moldau.cli.numbers import whole
from moldau.cli.output import write_lines

if TYPE_CHECKING:
    from moldau.client import Admin

LOOK_SECONDS: Final = 1.0


def add_drain_arguments(parser: ArgumentParser) -> None:
    """Of both."""
    add_action_arguments(parser)
    parser.add_argument("broker", metavar="BROKER", type=whole(0, 2**31 - 1))
    parser.add_argument(
        "--to", metavar="ID,...", help="the brokers that get its replicas (default: all others)"
    )
    parser.add_argument(
        "--throttle",
        type=whole(1, 2**63 - 1),
        metavar="BYTES",
        help="a second that a broker sends or takes for it",
    )
    parser.add_argument("--dry-run", action="store_true", help="only write the plan")


def drain(arguments: Namespace, context: Context) -> int:
    """Its replicas go to other brokers; it stays in the cluster."""
    with opened_admin(arguments, context) as admin:
        return _drain(arguments, context, admin)


def decommission(arguments: Namespace, context: Context) -> int:
    """Drains it, waits until it has been stopped, and lets the cluster forget it."""
    with opened_admin(arguments, context) as admin:
        code = _drain(arguments, context, admin)
        if code != Exit.DONE or arguments.dry_run:
            return code
        _await_end(arguments.broker, context, admin)
        admin.run(lambda client: client.unregister_broker(arguments.broker))
    write_lines(context.out, [f"broker {arguments.broker} is forgotten"])
    return Exit.DONE


def _drain(arguments: Namespace, context: Context, admin: Opened[Admin]) -> int:
    leaving = arguments.broker
    left = _left(arguments, admin)
    current = current_replicas(admin)
    goal = evacuation(current, left, leaving)
    if arguments.dry_run:
        write_lines(context.out, [plan_text(goal)])
        return Exit.DONE
    if goal:
        write_lines(context.err, [f"moldau: {len(goal)} partitions leave broker {leaving}"])
        if arguments.throttle is not None:
            set_throttle(admin, current, goal, arguments.throttle)
        code = start_moves(admin, context, goal)
        wait_until_moved(admin, context, goal)
        if arguments.throttle is not None:
            clear_throttle(admin, goal)
        if code != Exit.DONE:
            return code
    write_lines(context.out, [f"broker {leaving} has no replicas"])
    return Exit.DONE


def _left(arguments: Namespace, admin: Opened[Admin]) -> Brokers:
    racks = dict(known_brokers(admin).racks)
    racks.pop(arguments.broker, None)
    if arguments.to is not None:
        from moldau.cli.commands.reassign import broker_ids

        chosen = broker_ids(arguments.to)
        unknown = [each for each in chosen if each not in racks]
        if unknown:
            raise UsageError(
                f"broker {unknown[0]} cannot take replicas: it is not there, or leaves"
            )
        racks = {each: racks[each] for each in chosen}
    return Brokers(racks)


def _await_end(broker: int, context: Context, admin: Opened[Admin]) -> None:
    """Ctrl-C ends the waiting."""
    from moldau.cli.shell import pause

    is_told = False
    while True:
        cluster = admin.run(lambda client: client.describe_cluster())
        if all(each.node_id != broker for each in cluster.brokers):
            return
        if not is_told:
            is_told = True
            write_lines(context.err, [f"moldau: stop broker {broker} now; waits for its end"])
            context.err.flush()
        admin.run(lambda _: pause(LOOK_SECONDS))
