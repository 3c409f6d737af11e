"""`moldau top`: a cluster as it changes: brokers, busy topics, groups that lag, and trouble.

A terminal gets a screen that is renewed until Ctrl-C. Elsewhere, and with `--once`, two looks that
are `--every` seconds apart give the rates of one report. `--json` writes a document a line.

A look has requests that every Kafka answers. What does not answer soon is left out of a look, and
named in it: a broker that died a moment ago must not delay the rest.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.commands.cluster_controller import all_brokers
from moldau.cli.commands.top_report import (
    BrokerLook,
    GroupLook,
    Look,
    PartitionLook,
    TopicLook,
    TransactionLook,
)
from moldau.cli.numbers import whole
from moldau.cli.output import write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.operations.transactions import DONE

if TYPE_CHECKING:
    from moldau.cli.commands.top_report import Look
    from moldau.client import Admin, Topic, TopicPartition
    from moldau.client.admin.cluster import ClusterDescription, LogDir
    from moldau.runtime import Clock

_SILENCE_S: Final = 5.0
_CLEAR: Final = "\x1b[H\x1b[J"

_WITHIN_S: Final = 5.0
_DESCRIBED_MAX: Final = 20
"""Each open transaction costs a request, so only some get an age."""
_SHARE: Final = "share"
_MS: Final = 1000.0


async def look(client: Admin, clock: Clock, controller: int | None, internal: bool) -> Look:
    """Return the state of the cluster. `internal` adds the topics of the brokers."""
    from moldau.cli.shell import within_or_later

    cluster = await all_brokers(client)
    topics = await client.list_topics(internal=True)
    alive = [each.node_id for each in cluster.brokers]
    logs = await _log_dirs(client, alive)
    ends = await within_or_later(_WITHIN_S, _end_offsets(client, topics, alive))
    at_s = clock.monotonic()
    groups = await within_or_later(_WITHIN_S, _groups(client))
    transactions = await within_or_later(_WITHIN_S, _transactions(client, clock.wall_ms()))
    silent = [f"broker {each}" for each in alive if each not in logs]
    for what, found in (("offsets", ends), ("groups", groups), ("transactions", transactions)):
        silent += [what] if found is None else []
    partitions = [(topic, each) for topic in topics for each in topic.partitions]
    return Look(
        cluster.cluster_id or "",
        at_s,
        broker_looks(cluster, topics, controller, {each: _total(logs.get(each)) for each in alive}),
        [_topic(each, ends, logs) for each in topics if internal or not each.is_internal],
        groups or (),
        [
            PartitionLook(
                topic.name,
                each.index,
                each.leader if each.leader >= 0 else None,
                tuple(each.replicas),
                tuple(each.isr),
            )
            for topic, each in partitions
            if len(each.isr) < len(each.replicas)
        ],
        transactions or (),
        silent,
    )


def broker_looks(
    cluster: ClusterDescription,
    topics: Sequence[Topic],
    controller: int | None,
    sizes: Mapping[int, int | None],
) -> list[BrokerLook]:
    """Return all registered brokers, sorted by id. `sizes` has those that are up."""
    partitions = [each for topic in topics for each in topic.partitions]
    return [
        BrokerLook(
            each.node_id,
            str(each.address),
            each.rack,
            each.node_id in sizes,
            each.node_id == controller,
            leads=sum(one.leader == each.node_id for one in partitions),
            replicas=sum(each.node_id in one.replicas for one in partitions),
            behind=sum(
                each.node_id in one.replicas and each.node_id not in one.isr for one in partitions
            ),
            size_bytes=sizes.get(each.node_id),
        )
        for each in sorted((*cluster.brokers, *cluster.fenced), key=lambda it: it.node_id)
    ]


def _total(logs: Sequence[LogDir] | None) -> int | None:
    if logs is None:
        return None
    return sum(replica.size_bytes for each in logs for replica in each.replicas)


def _topic(
    topic: Topic,
    ends: Mapping[TopicPartition, int] | None,
    logs: Mapping[int, Sequence[LogDir]],
) -> TopicLook:
    """Return the topic. A sum is None unless each partition with a leader is in it: else a
    partition that is back would look like many new records."""
    from moldau.client import TopicPartition

    led = {each.index: each.leader for each in topic.partitions if each.leader >= 0}
    known = {} if ends is None else ends
    found = [known[where] for index in led if (where := TopicPartition(topic.name, index)) in known]
    sizes = {
        replica.where.partition: replica.size_bytes
        for broker in set(led.values())
        for each in logs.get(broker, ())
        for replica in each.replicas
        if replica.where.topic == topic.name
        and not replica.is_future
        and led.get(replica.where.partition) == broker
    }
    return TopicLook(
        topic.name,
        len(topic.partitions),
        sum(found) if len(found) == len(led) else None,
        sum(sizes.values()) if len(sizes) == len(led) else None,
    )


async def _log_dirs(client: Admin, brokers: Sequence[int]) -> dict[int, Sequence[LogDir]]:
    """Return the log directories of the brokers that answer soon."""
    from moldau.cli.shell import within_or_later
    from moldau.client.admin.requests import at_once
    from moldau.errors.codes import KafkaError

    async def ask(broker: int) -> Sequence[LogDir] | None:
        return await within_or_later(_WITHIN_S, client.describe_log_dirs([broker]))

    found = await at_once(brokers, ask)
    return {
        broker: each
        for broker, each in found.items()
        if each is not None and not isinstance(each, KafkaError)
    }


async def _end_offsets(
    client: Admin, topics: Sequence[Topic], alive: Sequence[int]
) -> dict[TopicPartition, int]:
    from moldau.client import LATEST, TopicPartition

    wanted = {
        TopicPartition(topic.name, each.index): LATEST
        for topic in topics
        for each in topic.partitions
        if each.leader in alive
    }
    found = await client.list_offsets(wanted)
    return {where: each.offset for where, each in found.items()}


async def _groups(client: Admin) -> list[GroupLook]:
    """Return the groups that commit offsets, with their lag."""
    from moldau.errors.codes import KafkaError

    names = [each.group_id for each in await client.list_groups() if each.type != _SHARE]
    found: dict[str, Any] = dict(await client.groups_progress(names)) if names else {}
    return [
        GroupLook(name, each.group.state, len(each.group.members), each.lag)
        for name, each in found.items()
        if not isinstance(each, KafkaError)
    ]


async def _transactions(client: Admin, now_ms: int) -> list[TransactionLook]:
    from moldau.client import TransactionAdmin
    from moldau.errors.codes import KafkaError

    admin = TransactionAdmin(client)
    open_ones = [each for each in await admin.list_all() if each.state not in DONE]
    names = [each.transactional_id for each in open_ones[:_DESCRIBED_MAX]]
    described = await admin.describe(names) if names else {}
    found = []
    for each in open_ones:
        facts = described.get(each.transactional_id)
        open_s = None
        if facts is not None and not isinstance(facts, KafkaError) and facts.started_ms > 0:
            open_s = max(now_ms - facts.started_ms, 0) / _MS
        found.append(TransactionLook(each.transactional_id, each.state, each.producer_id, open_s))
    return found


class TopCommand:
    """Shows a cluster, again and again."""

    summary = SUMMARIES["top"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser, json_help="write a JSON document a line, with all rows")
        parser.add_argument(
            "--every", type=whole(1, 3600), default=2, metavar="SECONDS", help="default: 2"
        )
        parser.add_argument("--once", action="store_true", help="one report; default of a pipe")
        parser.add_argument("--times", type=whole(1, 10**6), help="so many reports, also in a pipe")
        parser.add_argument(
            "--rows", type=whole(1, 10_000), default=10, help="of a table at most; default: 10"
        )
        parser.add_argument("--internal", action="store_true", help="also topics of the brokers")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.runtime.signals import interrupted_by_sigterm

        if arguments.once and arguments.times is not None:
            raise UsageError("--once is --times 1: give one of them")
        try:
            with interrupted_by_sigterm():
                _watch(arguments, context)
        except KeyboardInterrupt:
            return Exit.DONE
        return Exit.DONE


def _watch(arguments: Namespace, context: Context) -> None:
    """Show reports until there are enough of them, or until Ctrl-C."""
    from moldau.cli.commands.cluster_controller import leading_controller
    from moldau.cli.shell import patiently, pause

    is_live = context.is_terminal and not arguments.once and not arguments.json
    left = arguments.times or (None if is_live else 1)

    def report(seconds: float) -> None:
        if seconds < 2 * _SILENCE_S:  # once a look
            write_lines(context.err, [f"moldau: no answer for {seconds:.0f} s, still asking"])
            context.err.flush()

    before: Look | None = None
    with opened_admin(arguments, context) as admin, opened_admin(arguments, context) as asker:
        clock = admin.runtime.clock
        while left is None or left > 0:
            # Another connection: this answer may be late, and requests behind it would wait.
            leader = asker.run(leading_controller)
            found = admin.run(
                lambda client, leader=leader: patiently(  # type: ignore[misc]
                    look(client, clock, leader, arguments.internal), _SILENCE_S, report
                )
            )
            if before is not None or is_live:
                _write(arguments, context, found, before, is_live)
                left = None if left is None else left - 1
            before = found
            if left is None or left > 0:
                admin.run(lambda _: pause(arguments.every))


def _write(
    arguments: Namespace, context: Context, now: Look, before: Look | None, is_live: bool
) -> None:
    """Write a report; on a screen in the place of the last one, with one write."""
    from moldau.cli.commands.top_report import document, headline, tables

    if arguments.json:
        from json import dumps

        context.out.write(dumps(document(now, before)) + "\n")
        context.out.flush()
        return
    text = StringIO()
    write_lines(text, [headline(now)])
    for header, rows in tables(now, before, arguments.rows):
        text.write("\n")
        write_table(text, header, rows)
    context.out.write((_CLEAR if is_live else "") + text.getvalue())
    context.out.flush()


command = TopCommand()
