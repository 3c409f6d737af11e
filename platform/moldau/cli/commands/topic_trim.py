"""`moldau topic trim`: delete records from the front of partitions, each independently.

Invariant: the result of every partition is reported, because a deletion cannot be undone.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.names import topic_name
from moldau.cli.numbers import is_int64
from moldau.cli.output import write_json, write_table

if TYPE_CHECKING:
    from moldau.client import TopicPartition
    from moldau.errors.codes import KafkaError


def add_trim(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC", type=topic_name)
    parser.add_argument("--partition", type=int, help="only this one")
    parser.add_argument(
        "--before", required=True, metavar="OFFSET", help="the first offset to keep, or: end"
    )


def trim(arguments: Namespace, context: Context) -> int:
    """Trim the partitions. Return FAILED if any of them was not trimmed."""
    before = _before(arguments.before)
    with opened_admin(arguments, context) as admin:
        chosen = admin.run(lambda client: client.partitions(arguments.name))
        if arguments.partition is not None:
            chosen = [each for each in chosen if each.partition == arguments.partition]
            if not chosen:
                raise UsageError(f"{arguments.name} has no partition {arguments.partition}")
        wanted = dict.fromkeys(chosen, before)
        results = admin.run(lambda client: client.delete_records(wanted))
    _write(arguments, context, results)
    failed = sum(not isinstance(each, int) for each in results.values())
    if not failed:
        return Exit.DONE
    context.err.write(f"moldau: {failed} of {len(results)} partitions were not trimmed\n")
    return Exit.FAILED


def _before(text: str) -> int:
    from moldau.client.admin.topics import TO_THE_END

    if text == "end":
        return TO_THE_END
    if not is_int64(text):
        raise UsageError("--before takes an offset, or the word end")
    return int(text)


def _write(
    arguments: Namespace, context: Context, results: dict[TopicPartition, int | KafkaError]
) -> None:
    starts = {where: each if isinstance(each, int) else None for where, each in results.items()}
    errors = {where: each for where, each in results.items() if not isinstance(each, int)}
    if arguments.json:
        facts = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "log_start_offset": start,
                "error": str(errors[where]) if where in errors else None,
            }
            for where, start in starts.items()
        ]
        write_json(context.out, facts)
        return
    header = ["TOPIC", "PARTITION", "BEGINS AT"] + (["NOT TRIMMED"] if errors else [])
    rows = []
    for where, start in starts.items():
        row = [where.topic, str(where.partition), "-" if start is None else str(start)]
        rows.append(row + ([_why(errors[where]) if where in errors else ""] if errors else []))
    write_table(context.out, header, rows)


def _why(error: KafkaError) -> str:
    return f"{error.code.name}: {error.reason}" if error.reason else error.code.name
