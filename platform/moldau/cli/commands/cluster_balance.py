"""`moldau cluster balance`: plan moves by load, and carry them out a few at a time.

The moves are Kafka's own reassignments, and the throttle is that of KIP-73, so they go on if this
command dies; the next call waits for them, plans what is left, and removes the throttle.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import OpenClient, opened_admin
from moldau.cli.commands.reassign import (
    RATES,
    clear_throttle,
    current_replicas,
    known_brokers,
    set_throttle,
    start_moves,
    wait_until_moved,
)
from moldau.cli.commands.reassign_plan import Place, Replicas, plan_text
from moldau.cli.numbers import binary_size, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors import MoldauError
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.operations.balance import Brokers, Load

AT_ONCE: Final = 10
PERCENT: Final = 10
_PERCENT_MAX: Final = 100


def add_balance(parser: ArgumentParser) -> None:
    """Add the arguments: what counts as level, and how the plan is carried out."""
    parser.add_argument(
        "--imbalance",
        type=_percent,
        default=PERCENT,
        metavar="PERCENT",
        help=f"that a broker may have more or less than the mean (default: {PERCENT})",
    )
    parser.add_argument(
        "--watch",
        type=whole(1, 86_400),
        metavar="SECONDS",
        help="see for so long how logs grow: leaders count by the bytes that they take in; without "
        "it each counts as much",
    )
    parser.add_argument(
        "--throttle",
        type=whole(1, 2**63 - 1),
        metavar="BYTES",
        help="a second that a broker sends or takes for the moves",
    )
    parser.add_argument(
        "--at-once",
        type=whole(1, 10_000),
        default=AT_ONCE,
        metavar="COUNT",
        help=f"partitions that move at a time (default: {AT_ONCE})",
    )
    parser.add_argument("--execute", action="store_true", help="carry the plan out")


def _percent(text: str) -> int:
    number = whole(1, _PERCENT_MAX)
    try:
        return number(text.removesuffix("%"))
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is no percentage from 1 to {_PERCENT_MAX}") from None


def balance(arguments: Namespace, context: Context) -> int:
    """Show the plan, and carry it out with --execute."""
    from moldau.operations.balance import plan

    with opened_admin(arguments, context) as admin:
        if arguments.execute:
            _end_earlier(admin, context)
        current = current_replicas(admin, context)
        brokers = known_brokers(admin)
        loads = _loads(admin, current, arguments.watch)
        goal = plan(current, loads, brokers, arguments.imbalance / 100)
        _show(arguments, context, current, goal, loads, brokers)
        if not arguments.execute or not goal:
            return Exit.DONE
        code = _carry_out(arguments, context, admin, current, goal)
    write_lines(context.err, ["moldau: the moves are done"] if code == Exit.DONE else [])
    return code


def _loads(
    admin: OpenClient[Admin], current: Mapping[Place, Replicas], watch_s: int | None
) -> dict[Place, Load]:
    """Return the size of each partition's log, and by how much it grows if that is watched. An
    empty log counts as a byte, so that partitions without data are spread as well."""
    from moldau.cli.shell import pause
    from moldau.operations.balance import Load

    before = _sizes(admin)
    if watch_s is None:
        return {place: Load(max(before[place], 1)) for place in current}
    admin.run(lambda _: pause(watch_s))
    after = _sizes(admin)
    return {
        place: Load(max(after[place], 1), max((after[place] - before[place]) // watch_s, 1))
        for place in current
    }


def _sizes(admin: OpenClient[Admin]) -> dict[Place, int]:
    """Return the size of each partition's largest replica."""
    found: dict[Place, int] = defaultdict(int)
    for directory in admin.run(lambda client: client.describe_log_dirs()):
        if directory.error is not None:
            raise MoldauError(
                f"broker {directory.broker} cannot use {directory.path}, so its sizes are unknown: "
                f"{directory.error}"
            )
        for each in directory.replicas:
            place = (each.where.topic, each.where.partition)
            if not each.is_future:
                found[place] = max(found[place], each.size_bytes)
    return found


