"""Plans changes of committed offsets, shows them as before and after, and reports their outcome.

Invariant: each step that is shown is done, or is shown as not done. A group with a step that cannot
be done is left unchanged, and the other groups are still changed.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json, write_lines, write_table
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition

DRY_RUN: Final = "dry run: nothing was changed; --execute does it"


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The change of one committed offset. If `after` is None, the offset stays, and `note` says
    why. With `is_obstacle` the whole group then stays unchanged, not only this offset."""

    group: str
    where: TopicPartition
    before: int | None
    after: int | None
    end: int | None
    note: str = ""
    is_obstacle: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a plan, by group: `obstacles` prevented a change, `failures` say why a group
    was not changed or cannot be. `stored` has the offsets that were changed all the same."""

    obstacles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, Collection[TopicPartition]] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """All obstacles and failures as lines for the user."""
        hindered = [line for lines in self.obstacles.values() for line in lines]
        failed = [
            f"{'changed in part' if self.stored.get(group) else 'not changed'}: {why}"
            for group, why in self.failures.items()
        ]
        return [*hindered, *failed]

    def error(self, group: str) -> str | None:
        """Return why the group was not changed, or would not be; None if nothing is wrong."""
        found = self.failures.get(group)
        return found if found is not None else "; ".join(self.obstacles.get(group, ())) or None

    def is_undone(self, step: OffsetChange) -> bool:
        """Whether the step was planned but not done."""
        return bool(self.error(step.group)) and step.where not in self.stored.get(step.group, ())


class Kind(Protocol):
    """What differs between kinds of groups."""

    async def stands(self, client: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return where a group stands; nothing if there is no such group."""
        ...

    async def store(self, client: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets. Raise OffsetsNotStored if that failed, wholly or in part."""
        ...

    def nowhere(self, group: str) -> str:
        """Say that the group stands nowhere."""
        ...


class ConsumerGroups:
    """Satisfies `Kind`."""

    async def stands(self, client: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return await client.group_offsets(group)

    async def store(self, client: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        await client.alter_group_offsets(group, offsets)

    def nowhere(self, group: str) -> str:
        return f"group {group} has committed nothing"


async def carry_out(client: Admin, kind: Kind, steps: Sequence[OffsetChange]) -> Outcome:
    """Store the steps, group by group, and return which groups failed, wholly or in part, and why.
    A member may have joined since the plan was made; then the other groups are still changed."""
    from moldau.client import OffsetsNotStored

    by_group: dict[str, dict[TopicPartition, int]] = {}
    for each in steps:
        if each.after is not None:
            by_group.setdefault(each.group, {})[each.where] = each.after
    failures: dict[str, str] = {}
    stored: dict[str, list[TopicPartition]] = {}
    for group, offsets in by_group.items():
        try:
            await kind.store(client, group, offsets)
        except KafkaError as error:
            failures[group] = str(error)
            if isinstance(error, OffsetsNotStored):
                stored[group] = error.stored
    return Outcome(failures=failures, stored=stored)


async def follow(
    client: Admin,
    kind: Kind,
    steps: Sequence[OffsetChange],
    failures: Mapping[str, str],
    *,
    execute: bool,
    also_idle: Sequence[str] = (),
) -> Outcome:
    """Return the obstacles and failures of the plan. With `execute` change the groups without
    obstacles; otherwise change nothing. Groups in `also_idle` must have no members either."""
    groups = list(dict.fromkeys(each.group for each in steps))
    hindered = obstacles(steps, await members_of(client, groups))
    for why in occupied(await members_of(client, also_idle)).values():
        for group in groups:
            hindered.setdefault(group, []).append(why)
    if not execute:
        return Outcome(hindered, failures)
    done = await carry_out(client, kind, [each for each in steps if each.group not in hindered])
    return Outcome(hindered, {**failures, **done.failures}, done.stored)


def within(wanted: int, start: int, end: int) -> tuple[int, str]:
    """Return the nearest offset that the log has, and a note if it is not the wanted one."""
    if wanted < start:
        return start, f"{wanted} is below where the log begins"
    if wanted > end:
        return end, f"{wanted} is beyond the end"
    return wanted, ""


def add_execute(parser: ArgumentParser) -> None:
    """Add `--execute` to a command."""
    parser.add_argument(
        "--execute", action="store_true", help="do it; else only show what would be done"
    )


async def members_of(client: Admin, groups: Iterable[str]) -> dict[str, int]:
    """Return the number of members of each group; 0 for a group that does not exist."""
    from moldau.client import GroupDescription
    from moldau.errors.codes import ErrorCode

    counts = {}
    for group, found in (await client.describe_groups(groups)).items():
        if isinstance(found, GroupDescription):
            counts[group] = len(found.members)
        elif found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            counts[group] = 0
        else:
            raise found
    return counts


def occupied(members: dict[str, int]) -> dict[str, str]:
    """Return why the offsets of groups with members cannot be changed now, by group."""
    return {
        group: f"group {group} has {count} {'member' if count == 1 else 'members'}: stop them first"
        for group, count in members.items()
        if count
    }


def obstacles(steps: Sequence[OffsetChange], members: dict[str, int]) -> dict[str, list[str]]:
    """Return the obstacles of the plan, by group."""
    found = {group: [why] for group, why in occupied(members).items()}
    for each in steps:
        if each.is_obstacle:
            line = f"{each.where} of group {each.group}: {each.note}"
            found.setdefault(each.group, []).append(line)
    return found


def write_steps(context: Context, steps: Sequence[OffsetChange]) -> None:
    """Write the steps as a table."""
    rows = []
    for each in steps:
        change = None if each.after is None or each.before is None else each.after - each.before
        lag = None if each.after is None or each.end is None else each.end - each.after
        rows.append(
            (
                each.group,
                each.where.topic,
                str(each.where.partition),
                number(each.before),
                number(each.after),
                "-" if change is None else f"{change:+d}" if change else "0",
                number(lag),
                each.note,
            )
        )
    header = ("GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER", "CHANGE", "LAG AFTER", "NOTE")
    write_table(context.out, header, rows)


def number(count: int | None) -> str:
    """Return a number as text; "-" for None."""
    return "-" if count is None else str(count)


def facts_of(step: OffsetChange) -> dict[str, Any]:
    """Return a step as JSON data."""
    return {
        "group": step.group,
        "topic": step.where.topic,
        "partition": step.where.partition,
        "before": step.before,
        "after": step.after,
        "end": step.end,
        "note": step.note or None,
    }


def tell_plan(
    arguments: Namespace, context: Context, steps: Sequence[OffsetChange], outcome: Outcome
) -> None:
    """Write the plan and its problems. With `--execute` steps that were not done are marked;
    otherwise the output says that it is a dry run."""
    problems = outcome.problems
    if arguments.execute:
        steps = [_undone(each) if outcome.is_undone(each) else each for each in steps]
    if arguments.json:
        groups = dict.fromkeys([*(each.group for each in steps), *outcome.failures])
        facts = {
            "executed": arguments.execute and not problems,
            "obstacles": problems,
            "groups": [
                {
                    "group": group,
                    "executed": arguments.execute and outcome.error(group) is None,
                    "error": outcome.error(group),
                }
                for group in groups
            ],
            "offsets": [facts_of(each) for each in steps],
        }
        write_json(context.out, facts)
    else:
        write_steps(context, steps)
    write_lines(context.err, (f"moldau: {each}" for each in problems))
    if not arguments.json and not arguments.execute:
        context.out.write(f"{DRY_RUN}\n")


def _undone(step: OffsetChange) -> OffsetChange:
    return replace(step, note=f"not changed; {step.note}" if step.note else "not changed")


def exit_code(arguments: Namespace, problems: Sequence[str]) -> int:
    """Return FAILED if a change had problems. Problems of a dry run are no failure."""
    return Exit.FAILED if problems and arguments.execute else Exit.DONE
