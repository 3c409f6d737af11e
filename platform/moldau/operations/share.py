"""Share groups: where they stand, and how they begin anew.

A new start offset discards what the group knows of the records behind it: those in work and those
that are done are delivered again if they lie behind the new start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.operations.hidden import check_visible
from moldau.operations.offsets import OffsetChange, Rule, Scope, is_in, plan_group, to_offset

if TYPE_CHECKING:
    from moldau.client import Admin, OffsetAndMetadata, TopicPartition


async def kinds_of(admin: Admin, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Return None for each share group, and an error for a group of another kind, or for one that
    cannot be described."""
    found = await admin.describe_groups(groups)
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

    async def stands(self, admin: Admin, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        from moldau.client import OffsetAndMetadata, ShareGroupAdmin

        error = (await kinds_of(admin, [group]))[group]
        if error is not None:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise error
        offsets = await ShareGroupAdmin(admin).offsets(group)
        return {
            where: OffsetAndMetadata(each.start)
            for where, each in offsets.items()
            if each.start is not None
        }

    async def store(self, admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        from moldau.client import OffsetsNotStored, ShareGroupAdmin

        results = await ShareGroupAdmin(admin).alter_offsets(group, offsets)
        wrong = [error for error in results.values() if error is not None]
        if wrong:
            first, reason = wrong[0], "; ".join(map(str, wrong))
            raise OffsetsNotStored(first.code, reason, results=dict(results), **first.context)

    def nowhere(self, group: str) -> str:
        return f"share group {group} stands nowhere"


async def plan_init(admin: Admin, group: str, source: str, scope: Scope) -> list[OffsetChange]:
    await check_visible(admin, scope)
    stands = await ShareGroups().stands(admin, group)
    committed = await admin.group_offsets(source)
    rules: dict[TopicPartition, Rule] = {
        where: to_offset(each.offset)
        for where, each in sorted(committed.items())
        if not scope or is_in(scope, where)
    }
    if not rules:
        of = f" of {', '.join(scope)}" if scope else ""
        raise MoldauError(f"the group has committed nothing{of}", group=source)
    return await plan_group(admin, group, stands, rules, None)


Results = dict[tuple[str, "str | None"], "KafkaError | None"]
"""The result for each group, or for each topic of it."""


async def delete(admin: Admin, groups: Sequence[str], topics: Sequence[str]) -> Results:
    """Delete the groups, or what they know of the topics. The request that deletes a group deletes
    one of any kind, so the kind is checked before."""
    kinds = await kinds_of(admin, groups)
    chosen = [group for group in groups if kinds[group] is None]
    results: Results = {(group, None): kinds[group] for group in groups if kinds[group]}
    if not topics:
        done = await admin.delete_groups(chosen) if chosen else {}
        return {**results, **{(group, None): error for group, error in done.items()}}
    from moldau.client import ShareGroupAdmin

    shares = ShareGroupAdmin(admin)
    for group in chosen:
        try:
            of_topics = await shares.delete_offsets(group, topics)
        except KafkaError as error:
            of_topics = dict.fromkeys(topics, without_frames(error))
        results |= {(group, topic): error for topic, error in of_topics.items()}
    return results