def _show(
    arguments: Namespace,
    context: Context,
    current: Mapping[Place, Replicas],
    goal: Mapping[Place, Replicas],
    loads: Mapping[Place, Load],
    brokers: Brokers,
) -> None:
    from moldau.operations.balance import disk_loads, is_level, leader_loads

    after = {**current, **goal}
    disks = [disk_loads(each, loads, brokers) for each in (current, after)]
    leads = [leader_loads(each, loads, brokers) for each in (current, after)]
    moved = {place: {*goal[place]} - {*current[place]} for place in goal}
    moved_bytes = sum(len(new) * loads[place].size_bytes for place, new in moved.items())
    facts: dict[str, Any] = {
        "brokers": [
            {
                "broker": each,
                "rack": brokers.racks[each],
                "bytes": disks[0][each],
                "bytes_after": disks[1][each],
                "leads": leads[0][each],
                "leads_after": leads[1][each],
            }
            for each in sorted(brokers.racks)
        ],
        "moved_replicas": sum(map(len, moved.values())),
        "moved_bytes": moved_bytes,
        "changed_partitions": len(goal),
        "level": is_level(disks[1], arguments.imbalance / 100),
        "plan": plan_text(goal),
    }
    if arguments.json:
        write_json(context.out, facts)
        return
    rows = [
        (
            str(each["broker"]),
            each["rack"] or "-",
            binary_size(each["bytes"]),
            binary_size(each["bytes_after"]),
            str(each["leads"]),
            str(each["leads_after"]),
        )
        for each in facts["brokers"]
    ]
    write_table(context.out, ("BROKER", "RACK", "DISK", "AFTER", "LEADS", "AFTER"), rows)
    if not goal:
        write_lines(context.out, ["nothing is to be moved"])
        return
    count = facts["moved_replicas"]
    changes, moves = counted(len(goal), "partition"), counted(count, "replica")
    line = f"changes: {changes}; moves: {moves}, {binary_size(moved_bytes)}"
    write_lines(context.out, [line])
    if not facts["level"]:
        near = "no move brings the disks nearer, without fewer racks or a broker that has more"
        write_lines(context.out, [near])
    if not arguments.execute:
        write_lines(context.out, ["Nothing was changed: --execute carries this out."])


def _end_earlier(admin: OpenClient[Admin], context: Context) -> None:
    """Wait for moves that go on already, and remove the throttle of a call that was cut short."""
    moving = admin.run(lambda client: client.list_partition_reassignments())
    if moving:
        move = counted(len(moving), "partition moves", "partitions move")
        write_lines(context.err, [f"moldau: {move} already; waits for them"])
        wait_until_moved(admin, context, {(at.topic, at.partition) for at in moving})
    if any(admin.run(_is_throttled(each)) for each in known_brokers(admin).racks):
        topics = admin.run(lambda client: client.list_topics(internal=True))
        clear_throttle(admin, {(each.name, 0): () for each in topics})


def _is_throttled(broker: int) -> Any:
    from moldau.client import Resource, ResourceType
    from moldau.client.admin.configs import ConfigSource

    async def ask(admin: Admin) -> bool:
        resource = Resource(ResourceType.BROKER, str(broker))
        entries = await admin.describe_configs(resource, names=RATES)
        return any(each.source is ConfigSource.DYNAMIC_BROKER for each in entries)

    return ask


def _carry_out(
    arguments: Namespace,
    context: Context,
    admin: OpenClient[Admin],
    current: Mapping[Place, Replicas],
    goal: Mapping[Place, Replicas],
) -> int:
    """Move a few partitions at a time, then let preferred replicas lead."""
    from moldau.client import TopicPartition
    from moldau.protocol.election import Election

    if arguments.throttle is not None:
        set_throttle(admin, current, goal, arguments.throttle)
    places = sorted(goal)
    for first in range(0, len(places), arguments.at_once):
        part = {place: goal[place] for place in places[first : first + arguments.at_once]}
        code = start_moves(admin, context, part)
        wait_until_moved(admin, context, part)
        if code != Exit.DONE:
            break
    if arguments.throttle is not None:
        clear_throttle(admin, goal)
    changed: Sequence[TopicPartition] = [
        TopicPartition(*place) for place in goal if goal[place][0] != current[place][0]
    ]
    if changed and code == Exit.DONE:
        admin.run(lambda client: client.elect_leaders(changed, election=Election.PREFERRED))
    return code
