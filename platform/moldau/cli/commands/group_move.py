"""`moldau group move`: move the committed offsets of a group to another group or topic name.

Invariant: offsets are deleted at their old place only after they are stored at the new one, and
only those that were stored. A move that is cut short leaves them in both places, and can be
repeated.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, UsageError
from moldau.cli.commands.actions import Action
from moldau.cli.commands.cluster_connection import assignments, opened_admin
from moldau.cli.commands.group_plan import (
    DRY_RUN,
    add_execute,
    exit_code,
    members_of,
    number,
    occupied,
    within,
)
from moldau.cli.commands.group_scope import Scope, add_topics, is_in, parse_scope
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition

_HELP = (
    "give a group's offsets to another group, or to a topic's new name (dry run unless --execute)"
)
_DESCRIPTION = """\
Takes what GROUP has committed and stores it for another group (--to), for a topic of another name
(--rename), or both, and then deletes it where it was: the new group goes on exactly where the old
one stopped. With --keep it is a copy. Notes stored beside offsets go along. Offsets stay the same
numbers, so a renamed topic must hold the same records at the same offsets, as a mirrored one does;
an offset that it does not have becomes the nearest one, as the table says.

Without --execute nothing is changed: a table shows what would be. Neither group may have members
(with --keep the old one may)."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The move of one committed offset. `before` is the offset that the target had; `is_obstacle`
    means that it cannot be moved, and `note` says why."""

    source: TopicPartition
    target: TopicPartition
    committed: OffsetAndMetadata
    before: int | None
    after: int
    note: str = ""
    is_obstacle: bool = False


def _add_move(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", type=name_of("group"))
    parser.add_argument(
        "--to",
        metavar="GROUP",
        type=name_of("group"),
        help="whose the offsets shall be; else the same",
    )
    add_topics(parser, "only of this one, else all that is committed")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="offsets of topic OLD become those of NEW; may be repeated",
    )
    parser.add_argument("--keep", action="store_true", help="do not delete them where they were")
    add_execute(parser)


def _move(arguments: Namespace, context: Context) -> int:
    """Show the plan, and carry it out if `--execute` is given."""
    to = arguments.to or arguments.group
    names = assignments(arguments.rename, "topic")
    if to == arguments.group and not names:
        raise UsageError("nothing would move: give --to GROUP or --rename OLD=NEW")
    scope = parse_scope(arguments.topic)
    if to == arguments.group:
        scope = _only_renamed(scope, names)
    with opened_admin(arguments, context) as admin:
        transfers = admin.run(lambda client: _plan(client, arguments.group, to, scope, names))
        groups = [to] if arguments.keep else list(dict.fromkeys((arguments.group, to)))
        members = admin.run(lambda client: members_of(client, groups))
        problems = [*occupied(members).values()]
        problems += [f"{each.target}: {each.note}" for each in transfers if each.is_obstacle]
        if arguments.execute and not problems:
            admin.run(lambda client: carry_out(client, arguments, to, transfers))
    _tell(arguments, context, to, transfers, problems)
    return exit_code(arguments, problems)


def _only_renamed(scope: Scope, names: dict[str, str]) -> Scope:
    """Return the part of the scope that is renamed, since within one group nothing else can move.
    Raise UsageError if the scope names another topic: an empty scope would mean everything."""
    strays = [topic for topic in scope if topic not in names]
    if strays:
        raise UsageError(f"nothing of {', '.join(strays)} would move: --rename does not name it")
    return {topic: scope.get(topic) for topic in names if not scope or topic in scope}


async def _plan(
    client: Admin, group: str, to: str, scope: Scope, names: dict[str, str]
) -> list[Transfer]:
    from moldau.client import TopicPartition
    from moldau.client.base.offsets import EARLIEST, LATEST

    committed = await client.group_offsets(group)
    chosen = sorted(where for where in committed if not scope or is_in(scope, where))
    if not chosen:
        of = f" of {', '.join(scope)}" if scope else ""
        raise MoldauError(f"the group has committed nothing{of}", group=group)
    strays = sorted(names.keys() - {where.topic for where in chosen})
    if strays:
        of = f"{', '.join(strays)}, which --rename names"
        raise MoldauError(f"nothing would move of {of}", group=group)
    targets = {
        where: TopicPartition(names.get(where.topic, where.topic), where.partition)
        for where in chosen
    }
    if len(set(targets.values())) < len(targets):
        raise UsageError("two topics would become one")
    there = await client.group_offsets(to)
    led = await client.led_partitions(targets.values())
    starts = await client.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(led, LATEST))
    transfers = []
    for source, target in targets.items():
        found = committed[source]
        before = there[target].offset if target in there else None
        if target not in ends:
            note = "there is no such partition, or it has no leader"
            moved = Transfer(source, target, found, before, found.offset, note, is_obstacle=True)
        else:
            after, note = within(found.offset, starts[target].offset, ends[target].offset)
            moved = Transfer(source, target, found, before, after, note)
        transfers.append(moved)
    return transfers


async def carry_out(
    client: Admin, arguments: Namespace, to: str, transfers: Sequence[Transfer]
) -> None:
    """Store the offsets, then delete the old ones. Raise MoldauError if only a part was done."""
    from moldau.client import OffsetAndMetadata

    stored = {
        each.target: OffsetAndMetadata(
            each.after,
            each.committed.metadata,
            each.committed.leader_epoch if each.source == each.target else -1,
        )
        for each in transfers
    }
    await client.alter_group_offsets(to, stored)
    if arguments.keep:
        return
    moved = {each.source: each.committed for each in transfers}
    if to == arguments.group:  # two topics may swap their names; then nothing is deleted
        moved = {where: each for where, each in moved.items() if where not in stored}
    try:
        await _delete(client, arguments.group, moved, is_same=to == arguments.group)
    except MoldauError as error:
        raise MoldauError(
            f"the offsets are stored for {to}, but not deleted where they were: {error}",
            group=arguments.group,
        ) from error


async def _delete(
    client: Admin,
    group: str,
    moved: dict[TopicPartition, OffsetAndMetadata],
    *,
    is_same: bool,
) -> None:
    """Delete the moved offsets, or the whole group if it has no others."""
    left = await client.group_offsets(group)
    newer = [str(where) for where, each in moved.items() if left.get(where, each) != each]
    if newer:
        raise MoldauError("the group has committed meanwhile", partitions=newer)
    if not is_same and left.keys() <= moved.keys():
        await client.delete_group(group)
        return
    for error in (await client.delete_group_offsets(group, moved)).values():
        if error is not None:
            raise error


def _tell(
    arguments: Namespace,
    context: Context,
    to: str,
    transfers: Sequence[Transfer],
    problems: Sequence[str],
) -> None:
    write_lines(context.err, (f"moldau: {each}" for each in problems))
    if arguments.json:
        facts = {
            "executed": arguments.execute and not problems,
            "obstacles": list(problems),
            "group": arguments.group,
            "to": to,
            "offsets": [_facts(each) for each in transfers],
        }
        write_json(context.out, facts)
        return
    rows = [
        (
            str(each.source),
            str(each.committed.offset),
            str(each.target),
            number(each.before),
            str(each.after),
            each.note,
        )
        for each in transfers
    ]
    header = (f"OF {arguments.group}", "OFFSET", f"TO {to}", "BEFORE", "AFTER", "NOTE")
    write_table(context.out, header, rows)
    if not arguments.execute:
        context.out.write(f"{DRY_RUN}\n")


def _facts(transfer: Transfer) -> dict[str, Any]:
    return {
        "topic": transfer.source.topic,
        "partition": transfer.source.partition,
        "offset": transfer.committed.offset,
        "metadata": transfer.committed.metadata,
        "to_topic": transfer.target.topic,
        "to_partition": transfer.target.partition,
        "before": transfer.before,
        "after": transfer.after,
        "note": transfer.note or None,
    }


MOVE = Action("move", _HELP, _add_move, _move, _DESCRIPTION)
