"""`moldau streams reset`: let an app read its topics again from the beginning.

The app is given as MODULE:APP, or as its application id, such as one of Java's Kafka Streams or one
that an app had before it was renamed: then its topics are found by their names.

Deleted are the topics that the app makes, and its stores on this machine; then the offsets of its
group are those of the beginning. What the app has written stays.

Invariants: nothing is changed while a worker runs, or without the rights to change all of it. The
offsets are changed last, so a reset that was cut short and is given again does what is left.
"""

from __future__ import annotations

import posixpath
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.group_offsets import (
    DRY_RUN,
    add_beginnings,
    add_execute,
    destination_of,
    facts_of,
    write_steps,
)
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_lines
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.operations.offsets import (
    ConsumerGroups,
    Destination,
    OffsetChange,
    carry_out,
    members_of,
    obstacles,
    plan_group,
)
from moldau.streams.commands.given_app import load_app
from moldau.streams.commands.reset_topics import (
    NOTHING_LEFT,
    AppTopics,
    check_id,
    check_visible_to_reset,
    delete_topics,
    lacked_rights,
    topics_of_id,
    topics_of_plan,
)

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition
    from moldau.runtime.files import Files
    from moldau.streams.plan.plan import Plan

DESCRIPTION: Final = """\
Lets a stopped app read its inputs again, from where their logs begin or another place. Deletes
the topics that the app makes for itself, and its stores on this machine; topics that it writes
to stay as they are. Without --execute nothing is changed: the output shows what would be. Stores
on other machines are emptied when a worker starts there; delete those without a changelog.
--application-id resets an app without its module, such as one of Java's Kafka Streams, or one
that has another name now. With --engine spark it deletes the app's checkpoint, group and topics;
a new checkpoint begins where auto.offset.reset says."""
_STAYING: Final = (
    "members that have ended without leaving the group, as those of Java do, stay in it until "
    "their session timeout (45 s): wait, or give --force"
)


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset changes."""

    topics: AppTopics
    offsets: Sequence[OffsetChange]
    forgotten: Sequence[TopicPartition]
    """Partitions of topics that are deleted, of which the group has offsets."""
    untouched: Sequence[str]
    """Other topics of which the group has offsets."""
    stores: str | None = None
    """The directory of the app's stores on this machine, if there is one."""
    obstacles: Sequence[str] = field(default=())

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to change."""
        is_moved = any(each.after not in (None, each.before) for each in self.offsets)
        return not (self.topics.made or self.stores or self.forgotten or is_moved)


def add_reset(parser: ArgumentParser) -> None:
    """Add the options that name the app, say where it begins again, and where its stores are."""
    parser.add_argument(
        "app", metavar="MODULE:APP", nargs="?", help="where the app is, as word_count:app"
    )
    parser.add_argument(
        "--application-id",
        metavar="ID",
        type=name_of("group"),
        help="of an app without its module; its topics are found by their names",
    )
    parser.add_argument(
        "--input-topics",
        metavar="TOPIC,...",
        default="",
        help="with --application-id: the inputs that it reads again",
    )
    parser.add_argument(
        "--internal-topics",
        metavar="TOPIC,...",
        default="",
        help="with --application-id: delete only these of its topics",
    )
    add_beginnings(parser)
    parser.add_argument("--state", metavar="DIR", help="the directory of the stores")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="with --engine spark: the app's, which is deleted"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="first remove members of the app's group that have ended without leaving it, as those "
        "of Java do, which stay for 45 s. Stop all that run before",
    )
    add_execute(parser)


def reset_app(arguments: Namespace, context: Context) -> int:
    """Show what a reset changes, and change it if `--execute` is given."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.worker.state_directory import DEFAULT

    plan = _plan_of(arguments)
    app = arguments.application_id if plan is None else plan.app
    check_id(app)
    if arguments.engine == "spark":
        from moldau.streams.commands.reset_on_spark import reset_on_spark

        if plan is None:
            raise UsageError("--application-id has no effect with --engine spark: give MODULE:APP")
        if arguments.force:
            raise UsageError(
                "--force has no effect with --engine spark: such an app has no members"
            )
        return reset_on_spark(arguments, context, plan)
    if arguments.checkpoint:
        raise UsageError("--checkpoint is for --engine spark")
    wanted = destination_of(arguments)
    directory = posixpath.join(absolute_path(arguments.state or DEFAULT), app)
    with opened_admin(arguments, context) as admin, ExitStack() as left:
        files = admin.runtime.files
        running = left.enter_context(_held(directory, files))
        stores = directory if files.exists(directory) else None
        to = wanted.at(admin.runtime.clock.wall_ms())
        topics = admin.run(lambda client: _topics(client, plan, arguments))
        here, force = (stores, running), arguments.force
        found = admin.run(lambda client: _planned(client, topics, to, here, force=force))
        problems = list(found.obstacles)
        if arguments.execute and not problems and not found.is_done:
            if force:
                admin.run(lambda client: _remove_members(client, app))
            problems = admin.run(lambda client: delete_topics(client, topics.made))
            if not problems and stores is not None:
                files.remove_tree(stores)
            if not problems:
                problems = admin.run(lambda client: _change_offsets(client, found))
    _report(arguments, context, found, problems)
    return Exit.FAILED if problems and arguments.execute else Exit.DONE


