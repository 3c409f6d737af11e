"""Writes the state, members, offsets and lag of groups, as tables and as JSON."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.commands.group_offsets import number
from moldau.cli.output import write_lines, write_table
from moldau.client.group.descriptions import STREAMS_TYPE, MemberTasks

if TYPE_CHECKING:
    from typing import TextIO

    from moldau.client import GroupProgress, MemberDescription, TopicPartition


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

_FEW = 4


def headline(progress: GroupProgress) -> str:
    """Return a group as one line."""
    group = progress.group
    members = len(group.members)
    kind = (
        ""
        if group.protocol_type in ("", "consumer", "share", "streams")
        else f" of {group.protocol_type}"
    )
    return (
        f"{group.group_id}: {group.state}, {group.type} protocol{kind}, "
        f"assignor {group.assignor or 'none'}, "
        f"coordinator {progress.coordinator.node_id} ({progress.coordinator.address}), "
        f"{members or 'no'} {'member' if members == 1 else 'members'}, lag {progress.lag}"
    )


def write_report(out: TextIO, found: Sequence[GroupProgress], arguments: Namespace) -> None:
    """Write the requested tables; if none is requested, write all of them for each group."""
    if arguments.state:
        _write_states(out, found)
    if arguments.members:
        write_members(out, found, arguments.verbose)
    if arguments.offsets:
        write_offsets(out, found, arguments.verbose)
    if arguments.state or arguments.members or arguments.offsets:
        return
    for index, each in enumerate(found):
        write_lines(out, [headline(each)] if index == 0 else ["", headline(each)])
        if each.group.members:
            write_members(out, [each], arguments.verbose)
        if each.partitions:
            write_offsets(out, [each], arguments.verbose)
        else:
            out.write("nothing is committed\n")


def _write_states(out: TextIO, found: Sequence[GroupProgress]) -> None:
    header = ("GROUP", "STATE", "TYPE", "ASSIGNOR", "COORDINATOR", "EPOCH", "MEMBERS", "LAG")
    rows = [
        (
            each.group.group_id,
            each.group.state,
            each.group.type,
            each.group.assignor or "-",
            f"{each.coordinator.node_id} ({each.coordinator.address})",
            "-" if each.group.epoch < 0 else str(each.group.epoch),
            str(len(each.group.members)),
            str(each.lag),
        )
        for each in found
    ]
    write_table(out, header, rows)


def write_members(out: TextIO, found: Sequence[GroupProgress], verbose: bool) -> None:
    """Write the members of groups, and what each one reads; of streams groups their tasks."""
    streams = [each for each in found if each.group.type == STREAMS_TYPE]
    if streams:
        _write_tasks(out, streams, verbose)
        found = [each for each in found if each.group.type != STREAMS_TYPE]
        if not found:
            return
    header = ["GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "PARTITIONS"]
    header += ["EPOCH", "PROTOCOL", "WANTS", "READS", "SHALL READ"] if verbose else ["READS"]
    rows = []
    for progress in found:
        for each in progress.group.members:
            row = [
                progress.group.group_id,
                each.member_id,
                each.instance_id or "-",
                each.host,
                each.client_id or "-",
                str(len(each.assignment)),
            ]
            if verbose:
                row += ["-" if each.epoch < 0 else str(each.epoch), _protocol(each)]
                row += [",".join(each.topics) or each.pattern or "-"]
                row += [_partitions(each.assignment), _partitions(each.target)]
            else:
                row += [_partitions(each.assignment, _FEW)]
            rows.append(row)
    write_table(out, header, rows)


def _write_tasks(out: TextIO, found: Sequence[GroupProgress], verbose: bool) -> None:
    header = ["GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "ACTIVE", "STANDBY", "WARM-UP"]
    header += ["EPOCH", "TOPOLOGY", "PROCESS", "READS", "SHALL READ"] if verbose else []
    rows = []
    for progress in found:
        for each in progress.group.members:
            tasks = each.tasks or MemberTasks()
            row = [
                progress.group.group_id,
                each.member_id,
                each.instance_id or "-",
                each.host,
                each.client_id or "-",
                *(" ".join(names) or "-" for names in (tasks.active, tasks.standby, tasks.warmup)),
            ]
            if verbose:
                row += [str(each.epoch), str(tasks.topology_epoch), tasks.process_id or "-"]
                row += [_partitions(each.assignment), _partitions(each.target)]
            rows.append(row)
    write_table(out, header, rows)


def _protocol(member: MemberDescription) -> str:
    if member.tasks is not None:
        return STREAMS_TYPE
    return "classic" if member.is_classic else "consumer"


def _partitions(assignment: Sequence[TopicPartition], at_most: int | None = None) -> str:
    """Return `orders:0,1 others:2`; with `at_most`, only the first few partitions."""
    numbers: dict[str, list[int]] = {}
    for where in sorted(assignment)[:at_most]:
        numbers.setdefault(where.topic, []).append(where.partition)
    words = [f"{topic}:{','.join(map(str, chosen))}" for topic, chosen in numbers.items()]
    if at_most is not None and len(assignment) > at_most:
        words.append("...")
    return " ".join(words) or "-"


def write_offsets(out: TextIO, found: Sequence[GroupProgress], verbose: bool) -> None:
    """Write committed offsets, log ends and lag by partition."""
    header = ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST", "CLIENT"]
    header += ["LEADER EPOCH", "NOTE"] if verbose else []
    rows = []
    for progress in found:
        for each in progress.partitions:
            row = [progress.group.group_id, each.where.topic, str(each.where.partition)]
            row += [number(None if each.committed is None else each.committed.offset)]
            row += [number(each.end), number(each.lag)]
            who = each.member
            row += (
                ["-", "-", "-"] if who is None else [who.member_id, who.host, who.client_id or "-"]
            )
            if verbose:
                epoch = -1 if each.committed is None else each.committed.leader_epoch
                note = "" if each.committed is None else each.committed.metadata
                row += ["-" if epoch < 0 else str(epoch), note or "-"]
            rows.append(row)
    write_table(out, header, rows)


def facts_of(progress: GroupProgress) -> dict[str, Any]:
    """Return everything about a group as JSON data."""
    group, coordinator = progress.group, progress.coordinator
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor or None,
        "epoch": group.epoch if group.epoch >= 0 else None,
        "assignment_epoch": group.assignment_epoch if group.assignment_epoch >= 0 else None,
        "coordinator": {
            "id": coordinator.node_id,
            "host": coordinator.address.host,
            "port": coordinator.address.port,
        },
        "lag": progress.lag,
        "members": [_member(each) for each in group.members],
        "offsets": [
            {
                "topic": each.where.topic,
                "partition": each.where.partition,
                "committed": None if each.committed is None else each.committed.offset,
                "leader_epoch": None
                if each.committed is None or each.committed.leader_epoch < 0
                else each.committed.leader_epoch,
                "metadata": None if each.committed is None else each.committed.metadata,
                "end": each.end,
                "lag": each.lag,
                "member_id": None if each.member is None else each.member.member_id,
            }
            for each in progress.partitions
        ],
    }


def _member(member: MemberDescription) -> dict[str, Any]:
    facts = _facts_of_member(member)
    if member.tasks is not None:
        facts["tasks"] = asdict(member.tasks)
    return facts


def _facts_of_member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "epoch": member.epoch if member.epoch >= 0 else None,
        "protocol": _protocol(member),
        "topics": list(member.topics),
        "pattern": member.pattern or None,
        "assignment": _places(member.assignment),
        "target": _places(member.target),
    }


def _places(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]


def write_shares(out: TextIO, found: Sequence[GroupProgress]) -> None:
    """Write the headline, the members and the partitions of each group."""
    for index, each in enumerate(found):
        write_lines(out, [headline(each)] if index == 0 else ["", headline(each)])
        if each.group.members:
            write_members(out, [each], verbose=False)
        if each.partitions:
            _write_starts(out, each)
        else:
            out.write("it stands nowhere yet\n")


def _write_starts(out: TextIO, progress: GroupProgress) -> None:
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


def facts_of_share(progress: GroupProgress) -> dict[str, Any]:
    """Return everything about a share group as JSON data."""
    facts = facts_of(progress)
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
