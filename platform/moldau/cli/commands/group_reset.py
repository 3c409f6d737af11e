"""`moldau group reset`: change the committed offsets of groups, so that they go on elsewhere."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.cli.command import Context, UsageError
from moldau.cli.commands.actions import Action
from moldau.cli.commands.cluster_connection import Opened, opened_admin
from moldau.cli.commands.consume_place import parse_time_ms
from moldau.cli.commands.group_plan import (
    ConsumerGroups,
    Kind,
    OffsetChange,
    add_execute,
    exit_code,
    follow,
    tell_plan,
    within,
)
from moldau.cli.commands.group_scope import (
    FileOffsets,
    Scope,
    add_topics,
    idle_groups,
    parse_offsets_file,
    parse_scope,
    partitions_in,
)
from moldau.cli.names import name_of
from moldau.cli.output import write_lines
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from moldau.client import Admin, OffsetAndMetadata, Topic, TopicPartition

    Plan = tuple[list[OffsetChange], dict[str, str]]

_HELP = "make groups go on elsewhere: earlier, later, at a time (dry run unless --execute)"
_DESCRIPTION = """\
Changes where groups go on: what they have committed of all topics, or of those that are named.
Without --execute nothing is changed: a table shows each offset before and after. An offset that
the log does not have becomes the nearest one that it has, as the table says. A group must have no
members, because those commit for themselves: of several, one that has any is left as it is, and the
others are changed. One that does not exist yet may be given offsets."""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a partition that its new offset depends on."""

    committed: int | None
    start: int
    end: int
    at_time: int | None = None


Rule = Callable[[Known], tuple[int, str]]


class NothingCommitted(Exception):
    """The rule needs a committed offset, and there is none."""


def to_earliest(known: Known) -> tuple[int, str]:
    """Choose the start of the log."""
    return known.start, ""


def to_latest(known: Known) -> tuple[int, str]:
    """Choose the end of the log."""
    return known.end, ""


def to_current(known: Known) -> tuple[int, str]:
    """Keep the committed offset; useful for --export, and for offsets that the log has lost."""
    if known.committed is None:
        return known.end, "nothing is committed: the end"
    return within(known.committed, known.start, known.end)


def to_time(known: Known) -> tuple[int, str]:
    """Choose the first record with this timestamp or a later one; without one, the end."""
    if known.at_time is None:
        return known.end, "no record is as new: the end"
    return known.at_time, ""


def to_offset(wanted: int) -> Rule:
    """Return the rule that chooses this offset."""
    return lambda known: within(wanted, known.start, known.end)


def shift_by(count: int) -> Rule:
    """Return the rule that moves the committed offset by `count`, back if it is negative."""

    def rule(known: Known) -> tuple[int, str]:
        if known.committed is None:
            raise NothingCommitted
        return within(known.committed + count, known.start, known.end)

    return rule


