"""Moves of committed offsets to another group, or to the new name of a topic.

Invariant: offsets are deleted at their old place only after they are stored at the new one, and
only those that were stored. A move that is cut short leaves them in both places, and can be
repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.deferred import dataclass
from moldau.errors import BadGiven, MoldauError
from moldau.errors.codes import RIGHT_MISSING, KafkaError
from moldau.operations.hidden import (
    ExplainedRefusal,
    HiddenNames,
    check_all_visible,
    check_visible,
)
from moldau.operations.offsets import Scope, is_in, within

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True)
class Transfer:
    """The move of one committed offset. `before` is the offset that the target had; `is_obstacle`
    means that it cannot be moved, and `note` says why."""

    source: TopicPartition
    target: TopicPartition
    committed: OffsetAndMetadata
    before: int | None
    after: int
    note: str = ""
    is_obstacle: bool = False


def only_renamed(scope: Scope, names: dict[str, str]) -> Scope:
    """Return the part of the scope that is renamed, since within one group nothing else can move.
    Raise BadGiven if the scope names another topic: an empty scope would mean everything."""
    strays = [topic for topic in scope if topic not in names]
    if strays:
        raise BadGiven(f"nothing of {', '.join(strays)} would move: --rename does not name it")
    return {topic: scope.get(topic) for topic in names if not scope or topic in scope}


async def plan(
    admin: Admin, group: str, to: str, scope: Scope, names: Mapping[str, str]
) -> list[Transfer]:
    """Return the transfers from a group to another, with new `names` of topics."""
    from moldau.client import TopicPartition
    from moldau.client.base.offsets import EARLIEST, LATEST

    await check_visible(admin, {**scope, **dict.fromkeys(names.values())} if scope else {})
    committed = await admin.group_offsets(group)
    chosen = sorted(where for where in committed if not scope or is_in(scope, where))
    if not chosen:
        of = f" of {', '.join(scope)}" if scope else ""
        raise MoldauError(f"the group has committed nothing{of}", group=group)
    strays = sorted(names.keys() - {where.topic for where in chosen})
    if strays:
        of = f"{', '.join(strays)}, which --rename names"
        raise MoldauError(f"nothing would move of {of}", group=group)
    targets = {
        where: TopicPartition(names.get(where.topic, where.topic), where.partition)
        for where in chosen
    }
    if len(set(targets.values())) < len(targets):
        raise BadGiven("two topics would become one")
    there = await admin.group_offsets(to)
    led = await admin.led_partitions(targets.values())
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST))
    transfers = []
    for source, target in targets.items():
        found = committed[source]
        before = there[target].offset if target in there else None
        if target not in ends:
            note = "there is no such partition, or it has no leader"
            moved = Transfer(source, target, found, before, found.offset, note, is_obstacle=True)
        else:
            after, note = within(found.offset, starts[target].offset, ends[target].offset)
            moved = Transfer(source, target, found, before, after, note)
        transfers.append(moved)
    return transfers


async def do(
    admin: Admin, group: str, to: str, transfers: Sequence[Transfer], *, keeps: bool
) -> None:
    """Store the offsets, then delete the old ones. Raise MoldauError if only a part was done."""
    from moldau.client import OffsetAndMetadata

    stored = {
        each.target: OffsetAndMetadata(
            each.after,
            each.committed.metadata,
            each.committed.leader_epoch if each.source == each.target else -1,
        )
        for each in transfers
    }
    await admin.alter_group_offsets(to, stored)
    if keeps:
        return
    moved = {each.source: each.committed for each in transfers}
    if to == group:  # two topics may swap their names; then nothing is deleted
        moved = {where: each for where, each in moved.items() if where not in stored}
    try:
        await _delete(admin, group, moved, is_same=to == group)
    except MoldauError as error:
        what = f"the offsets are stored for {to}, but not deleted where they were"
        if isinstance(error, KafkaError) and error.code in RIGHT_MISSING:
            raise ExplainedRefusal(error.code, what, **error.context) from error
        raise MoldauError(f"{what}: {error}", group=group) from error


async def _delete(
    admin: Admin,
    group: str,
    moved: dict[TopicPartition, OffsetAndMetadata],
    *,
    is_same: bool,
) -> None:
    """Delete the moved offsets, or the whole group if it has no others and none may be hidden."""
    left = await admin.group_offsets(group)
    newer = [str(where) for where, each in moved.items() if left.get(where, each) != each]
    if newer:
        raise MoldauError("the group has committed meanwhile", partitions=newer)
    if not is_same and left.keys() <= moved.keys() and await _sees_all(admin):
        await admin.delete_group(group)
        return
    for error in (await admin.delete_group_offsets(group, moved)).values():
        if error is not None:
            raise error


async def _sees_all(admin: Admin) -> bool:
    try:
        await check_all_visible(admin)
    except HiddenNames:
        return False
    return True
