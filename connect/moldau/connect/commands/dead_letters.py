"""`moldau connect dlq`: list a sink's dead letter queue, or replay its records into their topics.

`replay` reads the queue as a consumer group of its own, so that a record is replayed only once even
if the command runs often, unless `--where` chooses records. Records and offsets are in the same
transactions. Their id is the name of the group, as in the console: a replay that starts ends the
one before it. The error headers are removed. Records of another connector with the same queue, and
those of transactions that were aborted, are passed over.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import bootstrap_named
from moldau.cli.connect_rest import add_json, add_url, open_rest
from moldau.cli.output import write_json, write_table
from moldau.errors import MoldauError
from moldau.operations.connectors import connector_path

if TYPE_CHECKING:
    from moldau.client import ConsumerRecord, TopicPartition
    from moldau.client.sync import Consumer, Producer

HEADER: Final = ("OFFSET", "TOPIC", "PARTITION", "AT", "STAGE", "ERROR")
QUIET_S: Final = 3.0
EMPTY_MAX: Final = 10
"""So many polls in a row may find nothing before the end of the queue."""
NAME: Final = "errors.deadletterqueue.topic.name"


class ReplayEnded(MoldauError):
    """Another replay of the same connector has begun."""


class QueueUnreadable(MoldauError):
    """The rest of the queue cannot be read now, such as that of a partition without a leader."""


def configure(actions: Any) -> None:
    """Add the action to the parser."""
    parser: ArgumentParser = actions.add_parser("dlq", help="list or replay dead letters of a sink")
    parser.add_argument("what", choices=("list", "replay"))
    parser.add_argument("name", metavar="NAME", help="the connector")
    parser.add_argument(
        "-b", "--bootstrap", metavar="HOST:PORT", help="brokers; else MOLDAU_BOOTSTRAP"
    )
    parser.add_argument("--where", metavar="TEXT", help="only records with this text in the error")
    parser.add_argument("--to", metavar="TOPIC", help="replay into this topic")
    add_url(parser)
    add_json(parser)
    parser.set_defaults(act=act)


def act(arguments: Namespace, context: Context) -> int:
    from moldau.connect.config.connectors import topic_name_problem

    problem = None if arguments.to is None else topic_name_problem(arguments.to)
    if problem is not None:
        raise UsageError(f"--to {arguments.to!r}: {problem}")
    with open_rest(arguments, context) as rest:
        config = rest.ask("GET", connector_path(arguments.name, "/config"))
    queue = config.get(NAME, "").strip()
    if not queue:
        raise UsageError(f"{arguments.name} has no dead letter queue: {NAME} is not set")
    bootstrap = arguments.bootstrap or bootstrap_named(context)
    where = (bootstrap or "localhost:9092", queue)
    if arguments.what == "list":
        return _list(where, arguments, context)
    return _replay(where, config, arguments, context)


def facts_of(record: ConsumerRecord) -> dict[str, str]:
    """Return the facts about the error from the record's headers."""
    from moldau.connect.task.dead_letter import PREFIX

    return {
        name.removeprefix(PREFIX): value.decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(PREFIX) and value is not None
    }


class _Reading:
    """The queue up to its ends as they were at the beginning."""

    def __init__(self, consumer: Consumer, queue: str) -> None:
        self._consumer = consumer
        self._ends = consumer.end_offsets(consumer.partitions(queue))
        self._empty = 0

    def has_records(self) -> bool:
        """Whether the queue has records, read or not."""
        return self._consumer.beginning_offsets(self._ends) != self._ends

    def left(self) -> list[TopicPartition]:
        """Return the partitions with records that were not read yet."""
        position = self._consumer.position
        return [where for where, end in self._ends.items() if end > (position(where) or 0)]

    def records(self) -> Iterator[ConsumerRecord]:
        """Yield the records of a poll. Raise QueueUnreadable if none came for a while."""
        parts = self._consumer.poll(QUIET_S)
        for part in parts:
            yield from _records(part)
        self._empty = 0 if parts else self._empty + 1
        left = self.left()
        if left and self._empty >= EMPTY_MAX:
            troubles = self._consumer.troubles()
            reasons = {str(troubles[where]) for where in left if where in troubles}
            raise QueueUnreadable(
                "the rest of the queue cannot be read now: run this again when it can",
                topic=left[0].topic,
                partitions=", ".join(str(where.partition) for where in left),
                reason="; ".join(sorted(reasons)) or "no record came",
            )


