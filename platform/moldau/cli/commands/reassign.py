"""`moldau reassign`: move partitions to other brokers, with plans in the format of Kafka's tool."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import OpenClient, on_cluster, opened_admin
from moldau.cli.commands.current_view import await_current_view
from moldau.cli.commands.reassign_plan import (
    Brokers,
    Place,
    Replicas,
    parse_plan,
    plan_text,
    spread,
)
from moldau.cli.numbers import whole
from moldau.cli.output import write_facts, write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moldau.client import Admin
    from moldau.client.admin.partitions import Reassignment

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

LOOK_SECONDS: Final = 0.5

Show = "Callable[[int], None]"


def _add_plan(parser: ArgumentParser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="*", help="all topics unless some are named"
    )
    parser.add_argument(
        "--brokers",
        type=broker_ids,
        metavar="ID,...",
        help="brokers for the replicas (default: all)",
    )
    parser.add_argument(
        "--replicas", type=whole(1, 2**15), help="how many each partition shall have"
    )


def _add_execute(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument(
        "--throttle",
        type=whole(1, 2**63 - 1),
        metavar="BYTES",
        help="a second that a broker sends or takes for the move",
    )
    parser.add_argument("--wait", action="store_true", help="until the move is over")
    parser.add_argument(
        "--additional", action="store_true", help="also while other partitions move"
    )


def _add_verify(parser: ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--wait", action="store_true", help="until the move is over")
    parser.add_argument(
        "--preserve-throttles", action="store_true", help="leave the throttles of a finished move"
    )


def _add_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a plan; - reads it from standard input")


def _add_nothing(parser: ArgumentParser) -> None:
    """Add no arguments: the action lists all moves."""


def broker_ids(text: str) -> tuple[int, ...]:
    """Return the ids of `1,2,3`. Raise UsageError for anything else."""
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise UsageError(f"{text!r} is not a list of broker ids") from None


def _plan_of(arguments: Namespace, context: Context) -> dict[Place, Replicas]:
    from moldau.runtime.real_files import RealFiles

    if arguments.file == "-":
        return parse_plan(context.source.read().decode("utf-8", "replace"), "standard input")
    try:
        text = RealFiles().read_text(arguments.file)
    except OSError as error:
        raise UsageError(f"{arguments.file} cannot be read: {error.strerror}") from error
    return parse_plan(text, arguments.file)


def current_replicas(
    admin: OpenClient[Admin], context: Context, names: Iterable[str] | None = None
) -> dict[Place, Replicas]:
    """Return the replicas of these topics, or of all, once every broker knows current metadata.
    Raise HiddenNames instead of all but those that are hidden."""
    await_current_view(admin, context)
    if names is None:
        from moldau.operations.hidden import check_all_visible

        admin.run(check_all_visible)
        topics = admin.run(lambda client: client.list_topics(internal=True))
    else:
        wanted = sorted(set(names))
        found = admin.run(lambda client: client.describe_topics(wanted))
        topics = []
        for each in found.values():
            if isinstance(each, Exception):
                raise each
            topics.append(each)
    return {
        (topic.name, each.index): tuple(each.replicas)
        for topic in topics
        for each in topic.partitions
    }


def known_brokers(admin: OpenClient[Admin], ids: Sequence[int] | None = None) -> Brokers:
    """Return the brokers of the cluster, or those of `ids`. Raise UsageError for an unknown id."""
    cluster = admin.run(lambda client: client.describe_cluster())
    racks = {each.node_id: each.rack for each in cluster.brokers}
    missing = sorted(set(ids or ()) - racks.keys())
    if missing:
        raise UsageError(f"there is no broker {missing[0]}; there are {_listed(sorted(racks))}")
    return Brokers({each: racks[each] for each in (ids or racks)})


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def _plan(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        current = current_replicas(admin, context, arguments.topics or None)
        brokers = known_brokers(admin, arguments.brokers)
    goal = spread(current, brokers, arguments.replicas)
    moved = {place: each for place, each in goal.items() if each != current[place]}
    write_lines(context.err, [f"moldau: changes {len(moved)} of {counted(len(goal), 'partition')}"])
    write_lines(context.out, [plan_text(moved)])
    return Exit.DONE


def _execute(arguments: Namespace, context: Context) -> int:
    goal = _plan_of(arguments, context)
    with opened_admin(arguments, context) as admin:
        current = current_replicas(admin, context, {topic for topic, _ in goal})
        _check_places(goal, current)
        known_brokers(admin, sorted({each for replicas in goal.values() for each in replicas}))
        moving = admin.run(lambda client: client.list_partition_reassignments())
        if moving and not arguments.additional:
            raise UsageError(
                f"{counted(len(moving), 'partition moves', 'partitions move')} already: wait, "
                "cancel them, or say --additional"
            )
        write_lines(context.err, ["moldau: to go back, execute:", plan_text(_only(current, goal))])
        if arguments.throttle is not None:
            set_throttle(admin, current, goal, arguments.throttle)
        code = start_moves(admin, context, goal)
        if arguments.wait and code == Exit.DONE:
            wait_until_moved(admin, context, goal)
            if arguments.throttle is not None:
                clear_throttle(admin, goal)
    return code


def _check_places(goal: Mapping[Place, Replicas], current: Mapping[Place, Replicas]) -> None:
    for topic, number in goal:
        if (topic, number) not in current:
            raise UsageError(f"there is no partition {number} of {topic}")


def _only(
    current: Mapping[Place, Replicas], goal: Mapping[Place, Replicas]
) -> dict[Place, Replicas]:
    return {place: current[place] for place in goal}


def set_throttle(
    admin: OpenClient[Admin],
    current: Mapping[Place, Replicas],
    goal: Mapping[Place, Replicas],
    rate: int,
) -> None:
    """Limit these moves to `rate` bytes a second on each broker that takes part in them."""
    topics = throttled_replicas(current, goal)
    brokers = {each for place in goal for each in (*goal[place], *current[place])}
    admin.run(lambda client: throttle(client, topics, brokers, rate))


def clear_throttle(admin: OpenClient[Admin], goal: Mapping[Place, Replicas]) -> None:
    """Remove the throttles of the topics of `goal`, and of all brokers."""
    topics = {topic for topic, _ in goal}
    brokers = known_brokers(admin).racks
    admin.run(lambda client: clear(client, topics, brokers))


def start_moves(
    admin: OpenClient[Admin], context: Context, goal: Mapping[Place, Sequence[int] | None]
) -> int:
    """Start the moves, or cancel those whose goal is None. Report those that fail."""
    from moldau.client import TopicPartition

    wanted = {TopicPartition(*place): replicas for place, replicas in goal.items()}
    results = admin.run(lambda client: client.alter_partition_reassignments(wanted))
    failed = {where: error for where, error in results.items() if error is not None}
    write_lines(
        context.err,
        [f"moldau: {where.topic}-{where.partition}: {failed[where]}" for where in failed],
    )
    return Exit.FAILED if failed else Exit.DONE


def _verify(arguments: Namespace, context: Context) -> int:
    goal = _plan_of(arguments, context)
    with opened_admin(arguments, context) as admin:
        if arguments.wait:
            wait_until_moved(admin, context, goal)
        moving = {
            (where.topic, where.partition)
            for where in admin.run(lambda client: client.list_partition_reassignments())
        }
        current = current_replicas(admin, context, {topic for topic, _ in goal})
        states = {place: _state(place, goal[place], current, moving) for place in sorted(goal)}
        if not moving and not arguments.preserve_throttles:
            clear_throttle(admin, goal)
    facts = [{"topic": at[0], "partition": at[1], "state": states[at]} for at in states]
    write_facts(context.out, ("TOPIC", "PARTITION", "STATE"), facts, json=arguments.json)
    return Exit.DONE if set(states.values()) == {"done"} else Exit.FAILED


def _state(
    place: Place,
    goal: Replicas,
    current: Mapping[Place, Replicas],
    moving: Iterable[Place],
) -> str:
    if place in moving:
        return "moving"
    if place not in current:
        return "unknown"
    return "done" if current[place] == goal else "elsewhere"


def _cancel(arguments: Namespace, context: Context) -> int:
    goal = _plan_of(arguments, context)
    with opened_admin(arguments, context) as admin:
        moving = admin.run(lambda client: client.list_partition_reassignments())
        chosen = [place for place in goal if place in {(at.topic, at.partition) for at in moving}]
        code = start_moves(admin, context, dict.fromkeys(chosen)) if chosen else Exit.DONE
        if len(chosen) == len(moving):
            clear_throttle(admin, goal)
    write_lines(context.out, [f"cancelled the moves of {counted(len(chosen), 'partition')}"])
    return code


def _list(arguments: Namespace, context: Context) -> int:
    moving = on_cluster(arguments, context, lambda client: client.list_partition_reassignments())
    if arguments.json:
        write_json(context.out, [_facts(at.topic, at.partition, moving[at]) for at in moving])
        return Exit.DONE
    rows = [
        (
            at.topic,
            str(at.partition),
            _listed(each.replicas),
            _listed(each.adding) or "-",
            _listed(each.removing) or "-",
        )
        for at, each in moving.items()
    ]
    write_table(context.out, ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)
    return Exit.DONE


def _facts(topic: str, number: int, move: Reassignment) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": number,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
    }


def wait_until_moved(admin: OpenClient[Admin], context: Context, places: Collection[Place]) -> None:
    """Wait until none of these partitions moves. Ctrl-C ends the wait, but not the moves."""
    from moldau.cli.shell import pause

    total = len(places)
    with _shown(context, total) as show:
        while True:
            moving = admin.run(lambda client: client.list_partition_reassignments())
            left = sum((each.topic, each.partition) in places for each in moving)
            show(total - left)
            if not left:
                return
            admin.run(lambda _: pause(LOOK_SECONDS))


@contextmanager
def _shown(context: Context, total: int) -> Iterator[Callable[[int], None]]:
    if context.err.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress("partitions moved", *columns, console=Console(file=context.err)) as bar:
            task = bar.add_task("", total=total)
            yield lambda done: bar.update(task, completed=done)
        return
    told = -1

    def report(done: int) -> None:
        nonlocal told
        if done != told:
            told = done
            write_lines(context.err, [f"moved {done} of {counted(total, 'partition')}"])

    yield report


def throttled_replicas(
    current: Mapping[Place, Sequence[int]], goal: Mapping[Place, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Return the two settings of each topic with moves that add replicas."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, number), replicas in sorted(goal.items()):
        leaders, followers = found.setdefault(topic, ([], []))
        before = current[topic, number]
        added = [each for each in replicas if each not in before]
        if added:
            leaders += [f"{number}:{each}" for each in before]
            followers += [f"{number}:{each}" for each in added]
    return {
        topic: {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in found.items()
        if followers
    }


async def throttle(
    admin: Admin, topics: Mapping[str, Mapping[str, str]], brokers: Iterable[int], rate: int
) -> None:
    """Set the replicas of these topics, and a rate in bytes a second for each of these brokers."""
    from moldau.client import Resource, ResourceType

    for topic, values in topics.items():
        await admin.alter_configs(Resource(ResourceType.TOPIC, topic), set_to=values)
    for broker in sorted(brokers):
        rates = dict.fromkeys(RATES, str(rate))
        await admin.alter_configs(Resource(ResourceType.BROKER, str(broker)), set_to=rates)


async def clear(admin: Admin, topics: Collection[str], brokers: Iterable[int]) -> None:
    """Remove the throttles of these topics and brokers."""
    from moldau.client import Resource, ResourceType

    for broker in sorted(brokers):
        await admin.alter_configs(Resource(ResourceType.BROKER, str(broker)), unset=RATES)
    for topic in sorted(topics):
        resource = Resource(ResourceType.TOPIC, topic)
        await admin.alter_configs(resource, unset=(LEADERS, FOLLOWERS))


command = ActionCommand(
    SUMMARIES["reassign"],
    (
        Action(
            "plan",
            "write a plan that spreads partitions over brokers",
            _add_plan,
            _plan,
            "Writes the plan in the JSON of kafka-reassign-partitions: as few moves as an even "
            "spread over brokers and racks takes.",
        ),
        Action("execute", "begin the moves of a plan", _add_execute, _execute),
        Action(
            "verify",
            "how far the moves of a plan are",
            _add_verify,
            _verify,
            "Says of each partition: done, moving, elsewhere. When nothing moves any more, the "
            "throttles are taken away.",
        ),
        Action("cancel", "call off the moves of a plan", _add_file, _cancel),
        Action("list", "the moves that are under way", _add_nothing, _list),
    ),
)
