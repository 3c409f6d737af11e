"""`moldau consume`: write the records of topics, from a place to their end, or on and on.

`consume_assigned` and `consume_group` read, by assignment or as a member of a group; this module
writes the records out, and then lets them commit.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import (
    OpenClient,
    add_connection_arguments,
    check_not_set,
    client_settings,
    naming_source,
    opened,
)
from moldau.cli.commands.consume_format import NAMES, lines_of
from moldau.cli.commands.consume_notes import noting
from moldau.cli.commands.consume_place import OffsetOrTime, Stretch, parse_place
from moldau.cli.commands.registry_place import add_schemas, line_serde, take_registry
from moldau.cli.names import name_of, topic_name
from moldau.cli.output import write_json
from moldau.cli.patterns import NAME_OR_PATTERN, named_topics, note_of
from moldau.cli.progress import Progress
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.cli.commands.consume_where import RecordFilter
    from moldau.client import Consumer, PartitionRecords
    from moldau.runtime import Runtime

_POLL_RECORDS: Final = 20_000
_DESERIALIZERS: Final = frozenset(("key.deserializer", "value.deserializer"))


class ConsumeReader(Protocol):
    """The source of records for the command."""

    @property
    def notes(self) -> list[str]:
        """Messages for the user; the command removes them when it has written them."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out of the partitions to read."""
        ...

    async def begin(self, topics: Sequence[str]) -> None: ...

    async def next(self, max_records: int) -> list[PartitionRecords]: ...

    async def is_read(self) -> bool: ...

    async def commit(self) -> None: ...

    async def finish(self) -> None: ...


class Output(NamedTuple):
    """The report of the records that are written, and the filter of them."""

    progress: Progress
    where: RecordFilter | None


