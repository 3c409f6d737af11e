"""`moldau consume`: records of topics, from where one says to their end, or on and on."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import (
    Opened,
    add_connection_arguments,
    client_settings,
    opened,
)
from moldau.cli.commands.consume_format import NAMES, lines_of
from moldau.cli.commands.consume_place import Place, parse_place
from moldau.cli.output import write_json
from moldau.cli.progress import Progress

if TYPE_CHECKING:
    from moldau.client import Consumer, PartitionRecords, TopicPartition

_POLL_S: Final = 1.0
_MISSING_S: Final = 2.0  # a topic that was made just now may not be known everywhere
_POLL_RECORDS: Final = 20_000


class ConsumeCommand:
    """Reads records."""

    summary = "Read records, from the beginning to the end unless told otherwise."

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument("topics", nargs="+", metavar="TOPIC")
        parser.add_argument("--partition", type=int, action="append", help="only these")
        place = parser.add_mutually_exclusive_group()
        place.add_argument(
            "--from",
            dest="place",
            default="beginning",
            metavar="PLACE",
            help="beginning, end, an offset, a time like 2026-11-20T12:00:00Z, or @ms since 1970",
        )
        place.add_argument("--last", type=int, metavar="N", help="the last N of each partition")
        parser.add_argument("--count", type=int, metavar="N", help="stop after N records")
        parser.add_argument(
            "-f", "--follow", action="store_true", help="go on when the end is read"
        )
        parser.add_argument("--committed", action="store_true", help="no aborted or open ones")
        parser.add_argument("--format", choices=NAMES, default="value", help="of a line")
        parser.add_argument("--keys", action="store_true", help="as --format key-value")
        parser.add_argument("--separator", default=":", metavar="TEXT", help="behind keys (:)")
        parser.add_argument("--quiet", action="store_true", help="only count, and show the rate")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.client.consumer import Consumer

        if arguments.last is not None and arguments.last < 0:
            raise UsageError("--last cannot be negative")
        place = parse_place(arguments.place)
        defaults = {"allow.auto.create.topics": "false"}
        if arguments.committed:
            defaults["isolation.level"] = "read_committed"
        settings = client_settings(arguments, context, defaults)
        if arguments.quiet:
            from moldau.runtime.process import tune_allocator

            tune_allocator()
        with opened(lambda runtime: Consumer(settings, runtime=runtime)) as consumer:
            ends = consumer.run(lambda client: _begin(client, arguments, place))
            clock = consumer.runtime.clock.monotonic
            with Progress(context, "read", arguments.count, clock) as progress:
                try:
                    _read(arguments, context, (consumer, progress), ends)
                except KeyboardInterrupt:
                    if not arguments.follow:
                        raise
        if arguments.quiet and arguments.json:
            write_json(context.out, progress.facts())
        elif arguments.quiet:
            context.err.write(f"{progress.summary()}\n")
        return Exit.DONE


async def _begin(client: Consumer, arguments: Namespace, place: Place) -> dict[TopicPartition, int]:
    """Goes to where reading begins; where each log ended at that moment."""
    from moldau.client.offsets import EARLIEST, LATEST

    chosen = await client.partitions(*arguments.topics, timeout_s=_MISSING_S)
    if arguments.partition is not None:
        chosen = [each for each in chosen if each.partition in arguments.partition]
        if not chosen:
            raise UsageError(f"no topic has a partition {arguments.partition}")
    client.assign(chosen)
    ends = await client.offsets(dict.fromkeys(chosen, LATEST))
    if place.timestamp_ms is not None:
        await client.seek_to_time(place.timestamp_ms)
    elif arguments.last is None and not place.is_end and place.offset is None:
        await client.seek_to_beginning()
    else:
        starts = await client.offsets(dict.fromkeys(chosen, EARLIEST))
        for each in chosen:
            offset = ends[each].offset
            if arguments.last is not None:
                offset -= arguments.last
            elif place.offset is not None:
                offset = place.offset
            client.seek(each.topic, each.partition, max(starts[each].offset, offset))
    return {each: ends[each].offset for each in chosen}


def _read(
    arguments: Namespace,
    context: Context,
    reading: tuple[Opened[Consumer], Progress],
    ends: dict[TopicPartition, int],
) -> None:
    from moldau.client.consumer import Consumer

    consumer, progress = reading
    lines = lines_of(
        "key-value" if arguments.keys else arguments.format,
        arguments.separator,
        json=arguments.json,
    )
    left = arguments.count
    while left is None or left > 0:
        if not arguments.follow and consumer.run(lambda client: _is_at_end(client, ends)):
            return
        room = _POLL_RECORDS if left is None else min(_POLL_RECORDS, left)
        parts = consumer.run(partial(Consumer.poll, timeout_s=_POLL_S, max_records=room))
        for part in parts:
            if not arguments.follow:
                part = _before(part, ends)
            if not arguments.quiet:
                context.out.writelines(lines(part))
            progress.add(len(part.records), _size(part))
            left = None if left is None else left - len(part.records)
        if arguments.follow and not arguments.quiet:
            context.out.flush()


async def _is_at_end(client: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Whether everything that was there at the start is read. Transaction markers and compacted
    records have offsets too, so positions decide and not counts."""
    positions = ((client.position(*where), end) for where, end in ends.items())
    return all(position is not None and position >= end for position, end in positions)


def _before(part: PartitionRecords, ends: dict[TopicPartition, int]) -> PartitionRecords:
    """Without what came after the start: a topic that is written to all the time has no end."""
    end = ends[part.topic, part.partition]  # type: ignore[index]
    if part.records[-1].offset < end:
        return part
    return part._replace(records=[each for each in part.records if each.offset < end])


def _size(part: PartitionRecords) -> int:
    return sum([len(each.value or b"") + len(each.key or b"") for each in part.records])


command = ConsumeCommand()
