"""`moldau offsets`: where the logs of topics begin and end, or which offset a time has."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.commands.consume_place import parse_time_ms
from moldau.cli.names import topic_name
from moldau.cli.output import write_json, write_table

if TYPE_CHECKING:
    from moldau.client import Admin, FoundOffset, TopicPartition

_ENDS: Final = (
    "earliest",
    "latest",
    "max-timestamp",
    "earliest-local",
    "latest-tiered",
    "earliest-pending-upload",
)


class OffsetsCommand:
    """Offsets by end or by time."""

    summary = "Where logs begin and end, and the offset of a time."

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument("topics", nargs="+", metavar="TOPIC", type=topic_name)
        parser.add_argument(
            "--at",
            metavar="WHEN",
            help=f"{', '.join(_ENDS)}, a time like 2026-11-20T12:00:00Z, or @ms since 1970",
        )
        parser.add_argument(
            "--committed", action="store_true", help="the end is before open transactions"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        timestamp = None if arguments.at is None else _timestamp(arguments.at)
        with opened_admin(arguments, context) as admin:
            if timestamp is None:
                found = admin.run(lambda client: _ends(client, arguments))
                return _write_ends(arguments, context, found)
            at = admin.run(lambda client: _at(client, arguments, timestamp))
        return _write_found(arguments, context, at)


Ends = dict["TopicPartition", tuple["FoundOffset", "FoundOffset"]]


def _timestamp(text: str) -> int:
    from moldau.client import offsets

    if text in _ENDS:
        return int(getattr(offsets, text.upper().replace("-", "_")))
    return parse_time_ms(text, f"{', '.join(_ENDS)}, ")


async def _ends(client: Admin, arguments: Namespace) -> Ends:
    from moldau.client.offsets import EARLIEST, LATEST

    chosen = await client.partitions(*arguments.topics)
    first = await client.list_offsets(dict.fromkeys(chosen, EARLIEST))
    last = await client.list_offsets(
        dict.fromkeys(chosen, LATEST), is_committed=arguments.committed
    )
    return {each: (first[each], last[each]) for each in chosen}


async def _at(
    client: Admin, arguments: Namespace, timestamp: int
) -> dict[TopicPartition, FoundOffset]:
    chosen = await client.partitions(*arguments.topics)
    found = await client.list_offsets(
        dict.fromkeys(chosen, timestamp), is_committed=arguments.committed
    )
    return {each: found[each] for each in chosen}


def _write_ends(arguments: Namespace, context: Context, found: Ends) -> int:
    if arguments.json:
        facts = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "earliest": first.offset,
                "latest": last.offset,
            }
            for where, (first, last) in found.items()
        ]
        write_json(context.out, facts)
        return Exit.DONE
    rows = [
        (
            where.topic,
            str(where.partition),
            str(first.offset),
            str(last.offset),
            str(last.offset - first.offset),
        )
        for where, (first, last) in found.items()
    ]
    write_table(context.out, ("TOPIC", "PARTITION", "EARLIEST", "LATEST", "BETWEEN"), rows)
    return Exit.DONE


def _write_found(
    arguments: Namespace, context: Context, found: dict[TopicPartition, FoundOffset]
) -> int:
    facts: list[dict[str, Any]] = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "offset": each.offset if each.offset >= 0 else None,
            "timestamp": each.timestamp if each.timestamp >= 0 else None,
        }
        for where, each in found.items()
    ]
    if arguments.json:
        write_json(context.out, facts)
        return Exit.DONE
    rows = [["-" if value is None else str(value) for value in each.values()] for each in facts]
    write_table(context.out, ("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"), rows)
    return Exit.DONE


command = OffsetsCommand()