class ConsumeCommand:
    """Reads records and writes them to the output."""

    summary = SUMMARIES["consume"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument(
            "topics", nargs="+", metavar="TOPIC", type=topic_name, help=NAME_OR_PATTERN
        )
        parser.add_argument(
            "--group",
            metavar="GROUP",
            type=name_of("group"),
            help="read as a member of it: share partitions, go on where it has committed, commit",
        )
        parser.add_argument("--partition", type=int, action="append", help="only these")
        place = parser.add_mutually_exclusive_group()
        place.add_argument(
            "--from",
            dest="place",
            default="beginning",
            metavar="PLACE",
            help="beginning, end, an offset, a time like 2026-11-20T12:00:00Z, -1h (ms, s, m, h or "
            "d ago), or @ms since 1970; for a group, where it has committed nothing",
        )
        place.add_argument(
            "--from-beginning",
            dest="place",
            action="store_const",
            const="beginning",
            help="as --from beginning, which is the default",
        )
        place.add_argument(
            "--last", type=int, metavar="N", help="the last N offsets of each partition"
        )
        parser.add_argument(
            "--to",
            default="end",
            metavar="PLACE",
            help="stop before this offset or time, written as for --from (end)",
        )
        parser.add_argument(
            "--count", "--max-messages", type=int, metavar="N", help="stop after N records"
        )
        parser.add_argument(
            "-f", "--follow", action="store_true", help="go on when the end is read"
        )
        parser.add_argument("--committed", action="store_true", help="no aborted or open ones")
        parser.add_argument(
            "--format",
            type=_format,
            metavar="FORMAT",
            help=f"of a line: {', '.join(NAMES)} (default: value), or a template, as "
            "'%%t %%p %%o %%k %%v %%h\\n'",
        )
        parser.add_argument(
            "--where",
            metavar="EXPRESSION",
            help="only records for which it is true, as 'value.amount > 10 and partition == 0'",
        )
        add_schemas(parser)
        parser.add_argument("--keys", action="store_true", help="as --format key-value")
        parser.add_argument("--separator", default=":", metavar="TEXT", help="behind keys (:)")
        parser.add_argument("--quiet", action="store_true", help="only count, and show the rate")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.client.settings.rows import OF_PRODUCERS_ALONE
        from moldau.runtime.signals import interrupted_by_sigterm

        _check_format(arguments)
        place, until = _checked_place(arguments), _checked_until(arguments)
        where = _where(arguments.where)
        settings = client_settings(
            arguments, context, _defaults(arguments), useless=OF_PRODUCERS_ALONE | _DESERIALIZERS
        )
        check_not_set(settings, sorted(_DESERIALIZERS))
        _check_group(arguments.group, settings)
        take_registry(arguments, context, settings)
        if arguments.quiet:
            from moldau.runtime.process import tune_allocator

            tune_allocator()
        with (
            interrupted_by_sigterm(),
            naming_source(settings),
            opened(lambda it: _consumer(arguments, settings, it)) as consumer,
        ):
            reading = _reading(arguments, consumer, place, until)
            clock = consumer.runtime.clock.monotonic
            with noting(reading.notes):
                topics = consumer.run(lambda client: named_topics(client, arguments.topics))
                reading.notes.extend(note_of(arguments.topics, topics))
                consumer.run(lambda _: reading.begin(topics))
                is_alone = arguments.quiet or not context.is_terminal
                with Progress(
                    context, "read", arguments.count, clock, is_alone=is_alone
                ) as progress:
                    try:
                        _read(arguments, context, consumer, reading, Output(progress, where))
                    except (KeyboardInterrupt, OSError) as error:
                        consumer.run(lambda _: reading.commit())
                        if isinstance(error, OSError) or not arguments.follow:
                            raise
                    finally:
                        _write_notes(progress, reading)
                        if where is not None and where.note is not None:
                            progress.report([f"moldau: {where.note}"])
        if arguments.quiet and arguments.json:
            write_json(context.out, progress.facts())
        elif arguments.quiet:
            context.err.write(f"{progress.summary()}\n")
        return Exit.DONE if reading.is_whole else Exit.FAILED


def _where(text: str | None) -> RecordFilter | None:
    if text is None:
        return None
    from moldau.cli.commands.consume_where import RecordFilter

    return RecordFilter(text)


def _check_format(arguments: Namespace) -> None:
    if arguments.format is not None and (arguments.json or arguments.keys):
        other = "--json" if arguments.json else "--keys"
        raise UsageError(f"--format says what a line has: not with {other}")


def _checked_place(arguments: Namespace) -> OffsetOrTime:
    if arguments.count is not None and arguments.count < 1:
        raise UsageError("--count takes a number of records, from 1 on")
    if arguments.last is not None and arguments.last < 0:
        raise UsageError("--last cannot be negative")
    if arguments.group is not None:
        if not arguments.group:
            raise UsageError("--group cannot be empty")
        if arguments.partition is not None:
            raise UsageError("a group shares partitions out by itself: not with --partition")
        if arguments.last is not None:
            raise UsageError(
                "a group goes on where it was: not with --last; see moldau group reset"
            )
    return parse_place(arguments.place)


def _checked_until(arguments: Namespace) -> OffsetOrTime:
    until = parse_place(arguments.to)
    if not until.is_end and (arguments.follow or arguments.group is not None):
        other = "--follow" if arguments.follow else "--group"
        raise UsageError(f"--to ends at a place: not with {other}")
    return until


def _defaults(arguments: Namespace) -> dict[str, str]:
    """Return the default settings. Reading begins where the command seeks to. A reset happens only
    when records are gone or the topic was created again; then everything in the log is still to be
    read. The client commits nothing by itself: with --group the command commits written records,
    and without it nothing, though a file may set a group.id."""
    defaults = {
        "allow.auto.create.topics": "false",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    if arguments.committed:
        defaults["isolation.level"] = "read_committed"
    if arguments.group is not None:
        defaults["group.id"] = arguments.group
    return defaults


def _check_group(group: str | None, settings: dict[str, str]) -> None:
    """Raise UsageError if a setting names another group than --group: which one is meant?"""
    other = settings.get("group.id")
    if group is not None and other != group:
        raise UsageError(f"two groups are named: --group {group}, and {other} by group.id")


def _format(text: str) -> str:
    from moldau.cli.commands.consume_template import is_template, pieces_of

    if text not in NAMES and not is_template(text):
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(NAMES)}, and no template: no %")
    if text not in NAMES:
        try:
            pieces_of(text, str)
        except UsageError as error:
            raise ArgumentTypeError(str(error)) from None
    return text


def _consumer(arguments: Namespace, settings: dict[str, str], runtime: Runtime) -> Consumer:
    """Return the consumer. Raise UsageError if it would commit records that are not yet written."""
    from moldau.client.consumer.consumer import Consumer
    from moldau.client.settings.group import enable_auto_commit

    client: Consumer = Consumer(
        settings,
        runtime=runtime,
        key_deserializer=line_serde(arguments.key_schema),
        value_deserializer=line_serde(arguments.value_schema),
    )
    if client.settings[enable_auto_commit]:
        raise UsageError(
            "enable.auto.commit cannot be true here: --group commits what it has written out, and "
            "nothing else"
        )
    return client


def _reading(
    arguments: Namespace, consumer: OpenClient[Consumer], place: OffsetOrTime, until: OffsetOrTime
) -> ConsumeReader:
    if arguments.group is not None:
        from moldau.cli.commands.consume_reading import GroupReader
        from moldau.client.settings.group import group_id

        group = consumer.client.settings[group_id] or ""  # without blanks around it
        return GroupReader(consumer.client, consumer.runtime.clock, group, place)
    from moldau.cli.commands.consume_reading import PartitionsReader

    return PartitionsReader(
        consumer.client,
        consumer.runtime.clock,
        Stretch(place, until, arguments.last),
        partitions=arguments.partition,
        follow=arguments.follow,
    )


def _read(
    arguments: Namespace,
    context: Context,
    consumer: OpenClient[Consumer],
    reading: ConsumeReader,
    output: Output,
) -> None:
    lines = lines_of(
        "key-value" if arguments.keys else arguments.format or "value",
        arguments.separator,
        json=arguments.json,
    )
    left = arguments.count
    while left is None or left > 0:
        if not arguments.follow and consumer.run(lambda _: reading.is_read()):
            break
        room = _room(arguments, left)
        parts = consumer.run(lambda _, room=room: reading.next(room))  # type: ignore[misc]
        _write_notes(output.progress, reading)
        for each in parts:
            part = each if output.where is None else output.where.chosen(each, left)
            if part is None:
                continue
            if not arguments.quiet:
                context.out.writelines(lines(part))
            output.progress.add(len(part.records), _size(part))
            left = None if left is None else left - len(part.records)
        if not arguments.quiet and (arguments.follow or arguments.group is not None):
            context.out.flush()
    consumer.run(lambda _: reading.finish())


def _room(arguments: Namespace, left: int | None) -> int:
    """Return how many records to read at once. A group commits what it has read, so it reads no
    more than may still be written. Others may read on to find `left` records with --where."""
    if left is None or (arguments.where is not None and arguments.group is None):
        return _POLL_RECORDS
    return min(_POLL_RECORDS, left)


def _write_notes(progress: Progress, reading: ConsumeReader) -> None:
    """Write the notes. Those that the client's thread adds meanwhile are written the next time."""
    notes = tuple(reading.notes)
    if notes:
        progress.report(f"moldau: {note}" for note in notes)
        del reading.notes[: len(notes)]


def _size(part: PartitionRecords) -> int:
    """Return the bytes of keys and values, without those that a schema decoded."""
    return sum(
        [
            len(data)
            for each in part.records
            for data in (each.key, each.value)
            if isinstance(data, bytes)
        ]
    )


command = ConsumeCommand()
