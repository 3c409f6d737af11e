"""`moldau broker drain|decommission`: move the replicas off a broker, and remove it from the
cluster.

Invariants: the command reports a broker without replicas only when every living broker knows all
committed metadata, none of it gives the broker a replica, and the broker's own disks have none. A
broker is unregistered only when it has no replica and has stopped.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import OpenClient, opened_admin
from moldau.cli.commands.cluster_controller import all_brokers, warn_of_voter
from moldau.cli.commands.current_view import WITHIN_SECONDS
from moldau.cli.commands.reassign import (
    clear_throttle,
    current_replicas,
    known_brokers,
    set_throttle,
    start_moves,
    wait_until_moved,
)
from moldau.cli.commands.reassign_plan import (
    Brokers,
    Place,
    Replicas,
    evacuation,
    plan_text,
)
from moldau.cli.output import write_lines
from moldau.errors import MoldauError
from moldau.errors.amounts import counted
from moldau.operations.hidden import check_all_visible

if TYPE_CHECKING:
    from moldau.client import Admin

LOOK_SECONDS: Final = 1.0


def drain(arguments: Namespace, context: Context) -> int:
    """Move the replicas of a broker to other brokers; the broker stays in the cluster."""
    with opened_admin(arguments, context) as admin:
        _check_known(arguments.broker, admin)
        return _drain(arguments, context, admin)


def decommission(arguments: Namespace, context: Context) -> int:
    """Drain a broker, wait until it has stopped, and unregister it from the cluster."""
    leaving = arguments.broker
    with opened_admin(arguments, context) as admin:
        _check_known(leaving, admin)
        code = _drain(arguments, context, admin)
        if code != Exit.DONE or arguments.dry_run:
            return code
        _await_end(leaving, context, admin)
        late = sorted(_goal(arguments, context, admin))
        if late:
            raise MoldauError(
                f"broker {leaving} got replicas after it was drained, {_some(late)}: start it "
                "again, and repeat the command"
            )
        admin.run(lambda client: client.unregister_broker(leaving))
        write_lines(context.out, [f"broker {leaving} is forgotten"])
        warn_of_voter(leaving, context, admin)
    return Exit.DONE


def _check_known(leaving: int, admin: OpenClient[Admin]) -> None:
    """Raise UsageError if the cluster does not know the broker: it is not alive, not registered as
    dead, and no partition has it as a replica."""
    cluster = admin.run(all_brokers)
    registered = {each.node_id for each in (*cluster.brokers, *cluster.fenced)}
    if leaving in registered:
        return
    admin.run(check_all_visible)
    topics = admin.run(lambda client: client.list_topics(internal=True))
    if any(leaving in each.replicas for topic in topics for each in topic.partitions):
        return
    ids = ", ".join(map(str, sorted(registered)))
    raise UsageError(f"there is no broker {leaving}; there are {ids}")


def _drain(arguments: Namespace, context: Context, admin: OpenClient[Admin]) -> int:
    """Move replicas until no broker knows of one there, and the broker's own disks have none."""
    leaving = arguments.broker
    if arguments.dry_run:
        write_lines(context.out, [plan_text(_goal(arguments, context, admin))])
        return Exit.DONE
    clock = admin.runtime.clock
    end = clock.monotonic() + WITHIN_SECONDS
    while True:
        goal = _goal(arguments, context, admin)
        if goal:
            code = _move(arguments, context, admin, goal)
            if code != Exit.DONE:
                return code
            end = clock.monotonic() + WITHIN_SECONDS
            continue
        kept = _on_disk(leaving, context, admin)
        if not kept:
            break
        if clock.monotonic() > end:
            raise MoldauError(
                f"broker {leaving} has no part in {_some(kept)} any more, and has not removed its "
                "replicas: look at its log, and drain it again"
            )
    write_lines(context.out, [f"broker {leaving} has no replicas"])
    return Exit.DONE


def _goal(
    arguments: Namespace, context: Context, admin: OpenClient[Admin]
) -> dict[Place, Replicas]:
    """Return the moves that remain, by a view of the cluster with all committed metadata."""
    return evacuation(current_replicas(admin, context), _left(arguments, admin), arguments.broker)


def _move(
    arguments: Namespace,
    context: Context,
    admin: OpenClient[Admin],
    goal: Mapping[Place, Replicas],
) -> int:
    leave = counted(len(goal), "partition leaves", "partitions leave")
    write_lines(
        context.err,
        [f"moldau: {leave} broker {arguments.broker}"],
    )
    if arguments.throttle is not None:
        set_throttle(admin, current_replicas(admin, context), goal, arguments.throttle)
    code = start_moves(admin, context, goal)
    wait_until_moved(admin, context, goal)
    if arguments.throttle is not None:
        clear_throttle(admin, goal)
    return code


def _on_disk(broker: int, context: Context, admin: OpenClient[Admin]) -> list[Place]:
    """Return the replicas on the broker's own disks; none if the broker is not alive."""
    from moldau.errors.codes import KafkaError

    cluster = admin.run(lambda client: client.describe_cluster())
    if all(each.node_id != broker for each in cluster.brokers):
        return []
    try:
        found = admin.run(lambda client: client.describe_log_dirs([broker]))
    except KafkaError as error:
        line = f"moldau: broker {broker} does not tell what is on its disks: {error}"
        write_lines(context.err, [line])
        return []
    places = [each.where for directory in found for each in directory.replicas]
    return sorted({(where.topic, where.partition) for where in places})


def _some(places: Sequence[Place]) -> str:
    """Return the first of the partitions, and the number of the others."""
    topic, number = places[0]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{topic}-{number}{more}"


def _left(arguments: Namespace, admin: OpenClient[Admin]) -> Brokers:
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


def _await_end(broker: int, context: Context, admin: OpenClient[Admin]) -> None:
    """Wait until the broker has stopped. Ctrl-C ends the wait."""
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
