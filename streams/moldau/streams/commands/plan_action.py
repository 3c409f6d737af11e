"""`moldau streams plan`: what becomes of an app's state when this version of it starts.

Nothing is changed: the topics, the offsets and the kept topology of the app are read, and the
stores on this machine.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import client_settings
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.streams.commands.given_app import load_app
from moldau.streams.commands.reset_topics import check_id, topics_of_id
from moldau.streams.commands.state_action import stores_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from moldau.streams.plan.plan import Plan
    from moldau.streams.plan.upgrade import RunningApp, Upgrade
    from moldau.streams.worker.settings import AppSettings

DESCRIPTION: Final = """\
Compares the app with what runs under its name: its topics, offsets and what it has kept of its
topology, and its stores on this machine. Says which stores survive, which are migrated, which are
rebuilt and from where, which would be lost; which topics are new, left over, or have another number
of partitions. Changes nothing. Exit code 1: it would not start, or lose something."""
_CONSUMER_ALONE: Final = ("client.id",)


def add_plan(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--state", metavar="DIR", help="the directory of the stores")


def plan_app(arguments: Namespace, context: Context) -> int:
    """Print what a start of the app would do."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.upgrade import upgrade
    from moldau.streams.running import checked
    from moldau.streams.worker.settings import EXACTLY_ONCE, processing_guarantee

    app = load_app(arguments.app, absolute_path("."))
    plan = app.plan()
    check_id(plan.app)
    given: dict[str, object] = dict(client_settings(arguments, context, {}))
    given.setdefault(processing_guarantee.name, getattr(app, "guarantee", EXACTLY_ONCE))
    settings = checked({name: given[name] for name in given if name not in _CONSUMER_ALONE})
    found = upgrade(plan, running_app(plan, settings, arguments.state))
    if arguments.json:
        write_json(context.out, asdict(found))
    else:
        _write(context, found)
    write_lines(context.err, (f"moldau: {each}" for each in found.problems))
    return Exit.FAILED if found.problems else Exit.DONE


def _check_visible(admin: Any, names: Sequence[str]) -> None:
    """Raise KafkaError if a topic that is not listed may be there: the user may not see it."""
    for found in (admin.describe_topics(names) if names else {}).values():
        if isinstance(found, KafkaError) and found.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise found


def running_app(plan: Plan, settings: AppSettings, state: str | None) -> RunningApp:
    """Return what is there of the app, on the cluster and on this machine."""
    from moldau.client import EARLIEST, LATEST, TopicPartition
    from moldau.client.sync import Admin
    from moldau.streams.changelog.group import Offsets, group_facts
    from moldau.streams.changelog.reader import ChangelogReader
    from moldau.streams.plan.lost_offsets import LostOffsets, lost_offsets
    from moldau.streams.plan.store_versions import versions_in
    from moldau.streams.plan.topology import KEY, Topology
    from moldau.streams.plan.upgrade import RunningApp

    rows_here = _rows_here(plan.app, state)
    with ExitStack() as left:
        admin = left.enter_context(Admin(settings.of("admin")))
        listed: Any = admin.list_topics()
        topics = {topic.name: len(topic.partitions) for topic in listed}
        _check_visible(admin, [each for each in plan.source_topics() if each not in topics])
        reader = left.enter_context(ChangelogReader(plan.app, settings, admin))
        kept = reader.kept(topics)
        parts = [
            TopicPartition(name, at)
            for name in plan.changelogs()
            for at in range(topics.get(name, 0))
        ]
        begins = admin.list_offsets(dict.fromkeys(parts, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(parts, LATEST))
        full = [part for part in parts if ends[part].offset > 0 or begins[part].offset > 0]
        filled: dict[str, list[int]] = {}
        for part in full:
            filled.setdefault(part.topic, []).append(part.partition)
        members, offsets = group_facts(admin, plan.app)
        before = Topology.decoded(kept.get(KEY))
        come_from = {} if before is None else before.sources
        ids = {topic.name: topic.topic_id for topic in listed}

        def look(known: Offsets) -> list[LostOffsets]:
            texts = {where: each.metadata or "" for where, each in known.items()}
            return [
                each
                for each in lost_offsets(_resolved(plan, topics), topics, texts, ids, come_from)
                if each.where in full or (each.where is None and each.rows in rows_here)
            ]

        found = look(offsets)
        rows = [each.rows for each in found if not each.where or reader.has_records(*each.where)]
        if rows:  # there may be a commit now
            members, offsets = group_facts(admin, plan.app)
        read = [each for each in offsets if each.partition < topics.get(each.topic, 0)]
        logs = admin.list_offsets(dict.fromkeys(read, EARLIEST))
        gone = {
            (each.topic, each.partition): (offsets[each].offset, logs[each].offset)
            for each in read
            if offsets[each].offset < logs[each].offset
        }
        groups = [each.group_id for each in admin.list_groups()]
    made = topics_of_id(plan.app, plan.source_topics(), [], topics.keys(), groups).made
    return RunningApp(
        before,
        versions_in(kept),
        topics,
        made,
        filled,
        has_offsets=bool(offsets),
        members=members,
        is_exactly_once=settings.is_exactly_once,
        rows_here=_by_store(rows_here),
        lost=[each for each in look(offsets) if each.rows in rows],
        gone=gone,
    )


def _resolved(plan: Plan, topics: Collection[str]) -> Plan:
    """Return the plan with topics in the place of patterns, where they fit."""
    from moldau.streams.plan.patterns import matches, resolved
    from moldau.streams.problems import TopologyError

    try:
        return resolved(plan, matches(plan, topics))
    except TopologyError:
        return plan


def _rows_here(app: str, state: str | None) -> dict[tuple[str, str], int]:
    """Return about how many rows of each task and store are on this machine, if there are any."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.worker.state_directory import DEFAULT

    found: Counter[tuple[str, str]] = Counter()
    for each in stores_in(absolute_path(state or DEFAULT), RealFiles(), app).stores:
        found[each.task, each.store] += each.rows
    return {rows: count for rows, count in found.items() if count}


def _by_store(rows: Mapping[tuple[str, str], int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (_, store), count in rows.items():
        found[store] += count
    return dict(found)


def _write(context: Context, found: Upgrade) -> None:
    rows = [(each.name, each.fate, each.restored_from or "-", each.why) for each in found.stores]
    write_table(context.out, ("STORE", "BECOMES", "READ FROM", "WHY"), rows)
    topics = [
        (each.name, each.fate, *(str(at) if at else "-" for at in (each.partitions, each.needed)))
        for each in found.topics
    ]
    write_table(context.out, ("TOPIC", "IS", "PARTITIONS", "NEEDED"), topics)
    write_lines(context.out, found.notes)
    write_lines(context.out, ["it can start" if not found.problems else "it must not start so"])
