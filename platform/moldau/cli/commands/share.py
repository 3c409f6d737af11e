"""`moldau share`: share groups, which read topics as queues, as in kafka-share-groups.sh."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import OpenClient, on_cluster, opened_admin
from moldau.cli.commands.group_offsets import (
    add_execute,
    add_places,
    add_topics,
    exit_code,
    reset,
    write_plan,
)
from moldau.cli.commands.share_records import DLQ, PEEK
from moldau.cli.names import name_of, topic_name
from moldau.cli.output import write_facts, write_json, write_lines
from moldau.cli.patterns import matches
from moldau.cli.summaries import SUMMARIES
from moldau.errors.codes import KafkaError
from moldau.operations.offsets import follow, parse_scope
from moldau.operations.share import ShareGroups, delete, kinds_of, plan_init

if TYPE_CHECKING:
    from moldau.client import Admin, GroupProgress, ShareOffset, TopicPartition
_SHARE: Final = ("share",)
_STATES: Final = ("Stable", "Empty", "Dead")
_RESET_HELP = "let groups begin anew: earlier, later, at a time (dry run unless --execute)"
_RESET_DESCRIPTION = """\
Gives share groups another start offset in all partitions where they stand, or in those of the named
topics. All that a group knows of the records behind the new start is forgotten: records in work and
records that are done are delivered again. Without --execute nothing is changed: a table shows each
start before and after. A group must have no members; one that does not exist yet may be given
offsets with --topic."""
_INIT_HELP = "let a group begin where a consumer group stands (dry run unless --execute)"
_INIT_DESCRIPTION = """\
Moves from a consumer group to a share group: GROUP begins where the other group has committed, in
all topics that it has read or in the named ones. The offsets of the other group stay. A partition
where it has committed nothing is left alone: there GROUP begins as share.auto.offset.reset says.
Neither group may have members: while the old ones run, they move on, and what they do is delivered
again to the new ones. GROUP needs another name than the consumer group."""


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="PATTERN", help="such as 'mail-*'")
    parser.add_argument("--state", action="append", default=[], choices=_STATES)


def _list(arguments: Namespace, context: Context) -> int:
    found = on_cluster(
        arguments,
        context,
        lambda client: client.list_groups(states=arguments.state, types=_SHARE),
    )
    chosen = [each for each in found if matches(each.group_id, arguments.groups)]
    facts = [{"group": each.group_id, "state": each.state or None} for each in chosen]
    write_facts(context.out, ("GROUP", "STATE"), facts, json=arguments.json)
    return Exit.DONE


def _add_groups(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", type=name_of("share group"))
    parser.add_argument("--all", action="store_true", help="all share groups")


def _check_groups(arguments: Namespace) -> None:
    if arguments.all == bool(arguments.groups):
        raise UsageError("name share groups, or give --all")


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.group_report import facts_of_share, write_shares

    _check_groups(arguments)
    with opened_admin(arguments, context) as admin:
        groups = _named(arguments, admin)
        answers = admin.run(lambda client: _progress(client, groups))
        errors = admin.naming_nearest(each for each in answers if isinstance(each, KafkaError))
    found = [each for each in answers if not isinstance(each, KafkaError)]
    if arguments.json:
        write_json(context.out, [facts_of_share(each) for each in found])
    else:
        write_shares(context.out, found)
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


def _named(arguments: Namespace, admin: OpenClient[Admin]) -> list[str]:
    """Return the groups of the arguments."""
    if arguments.groups:
        return list(dict.fromkeys(arguments.groups))
    return [each.group_id for each in admin.run(lambda it: it.list_groups(types=_SHARE))]


async def _progress(client: Admin, groups: Sequence[str]) -> list[GroupProgress | KafkaError]:
    """Return each group, or why it cannot be described: as for a group of another kind."""
    kinds = await kinds_of(client, groups)
    found = await client.groups_progress(groups)
    return [kinds[group] or found[group] for group in groups]


def _offsets(arguments: Namespace, context: Context) -> int:
    async def ask(client: Admin, groups: Sequence[str]) -> dict[str, Any]:
        from moldau.client import ShareGroupAdmin

        kinds = await kinds_of(client, groups)
        shares = ShareGroupAdmin(client)
        return {each: kinds[each] or await shares.offsets(each) for each in groups}

    _check_groups(arguments)
    with opened_admin(arguments, context) as admin:
        groups = _named(arguments, admin)
        answers = admin.run(lambda client: ask(client, groups))
        errors = admin.naming_nearest(
            each for each in answers.values() if isinstance(each, KafkaError)
        )
    found = {name: each for name, each in answers.items() if not isinstance(each, KafkaError)}
    _write_offsets(arguments, context, found)
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


def _write_offsets(
    arguments: Namespace, context: Context, found: dict[str, dict[TopicPartition, ShareOffset]]
) -> None:
    facts = [
        {
            "group": group,
            "topic": where.topic,
            "partition": where.partition,
            "start": each.start,
            "lag": each.lag,
        }
        for group, offsets in found.items()
        for where, each in offsets.items()
    ]
    header = ("GROUP", "TOPIC", "PARTITION", "START", "LAG")
    write_facts(context.out, header, facts, json=arguments.json)


def _add_reset(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", type=name_of("share group"))
    parser.set_defaults(all=False, has_all=False)
    add_topics(parser, "only of this one, else all where it stands")
    add_places(parser)


def _reset(arguments: Namespace, context: Context) -> int:
    return reset(arguments, context, ShareGroups())


def _add_init(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", type=name_of("share group"))
    parser.add_argument(
        "--from-group",
        required=True,
        metavar="GROUP",
        type=name_of("group"),
        help="the consumer group that has read until now",
    )
    add_topics(parser, "only of this one, else all that it has committed")
    add_execute(parser)


def _init(arguments: Namespace, context: Context) -> int:
    group, source = arguments.group, arguments.from_group
    if group == source:
        raise UsageError("a share group needs another name than the consumer group")
    scope = parse_scope(arguments.topic)
    kind = ShareGroups()
    with opened_admin(arguments, context) as admin:
        steps = admin.run(lambda client: plan_init(client, group, source, scope))
        outcome = admin.run(
            lambda client: follow(
                client, kind, steps, {}, execute=arguments.execute, also_idle=[source]
            )
        )
    write_plan(arguments, context, steps, outcome)
    return exit_code(arguments, outcome.problems)


def _add_delete(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="+", metavar="GROUP", type=name_of("share group"))
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=topic_name,
        metavar="TOPIC",
        help="keep the groups, and forget only where they stand in this topic; may be repeated",
    )


def _delete(arguments: Namespace, context: Context) -> int:
    groups = list(dict.fromkeys(arguments.groups))
    topics = list(dict.fromkeys(arguments.topic))
    deleted: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    with opened_admin(arguments, context) as admin:
        results = admin.run(lambda client: delete(client, groups, topics))
        errors = admin.failures(results)
    for group, topic in results:
        facts = {"group": group} if topic is None else {"group": group, "topic": topic}
        if (group, topic) in errors:
            failed.append({**facts, "error": str(errors[group, topic])})
        else:
            deleted.append(facts)
    if arguments.json:
        write_json(context.out, {"deleted": deleted, "failed": failed})
    else:
        write_lines(context.out, (_deletion(each) for each in deleted))
    write_lines(context.err, dict.fromkeys(f"moldau: {each['error']}" for each in failed))
    return Exit.FAILED if failed else Exit.DONE


def _deletion(facts: dict[str, Any]) -> str:
    if "topic" in facts:
        return f"deleted {facts['topic']} of {facts['group']}"
    return f"deleted {facts['group']}"


command = ActionCommand(
    SUMMARIES["share"],
    (
        Action("list", "the share groups there are", _add_list, _list),
        Action("describe", "state, members, start offsets and lag", _add_groups, _describe),
        Action("offsets", "only start offsets and lag", _add_groups, _offsets),
        Action("reset", _RESET_HELP, _add_reset, _reset, _RESET_DESCRIPTION),
        Action("init", _INIT_HELP, _add_init, _init, _INIT_DESCRIPTION),
        PEEK,
        DLQ,
        Action("delete", "forget groups, or topics that they have read", _add_delete, _delete),
    ),
)