def _add_reset(parser: ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", type=name_of("group"))
    parser.add_argument("--all", action="store_true", help="all consumer groups without members")
    parser.set_defaults(has_all=True)
    add_topics(parser, "only of this one, else all that is committed")
    add_places(parser)


def add_places(parser: ArgumentParser) -> None:
    """Add the options that say where a group goes on, and `--export` and `--execute`."""
    to = parser.add_mutually_exclusive_group(required=True)
    _add_beginnings(to, "where each log begins")
    to.add_argument("--to-offset", type=int, metavar="N")
    to.add_argument("--to-current", action="store_true", help="where it is: see --export")
    to.add_argument("--shift-by", type=int, metavar="N", help="N records on; -N back")
    to.add_argument(
        "--from-file", metavar="FILE", help="lines of [GROUP,]TOPIC,PARTITION,OFFSET; - for stdin"
    )
    parser.add_argument(
        "--export", action="store_true", help="print the new offsets as such lines, and no table"
    )
    add_execute(parser)


def add_beginnings(parser: ArgumentParser) -> None:
    """Add the options that say where a group begins again, none of which need be given."""
    _add_beginnings(parser.add_mutually_exclusive_group(), "where each log begins (default)")
    parser.set_defaults(to_offset=None, to_current=False, shift_by=None)


def _add_beginnings(to: _ActionsContainer, earliest: str) -> None:
    to.add_argument("--to-earliest", action="store_true", help=earliest)
    to.add_argument("--to-latest", action="store_true", help="where each log ends")
    to.add_argument("--to-datetime", metavar="TIME", help="2026-11-20T12:00:00Z, or @ms since 1970")
    to.add_argument("--by-duration", metavar="PT1H30M", help="what is not older than that")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parsed arguments: the partitions, the rule, and a timestamp or an age for the rule."""

    scope: Scope
    rule: Rule
    timestamp: int | None = None
    age_ms: int | None = None

    def time(self, now_ms: int) -> int | None:
        return self.timestamp if self.age_ms is None else max(0, now_ms - self.age_ms)


def _reset(arguments: Namespace, context: Context) -> int:
    return reset(arguments, context, ConsumerGroups())


def reset(arguments: Namespace, context: Context, kind: Kind) -> int:
    """Show the plan, and carry it out if `--execute` is given."""
    wanted = _checked(arguments)
    with opened_admin(arguments, context) as admin:
        steps, failures = _plan(arguments, context, admin, wanted, kind)
        outcome = admin.run(
            lambda client: follow(client, kind, steps, failures, execute=arguments.execute)
        )
    if arguments.export:
        groups = {each.group for each in steps} | failures.keys()
        export(context, steps, len(groups) > 1)
        write_lines(context.err, (f"moldau: {each}" for each in outcome.problems))
    else:
        tell_plan(arguments, context, steps, outcome)
    return exit_code(arguments, outcome.problems)


def _checked(arguments: Namespace) -> Wanted:
    if arguments.all and arguments.groups:
        raise UsageError("name groups, or give --all")
    if not (arguments.all or arguments.groups or arguments.from_file):
        raise UsageError("name a group" + ", or give --all" * arguments.has_all)
    if arguments.export and arguments.json:
        raise UsageError("--export writes CSV: not with --json")
    if arguments.from_file and (arguments.topic or arguments.all):
        raise UsageError("the file says which groups and topics: not with --topic or --all")
    scope = parse_scope(arguments.topic)
    return place_of(arguments, scope)


def place_of(arguments: Namespace, scope: Scope) -> Wanted:
    """Return the place that an option of `add_places` or `add_beginnings` names; without one, where
    each log begins."""
    if arguments.to_datetime is not None:
        return Wanted(scope, to_time, timestamp=parse_time_ms(arguments.to_datetime))
    if arguments.by_duration is not None:
        return Wanted(scope, to_time, age_ms=_duration_ms(arguments.by_duration))
    if arguments.to_offset is not None:
        if arguments.to_offset < 0:
            raise UsageError("--to-offset cannot be negative")
        return Wanted(scope, to_offset(arguments.to_offset))
    if arguments.shift_by is not None:
        return Wanted(scope, shift_by(arguments.shift_by))
    if arguments.to_latest:
        return Wanted(scope, to_latest)
    return Wanted(scope, to_current if arguments.to_current else to_earliest)


def _plan(
    arguments: Namespace, context: Context, admin: Opened[Admin], wanted: Wanted, kind: Kind
) -> Plan:
    """Return the steps, and the reasons for groups that have none."""
    if arguments.from_file is not None:
        given = parse_offsets_file(_file(arguments, context, admin), arguments.groups)
        return admin.run(lambda client: _plan_from_file(client, kind, given))
    timestamp = wanted.time(admin.runtime.clock.wall_ms())

    async def plan(client: Admin) -> Plan:
        if arguments.all:
            groups = await idle_groups(client)
            return await plan_all(client, groups, wanted, timestamp)
        return await plan_groups(client, kind, arguments.groups, wanted, timestamp)

    return admin.run(plan)


async def plan_groups(
    client: Admin, kind: Kind, groups: Iterable[str], wanted: Wanted, timestamp: int | None
) -> Plan:
    """Return the steps for these groups, and the reasons for groups that have none: a misspelled
    name does not stop the others."""
    steps: list[OffsetChange] = []
    failures = {}
    for group in dict.fromkeys(groups):
        try:
            stands = await kind.stands(client, group)
        except KafkaError as error:
            failures[group] = str(error)
            continue
        scope = wanted.scope
        chosen = await partitions_in(client, scope) if scope else sorted(stands)
        if not chosen:
            failures[group] = f"{kind.nowhere(group)}: name a --topic"
            continue
        rules = dict.fromkeys(chosen, wanted.rule)
        steps += await plan_group(client, group, stands, rules, timestamp)
    return steps, failures


async def plan_all(
    client: Admin, groups: Iterable[str], wanted: Wanted, timestamp: int | None
) -> Plan:
    """Do the same where these groups have committed, and pass over those that have not."""
    steps: list[OffsetChange] = []
    for group in groups:
        committed = await client.group_offsets(group)
        scope = wanted.scope
        chosen = await partitions_in(client, scope) if scope else sorted(committed)
        rules = dict.fromkeys((each for each in chosen if each in committed), wanted.rule)
        if rules:
            steps += await plan_group(client, group, committed, rules, timestamp)
    return steps, {}


def _file(arguments: Namespace, context: Context, admin: Opened[Admin]) -> str:
    if arguments.from_file == "-":
        return _decoded(context.source.read(), "standard input")
    return _decoded(admin.runtime.files.read_whole(arguments.from_file), arguments.from_file)


def _decoded(data: bytes, origin: str) -> str:
    """Decode UTF-8. Spreadsheets write a byte order mark before their exports; it is skipped."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin} is not UTF-8 (byte {error.start}: {error.reason})") from None


