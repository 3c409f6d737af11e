"""`moldau group`: consumer groups and their offsets, as in kafka-consumer-groups.sh."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands import group_move, group_reset
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import Opened, opened_admin
from moldau.cli.commands.group_plan import DRY_RUN
from moldau.cli.commands.group_scope import add_topics, idle_groups, is_in, parse_scope
from moldau.cli.names import name_of
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.patterns import is_pattern, matches
from moldau.cli.summaries import SUMMARIES
from moldau.client.group.states import GROUP_STATES, GROUP_TYPES
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin, GroupProgress, ListedGroup, TopicPartition

    Results = dict[TopicPartition, KafkaError | None]
    Chosen = dict[str, list[TopicPartition]]

_OF_CONSUMERS: Final = ("classic", "consumer")
_EVERY_S: Final = 2.0
_EVERY_S_MIN: Final = 0.05
_EVERY_S_MAX: Final = 86_400.0


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="PATTERN", help="such as 'billing-*'")
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE", help=", ".join(GROUP_STATES)
    )
    parser.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help=", ".join(GROUP_TYPES)
    )


def _list(arguments: Namespace, context: Context) -> int:
    states = _known(arguments.state, GROUP_STATES, "state")
    types = _known(arguments.type, GROUP_TYPES, "type")
    with opened_admin(arguments, context) as admin:
        found = admin.run(lambda client: client.list_groups(states=states, types=types))
    chosen = [each for each in found if matches(each.group_id, arguments.groups)]
    if arguments.json:
        write_json(context.out, [_facts(each) for each in chosen])
        return Exit.DONE
    rows = [
        (each.group_id, each.type or "-", each.protocol_type or "-", each.state or "-")
        for each in chosen
    ]
    write_table(context.out, ("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)
    return Exit.DONE


def _facts(group: ListedGroup) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type or None,
        "protocol_type": group.protocol_type,
        "state": group.state or None,
    }


def _known(words: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """Return the names that the words list, split at commas. Raise UsageError for unknown ones."""
    from moldau.client.base.arguments import known_names

    try:
        return known_names(",".join(words).split(",") if words else (), what, names)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _add_describe(parser: ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        type=name_of("group"),
        help="a name, or a pattern such as 'billing-*'",
    )
    parser.add_argument("--all", action="store_true", help="all groups of consumers")
    parser.add_argument("--state", action="store_true", help="a line a group")
    parser.add_argument("--members", action="store_true", help="only their members")
    parser.add_argument("--offsets", action="store_true", help="only offsets and lag")
    parser.add_argument("-v", "--verbose", action="store_true", help="more columns")
    parser.add_argument("--watch", action="store_true", help="look again and again: lag, live")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="between two looks (2)")
    parser.add_argument("--times", type=int, metavar="N", help="stop watching after N looks")


def _add_groups(parser: ArgumentParser, all_help: str) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", type=name_of("group"))
    parser.add_argument("--all", action="store_true", help=all_help)


def _check_groups(arguments: Namespace) -> None:
    if arguments.all == bool(arguments.groups):
        raise UsageError("name groups, or give --all")


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.group_report import facts_of, write_report
    from moldau.cli.commands.group_watch import watch

    _check_groups(arguments)
    if not arguments.watch and (arguments.times, arguments.every) != (None, None):
        raise UsageError("--times and --every are for --watch")
    if arguments.watch and (arguments.state or arguments.members or arguments.verbose):
        raise UsageError("--watch shows lag alone: not with --state, --members or --verbose")
    if arguments.every is None:
        arguments.every = _EVERY_S
    if not _EVERY_S_MIN <= arguments.every <= _EVERY_S_MAX:
        raise UsageError(f"--every takes seconds, from {_EVERY_S_MIN} on")
    if arguments.times is not None and arguments.times < 1:
        raise UsageError("--times takes a number from 1 on")
    with opened_admin(arguments, context) as admin:
        if arguments.watch:
            return watch(arguments, context, admin, lambda client: _look(client, arguments))
        answers = admin.run(lambda client: _progress(client, arguments))
        errors = admin.naming_nearest(each for each in answers if isinstance(each, KafkaError))
    found = [each for each in answers if not isinstance(each, KafkaError)]
    if arguments.json:
        write_json(context.out, [facts_of(each) for each in found])
    elif found:
        write_report(context.out, found, arguments)
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


async def _progress(client: Admin, arguments: Namespace) -> list[GroupProgress | KafkaError]:
    groups = await _named(client, arguments)
    return list((await client.groups_progress(groups)).values())


async def _named(client: Admin, arguments: Namespace) -> list[str]:
    """Return the names of the groups, with those of the cluster in place of each pattern. Raise
    MoldauError for a pattern without a group. The name of a group may look like a pattern."""
    if not (arguments.all or any(map(is_pattern, arguments.groups))):
        return list(arguments.groups)
    known = [each.group_id for each in await client.list_groups(types=_OF_CONSUMERS)]
    if arguments.all:
        return known
    found: list[str] = []
    for each in arguments.groups:
        matching = [group for group in known if matches(group, [each])]
        if each in known or not is_pattern(each):
            matching = [each]
        if not matching:
            raise MoldauError("no group of consumers matches", pattern=each)
        found += matching
    return list(dict.fromkeys(found))


async def _look(client: Admin, arguments: Namespace) -> list[GroupProgress]:
    """Return the groups that `--watch` shows. A group that cannot be described raises its error,
    unless all groups are watched: groups come and go."""
    found = []
    for each in await _progress(client, arguments):
        if not isinstance(each, KafkaError):
            found.append(each)
        elif not arguments.all:
            raise each
    return found


def _add_delete(parser: ArgumentParser) -> None:
    _add_groups(parser, "all groups that have no members; needs --execute")
    add_topics(parser, "keep the groups, and forget only what they have committed of this")
    parser.add_argument("--execute", action="store_true", help="with --all: do it, not only tell")


def _delete(arguments: Namespace, context: Context) -> int:
    _check_groups(arguments)
    scope = parse_scope(arguments.topic)
    with opened_admin(arguments, context) as admin:
        groups = arguments.groups or admin.run(idle_groups)
        is_dry_run = arguments.all and not arguments.execute
        if scope:
            chosen = admin.run(lambda client: _committed_in(client, arguments, groups))
            if is_dry_run:
                return _tell_offsets(arguments, context, chosen)
            return _delete_offsets(arguments, context, admin, chosen)
        if is_dry_run:
            return _tell_groups(arguments, context, groups)
        results = admin.run(lambda client: client.delete_groups(groups))
        failed = admin.failures(results)
    deleted = [group for group in results if group not in failed]
    if arguments.json:
        errors = [{"group": group, "error": str(error)} for group, error in failed.items()]
        write_json(context.out, {"deleted": deleted, "failed": errors})
    else:
        write_lines(context.out, (f"deleted {group}" for group in deleted))
    write_lines(context.err, (f"moldau: {error}" for error in failed.values()))
    return Exit.FAILED if failed else Exit.DONE


def _tell_groups(arguments: Namespace, context: Context, groups: Sequence[str]) -> int:
    if arguments.json:
        write_json(context.out, {"deleted": [], "failed": [], "would_delete": list(groups)})
    else:
        write_lines(context.out, (*(f"would delete {group}" for group in groups), DRY_RUN))
    return Exit.DONE


def _tell_offsets(arguments: Namespace, context: Context, chosen: Chosen) -> int:
    if arguments.json:
        facts = [_facts_of(group, where) for group in chosen for where in chosen[group]]
        write_json(context.out, {"deleted": [], "failed": [], "would_delete": facts})
    else:
        lines = [f"would delete {where} of {group}" for group in chosen for where in chosen[group]]
        write_lines(context.out, (*lines, DRY_RUN))
    return Exit.DONE


async def _committed_in(client: Admin, arguments: Namespace, groups: Sequence[str]) -> Chosen:
    """Return the committed offsets of each group that `--topic` covers. Raise MoldauError for a
    named group without any of them."""
    scope = parse_scope(arguments.topic)
    chosen = {}
    for group in groups:
        committed = await client.group_offsets(group)
        chosen[group] = sorted(where for where in committed if is_in(scope, where))
        if not (chosen[group] or arguments.all):
            raise MoldauError("the group has committed nothing of that", group=group)
    return chosen


def _delete_offsets(
    arguments: Namespace, context: Context, admin: Opened[Admin], chosen: Chosen
) -> int:
    deleted, failed = [], []
    for group, partitions in chosen.items():
        if not partitions:
            continue

        async def delete(
            client: Admin, group: str = group, partitions: list[TopicPartition] = partitions
        ) -> Results:
            return await _forget(client, group, partitions)

        results = sorted(admin.run(delete).items())
        gone = [where for where, error in results if error is None]
        errors = [(where, str(error)) for where, error in results if error is not None]
        deleted += [_facts_of(group, where) for where in gone]
        failed += [{**_facts_of(group, where), "error": error} for where, error in errors]
        write_lines(context.err, dict.fromkeys(f"moldau: {error}" for _, error in errors))
        if not arguments.json:
            write_lines(context.out, (f"deleted {where} of {group}" for where in gone))
    if arguments.json:
        write_json(context.out, {"deleted": deleted, "failed": failed})
    return Exit.FAILED if failed else Exit.DONE


async def _forget(client: Admin, group: str, partitions: list[TopicPartition]) -> Results:
    """Delete offsets of a group, and return the result of each. A group-wide error, as for new
    members or a deleted group, is the result of all, so that other groups go on; but raise if no
    answer came."""
    from moldau.link.backoff import may_work_later

    try:
        return await client.delete_group_offsets(group, partitions)
    except KafkaError as error:
        if may_work_later(error):
            raise
        return dict.fromkeys(partitions, error)


def _facts_of(group: str, where: TopicPartition) -> dict[str, Any]:
    return {"group": group, "topic": where.topic, "partition": where.partition}


command = ActionCommand(
    SUMMARIES["group"],
    (
        Action("list", "the groups there are", _add_list, _list),
        Action("describe", "state, members, offsets and lag", _add_describe, _describe),
        group_reset.RESET,
        Action("delete", "forget groups, or what they have committed", _add_delete, _delete),
        group_move.MOVE,
    ),
)
