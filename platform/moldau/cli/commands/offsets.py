"""`moldau offsets`: the start and end offsets of topics, or the offset of a time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.commands.consume_place import parse_time_ms
from moldau.cli.names import topic_name
from moldau.cli.output import write_facts, write_json, write_table
from moldau.cli.summaries import SUMMARIES

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
_ELECTION_S: Final = 2.0


class OffsetsCommand:
    """Shows offsets by end or by time."""

    summary = SUMMARIES["offsets"]

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
            chosen = admin.run(lambda client: client.partitions(*arguments.topics))
            led = admin.run(lambda client: _led(client, chosen))
            if timestamp is None:
                _write_ends(arguments, context, admin.run(lambda it: _ends(it, arguments, led)))
            else:
                _write_found(
                    arguments, context, admin.run(lambda it: _at(it, arguments, led, timestamp))
                )
        return _report_leaderless(context, sorted(set(chosen) - set(led)))


Ends = dict["TopicPartition", tuple["FoundOffset", "FoundOffset"]]


async def _led(client: Admin, chosen: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions with a leader. Wait for one that is being elected, as in a topic that
    was just created."""
    from moldau.cli.shell import within
    from moldau.client.base.offsets import LATEST

    led = await client.led_partitions(chosen)
    if len(led) == len(chosen):
        return led
    await within(_ELECTION_S, client.list_offsets(dict.fromkeys(chosen, LATEST)))
    return await client.led_partitions(chosen)


def _report_leaderless(context: Context, partitions: list[TopicPartition]) -> int:
    """Report partitions whose offsets are unknown, and return the exit code."""
    for where in partitions:
        context.err.write(f"moldau: {where} has no leader: its offsets are not known now\n")
    return Exit.FAILED if partitions else Exit.DONE


def _timestamp(text: str) -> int:
    from moldau.client.base import offsets

    if text in _ENDS:
        return int(getattr(offsets, text.upper().replace("-", "_")))
    return parse_time_ms(text, f"{', '.join(_ENDS)}, ")


async def _ends(client: Admin, arguments: Namespace, chosen: list[TopicPartition]) -> Ends:
    from moldau.client.base.offsets import EARLIEST, LATEST

    first = await client.list_offsets(dict.fromkeys(chosen, EARLIEST))
    last = await client.list_offsets(
        dict.fromkeys(chosen, LATEST), is_committed=arguments.committed
    )
    return {each: (first[each], last[each]) for each in chosen}


async def _at(
    client: Admin, arguments: Namespace, chosen: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, FoundOffset]:
    found = await client.list_offsets(
        dict.fromkeys(chosen, timestamp), is_committed=arguments.committed
    )
    return {each: found[each] for each in chosen}


def _write_ends(arguments: Namespace, context: Context, found: Ends) -> None:
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
        return
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


def _write_found(
    arguments: Namespace, context: Context, found: dict[TopicPartition, FoundOffset]
) -> None:
    facts: list[dict[str, Any]] = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "offset": each.offset if each.offset >= 0 else None,
            "timestamp": each.timestamp if each.timestamp >= 0 else None,
        }
        for where, each in found.items()
    ]
    header = ("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP")
    write_facts(context.out, header, facts, json=arguments.json)


command = OffsetsCommand()
