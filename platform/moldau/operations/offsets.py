"""Committed offsets of groups: selects them, plans what a change does, and makes it.

A scope such as `orders:0,1` selects offsets. A rule chooses the
new offset of a partition, always one that its log has. Kinds of groups differ in where a group
stands and how that is stored.

Invariant: each step of a plan is done, or is reported as not done. A group with a step that cannot
be done is left unchanged, and the other groups are still changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, Protocol

from moldau.deferred import dataclass
from moldau.errors import BadGiven, MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError, may_work_later
from moldau.operations.hidden import check_visible

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, Topic, TopicPartition

_INT32_MAX: Final = 2**31 - 1

Scope = dict[str, "list[int] | None"]
FileOffsets = dict[str, "dict[TopicPartition, int]"]
Failure = str | KafkaError
"""Why a group is not changed; errors of the cluster stay errors until they are shown."""


# Selection


def parse_scope(words: Iterable[str]) -> Scope:
    """Return the partitions by topic; None means all of a topic. Without words it is empty."""
    scope: Scope = {}
    for word in words:
        topic, colon, numbers = word.partition(":")
        if not topic or (colon and not numbers):
            raise BadGiven(f"{word!r} is not TOPIC or TOPIC:PARTITION,...")
        if not colon:
            scope[topic] = None
            continue
        what = f"partition of {word!r}"
        chosen = [whole_number(each, what, _INT32_MAX) for each in numbers.split(",")]
        known = scope.setdefault(topic, [])
        if known is not None:
            known += [each for each in dict.fromkeys(chosen) if each not in known]
    return scope


async def partitions_in(admin: Admin, scope: Scope) -> list[TopicPartition]:
    """Return the partitions of a scope. Raise KafkaError for unknown topics, BadGiven for
    partitions."""
    there = await admin.partitions(*scope)
    for topic, numbers in scope.items():
        has = {where.partition for where in there if where.topic == topic}
        for number in numbers or ():
            if number not in has:
                raise BadGiven(f"{topic} has no partition {number}")
    return [where for where in there if is_in(scope, where)]


def is_in(scope: Scope, where: TopicPartition) -> bool:
    """Whether the scope includes the partition."""
    if where.topic not in scope:
        return False
    numbers = scope[where.topic]
    return numbers is None or where.partition in numbers


async def idle_groups(admin: Admin) -> list[str]:
    """Return the groups of consumers and of Streams apps that have no members."""
    found = await admin.list_groups(states=["Empty"], types=["classic", "consumer", "streams"])
    return [each.group_id for each in found]


def whole_number(text: str, what: str, most: int) -> int:
    """Return a number that a user gave, `most` at most. Raise BadGiven."""
    text = text.strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not (is_number and int(text) <= most):
        raise BadGiven(f"{text!r} is no {what}")
    return int(text)


# Kinds of groups


class Kind(Protocol):
    """What differs between kinds of groups."""

    async def stands(self, admin: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return where a group stands; nothing if there is no such group."""
        ...

    async def store(self, admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets. Raise OffsetsNotStored if that failed, wholly or in part."""
        ...

    def nowhere(self, group: str) -> str:
        """Say that the group stands nowhere."""
        ...


class ConsumerGroups:
    """Satisfies `Kind`."""

    async def stands(self, admin: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return await admin.group_offsets(group)

    async def store(self, admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        await admin.alter_group_offsets(group, offsets)

    def nowhere(self, group: str) -> str:
        return f"group {group} has committed nothing"


# Rules


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The facts about a partition that its new offset depends on."""

    committed: int | None
    start: int
    end: int
    at_time: int | None = None


Rule = Callable[[PartitionOffsets], tuple[int, str]]


class NothingCommitted(Exception):
    """The rule needs a committed offset, and there is none."""


def to_earliest(known: PartitionOffsets) -> tuple[int, str]:
    """Choose the start of the log."""
    return known.start, ""


def to_latest(known: PartitionOffsets) -> tuple[int, str]:
    """Choose the end of the log."""
    return known.end, ""


def to_current(known: PartitionOffsets) -> tuple[int, str]:
    """Keep the committed offset; useful for --export, and for offsets that the log has lost."""
    if known.committed is None:
        return known.end, "nothing is committed: the end"
    return within(known.committed, known.start, known.end)


def to_time(known: PartitionOffsets) -> tuple[int, str]:
    """Choose the first record with this timestamp or a later one; without one, the end."""
    if known.at_time is None:
        return known.end, "no record is as new: the end"
    return known.at_time, ""


def to_offset(wanted: int) -> Rule:
    """Return the rule that chooses this offset."""
    return lambda known: within(wanted, known.start, known.end)


def shift_by(count: int) -> Rule:
    """Return the rule that moves the committed offset by `count`, back if it is negative."""

    def rule(known: PartitionOffsets) -> tuple[int, str]:
        if known.committed is None:
            raise NothingCommitted
        return within(known.committed + count, known.start, known.end)

    return rule


def back_by(count: int) -> Rule:
    """Return the rule that moves the committed offset back, or the end if nothing is committed."""

    def rule(known: PartitionOffsets) -> tuple[int, str]:
        before = known.end if known.committed is None else known.committed
        return within(before - count, known.start, known.end)

    return rule


def within(wanted: int, start: int, end: int) -> tuple[int, str]:
    """Return the nearest offset that the log has, and a note if it is not the wanted one."""
    if wanted < start:
        return start, f"{wanted} is below where the log begins"
    if wanted > end:
        return end, f"{wanted} is beyond the end"
    return wanted, ""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where groups go on: a rule, and a timestamp or an age for it."""

    rule: Rule
    timestamp: int | None = None
    age_ms: int | None = None

    def at(self, now_ms: int) -> Destination:
        """Return the destination with a timestamp in place of an age."""
        return self if self.age_ms is None else Destination(self.rule, max(0, now_ms - self.age_ms))


# Plans


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

    @property
    def effect(self) -> str:
        """What the group reads again, or never."""
        assert self.after is not None
        if self.before is None:
            return f"starts at {self.after:,}"
        change = self.after - self.before
        if not change:
            return "stays"
        return f"skips {change:,}" if change > 0 else f"reads {-change:,} again"


OffsetPlan = tuple[list[OffsetChange], dict[str, Failure]]
"""The steps, and the reasons for groups that have none."""


async def plan_groups(
    admin: Admin,
    kind: Kind,
    groups: Iterable[str],
    scope: Scope,
    to: Destination,
    *,
    is_all: bool = False,
) -> OffsetPlan:
    """Return the steps for these groups, and the reasons for groups that have none: a misspelled
    name does not stop the others. With `is_all` a group changes only where it stands, and one
    that stands nowhere there is passed over."""
    await check_visible(admin, scope)
    steps: list[OffsetChange] = []
    found, failures = await _found(admin, kind, groups)
    for group, stands in found.items():
        chosen = await partitions_in(admin, scope) if scope else sorted(stands)
        if is_all:
            chosen = [each for each in chosen if each in stands]
        elif not chosen:
            failures[group] = f"{kind.nowhere(group)}: name a --topic"
        rules = dict.fromkeys(chosen, to.rule)
        steps += await plan_group(admin, group, stands, rules, to.timestamp)
    return steps, failures


async def plan_given(admin: Admin, kind: Kind, given: FileOffsets) -> OffsetPlan:
    """Return the same for offsets of a file."""
    steps: list[OffsetChange] = []
    found, failures = await _found(admin, kind, given)
    for group, stands in found.items():
        rules = {where: to_offset(offset) for where, offset in given[group].items()}
        steps += await plan_group(admin, group, stands, rules, None)
    return steps, failures


async def _found(
    admin: Admin, kind: Kind, groups: Iterable[str]
) -> tuple[dict[str, Mapping[TopicPartition, OffsetAndMetadata]], dict[str, Failure]]:
    """Return where each group stands, and why that is not known."""
    found: dict[str, Mapping[TopicPartition, OffsetAndMetadata]] = {}
    failures: dict[str, Failure] = {}
    for group in dict.fromkeys(groups):
        try:
            found[group] = await kind.stands(admin, group)
        except KafkaError as error:
            failures[group] = without_frames(error)
    return found, failures


async def plan_group(
    admin: Admin,
    group: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    rules: Mapping[TopicPartition, Rule],
    timestamp: int | None,
) -> list[OffsetChange]:
    """Return the steps for a group: each partition by its rule. `committed` is where it stands."""
    from moldau.client.base.offsets import EARLIEST, LATEST

    if not rules:
        return []
    topics = await admin.describe_topics({where.topic for where in rules})
    led = await admin.led_partitions(rules)
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST))
    times = {} if timestamp is None else await admin.list_offsets(dict.fromkeys(led, timestamp))
    steps = []
    for where, rule in rules.items():
        before = committed[where].offset if where in committed else None
        if where not in ends:
            steps.append(unreachable(group, where, before, topics[where.topic]))
            continue
        at_time = times[where].offset if where in times else -1
        known = PartitionOffsets(
            before, starts[where].offset, ends[where].offset, at_time if at_time >= 0 else None
        )
        steps.append(_step(group, where, known, rule))
    return steps


def _step(group: str, where: TopicPartition, known: PartitionOffsets, rule: Rule) -> OffsetChange:
    try:
        after, note = rule(known)
    except NothingCommitted:
        note = "nothing is committed to shift from"
        return OffsetChange(group, where, None, None, known.end, note, is_obstacle=True)
    return OffsetChange(group, where, known.committed, after, known.end, note)


def unreachable(
    group: str, where: TopicPartition, before: int | None, topic: Topic | KafkaError
) -> OffsetChange:
    """Return the step for a partition without offsets. If its topic is gone, nothing must be reset;
    a partition without a leader is an obstacle, because its offsets are unknown."""
    if not isinstance(topic, KafkaError):
        is_there = any(each.index == where.partition for each in topic.partitions)
        note = "the partition has no leader at present" if is_there else "no such partition"
        return OffsetChange(group, where, before, None, None, note, is_obstacle=True)
    is_gone = topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and before is not None
    note = "the topic is gone" if is_gone else str(topic)
    return OffsetChange(group, where, before, None, None, note, is_obstacle=not is_gone)


# Changes


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a plan, by group: `obstacles` prevented a change, `failures` say why a group
    was not changed or cannot be. `stored` has the offsets that were changed all the same."""

    obstacles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
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
        return str(found) if found is not None else "; ".join(self.obstacles.get(group, ())) or None

    def is_undone(self, step: OffsetChange) -> bool:
        """Whether the step was planned but not done."""
        return bool(self.error(step.group)) and step.where not in self.stored.get(step.group, ())


async def carry_out(admin: Admin, kind: Kind, steps: Sequence[OffsetChange]) -> Outcome:
    """Store the steps, group by group, and return which groups failed, wholly or in part, and why.
    A member may have joined since the plan was made; then the other groups are still changed."""
    from moldau.client import OffsetsNotStored

    by_group: dict[str, dict[TopicPartition, int]] = {}
    for each in steps:
        if each.after is not None:
            by_group.setdefault(each.group, {})[each.where] = each.after
    failures: dict[str, Failure] = {}
    stored: dict[str, list[TopicPartition]] = {}
    for group, offsets in by_group.items():
        try:
            await kind.store(admin, group, offsets)
        except KafkaError as error:
            failures[group] = without_frames(error)
            if isinstance(error, OffsetsNotStored):
                stored[group] = error.stored
    return Outcome(failures=failures, stored=stored)


async def follow(
    admin: Admin,
    kind: Kind,
    steps: Sequence[OffsetChange],
    failures: Mapping[str, Failure],
    *,
    execute: bool,
    also_idle: Sequence[str] = (),
) -> Outcome:
    """Return the obstacles and failures of the plan. With `execute` change the groups without
    obstacles; otherwise change nothing. Groups in `also_idle` must have no members either."""
    groups = list(dict.fromkeys(each.group for each in steps))
    hindered = obstacles(steps, await members_of(admin, groups))
    for why in occupied(await members_of(admin, also_idle)).values():
        for group in groups:
            hindered.setdefault(group, []).append(why)
    if not execute:
        return Outcome(hindered, failures)
    done = await carry_out(admin, kind, [each for each in steps if each.group not in hindered])
    return Outcome(hindered, {**failures, **done.failures}, done.stored)


async def members_of(admin: Admin, groups: Iterable[str]) -> dict[str, int]:
    """Return the number of members of each group; 0 for a group that does not exist."""
    from moldau.client import GroupDescription
    from moldau.errors.codes import ErrorCode

    counts = {}
    for group, found in (await admin.describe_groups(groups)).items():
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


async def committed_in(
    admin: Admin, groups: Iterable[str], scope: Scope, *, is_all: bool
) -> dict[str, list[TopicPartition]]:
    """Return the committed offsets of each group that a scope covers. Raise MoldauError for a group
    without any of them, unless all groups are meant."""
    await check_visible(admin, scope)
    chosen = {}
    for group in groups:
        committed = await admin.group_offsets(group)
        chosen[group] = sorted(where for where in committed if is_in(scope, where))
        if not (chosen[group] or is_all):
            raise MoldauError("the group has committed nothing of that", group=group)
    return chosen


async def forget(
    admin: Admin, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Delete offsets of a group, and return the result of each. A group-wide error, as for new
    members or a deleted group, is the result of all, so that other groups go on; but raise if no
    answer came."""
    try:
        return await admin.delete_group_offsets(group, partitions)
    except KafkaError as error:
        if may_work_later(error):
            raise
        return dict.fromkeys(partitions, without_frames(error))
