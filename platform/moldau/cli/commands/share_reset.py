"""`moldau share reset` and `init`: let share groups begin anew at other offsets.

A new start offset discards what the group knows of the records behind it: those in work and those
that are done are delivered again if they lie behind the new start.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.cli.command import Context, UsageError
from moldau.cli.commands.actions import Action
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.group_plan import (
    OffsetChange,
    add_execute,
    exit_code,
    follow,
    tell_plan,
)
from moldau.cli.commands.group_reset import (
    Rule,
    add_places,
    plan_group,
    reset,
    to_offset,
)
from moldau.cli.commands.group_scope import Scope, add_topics, is_in, parse_scope
from moldau.cli.names import name_of
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition

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


async def kinds_of(client: Admin, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Return None for each share group, and an error for a group of another kind, or for one that
    cannot be described."""
    found = await client.describe_groups(groups)
    errors: dict[str, KafkaError | None] = {}
    for group, each in found.items():
        if isinstance(each, KafkaError):
            errors[group] = each
        elif each.type == "share":
            errors[group] = None
        else:
            errors[group] = KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{group} is no share group but a {each.type} group: see moldau group",
                group=group,
            )
    return errors


class ShareGroups:
    """Satisfies `Kind`. A group of another kind is a KafkaError."""

    async def stands(self, client: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        from moldau.client import OffsetAndMetadata, ShareGroupAdmin

        error = (await kinds_of(client, [group]))[group]
        if error is not None:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise error
        offsets = await ShareGroupAdmin(client).offsets(group)
        return {
            where: OffsetAndMetadata(each.start)
            for where, each in offsets.items()
            if each.start is not None
        }

    async def store(self, client: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        from moldau.client import OffsetsNotStored, ShareGroupAdmin

        results = await ShareGroupAdmin(client).alter_offsets(group, offsets)
        wrong = [error for error in results.values() if error is not None]
        if wrong:
            raise OffsetsNotStored(
                wrong[0].code, "; ".join(map(str, wrong)), results=dict(results), group=group
            )

    def nowhere(self, group: str) -> str:
        return f"share group {group} stands nowhere"


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
        steps = admin.run(lambda client: _plan_init(client, group, source, scope))
        outcome = admin.run(
            lambda client: follow(
                client, kind, steps, {}, execute=arguments.execute, also_idle=[source]
            )
        )
    tell_plan(arguments, context, steps, outcome)
    return exit_code(arguments, outcome.problems)


async def _plan_init(client: Admin, group: str, source: str, scope: Scope) -> list[OffsetChange]:
    stands = await ShareGroups().stands(client, group)
    committed = await client.group_offsets(source)
    rules: dict[TopicPartition, Rule] = {
        where: to_offset(each.offset)
        for where, each in sorted(committed.items())
        if not scope or is_in(scope, where)
    }
    if not rules:
        of = f" of {', '.join(scope)}" if scope else ""
        raise MoldauError(f"the group has committed nothing{of}", group=source)
    return await plan_group(client, group, stands, rules, None)


RESET = Action("reset", _RESET_HELP, _add_reset, _reset, _RESET_DESCRIPTION)
INIT = Action("init", _INIT_HELP, _add_init, _init, _INIT_DESCRIPTION)
