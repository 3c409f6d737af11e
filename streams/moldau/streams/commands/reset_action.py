"""`moldau streams reset`: let an app read its topics again from the beginning.

Deleted are the topics that the app makes, and its stores on this machine; then the offsets of its
group are those of the beginning. What the app has written stays.

Invariants: nothing is changed while a worker runs. The offsets are changed last, so a reset that
was cut short and is given again does what is left.
"""

from __future__ import annotations

import posixpath
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.group_plan import (
    DRY_RUN,
    ConsumerGroups,
    OffsetChange,
    add_execute,
    carry_out,
    facts_of,
    members_of,
    obstacles,
    write_steps,
)
from moldau.cli.commands.group_reset import (
    Wanted,
    add_beginnings,
    place_of,
    plan_group,
)
from moldau.cli.output import write_json, write_lines
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.streams.commands.given_app import load_app

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition
    from moldau.runtime.files import Files
    from moldau.streams.plan.plan import Plan

DESCRIPTION: Final = """\
Lets a stopped app read its inputs again, from where their logs begin or another place. Deletes the
topics that the app makes for itself, and its stores on this machine; topics that it writes to stay
as they are. Without --execute nothing is changed: the output shows what would be. Stores on other
machines have to be deleted there. An app on Spark has offsets and stores in its checkpoint too:
delete that directory."""


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset changes."""

    app: str
    offsets: Sequence[OffsetChange]
    forgotten: Sequence[TopicPartition]
    """Partitions of topics that are deleted, of which the group has offsets."""
    topics: Sequence[str]
    """The topics that are there and are deleted."""
    kept: Sequence[str]
    missing: Sequence[str]
    """Inputs that do not exist."""
    stores: str | None = None
    """The directory of the app's stores on this machine, if there is one."""
    obstacles: Sequence[str] = field(default=())

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to change."""
        is_moved = any(each.after not in (None, each.before) for each in self.offsets)
        return not (self.topics or self.stores or self.forgotten or is_moved)


def add_reset(parser: ArgumentParser) -> None:
    """Add the options that say where the app begins again, and where its stores are."""
    add_beginnings(parser)
    parser.add_argument("--state", metavar="DIR", help="the directory of the stores")
    add_execute(parser)


def reset_app(arguments: Namespace, context: Context) -> int:
    """Show what a reset changes, and change it if `--execute` is given."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.worker.state_directory import DEFAULT

    plan = load_app(arguments.app, absolute_path(".")).plan()
    arguments.to_earliest = not (
        arguments.to_latest or arguments.to_datetime or arguments.by_duration
    )
    wanted = place_of(arguments, {})
    directory = posixpath.join(absolute_path(arguments.state or DEFAULT), plan.app)
    with opened_admin(arguments, context) as admin, ExitStack() as left:
        files = admin.runtime.files
        running = left.enter_context(_held(directory, files))
        stores = directory if files.exists(directory) else None
        time = wanted.time(admin.runtime.clock.wall_ms())
        found = admin.run(lambda client: _planned(client, plan, wanted, time, (stores, running)))
        problems = list(found.obstacles)
        if arguments.execute and not problems and not found.is_done:
            problems = admin.run(lambda client: _delete_topics(client, found.topics))
            if not problems and stores is not None:
                files.remove_tree(stores)
            if not problems:
                problems = admin.run(lambda client: _change_offsets(client, found))
    _tell(arguments, context, found, problems)
    return Exit.FAILED if problems and arguments.execute else Exit.DONE


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
    plan: Plan,
    wanted: Wanted,
    time: int | None,
    here: tuple[str | None, list[str]],
) -> Reset:
    """Return what a reset changes. `here` are the stores of this machine and its obstacles."""
    from moldau.streams.plan.description import made_topics

    app = plan.app
    existing = {each.name for each in await client.list_topics()}
    read, missing = _read_topics(plan, existing)
    made = [each for each in made_topics(plan) if each in existing]
    committed = await _committed(client, app)
    parts = [where for topic in read for where in await _partitions(client, topic)]
    rules = dict.fromkeys(parts, wanted.rule)
    steps = await plan_group(client, app, committed, rules, time)
    members = await members_of(client, [app])
    hindered = [line for lines in obstacles(steps, members).values() for line in lines]
    own = set(made_topics(plan))
    return Reset(
        app,
        steps,
        sorted(where for where in committed if where.topic in own),
        made,
        sorted(plan.outputs() & existing - own),
        missing,
        here[0],
        [*here[1], *hindered],
    )


def _read_topics(plan: Plan, existing: set[str]) -> tuple[list[str], list[str]]:
    """Return the inputs of which the app commits offsets, those that exist and the others."""
    from moldau.streams.plan.patterns import matches

    by_pattern = matches(plan, existing)
    own = {topic.name for topic in plan.repartitions}
    named = {topic for each in plan.programs for topic in each.inputs} - own
    chosen = {topic for topics in by_pattern.values() for topic in topics}
    wanted = (named - by_pattern.keys()) | chosen
    return sorted(wanted & existing), sorted(wanted - existing)


async def _committed(client: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    try:
        return await client.group_offsets(group)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise


async def _partitions(client: Admin, topic: str) -> list[TopicPartition]:
    from moldau.client import TopicPartition

    found = (await client.describe_topics([topic]))[topic]
    if isinstance(found, KafkaError):
        raise found
    return [TopicPartition(topic, each.index) for each in found.partitions]


async def _delete_topics(client: Admin, topics: Sequence[str]) -> list[str]:
    """Delete topics. Return a line for each that could not be deleted."""
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        f"topic {name} is not deleted: {error}"
        for name, error in (await client.delete_topics(topics)).items()
        if error is not None and error.code is not gone
    ]


async def _change_offsets(client: Admin, found: Reset) -> list[str]:
    """Forget the offsets of topics that are gone, and set those of the inputs."""
    problems = []
    if found.forgotten:
        answers = await client.delete_group_offsets(found.app, found.forgotten)
        problems = [
            f"offset of {where} is not deleted: {error}"
            for where, error in answers.items()
            if error is not None and error.code not in _GONE
        ]
    done = await carry_out(client, ConsumerGroups(), found.offsets)
    return [*problems, *done.problems]


_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


def _tell(arguments: Namespace, context: Context, found: Reset, problems: Sequence[str]) -> None:
    is_done = arguments.execute and not problems
    if arguments.json:
        facts = {
            "app": found.app,
            "executed": is_done,
            "obstacles": list(problems),
            "topics": list(found.topics),
            "stores": found.stores,
            "offsets": [facts_of(each) for each in found.offsets],
        }
        write_json(context.out, facts)
    elif found.is_done and not problems:
        write_lines(context.out, [f"{found.app} has nothing to reset: it begins there already"])
    else:
        _write(context, found, is_done=is_done)
        if not arguments.execute:
            write_lines(context.out, [DRY_RUN])
    notes = [f"input {each} does not exist" for each in found.missing]
    write_lines(context.err, (f"moldau: {each}" for each in (*notes, *problems)))


def _write(context: Context, found: Reset, *, is_done: bool) -> None:
    write_steps(context, found.offsets)
    verb = "deleted" if is_done else "to delete"
    if found.topics:
        write_lines(context.out, [f"topics {verb}: {', '.join(found.topics)}"])
    if found.stores is not None:
        write_lines(context.out, [f"stores {verb}: {found.stores}"])
    if found.kept:
        write_lines(context.out, [f"kept as they are: {', '.join(found.kept)}"])
