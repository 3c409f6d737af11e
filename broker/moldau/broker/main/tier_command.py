"""`moldau tier`: how far topics are copied to remote storage, and whether all is there.

The cluster is asked over the wire. `verify` also reads the store, by the address that the brokers
have, with the credentials of the user; it changes nothing.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.main.summaries import SUMMARIES
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.names import topic_name
from moldau.cli.numbers import binary_size, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moldau.broker.tiered.key_ring import KeyRing
    from moldau.broker.tiered.metadata_topic import PartitionKey
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.broker.tiered.verification import Finding
    from moldau.cli.commands.tier_client import PartitionTiers, TierClient
    from moldau.ids import Uuid
    from moldau.link.metadata import TopicPartition
    from moldau.objects.object_store import ObjectStore

_GIB: Final = 1 << 30
_STATUS: Final = """\
For each partition: where the log, its part on the leader's disk and its end are; the first offset
that is not in remote storage, and how much waits from there on, the active segment included; the
size of both tiers (the remote one before compression), and how old the last copy is. Without TOPIC,
all topics with remote.storage.enable=true."""
_VERIFY: Final = """\
Compares what the topic of remote segments says with the objects in the store: objects that are
missing, have another size, or belong to no segment. The store is the one that the brokers name; its
credentials are found in your environment, as the brokers find theirs. Nothing is changed. Fails if
anything is found."""


_COPY_NOW: Final = """\
Each partition goes on in a new segment, and what it has before that is copied at once, whatever
remote.copy.lag.ms says. Waits until all of it is remote, and says how far it is. Takes ALTER on the
topic, and brokers of moldau: Apache Kafka's end a segment when it is segment.ms old and another
record comes."""
_LOOK_S: Final = 0.5


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no price")
    return value


def _add_status(parser: ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", type=topic_name)
    parser.add_argument(
        "--price",
        type=_price,
        metavar="MONEY",
        help="of a GiB in the store for a month: adds what the remote tier costs at most",
    )


def _add_copy_now(parser: ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", type=topic_name)
    parser.add_argument(
        "--timeout",
        type=whole(0, 1_000_000),
        default=600,
        metavar="SECONDS",
        help="how long to wait for the copies (600); 0 begins them only",
    )


def _add_verify(parser: ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", type=topic_name)
    parser.add_argument("--store", metavar="URL", help="the store, in place of remote.storage")
    parser.add_argument(
        "--endpoint", metavar="URL", help="its server, in place of remote.storage.endpoint"
    )
    parser.add_argument(
        "--keys", metavar="FILE", help="as remote.storage.encryption.keys, for encrypted segments"
    )


# What is remote, by the records of the topic.


class RemoteFacts(NamedTuple):
    """The fold of the topic of remote segments."""

    partitions: Mapping[PartitionKey, RemotePartition]
    damaged: int
    """Records that cannot be read."""


def remote_facts(values: Iterable[bytes], topic_ids: Iterable[Uuid]) -> RemoteFacts:
    """Return the remote part of the partitions of these topics. `values` are those of the records,
    in the order of the topic."""
    from moldau.broker.tiered.metadata_records import decode
    from moldau.broker.tiered.metadata_topic import key_of
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.errors import MalformedMessage

    wanted = frozenset(topic_ids)
    found: dict[PartitionKey, RemotePartition] = {}
    damaged = 0
    for value in values:
        try:
            event = decode(value)
        except MalformedMessage:
            damaged += 1
            continue
        key = key_of(event)
        if key.topic_id in wanted:
            found.setdefault(key, RemotePartition()).replay(event)
    return RemoteFacts(found, damaged)


# Status.


def _status(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.tier_client import opened_tiers

    with opened_tiers(arguments, context) as client:
        topics = list(dict.fromkeys(arguments.topics)) or client.remote_topics()
        survey = client.survey(topics)
        ids = {each.topic_id for each in survey.found}
        remote = remote_facts(client.metadata_values() if ids else (), ids)
        now_ms = client.runtime.clock.wall_ms()
    facts = [_facts(each, remote, arguments.price) for each in survey.found]
    if arguments.json:
        write_json(context.out, facts)
    elif facts:
        _write_status(context, facts, now_ms)
    elif not topics:
        context.out.write("no topic has remote.storage.enable=true\n")
    for where in survey.leaderless:
        write_lines(context.err, [f"moldau: {where.topic}-{where.partition} has no leader"])
    _warn_of_damage(context, remote)
    return Exit.FAILED if survey.leaderless or remote.damaged else Exit.DONE


def _warn_of_damage(context: Context, remote: RemoteFacts) -> None:
    if remote.damaged:
        line = f"moldau: {counted(remote.damaged, 'record')} of remote segments cannot be read"
        write_lines(context.err, [f"{line}: moldau log dump shows them"])


def _facts(tiers: PartitionTiers, remote: RemoteFacts, price: float | None) -> dict[str, Any]:
    from moldau.broker.tiered.metadata_topic import PartitionKey
    from moldau.broker.tiered.remote_segment import SegmentState

    known = remote.partitions.get(PartitionKey(tiers.topic_id, tiers.where.partition))
    segments = [] if known is None else known.segments()
    finished = [each for each in segments if each.state is SegmentState.COPY_FINISHED]
    remote_bytes = sum(each.size_bytes for each in finished)
    remote_records = sum(each.end_offset - each.start_offset for each in finished)
    facts = {
        "topic": tiers.where.topic,
        "partition": tiers.where.partition,
        "start": tiers.start,
        "local_start": tiers.local_start,
        "end": tiers.end,
        "first_not_remote": tiers.pending,
        "backlog_records": tiers.backlog_records,
        "backlog_bytes": tiers.backlog_bytes(remote_bytes, remote_records),
        "local_bytes": tiers.local_bytes,
        "remote_bytes": remote_bytes,
        "segments": len(finished),
        "copying": sum(each.state is SegmentState.COPY_STARTED for each in segments),
        "deleting": sum(each.state is SegmentState.DELETE_STARTED for each in segments),
        "last_copy_ms": max((each.event_ms for each in finished), default=None),
    }
    if price is not None:
        facts["cost_per_month"] = round(remote_bytes / _GIB * price, 6)
    return facts


def _write_status(context: Context, facts: Sequence[dict[str, Any]], now_ms: int) -> None:
    header = ["TOPIC", "PARTITION", "START", "LOCAL START", "END", "NOT REMOTE FROM", "BACKLOG"]
    header += ["BACKLOG SIZE", "LOCAL SIZE", "REMOTE SIZE", "SEGMENTS", "LAST COPY"]
    has_cost = "cost_per_month" in facts[0]
    rows = [
        [
            each["topic"],
            *(_shown(each[name]) for name in ("partition", "start", "local_start", "end")),
            _shown(each["first_not_remote"]),
            _shown(each["backlog_records"]),
            *(_size(each[name]) for name in ("backlog_bytes", "local_bytes", "remote_bytes")),
            _shown(each["segments"]),
            "-" if each["last_copy_ms"] is None else _age(now_ms - each["last_copy_ms"]),
            *([f"{each['cost_per_month']:.2f}"] if has_cost else ()),
        ]
        for each in facts
    ]
    write_table(context.out, header + ["COST A MONTH"] * has_cost, rows)


def _shown(number: int | None) -> str:
    return "-" if number is None else str(number)


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else binary_size(size_bytes)


def _age(age_ms: int) -> str:
    """The clock of the broker that copied may be ahead of this one."""
    seconds = max(age_ms, 0) // 1000
    for unit, size_s in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size_s:
            return f"{seconds // size_s} {unit} ago"
    return f"{seconds} s ago"


# Copy now.


def _copy_now(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.tier_client import opened_tiers
    from moldau.errors.codes import ErrorCode, KafkaError

    with opened_tiers(arguments, context) as client:
        survey = client.survey([arguments.topic])
        ends: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, KafkaError] = {}
        for each in survey.found:
            answer = client.copy_now(each.where)
            if isinstance(answer, int):
                ends[each.where] = answer
            elif answer.code is ErrorCode.UNSUPPORTED_VERSION:
                raise UsageError(
                    "these brokers cannot copy at once: set segment.ms of the topic to a few s "
                    "and produce another record, then set it back"
                )
            else:
                refused[each.where] = answer
        pending = _await_copies(context, client, arguments, ends)
    facts = [
        {
            "topic": arguments.topic,
            "partition": each.where.partition,
            "end": ends.get(each.where),
            "first_not_remote": pending.get(each.where, each.pending),
            "error": str(refused[each.where]) if each.where in refused else None,
        }
        for each in survey.found
    ]
    if arguments.json:
        write_json(context.out, facts)
    else:
        rows = [[_cell(value) for value in each.values()] for each in facts]
        header = ("TOPIC", "PARTITION", "COPIED UP TO", "NOT REMOTE FROM", "ERROR")
        write_table(context.out, header, rows)
    for where in survey.leaderless:
        write_lines(context.err, [f"moldau: {where.topic}-{where.partition} has no leader"])
    is_done = arguments.timeout == 0 or all(pending[each] >= ends[each] for each in ends)
    return Exit.DONE if is_done and not (refused or survey.leaderless) else Exit.FAILED


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _await_copies(
    context: Context, client: TierClient, arguments: Namespace, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Wait until all below these offsets is remote, or the time is over. Return the first offset of
    each that is not."""
    clock = client.runtime.clock
    until, shown = clock.monotonic() + arguments.timeout, -1
    while True:
        found = client.survey([arguments.topic]).found
        pending = {each.where: each.pending or 0 for each in found if each.where in ends}
        left = sum(max(end - pending.get(where, 0), 0) for where, end in ends.items())
        if left and left != shown:
            wait = counted(left, "record waits", "records wait")
            write_lines(context.err, [f"moldau: {wait} for their copy"])
            shown = left
        if not left or clock.monotonic() >= until:
            return {where: pending.get(where, 0) for where in ends}
        client.pause(_LOOK_S)


