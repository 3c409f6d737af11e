"""`moldau group`: groups of consumers and of Streams apps, and their offsets, as in
kafka-consumer-groups.sh and kafka-streams-groups.sh."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import OpenClient, assignments, on_cluster, opened_admin
from moldau.cli.commands.group_offsets import (
    DRY_RUN,
    add_execute,
    add_places,
    add_topics,
    exit_code,
    number,
    reset,
)
from moldau.cli.names import name_of
from moldau.cli.output import write_facts, write_json, write_lines, write_table
from moldau.cli.patterns import is_pattern, matches
from moldau.cli.summaries import SUMMARIES
from moldau.client.group.protocols import GROUP_STATES, GROUP_TYPES
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.operations import moves
from moldau.operations.moves import Transfer
from moldau.operations.offsets import (
    ConsumerGroups,
    committed_in,
    forget,
    idle_groups,
    members_of,
    occupied,
    parse_scope,
)

if TYPE_CHECKING:
    from moldau.client import Admin, GroupProgress, TopicPartition

    Chosen = dict[str, list[TopicPartition]]
    from moldau.client import TopicPartition

_MOVE_HELP = (
    "give a group's offsets to another group, or to a topic's new name (dry run unless --execute)"
)
_MOVE = """\
Takes what GROUP has committed and stores it for another group (--to), for a topic of another name
(--rename), or both, and then deletes it where it was: the new group goes on exactly where the old
one stopped. With --keep it is a copy. Notes stored beside offsets go along. Offsets stay the same
numbers, so a renamed topic must hold the same records at the same offsets, as a mirrored one does;
an offset that it does not have becomes the nearest one, as the table says.

Without --execute nothing is changed: a table shows what would be. Neither group may have members
(with --keep the old one may)."""

_RESET = """\
Changes where groups go on: what they have committed of all topics, or of those that are named.
Without --execute nothing is changed: a table shows each offset before and after. An offset that
the log does not have becomes the nearest one that it has, as the table says. A group must have no
members, because those commit for themselves: of several, one that has any is left as it is, and the
others are changed. One that does not exist yet may be given offsets."""
_WITH_OFFSETS: Final = ("classic", "consumer", "streams")
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
    found = on_cluster(
        arguments, context, lambda client: client.list_groups(states=states, types=types)
    )
    chosen = [each for each in found if matches(each.group_id, arguments.groups)]
    facts = [
        {
            "group": each.group_id,
            "type": each.type or None,
            "protocol_type": each.protocol_type,
            "state": each.state or None,
        }
        for each in chosen
    ]
    write_facts(context.out, ("GROUP", "TYPE", "PROTOCOL", "STATE"), facts, json=arguments.json)
    return Exit.DONE


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
    parser.add_argument(
        "--all", action="store_true", help="all groups of consumers and Streams apps"
    )
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
    known = [each.group_id for each in await client.list_groups(types=_WITH_OFFSETS)]
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


def _add_reset(parser: ArgumentParser) -> None:
    _add_groups(parser, "all consumer groups without members")
    parser.set_defaults(has_all=True)
    add_topics(parser, "only of this one, else all that is committed")
    add_places(parser)


def _reset(arguments: Namespace, context: Context) -> int:
    return reset(arguments, context, ConsumerGroups())


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
            chosen = admin.run(
                lambda client: committed_in(client, groups, scope, is_all=arguments.all)
            )
            if is_dry_run:
                return _write_offsets_to_delete(arguments, context, chosen)
            return _delete_offsets(arguments, context, admin, chosen)
        if is_dry_run:
            return _write_groups_to_delete(arguments, context, groups)
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


def _write_groups_to_delete(arguments: Namespace, context: Context, groups: Sequence[str]) -> int:
    if arguments.json:
        write_json(context.out, {"deleted": [], "failed": [], "would_delete": list(groups)})
    else:
        write_lines(context.out, (*(f"would delete {group}" for group in groups), DRY_RUN))
    return Exit.DONE


def _write_offsets_to_delete(arguments: Namespace, context: Context, chosen: Chosen) -> int:
    if arguments.json:
        facts = [_facts_of(group, where) for group in chosen for where in chosen[group]]
        write_json(context.out, {"deleted": [], "failed": [], "would_delete": facts})
    else:
        lines = [f"would delete {where} of {group}" for group in chosen for where in chosen[group]]
        write_lines(context.out, (*lines, DRY_RUN))
    return Exit.DONE


def _delete_offsets(
    arguments: Namespace, context: Context, admin: OpenClient[Admin], chosen: Chosen
) -> int:
    deleted, failed = [], []
    for group, partitions in chosen.items():
        if not partitions:
            continue
        results = sorted(admin.run(partial(forget, group=group, partitions=partitions)).items())
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


def _facts_of(group: str, where: TopicPartition) -> dict[str, Any]:
    return {"group": group, "topic": where.topic, "partition": where.partition}


def _add_move(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", type=name_of("group"))
    parser.add_argument(
        "--to",
        metavar="GROUP",
        type=name_of("group"),
        help="the group that gets the offsets; else the same",
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
    group, scope = arguments.group, parse_scope(arguments.topic)
    if to == group:
        scope = moves.only_renamed(scope, names)
    with opened_admin(arguments, context) as admin:
        transfers = admin.run(lambda client: moves.plan(client, group, to, scope, names))
        groups = [to] if arguments.keep else list(dict.fromkeys((group, to)))
        members = admin.run(lambda client: members_of(client, groups))
        problems = [*occupied(members).values()]
        problems += [f"{each.target}: {each.note}" for each in transfers if each.is_obstacle]
        if arguments.execute and not problems:
            admin.run(lambda client: moves.do(client, group, to, transfers, keeps=arguments.keep))
    _write_move(arguments, context, to, transfers, problems)
    return exit_code(arguments, problems)


def _write_move(
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
            "offsets": [_move_facts(each) for each in transfers],
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


def _move_facts(transfer: Transfer) -> dict[str, Any]:
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


command = ActionCommand(
    SUMMARIES["group"],
    (
        Action("list", "the groups there are", _add_list, _list),
        Action("describe", "state, members, offsets and lag", _add_describe, _describe),
        Action(
            "reset",
            "make groups go on elsewhere: earlier, later, at a time (dry run unless --execute)",
            _add_reset,
            _reset,
            _RESET,
        ),
        Action("delete", "forget groups, or what they have committed", _add_delete, _delete),
        Action("move", _MOVE_HELP, _add_move, _move, _MOVE),
    ),
)
