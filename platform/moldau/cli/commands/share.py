"""`moldau share`: share groups, which read topics as queues, as in kafka-share-groups.sh."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands import share_dlq, share_peek, share_reset
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import Opened, opened_admin
from moldau.cli.names import name_of, topic_name
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.patterns import matches
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client import Admin, GroupProgress, ListedGroup, ShareOffset, TopicPartition
    from moldau.errors.codes import KafkaError

_SHARE: Final = ("share",)
_STATES: Final = ("Stable", "Empty", "Dead")


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="PATTERN", help="such as 'mail-*'")
    parser.add_argument("--state", action="append", default=[], choices=_STATES)


def _list(arguments: Namespace, context: Context) -> int:
    async def ask(client: Admin) -> list[ListedGroup]:
        return await client.list_groups(states=arguments.state, types=_SHARE)

    with opened_admin(arguments, context) as admin:
        found = admin.run(ask)
    chosen = [each for each in found if matches(each.group_id, arguments.groups)]
    if arguments.json:
        facts = [{"group": each.group_id, "state": each.state or None} for each in chosen]
        write_json(context.out, facts)
    else:
        write_table(context.out, ("GROUP", "STATE"), [(e.group_id, e.state) for e in chosen])
    return Exit.DONE


def _add_groups(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", type=name_of("share group"))
    parser.add_argument("--all", action="store_true", help="all share groups")


def _check_groups(arguments: Namespace) -> None:
    if arguments.all == bool(arguments.groups):
        raise UsageError("name share groups, or give --all")


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.share_report import facts_of, write_report
    from moldau.errors.codes import KafkaError

    _check_groups(arguments)
    with opened_admin(arguments, context) as admin:
        groups = _named(arguments, admin)
        answers = admin.run(lambda client: _progress(client, groups))
        errors = admin.naming_nearest(each for each in answers if isinstance(each, KafkaError))
    found = [each for each in answers if not isinstance(each, KafkaError)]
    if arguments.json:
        write_json(context.out, [facts_of(each) for each in found])
    else:
        write_report(context.out, found)
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


def _named(arguments: Namespace, admin: Opened[Admin]) -> list[str]:
    """Return the groups of the arguments."""
    if arguments.groups:
        return list(dict.fromkeys(arguments.groups))
    return [each.group_id for each in admin.run(lambda it: it.list_groups(types=_SHARE))]


async def _progress(client: Admin, groups: Sequence[str]) -> list[GroupProgress | KafkaError]:
    """Return each group, or why it cannot be described: as for a group of another kind."""
    kinds = await share_reset.kinds_of(client, groups)
    found = await client.groups_progress(groups)
    return [kinds[group] or found[group] for group in groups]


def _offsets(arguments: Namespace, context: Context) -> int:
    async def ask(client: Admin, groups: Sequence[str]) -> dict[str, Any]:
        from moldau.client import ShareGroupAdmin

        kinds = await share_reset.kinds_of(client, groups)
        shares = ShareGroupAdmin(client)
        return {each: kinds[each] or await shares.offsets(each) for each in groups}

    from moldau.errors.codes import KafkaError

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
    if arguments.json:
        write_json(context.out, facts)
        return
    rows = [["-" if value is None else str(value) for value in each.values()] for each in facts]
    write_table(context.out, ("GROUP", "TOPIC", "PARTITION", "START", "LAG"), rows)


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
        results = admin.run(lambda client: _deleted(client, groups, topics))
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


Results = dict[tuple[str, "str | None"], "KafkaError | None"]


async def _deleted(client: Admin, groups: Sequence[str], topics: Sequence[str]) -> Results:
    """Delete the groups, or what they know of the topics. The request that deletes a group deletes
    one of any kind, so the kind is checked before."""
    kinds = await share_reset.kinds_of(client, groups)
    chosen = [group for group in groups if kinds[group] is None]
    results: Results = {(group, None): kinds[group] for group in groups if kinds[group]}
    if not topics:
        done = await client.delete_groups(chosen) if chosen else {}
        return {**results, **{(group, None): error for group, error in done.items()}}
    from moldau.client import ShareGroupAdmin
    from moldau.errors.codes import KafkaError

    shares = ShareGroupAdmin(client)
    for group in chosen:
        try:
            of_topics = await shares.delete_offsets(group, topics)
        except KafkaError as error:
            of_topics = dict.fromkeys(topics, error)
        results |= {(group, topic): error for topic, error in of_topics.items()}
    return results


command = ActionCommand(
    SUMMARIES["share"],
    (
        Action("list", "the share groups there are", _add_list, _list),
        Action("describe", "state, members, start offsets and lag", _add_groups, _describe),
        Action("offsets", "only start offsets and lag", _add_groups, _offsets),
        share_reset.RESET,
        share_reset.INIT,
        share_peek.PEEK,
        share_dlq.DLQ,
        Action("delete", "forget groups, or topics that they have read", _add_delete, _delete),
    ),
)