def _plan_of(arguments: Namespace) -> Plan | None:
    """Return the plan of the app; None if an application id is given. Raise UsageError for both."""
    from moldau.runtime.places import absolute_path

    if (arguments.app is None) == (arguments.application_id is None):
        raise UsageError("name the app: give either MODULE:APP or --application-id ID")
    if arguments.app is None:
        return None
    for name in ("input_topics", "internal_topics"):
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has no effect with MODULE:APP, which names its topics")
    return load_app(arguments.app, absolute_path(".")).plan()


async def _topics(client: Admin, plan: Plan | None, arguments: Namespace) -> AppTopics:
    """Return the topics of the app. Raise UsageError if nothing has the application id."""
    app = arguments.application_id
    inputs, internal = (
        [name for each in given.split(",") if (name := each.strip())]
        for given in (arguments.input_topics, arguments.internal_topics)
    )
    await check_visible_to_reset(client, plan, app, inputs, internal)
    existing = {each.name for each in await client.list_topics()}
    if plan is not None:
        return topics_of_plan(plan, existing)
    groups = {each.group_id: each for each in await client.list_groups()}
    found = topics_of_id(app, inputs, internal, existing, groups)
    if app in groups and groups[app].type.lower() == "streams" and groups[app].state != _EMPTY:
        raise UsageError(f"group {app} is in use: stop the app first")  # KIP-1071: not described
    if app not in groups and not found.made:
        raise UsageError(f"there is no group {app}, and no topic that an app {app} has made")
    return found


@contextmanager
def _held(directory: str, files: Files) -> Iterator[list[str]]:
    """Hold the stores of all workers in the block, so that none starts. Yield an obstacle for each
    worker that runs."""
    running = []
    with ExitStack() as locks:
        for name in files.list(directory) if files.exists(directory) else ():
            path = posixpath.join(directory, name)
            if not files.stat(path).is_dir:
                continue
            try:
                locks.callback(files.lock(posixpath.join(path, ".lock")).release)
            except BlockingIOError:
                running.append(f"a worker uses {path}: stop it first")
        yield running


async def _planned(
    client: Admin,
    topics: AppTopics,
    to: Destination,
    here: tuple[str | None, list[str]],
    *,
    force: bool,
) -> Reset:
    """Return what a reset changes. `here` are the stores of this machine and its obstacles. With
    `force`, members are none."""
    app = topics.app
    committed = await _committed(client, app)
    parts = [where for topic in topics.read for where in await _partitions(client, topic)]
    rules = dict.fromkeys(parts, to.rule)
    steps = await plan_group(client, app, committed, rules, to.timestamp)
    members = {} if force else await members_of(client, [app])
    hindered = [line for lines in obstacles(steps, members).values() for line in lines]
    if any(members.values()):
        hindered.append(_STAYING)
    there = {*topics.read, *topics.made, *topics.own, *topics.missing}
    return Reset(
        topics,
        steps,
        sorted(where for where in committed if where.topic in topics.own),
        sorted({where.topic for where in committed} - there),
        here[0],
        [
            *here[1],
            *hindered,
            *await _on_spark(client, app, committed),
            *await lacked_rights(client, app, topics.made),
        ],
    )