# Verify.


class Comparison(NamedTuple):
    """What was found in the store, and how much was compared."""

    found: frozenset[Finding]
    segments: int
    objects: int
    stored_bytes: int
    unopened: int
    """Encrypted segments of which only names and the size of the indexes were compared."""


def _verify(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.tier_client import opened_tiers

    with opened_tiers(arguments, context) as client:
        survey = client.survey([arguments.topic])
        if survey.leaderless:
            names = ", ".join(f"{each.topic}-{each.partition}" for each in survey.leaderless)
            raise UsageError(f"{names} has no leader: verify when it has one")
        topic_id = survey.found[0].topic_id
        store, key_ring = _store(arguments, context, client)
        done, damaged = _compared(client, store, arguments.topic, topic_id, key_ring)
        if done.found:  # what moved meanwhile is not found twice
            again, damaged = _compared(client, store, arguments.topic, topic_id, key_ring)
            done = again._replace(found=again.found & done.found)
    _write_verified(arguments, context, done, store.where)
    _warn_of_damage(context, damaged)
    return Exit.FAILED if done.found or damaged.damaged else Exit.DONE


def _compared(
    client: TierClient, store: ObjectStore, topic: str, topic_id: Uuid, key_ring: KeyRing | None
) -> tuple[Comparison, RemoteFacts]:
    """List the store, then read the topic to the end that it has after that, and compare."""
    from moldau.broker.tiered.verification import (
        LogCheck,
        check_logs,
        findings,
        served,
        stored_objects,
    )

    stored = client.run(lambda: stored_objects(store, topic, topic_id))
    facts = remote_facts(client.metadata_values(), [topic_id])

    async def checks() -> list[LogCheck]:
        return [
            await check_logs(store, remote, stored, key_ring)
            for remote in facts.partitions.values()
        ]

    checked = client.run(checks)
    numbers = {name.split("/")[-2] for name in stored if name.count("/")}
    partitions = {key.partition: remote for key, remote in facts.partitions.items()}
    found = [each for check in checked for each in check.found]
    for number in sorted(partitions.keys() | set(map(int, filter(str.isdecimal, numbers)))):
        found += findings(partitions.get(number), number, stored)
    verified = Comparison(
        frozenset(found),
        sum(len(served(remote)) for remote in partitions.values()),
        len(stored),
        sum(stored.values()),
        sum(check.unopened for check in checked),
    )
    return verified, facts


def _store(
    arguments: Namespace, context: Context, client: TierClient
) -> tuple[ObjectStore, KeyRing | None]:
    """Return the store that the brokers have, or that the arguments name, and the keys."""
    from moldau.broker.settings import broker_settings
    from moldau.broker.tiered.tier_settings import store_config
    from moldau.cli.commands.given_settings import given_settings
    from moldau.config import overrides
    from moldau.objects.object_store import ObjectStore, StoreLimits
    from moldau.objects.obstore_bucket import ObstoreBucket

    given = next(
        (each for each in given_settings(arguments, context).values() if "remote.storage" in each),
        {},
    )
    named = {"remote.storage": arguments.store, "remote.storage.endpoint": arguments.endpoint}
    asked = {**given, **{name: value for name, value in named.items() if value is not None}}
    if "remote.storage" not in asked:
        raise UsageError("no broker has remote.storage set: name the store with --store")
    config = store_config(broker_settings(overrides(asked)))
    assert config is not None

    async def opened() -> ObjectStore:
        limits = StoreLimits(attempt_s=10.0, deadline_s=20.0)
        return ObjectStore(client.runtime, ObstoreBucket(client.runtime, config), limits)

    return client.run(opened), _key_ring(arguments.keys)


def _key_ring(path: str | None) -> KeyRing | None:
    from moldau.broker.tiered.key_ring import parse_key_ring
    from moldau.runtime.real_files import RealFiles

    if path is None:
        return None
    try:
        return parse_key_ring(bytes(RealFiles().read_whole(path)).decode(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _write_verified(arguments: Namespace, context: Context, done: Comparison, where: str) -> None:
    found = sorted(done.found)
    if arguments.json:
        document = {
            "topic": arguments.topic,
            "store": where,
            "segments": done.segments,
            "objects": done.objects,
            "stored_bytes": done.stored_bytes,
            "encrypted_not_opened": done.unopened,
            "found": [each._asdict() for each in found],
        }
        write_json(context.out, document)
        return
    if found:
        header = ("PARTITION", "OBJECT", "PROBLEM")
        write_table(context.out, header, [(str(n), name, what) for n, name, what in found])
    size = binary_size(done.stored_bytes)
    lines = [
        f"{arguments.topic} in {where}: {counted(done.segments, 'segment')}, "
        f"{counted(done.objects, 'object')}, {size}; "
        + (counted(len(found), "problem") if found else "all as it should be")
    ]
    if done.unopened:
        lines.append(f"of {done.unopened} encrypted segments the logs' sizes need --keys")
    write_lines(context.out, lines)


command = ActionCommand(
    SUMMARIES["tier"],
    (
        Action(
            "status", "how far topics are copied, and what waits", _add_status, _status, _STATUS
        ),
        Action("copy-now", "copy all of a topic at once", _add_copy_now, _copy_now, _COPY_NOW),
        Action("verify", "compare what is remote with the store", _add_verify, _verify, _VERIFY),
    ),
)
