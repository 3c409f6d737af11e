"""Writes the state, members, start offsets and lag of share groups, as tables and as JSON.

Any number of members of a share group read the same partition, so its table names none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.commands import group_report
from moldau.cli.commands.group_plan import number
from moldau.cli.output import write_lines, write_table

if TYPE_CHECKING:
    from typing import TextIO

    from moldau.client import GroupProgress

_OF_GROUPS: Final = (
    "group",
    "state",
    "assignor",
    "epoch",
    "assignment_epoch",
    "coordinator",
    "lag",
)
_OF_MEMBERS: Final = ("member_id", "client_id", "host", "rack", "epoch", "topics", "assignment")


def write_report(out: TextIO, found: Sequence[GroupProgress]) -> None:
    """Write the headline, the members and the partitions of each group."""
    for index, each in enumerate(found):
        headline = group_report.headline(each)
        write_lines(out, [headline] if index == 0 else ["", headline])
        if each.group.members:
            group_report.write_members(out, [each], verbose=False)
        if each.partitions:
            _write_offsets(out, each)
        else:
            out.write("it stands nowhere yet\n")


def _write_offsets(out: TextIO, progress: GroupProgress) -> None:
    readers = [each.assignment for each in progress.group.members]
    rows = [
        (
            progress.group.group_id,
            each.where.topic,
            str(each.where.partition),
            number(None if each.committed is None else each.committed.offset),
            number(each.end),
            number(each.undone),
            str(sum(each.where in assignment for assignment in readers)),
        )
        for each in progress.partitions
    ]
    write_table(out, ("GROUP", "TOPIC", "PARTITION", "START", "END", "LAG", "MEMBERS"), rows)


def facts_of(progress: GroupProgress) -> dict[str, Any]:
    """Return everything about a share group as JSON data."""
    facts = group_report.facts_of(progress)
    members = progress.group.members
    return {
        **{name: facts[name] for name in _OF_GROUPS},
        "members": [{name: each[name] for name in _OF_MEMBERS} for each in facts["members"]],
        "offsets": [
            {
                "topic": each.where.topic,
                "partition": each.where.partition,
                "start": None if each.committed is None else each.committed.offset,
                "end": each.end,
                "lag": each.undone,
                "member_ids": [m.member_id for m in members if each.where in m.assignment],
            }
            for each in progress.partitions
        ],
    }
