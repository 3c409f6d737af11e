"""`moldau streams adopt`: can this app take over the state of one of Java's Kafka Streams?

Nothing is changed: the group, its offsets and the topics of the other app are read, and a few
records of each of its changelogs with the serdes of this one.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings, on_cluster
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_lines, write_table
from moldau.streams.commands.given_app import load_app
from moldau.streams.commands.plan_action import running_app

if TYPE_CHECKING:
    from moldau.client import Admin as AsyncAdmin
    from moldau.client import TopicPartition
    from moldau.client.sync import Admin
    from moldau.operations.transactions import Survey
    from moldau.streams.changelog.reader import ChangelogReader
    from moldau.streams.plan.adoption import JavaApp, PartitionState
    from moldau.streams.plan.plan import Plan
    from moldau.streams.plan.upgrade import RunningApp
    from moldau.streams.worker.settings import AppSettings

    Reads = Callable[[bytes], str | None]

DESCRIPTION: Final = """\
Says what keeps the app from taking over the offsets, changelogs and repartition topics of an app of
Java's Kafka Streams with this application id: members, names, numbers of partitions, serdes,
offsets, open transactions. Changes nothing. Exit code 1: the start would lose or misread
something."""
_SAMPLE: Final = 20
"""How many of the last offsets of a partition are looked at."""


def add_adopt(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--application-id",
        metavar="ID",
        type=name_of("group"),
        required=True,
        help="the application.id of the Java app",
    )


def adopt_app(arguments: Namespace, context: Context) -> int:
    """Print a line for each finding."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.adoption import adoption
    from moldau.streams.plan.upgrade import upgrade
    from moldau.streams.running import checked

    plan = load_app(arguments.app, absolute_path(".")).plan()
    if plan.app != arguments.application_id:
        raise UsageError(
            f"the app is called {plan.app}: an app takes over the state of its own name alone: "
            f'write Streams("{arguments.application_id}")'
        )
    given = client_settings(arguments, context, {})
    settings = checked({name: given[name] for name in given if name != "client.id"})
    running = running_app(plan, settings, None)
    opened = on_cluster(arguments, context, lambda client: _opened(client, running.made))
    # Of deleted records `adoption` says more.
    outlook = upgrade(plan, replace(running, gone={}))
    java = _java_app(plan, running, settings, _holders(opened))
    found = adoption(plan, running, outlook, java)
    stops = sum(each.verdict == "stops" for each in found)
    if arguments.json:
        write_json(context.out, {"app": plan.app, "findings": [asdict(each) for each in found]})
    else:
        rows = [(each.verdict, each.what, each.why) for each in found]
        write_table(context.out, ("", "WHAT", "WHY"), rows)
        write_lines(
            context.out, [f"it must not start so: {stops} to do" if stops else "it can take over"]
        )
    return Exit.FAILED if stops else Exit.DONE


async def _opened(client: AsyncAdmin, topics: Collection[str]) -> Survey | None:
    """Return the open transactions of these topics; None without topics."""
    from moldau.operations.transactions import open_transactions

    return await open_transactions(client, topics) if topics else None


def _holders(opened: Survey | None) -> dict[TopicPartition, str]:
    return {
        each.where: each.holder.transactional_id if each.holder else "an unknown producer"
        for each in (opened.found if opened else ())
    }


def _java_app(
    plan: Plan,
    running: RunningApp,
    settings: AppSettings,
    transactions: Mapping[TopicPartition, str],
) -> JavaApp:
    from moldau.client import TopicPartition
    from moldau.client.sync import Admin
    from moldau.streams.changelog.group import group_facts
    from moldau.streams.changelog.reader import ChangelogReader
    from moldau.streams.plan.adoption import JavaApp

    with ExitStack() as left:
        admin = left.enter_context(Admin(settings.of("admin")))
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        members, committed = group_facts(admin, plan.app)
        names = admin.describe_group(plan.app).members if members else ()
        topics = {topic for program in plan.programs for topic in program.inputs}
        topics |= {where.topic for where in committed} | set(running.made)
        parts = [
            TopicPartition(topic, at)
            for topic in sorted(topics.intersection(running.topics))
            for at in range(running.topics[topic])
        ]
        states = _states(admin, parts, {where: each.offset for where, each in committed.items()})
        unreadable = {
            topic: why
            for topic, codecs in _codecs(plan).items()
            if (why := _unreadable(reader, topic, codecs, states)) is not None
        }
    who = [f"{each.client_id} at {each.host}" for each in names]
    return JavaApp(who, states, unreadable, transactions)


def _states(
    admin: Admin, parts: list[TopicPartition], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionState]:
    from moldau.client import EARLIEST, LATEST
    from moldau.streams.plan.adoption import PartitionState

    begins = admin.list_offsets(dict.fromkeys(parts, EARLIEST))
    latest = dict.fromkeys(parts, LATEST)
    ends, stable = admin.list_offsets(latest), admin.list_offsets(latest, is_committed=True)
    return {
        where: PartitionState(
            begins[where].offset, ends[where].offset, committed.get(where), stable[where].offset
        )
        for where in parts
    }


def _codecs(plan: Plan) -> dict[str, tuple[Reads, Reads]]:
    """Return, by topic, how keys and values of changelogs and repartition topics are read."""
    from moldau.streams.plan import operations as op
    from moldau.streams.plan.adoption import reads, reads_changelog

    found = {topic: reads_changelog(store) for topic, store in plan.changelogs().items()}
    own = {topic.name for topic in plan.repartitions}
    for program in plan.programs:
        for step in program.steps:
            if isinstance(step.operation, op.Source):
                codecs = reads(step.operation.key), reads(step.operation.value)
                found.update(dict.fromkeys(own.intersection(step.operation.topics), codecs))
    return found


def _unreadable(
    reader: ChangelogReader,
    topic: str,
    codecs: tuple[Reads, Reads],
    states: Mapping[TopicPartition, PartitionState],
) -> str | None:
    """Return why one of the last records of a topic cannot be read; None if they can."""
    for where, state in states.items():
        if where.topic != topic:
            continue
        end = state.last_stable
        begin = max(state.begin, state.committed or 0, end - _SAMPLE)
        for chunk in reader.chunks(topic, where.partition, begin, end) if begin < end else ():
            rows = zip(chunk.offsets, chunk.keys, chunk.values, strict=True)
            for offset, *parts in rows:
                for part, data, check in zip(("key", "value"), parts, codecs, strict=True):
                    if data is not None and (why := check(data)) is not None:
                        return f"the {part} at {where} offset {offset} {why}"
    return None