def _all_of(consumer: Consumer, queue: str) -> Iterator[ConsumerRecord]:
    """Yield the records up to the current end of the queue."""
    reading = _Reading(consumer, queue)
    while reading.left():
        yield from reading.records()


def _records(part: Any) -> Iterator[ConsumerRecord]:
    from moldau.client import ConsumerRecord

    for raw in part.records:
        yield ConsumerRecord(
            part.topic, part.partition, raw.offset, raw.timestamp, raw.key, raw.value, raw.headers
        )


def _is_wanted(arguments: Namespace) -> Callable[[dict[str, str]], bool]:
    """Return a test of a record's facts: several connectors may share a queue."""
    name, text = arguments.name, arguments.where
    return lambda facts: (
        facts.get("connector.name", name) == name
        and (text is None or text in facts.get("exception.message", ""))
    )


def _list(where: tuple[str, str], arguments: Namespace, context: Context) -> int:
    from moldau.client.sync import Consumer

    bootstrap, queue = where
    found = []
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions(queue))
        for record in _all_of(consumer, queue):
            facts = facts_of(record)
            if _is_wanted(arguments)(facts):
                found.append((record.offset, facts))
    if arguments.json:
        write_json(context.out, [{"offset": offset, **facts} for offset, facts in found])
        return Exit.DONE
    names = ("topic", "partition", "offset", "stage", "exception.message")
    rows = [(str(offset), *(facts.get(name, "-") for name in names)) for offset, facts in found]
    write_table(context.out, HEADER, rows)
    return Exit.DONE


def _replay(
    where: tuple[str, str], config: dict[str, str], arguments: Namespace, context: Context
) -> int:
    from moldau.client.sync import Consumer, Producer, TransactionError

    bootstrap, queue = where
    counts = {"replayed": 0, "passed over": 0}
    group = f"connect-dlq-replay-{arguments.name}"
    reader: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
    }
    writer: dict[str, object] = {"bootstrap.servers": bootstrap}
    is_once = arguments.where is None
    if is_once:  # else the queue is read from its begin each time
        reader["group.id"] = writer["transactional.id"] = group
    try:
        with Producer(writer) as producer, Consumer(reader) as consumer:
            consumer.assign(consumer.partitions(queue))
            reading, has_more = _Reading(consumer, queue), True
            while has_more:
                # The first block fences other replays, so the offsets are read inside it.
                with _block(producer, consumer, is_once=is_once):
                    for record in reading.records():
                        is_sent = _send(producer, record, config, arguments)
                        counts["replayed" if is_sent else "passed over"] += 1
                has_more = bool(reading.left())
            was_read = not any(counts.values()) and reading.has_records()
    except TransactionError as error:
        if not error.is_fenced:
            raise
        raise ReplayEnded(
            f"another replay of {arguments.name} has begun meanwhile and goes on from here: run "
            "this one again to replay what it leaves"
        ) from error
    if arguments.json:
        write_json(context.out, counts)
        return Exit.DONE
    context.out.write(", ".join(f"{count} {what}" for what, count in counts.items()) + "\n")
    if was_read:
        context.out.write(
            "An earlier replay has read the whole queue. --where TEXT sends again what has the "
            "text in its error.\n"
        )
    return Exit.DONE


def _block(
    producer: Producer, consumer: Consumer, *, is_once: bool
) -> AbstractContextManager[object]:
    """Return a transaction with the consumer's offsets, unless records may be replayed again."""
    if is_once:
        return producer.transaction(consumer)
    return nullcontext()


def _send(
    producer: Producer, record: ConsumerRecord, config: dict[str, str], arguments: Namespace
) -> bool:
    """Send a record without its error headers. Return False if it is not wanted."""
    facts = facts_of(record)
    if not _is_wanted(arguments)(facts):
        return False
    headers = [each for each in record.headers if not _is_about_error(each[0])]
    topic = _target(facts, config, arguments)
    producer.send(topic, record.value, key=record.key, headers=headers)
    return True


def _is_about_error(name: str) -> bool:
    from moldau.connect.task.dead_letter import PREFIX

    return name.startswith(PREFIX)


def _target(facts: dict[str, str], config: dict[str, str], arguments: Namespace) -> str:
    from moldau.connect.task.settings import listed

    if arguments.to:
        return str(arguments.to)
    if "topic" in facts:
        return facts["topic"]
    topics = listed(config, "topics")
    if len(topics) == 1:
        return topics[0]
    raise UsageError(
        "the records do not say which topic they came from "
        "(errors.deadletterqueue.context.headers.enable is off): name one with --to"
    )
