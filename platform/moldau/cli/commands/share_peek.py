"""`moldau share peek`: show the records behind a share group's start, and acquire none of them.

A plain consumer reads the log. It takes no part in the group, so delivery counts and locks stay as
they are, and it cannot know which of the records are in work or done already.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.actions import Action
from moldau.cli.commands.cluster_connection import (
    client_settings,
    opened,
    opened_admin,
    telling_where,
)
from moldau.cli.commands.consume_format import NAMES, lines_of
from moldau.cli.commands.group_scope import add_topics, is_in, parse_scope
from moldau.cli.names import name_of
from moldau.cli.numbers import INT32_MAX, whole
from moldau.cli.output import write_lines
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import Admin, Consumer, PartitionRecords, TopicPartition

    Starts = dict[TopicPartition, int]

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
    with opened_admin(arguments, context) as admin:
        stands = admin.run(lambda client: _starts(client, arguments.group))
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

    with telling_where(settings):
        from moldau.client.consumer.consumer import Consumer

        with opened(lambda runtime: Consumer(settings, runtime=runtime)) as consumer:
            consumer.run(lambda client: read_from(client, starts, arguments.count, write))
    write_lines(context.err, [f"moldau: {_NOTE}"])
    return Exit.DONE


async def _starts(client: Admin, group: str) -> Starts:
    """Return the start offsets of a share group. Raise KafkaError for one of another kind."""
    from moldau.cli.commands.share_reset import kinds_of
    from moldau.client import ShareGroupAdmin

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