def _duration_ms(text: str) -> int:
    from moldau.client.settings.offset_reset import BY_DURATION, parse_reset

    age_ms = parse_reset(f"{BY_DURATION}{text}").age_ms
    assert age_ms is not None
    return age_ms


async def _plan_from_file(client: Admin, kind: Kind, given: FileOffsets) -> Plan:
    steps: list[OffsetChange] = []
    failures: dict[str, str] = {}
    for group, offsets in given.items():
        rules = {where: to_offset(offset) for where, offset in offsets.items()}
        try:
            stands = await kind.stands(client, group)
        except KafkaError as error:
            failures[group] = str(error)
            continue
        steps += await plan_group(client, group, stands, rules, None)
    return steps, failures


async def plan_group(
    client: Admin,
    group: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    rules: Mapping[TopicPartition, Rule],
    timestamp: int | None,
) -> list[OffsetChange]:
    """Return the steps for a group: each partition by its rule. `committed` is where it stands."""
    from moldau.client.base.offsets import EARLIEST, LATEST

    topics = await client.describe_topics({where.topic for where in rules})
    led = await client.led_partitions(rules)
    starts = await client.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(led, LATEST))
    times = {} if timestamp is None else await client.list_offsets(dict.fromkeys(led, timestamp))
    steps = []
    for where, rule in rules.items():
        before = committed[where].offset if where in committed else None
        if where not in ends:
            steps.append(unreachable(group, where, before, topics[where.topic]))
            continue
        at_time = times[where].offset if where in times else -1
        known = Known(
            before, starts[where].offset, ends[where].offset, at_time if at_time >= 0 else None
        )
        steps.append(_step(group, where, known, rule))
    return steps


def _step(group: str, where: TopicPartition, known: Known, rule: Rule) -> OffsetChange:
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


def export(context: Context, steps: Iterable[OffsetChange], has_groups: bool) -> None:
    """Write the new offsets as CSV lines that `--from-file` reads."""
    for each in steps:
        if each.after is not None:
            row = (each.where.topic, each.where.partition, each.after)
            context.out.write(_line((each.group, *row) if has_groups else row))


def _line(row: Sequence[object]) -> str:
    """Return a line of CSV. The writer quotes a name that contains one of its line ends, so a
    carriage return alone must be one of them: CSV readers take it for the end of a line."""
    import csv
    from io import StringIO

    text = StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n") + "\n"


RESET = Action("reset", _HELP, _add_reset, _reset, _DESCRIPTION)
