"""The words of a change of offsets on a command line, and its plan as before and after.

Offsets may come from the CSV file of Kafka's own tool. A line of it is `topic,partition,offset`, or
`group,topic,partition,offset`.
"""

from __future__ import annotations

import csv
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import OpenClient, opened_admin
from moldau.cli.commands.consume_place import parse_time_ms
from moldau.cli.names import topic_name
from moldau.cli.numbers import INT32_MAX, INT64_MAX
from moldau.cli.output import write_json, write_lines, write_table
from moldau.operations import offsets
from moldau.operations.offsets import (
    Destination,
    FileOffsets,
    Kind,
    OffsetChange,
    OffsetPlan,
    Outcome,
    Scope,
    whole_number,
)

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from moldau.client import Admin

DRY_RUN: Final = "dry run: nothing was changed; --execute does it"


def add_topics(parser: ArgumentParser, help_text: str) -> None:
    """Add `--topic`, whose words `parse_scope` parses."""
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=topic_name,
        metavar="TOPIC[:PARTITION,...]",
        help=f"{help_text}; may be repeated",
    )


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


def add_execute(parser: ArgumentParser) -> None:
    """Add `--execute` to a command."""
    parser.add_argument(
        "--execute", action="store_true", help="do it; else only show what would be done"
    )


def reset(arguments: Namespace, context: Context, kind: Kind) -> int:
    """Show the plan, and carry it out if `--execute` is given."""
    if arguments.all and arguments.groups:
        raise UsageError("name groups, or give --all")
    if not (arguments.all or arguments.groups or arguments.from_file):
        raise UsageError("name a group" + ", or give --all" * arguments.has_all)
    if arguments.export and arguments.json:
        raise UsageError("--export writes CSV: not with --json")
    if arguments.from_file and (arguments.topic or arguments.all):
        raise UsageError("the file says which groups and topics: not with --topic or --all")
    scope, to = offsets.parse_scope(arguments.topic), destination_of(arguments)
    with opened_admin(arguments, context) as admin:
        steps, failures = _plan(arguments, context, admin, scope, to, kind)
        outcome = admin.run(
            lambda client: offsets.follow(client, kind, steps, failures, execute=arguments.execute)
        )
    if arguments.export:
        has_groups = len({each.group for each in steps} | failures.keys()) > 1
        context.out.writelines(offset_lines(steps, has_groups=has_groups))
        write_lines(context.err, (f"moldau: {each}" for each in outcome.problems))
    else:
        write_plan(arguments, context, steps, outcome)
    return exit_code(arguments, outcome.problems)


def destination_of(arguments: Namespace) -> Destination:
    """Return what an option of `add_places` or `add_beginnings` names; without one, where each log
    begins."""
    if arguments.to_datetime is not None:
        return Destination(offsets.to_time, timestamp=parse_time_ms(arguments.to_datetime))
    if arguments.by_duration is not None:
        return Destination(offsets.to_time, age_ms=_duration_ms(arguments.by_duration))
    if arguments.to_offset is not None:
        if arguments.to_offset < 0:
            raise UsageError("--to-offset cannot be negative")
        return Destination(offsets.to_offset(arguments.to_offset))
    if arguments.shift_by is not None:
        return Destination(offsets.shift_by(arguments.shift_by))
    if arguments.to_latest:
        return Destination(offsets.to_latest)
    return Destination(offsets.to_current if arguments.to_current else offsets.to_earliest)


def _plan(
    arguments: Namespace,
    context: Context,
    admin: OpenClient[Admin],
    scope: Scope,
    to: Destination,
    kind: Kind,
) -> OffsetPlan:
    if arguments.from_file is not None:
        given = parse_offsets_file(_file(arguments, context, admin), arguments.groups)
        return admin.run(lambda client: offsets.plan_given(client, kind, given))
    now_ms = admin.runtime.clock.wall_ms()

    async def plan(client: Admin) -> OffsetPlan:
        is_all = arguments.all
        groups = await offsets.idle_groups(client) if is_all else arguments.groups
        return await offsets.plan_groups(client, kind, groups, scope, to.at(now_ms), is_all=is_all)

    return admin.run(plan)


def parse_offsets_file(text: str, groups: Sequence[str]) -> FileOffsets:
    """Return the offsets by group. Lines without a group belong to the only named group."""
    from moldau.client import TopicPartition

    found: FileOffsets = {}
    for number, row in _rows(text):
        cells = [cell.strip(" \t") for cell in row]
        if not any(cells):
            continue
        if len(cells) == 3:
            if len(groups) != 1:
                raise UsageError(f"line {number} names no group: give exactly one group")
            cells = [groups[0], *cells]
        if len(cells) != 4:
            raise UsageError(f"line {number} is not [GROUP,]TOPIC,PARTITION,OFFSET")
        group, topic, partition, offset = cells
        if groups and group not in groups:
            raise UsageError(f"line {number} is of group {group}, which was not named")
        index = whole_number(partition, f"partition in line {number}", INT32_MAX)
        where = TopicPartition(topic, index)
        if where in found.setdefault(group, {}):
            raise UsageError(f"line {number} names {where} again")
        found[group][where] = whole_number(offset, f"offset in line {number}", INT64_MAX)
    if not found:
        raise UsageError("the file has no offsets")
    return found


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the number of their last line: a group name may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} cannot be read: {error}") from None


def offset_lines(steps: Iterable[OffsetChange], *, has_groups: bool) -> Iterator[str]:
    """Yield the new offsets as CSV lines that `parse_offsets_file` reads. The writer quotes a name
    that contains one of its line ends, so a carriage return alone must be one of them: CSV readers
    take it for the end of a line."""
    for each in steps:
        if each.after is not None:
            row = (each.where.topic, each.where.partition, each.after)
            text = StringIO(newline="")
            csv.writer(text, lineterminator="\r\n").writerow(
                (each.group, *row) if has_groups else row
            )
            yield text.getvalue().removesuffix("\r\n") + "\n"


def _file(arguments: Namespace, context: Context, admin: OpenClient[Admin]) -> str:
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


def write_plan(
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