async def _remove_members(client: Admin, app: str) -> None:
    """Remove the members of the app's group. One that still runs joins again."""
    if any((await members_of(client, [app])).values()):
        await client.remove_all_members(app, reason="moldau streams reset --force")


async def _committed(client: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    try:
        return await client.group_offsets(group)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise


async def _on_spark(
    client: Admin, app: str, committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[str]:
    """Return an obstacle if the app runs on Spark: a driver needs its topics, and is no member."""
    from moldau.streams.spark.delivery import group_of
    from moldau.streams.worker.committer import is_marked

    has_moved = any(is_marked(each.metadata or "") for each in committed.values())
    if has_moved or (not committed and await _committed(client, group_of(app))):
        return [f"{app} is on Spark: reset it there, by --engine spark --checkpoint DIR"]
    return []


async def _partitions(client: Admin, topic: str) -> list[TopicPartition]:
    from moldau.client import TopicPartition

    found = (await client.describe_topics([topic]))[topic]
    if isinstance(found, KafkaError):
        raise found
    return [TopicPartition(topic, each.index) for each in found.partitions]


async def _change_offsets(client: Admin, found: Reset) -> list[str]:
    """Forget the offsets of topics that are gone, and set those of the inputs. A streams group is
    made anew: it keeps its topology, and another one of the same epoch is refused, so an app whose
    inputs have another number of partitions now could not join."""
    problems = []
    groups = {each.group_id: each for each in await client.list_groups()}
    app = found.topics.app
    if app in groups and groups[app].type.lower() == "streams":
        committed = await _committed(client, app)
        await client.delete_group(app)
        left = {at: each for at, each in committed.items() if at not in found.forgotten}
        if left:
            await client.alter_group_offsets(app, left)
    elif found.forgotten:
        answers = await client.delete_group_offsets(found.topics.app, found.forgotten)
        problems = [
            f"offset of {where} is not deleted: {error}"
            for where, error in answers.items()
            if error is not None and error.code not in _GONE
        ]
    done = await carry_out(client, ConsumerGroups(), found.offsets)
    return [*problems, *done.problems]


_EMPTY: Final = "Empty"
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


def _report(arguments: Namespace, context: Context, found: Reset, problems: Sequence[str]) -> None:
    app = found.topics.app
    is_done = arguments.execute and not problems
    if arguments.json:
        facts = {
            "app": app, "executed": is_done, "obstacles": list(problems),
            "topics": list(found.topics.made), "kept": list(found.topics.kept),
            "missing": list(found.topics.missing), "others": list(found.topics.others),
            "stores": found.stores, "offsets": [facts_of(each) for each in found.offsets],
        }  # fmt: skip
        write_json(context.out, facts)
    elif found.is_done and not problems:
        write_lines(context.out, [NOTHING_LEFT.format(app)])
    else:
        _write(context, found, is_done=is_done)
        if not arguments.execute:
            write_lines(context.out, [DRY_RUN])
    notes = [f"input {each} does not exist" for each in found.topics.missing]
    notes += [
        f"{each} stays: its name may be one of another app; --internal-topics deletes it"
        for each in found.topics.others
    ]
    notes += [
        f"the offsets of {each} stay: it is no input"
        + (" in --input-topics" if arguments.app is None else " of the app")
        for each in found.untouched
    ]
    write_lines(context.err, (f"moldau: {each}" for each in (*notes, *problems)))


def _write(context: Context, found: Reset, *, is_done: bool) -> None:
    write_steps(context, found.offsets)
    verb = "deleted" if is_done else "to delete"
    if found.topics.made:
        write_lines(context.out, [f"topics {verb}: {', '.join(found.topics.made)}"])
    if found.stores is not None:
        write_lines(context.out, [f"stores {verb}: {found.stores}"])
    if found.topics.kept:
        write_lines(context.out, [f"kept as they are: {', '.join(found.topics.kept)}"])
