"""Records of share groups: `moldau share peek` and `moldau share dlq`.

A plain consumer reads the log. It takes no part in the group, so delivery counts and locks stay as
they are, and it cannot know which of the records are in work or done already. Dead letters stay
where they are: a letter that was written twice, because a broker crashed in between, is shown and
sent once.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action
from moldau.cli.commands.cluster_connection import (
    client_settings,
    naming_source,
    on_cluster,
    opened,
)
from moldau.cli.commands.consume_format import NAMES, lines_of, text
from moldau.cli.commands.group_offsets import DRY_RUN, add_execute, add_topics
from moldau.cli.names import name_of, topic_name
from moldau.cli.numbers import INT32_MAX, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode
from moldau.operations.offsets import is_in, parse_scope

if TYPE_CHECKING:
    from moldau.client import Admin, Consumer, PartitionRecords, TopicPartition

    Starts = dict[TopicPartition, int]
    from moldau.client import Producer, TopicPartition

_PREFIX: Final = "__dlq.errors."
_SETTINGS: Final = ("share.dlq.topic", "errors.deadletterqueue.topic.name")
"""The settings of a group that name its topic: ours, and Kafka's. At most one is set."""
_ALL: Final = 2**31 - 1
_DLQ_HELP: Final = "list dead letters, or replay them (dry run unless --execute)"
_DLQ_DESCRIPTION: Final = """\
Reads what the group has given up from its topic of dead letters (share.dlq.topic, or Kafka's
errors.deadletterqueue.topic.name). `replay` sends key, value and headers to the topics that the
letters came from; without --execute it only lists them. The letters stay in the topic, so a second
replay sends them again: `moldau topic trim` deletes them. A letter without content is not sent: of
a record that was too large to be copied, or of a group that has Kafka's setting and not
errors.deadletterqueue.copy.record.enable."""

_COUNT: Final = 10
_POLL_S: Final = 1.0
_NOTE: Final = (
    "nothing is acquired; records that are in work or done are shown too, if an earlier one is not"
)
_HELP: Final = "show the records where a group stands, without acquiring them"
_DESCRIPTION: Final = """\
Reads from the group's start offset on, partition after partition, and writes the records out. None
is acquired: locks and delivery counts stay as they are. The start is before the first record that
is not done, so records behind it that are in work, or done out of order, are shown too."""


