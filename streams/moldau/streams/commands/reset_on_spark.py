"""`moldau streams reset --engine spark`: an app on Spark begins again with a new checkpoint.

Deleted are the topics that the app makes, its group, and then its checkpoint: while that is there,
an app without its topics is refused, and the same reset may be given again.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.app_checkpoints import held_checkpoint
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.group_offsets import DRY_RUN
from moldau.cli.output import write_json, write_lines
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.streams.commands.reset_topics import (
    NOTHING_LEFT,
    AppTopics,
    check_visible_to_reset,
    delete_topics,
    topics_of_plan,
)
from moldau.streams.problems import StreamsError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.streams.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class SparkReset:
    """What a reset changes."""

    topics: AppTopics
    group: str | None
    checkpoint: str | None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to change."""
        return not (self.topics.made or self.group or self.checkpoint)


def reset_on_spark(arguments: Namespace, context: Context, plan: Plan) -> int:
    """Show what a reset changes, and change it if `--execute` is given."""
    from moldau.streams.spark.checkpoint import local_path

    for name in ("state", "to_earliest", "to_latest", "to_datetime", "by_duration"):
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} has no effect with --engine spark: a new checkpoint begins where "
                "auto.offset.reset says"
            )
    if not arguments.checkpoint:
        raise UsageError("--engine spark needs --checkpoint DIR, the app's own")
    path = local_path(arguments.checkpoint)

    def refused(why: str) -> StreamsError:
        return StreamsError(f"checkpoint={path}: {why}")

    with opened_admin(arguments, context) as admin:
        files = admin.runtime.files
        with held_checkpoint(files, path, plan.app, refused) as held:
            found = admin.run(lambda client: _planned(client, plan, held))
            problems = _obstacles(found, path)
            if arguments.execute and not problems and not found.is_done:
                problems = admin.run(lambda client: _delete(client, found))
                if not problems and held is not None:
                    files.remove_tree(held)
    _report(arguments, context, found, problems)
    return Exit.FAILED if problems and arguments.execute else Exit.DONE


def _obstacles(found: SparkReset, path: str) -> list[str]:
    """Return an obstacle if the path is not that of the app's checkpoint: a driver may use that."""
    if found.checkpoint is not None or found.group is None:
        return []
    return [
        f"checkpoint={path}: it is not there, but the app has one, as its group {found.group} "
        f"says: name that; if it is lost, delete the group by `moldau group delete {found.group}`"
    ]


async def _planned(client: Admin, plan: Plan, checkpoint: str | None) -> SparkReset:
    from moldau.streams.spark.delivery import group_of

    await check_visible_to_reset(client, plan, plan.app, [], [])
    existing = {each.name for each in await client.list_topics()}
    groups = {each.group_id for each in await client.list_groups()}
    group = group_of(plan.app)
    topics = topics_of_plan(plan, existing)
    return SparkReset(topics, group if group in groups else None, checkpoint)


async def _delete(client: Admin, found: SparkReset) -> list[str]:
    """Delete topics and the group. Return a line for each that could not be deleted."""
    problems = await delete_topics(client, found.topics.made)
    if problems or found.group is None:
        return problems
    error = (await client.delete_groups([found.group]))[found.group]
    is_gone = error is None or error.code is ErrorCode.GROUP_ID_NOT_FOUND
    return [] if is_gone else [f"group {found.group} is not deleted: {error}"]


def _report(
    arguments: Namespace, context: Context, found: SparkReset, problems: Sequence[str]
) -> None:
    topics = found.topics
    is_done = arguments.execute and not problems
    if arguments.json:
        facts = {
            "app": topics.app, "executed": is_done, "obstacles": list(problems),
            "topics": list(topics.made), "kept": list(topics.kept), "group": found.group,
            "checkpoint": found.checkpoint,
        }  # fmt: skip
        write_json(context.out, facts)
    elif found.is_done:
        write_lines(context.out, [NOTHING_LEFT.format(topics.app)])
    else:
        verb = "deleted" if is_done else "to delete"
        things = {
            f"topics {verb}": ", ".join(topics.made),
            f"group {verb}": found.group,
            f"checkpoint {verb}": found.checkpoint,
            "kept as they are": ", ".join(topics.kept),
        }
        write_lines(context.out, [f"{what}: {names}" for what, names in things.items() if names])
        if not arguments.execute:
            write_lines(context.out, [DRY_RUN])
    write_lines(context.err, (f"moldau: {each}" for each in problems))
