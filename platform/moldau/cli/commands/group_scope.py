"""Selects offsets: by `--topic orders:0,1`, and by the CSV file of Kafka's own tool.

A line of such a file is `topic,partition,offset`, or `group,topic,partition,offset`.
"""

from __future__ import annotations

import csv
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from moldau.cli.command import UsageError
from moldau.cli.names import typed_name
from moldau.cli.numbers import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from moldau.client import Admin, TopicPartition

Scope = dict[str, "list[int] | None"]
FileOffsets = dict[str, "dict[TopicPartition, int]"]


def add_topics(parser: ArgumentParser, help_text: str) -> None:
    """Add `--topic`, whose words `parse_scope` parses."""
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:PARTITION,...]",
        help=f"{help_text}; may be repeated",
    )


def parse_scope(words: Iterable[str]) -> Scope:
    """Return the partitions by topic; None means all of a topic. Without words it is empty."""
    scope: Scope = {}
    for word in words:
        topic, colon, numbers = word.partition(":")
        typed_name(topic, "topic")
        if not topic or (colon and not numbers):
            raise UsageError(f"{word!r} is not TOPIC or TOPIC:PARTITION,...")
        if not colon:
            scope[topic] = None
            continue
        what = f"partition of {word!r}"
        chosen = [_number(each, what, INT32_MAX) for each in numbers.split(",")]
        known = scope.setdefault(topic, [])
        if known is not None:
            known += [each for each in dict.fromkeys(chosen) if each not in known]
    return scope


async def partitions_in(client: Admin, scope: Scope) -> list[TopicPartition]:
    """Return the partitions of a scope. Raise KafkaError for unknown topics, UsageError for
    partitions."""
    there = await client.partitions(*scope)
    for topic, numbers in scope.items():
        has = {where.partition for where in there if where.topic == topic}
        for number in numbers or ():
            if number not in has:
                raise UsageError(f"{topic} has no partition {number}")
    return [where for where in there if is_in(scope, where)]


def is_in(scope: Scope, where: TopicPartition) -> bool:
    """Whether the scope includes the partition."""
    if where.topic not in scope:
        return False
    numbers = scope[where.topic]
    return numbers is None or where.partition in numbers


async def idle_groups(client: Admin) -> list[str]:
    """Return the consumer groups that have no members."""
    found = await client.list_groups(states=["Empty"], types=["classic", "consumer"])
    return [each.group_id for each in found]


def parse_offsets_file(text: str, groups: Sequence[str]) -> FileOffsets:
    """Return the offsets by group. Lines without a group belong to the only named group."""
    from moldau.client import TopicPartition

    found: FileOffsets = {}
    for number, row in _rows(text):
        cells = [cell.strip(" \t") for cell in row]
        if not any(cells):
            continue
        if len(cells) == 3:
            if len(groups) != 1:
                raise UsageError(f"line {number} names no group: give exactly one group")
            cells = [groups[0], *cells]
        if len(cells) != 4:
            raise UsageError(f"line {number} is not [GROUP,]TOPIC,PARTITION,OFFSET")
        group, topic, partition, offset = cells
        if groups and group not in groups:
            raise UsageError(f"line {number} is of group {group}, which was not named")
        index = _number(partition, f"partition in line {number}", INT32_MAX)
        where = TopicPartition(topic, index)
        if where in found.setdefault(group, {}):
            raise UsageError(f"line {number} names {where} again")
        found[group][where] = _number(offset, f"offset in line {number}", INT64_MAX)
    if not found:
        raise UsageError("the file has no offsets")
    return found


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the number of their last line: a group name may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} cannot be read: {error}") from None


def _number(text: str, what: str, most: int) -> int:
    text = text.strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not (is_number and int(text) <= most):
        raise UsageError(f"{text!r} is no {what}")
    return int(text)