def _add_peek(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", type=name_of("share group"))
    add_topics(parser, "only of this one, else all where it stands")
    parser.add_argument(
        "--count",
        type=whole(1, INT32_MAX),
        default=_COUNT,
        metavar="N",
        help=f"at most N records ({_COUNT})",
    )
    parser.add_argument("--committed", action="store_true", help="no aborted or open ones")
    parser.add_argument("--format", choices=NAMES, default="full", help="of a line (full)")
    parser.add_argument("--separator", default=":", metavar="TEXT", help="behind keys (:)")


def _peek(arguments: Namespace, context: Context) -> int:
    scope = parse_scope(arguments.topic)
    stands = on_cluster(arguments, context, lambda client: _starts(client, arguments.group))
    starts = {where: start for where, start in stands.items() if not scope or is_in(scope, where)}
    if not starts:
        of = f" in {', '.join(scope)}" if scope else ""
        raise MoldauError(f"the share group stands nowhere{of}", group=arguments.group)
    defaults = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    if arguments.committed:
        defaults["isolation.level"] = "read_committed"
    settings = client_settings(arguments, context, defaults)
    lines = lines_of(arguments.format, arguments.separator, json=arguments.json)

    def write(part: PartitionRecords) -> None:
        context.out.writelines(lines(part))

    with naming_source(settings):
        from moldau.client.consumer.consumer import Consumer

        with opened(lambda runtime: Consumer(settings, runtime=runtime)) as consumer:
            consumer.run(lambda client: read_from(client, starts, arguments.count, write))
    write_lines(context.err, [f"moldau: {_NOTE}"])
    return Exit.DONE


async def _starts(client: Admin, group: str) -> Starts:
    """Return the start offsets of a share group. Raise KafkaError for one of another kind."""
    from moldau.client import ShareGroupAdmin
    from moldau.operations.share import kinds_of

    error = (await kinds_of(client, [group]))[group]
    if error is not None:
        raise error
    offsets = await ShareGroupAdmin(client).offsets(group)
    return {where: each.start for where, each in offsets.items() if each.start is not None}


async def read_from(
    client: Consumer, starts: Starts, count: int, write: Callable[[PartitionRecords], None]
) -> None:
    """Write up to `count` records, in the order of the partitions, up to the present ends."""
    from moldau.client.base.offsets import EARLIEST, LATEST

    client.assign(list(starts))
    client.pause(list(starts))
    ends = await client.offsets(dict.fromkeys(starts, LATEST))
    begins = await client.offsets(dict.fromkeys(starts, EARLIEST))
    for where, start in sorted(starts.items()):
        position, end = max(start, begins[where].offset), ends[where].offset
        if position >= end:
            continue
        client.seek(where, position)
        client.resume([where])
        while count and position < end:
            for part in await client.poll(_POLL_S, max_records=count, partitions=[where]):
                position = part.next_offset
                shown = [each for each in part.records if each.offset < end]
                count -= len(shown)
                if shown:
                    write(part._replace(records=shown))
            position = max(position, client.position(where) or 0)
        client.pause([where])


PEEK = Action("peek", _HELP, _add_peek, _peek, _DESCRIPTION)


class Letter(NamedTuple):
    """A dead letter, and the place of the record that it is a copy of."""

    topic: str
    partition: str
    offset: str
    deliveries: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def is_empty(self) -> bool:
        """Whether it is the copy of a record that was too large, or had nothing in it."""
        return self.key is None and self.value is None and not self.headers


def _add_dlq(parser: ArgumentParser) -> None:
    parser.add_argument("what", choices=("list", "replay"))
    parser.add_argument("group", metavar="GROUP", type=name_of("share group"))
    parser.add_argument(
        "--topic", type=topic_name, metavar="TOPIC", help="instead of the group's own"
    )
    add_execute(parser)


def _dlq(arguments: Namespace, context: Context) -> int:
    if arguments.what == "list" and arguments.execute:
        raise UsageError("list changes nothing: --execute is for replay")
    places = on_cluster(
        arguments, context, lambda client: _places(client, arguments.group, arguments.topic)
    )
    settings = client_settings(arguments, context, {"enable.auto.commit": "false"})
    found: dict[tuple[str, str, str], Letter] = {}

    def note(part: PartitionRecords) -> None:
        for record in part.records:
            letter = _letter(record.headers, record.key, record.value, arguments.group)
            if letter is not None:
                found.setdefault(letter[:3], letter)

    from moldau.client.consumer.consumer import Consumer
    from moldau.client.producer.producer import Producer

    def consumer(runtime: Any) -> Consumer[Any, Any]:
        return Consumer(settings, runtime=runtime)

    if places:
        with opened(consumer) as reading:
            reading.run(lambda client: read_from(client, places, _ALL, note))
    letters = list(found.values())
    is_sending = arguments.what == "replay" and arguments.execute
    if is_sending:
        to_send = client_settings(arguments, context)
        with opened(lambda runtime: Producer(to_send, runtime=runtime)) as sending:
            sending.run(lambda client: _send(client, letters))
    _write_letters(arguments, context, letters)
    if arguments.what == "replay" and not arguments.execute and not arguments.json:
        write_lines(context.out, [DRY_RUN])
    return Exit.DONE


async def _places(client: Admin, group: str, topic: str | None) -> dict[TopicPartition, int]:
    """Return the partitions of the group's topic of dead letters, to be read from their start;
    none while the topic that the group names was not needed yet."""
    from moldau.client import KafkaError, Resource, ResourceType

    if topic is None:
        found = await client.describe_configs(Resource(ResourceType.GROUP, group))
        topic = next((each.value for each in found if each.name in _SETTINGS and each.value), None)
        if not topic:
            raise MoldauError(
                f"the group has no {_SETTINGS[0]}: set it, or give --topic", group=group
            )
        described = (await client.describe_topics([topic]))[topic]
        if isinstance(described, KafkaError):
            if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return {}
            raise described
    return dict.fromkeys(await client.partitions(topic), 0)


def _letter(headers: Any, key: bytes | None, value: bytes | None, group: str) -> Letter | None:
    """Return the dead letter; None if it is none of this group, or if no broker has written it."""
    own = {name.removeprefix(_PREFIX): text(each) for name, each in headers if _is_own(name)}
    place = own.get("partition", ""), own.get("offset", "")
    if own.get("group") != group or not own.get("topic") or not all(map(str.isdecimal, place)):
        return None
    names = ("topic", "partition", "offset", "delivery.count", "message")
    rest = tuple((name, each) for name, each in headers if not _is_own(name))
    topic, partition, offset, deliveries, message = (own.get(name, "-") for name in names)
    return Letter(topic, partition, offset, deliveries, message, key, value, rest)


def _is_own(name: str) -> bool:
    return name.startswith(_PREFIX)


async def _send(client: Producer[Any, Any], letters: list[Letter]) -> None:
    """Send the letters to their topics, and wait until all are stored."""
    pending = [
        await client.send(each.topic, each.value, key=each.key, headers=list(each.headers))
        for each in letters
        if not each.is_empty
    ]
    for each in pending:
        await each


def _write_letters(arguments: Namespace, context: Context, letters: list[Letter]) -> None:
    """Write the letters. What was replayed by an earlier command is not known, so `list` is silent
    about it."""
    is_replay = arguments.what == "replay"
    is_sending = is_replay and arguments.execute
    facts: list[dict[str, object]] = [
        {
            "topic": each.topic,
            "partition": int(each.partition),
            "offset": int(each.offset),
            "delivery_count": int(each.deliveries) if each.deliveries.isdecimal() else None,
            "message": each.message,
            "key": None if each.key is None else text(each.key),
            "value": None if each.value is None else text(each.value),
            **({"replayed": is_sending and not each.is_empty} if is_replay else {}),
        }
        for each in letters
    ]
    if arguments.json:
        write_json(context.out, facts)
        return
    header: tuple[str, ...] = ("TOPIC", "PARTITION", "OFFSET", "DELIVERIES", "MESSAGE")
    rows: list[tuple[str, ...]] = [(*each[:4], each.message) for each in letters]
    if is_replay:
        header = (*header[:4], "REPLAYED", "MESSAGE")
        rows = [
            (*each[:4], "yes" if is_sending and not each.is_empty else "no", each.message)
            for each in letters
        ]
    write_table(context.out, header, rows)


DLQ = Action("dlq", _DLQ_HELP, _add_dlq, _dlq, _DLQ_DESCRIPTION)
