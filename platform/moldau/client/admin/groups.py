"""Groups and their offsets: list, describe, delete, move offsets, remove members.

A group is asked about at its coordinator, which is found anew for each call; groups are listed by
asking every broker. `describe_groups` knows both protocols: the coordinator is asked for consumer
groups (KIP-848) first, and those that are none are described as classic ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, TypeVar

from moldau.client.admin.requests import AdminRequests, error_of
from moldau.client.consumer.absence import maybe_final
from moldau.client.group.coordinator import Coordinator
from moldau.client.group.descriptions import (
    GroupDescription,
    ListedGroup,
    classic_group,
    consumer_group,
)
from moldau.client.group.member import NOBODY
from moldau.client.group.offset_requests import (
    MANY_GROUPS,
    NEWEST_WITH_NAMES,
    commit_codes,
    commit_request,
    fetch_request,
    fetched,
)
from moldau.client.group.states import GROUP_STATES, GROUP_TYPES
from moldau.client.settings.arguments import (
    ByPartition,
    OffsetAndMetadata,
    Partition,
    flag,
    known_names,
    name_of,
    names_of,
    offsets_to_store,
    partitions_in,
)
from moldau.errors.codes import ErrorCode, KafkaError, raise_for
from moldau.link.arguments import text_of
from moldau.link.metadata import TopicPartition
from moldau.protocol.acl_operations import operations_in
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

V = TypeVar("V")

# Of groups that the coordinator has as another type, or not at all.
_NOT_THAT_TYPE: Final = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION))
_BY_ADMIN: Final = "member was removed by an admin"


Stored = dict[TopicPartition, KafkaError | None]
"""Why the offset of a partition was not stored; None where it was."""


class OffsetsNotStored(KafkaError):
    """Offsets of a group that were not altered, or not all. Code, reason and facts are those of the
    first partition that was not; `stored` are those that were, `results` has each partition."""

    def __init__(
        self, code: int, reason: str = "", /, *, results: Stored | None = None, **context: object
    ) -> None:
        super().__init__(code, reason, **context)
        self.results: Stored = results or {}

    @property
    def stored(self) -> list[TopicPartition]:
        """The partitions whose offset was altered."""
        return [where for where, error in self.results.items() if error is None]

    @property
    def retriable(self) -> bool:
        """Only if all that failed may work later: what is final fails the same request again."""
        failed = [error for error in self.results.values() if error is not None]
        return all(error.retriable for error in failed) if failed else super().retriable


class GroupAdmin(AdminRequests):
    """Groups and their offsets."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """All groups of the cluster, or those in these states (Stable, Empty, ...) and of these
        types (classic, consumer, share, streams), by name."""
        request = ListGroupsRequest(
            states_filter=known_names(states, "state", GROUP_STATES),
            types_filter=known_names(types, "type", GROUP_TYPES),
        )
        await self._cluster.refresh()
        answers = await asyncio.gather(
            *(self._list_at(request, broker) for broker in sorted(self._cluster.metadata.brokers))
        )
        found = {
            each.group_id: ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
            for answer in answers
            for each in answer.groups
        }
        return [found[name] for name in sorted(found)]

    async def _list_at(self, request: ListGroupsRequest, broker: int) -> ListGroupsResponse:
        async def attempt() -> ListGroupsResponse:
            answer = await self._cluster.call(request, ListGroupsResponse, node_id=broker)
            raise_for(answer.error_code, broker=broker)
            return answer

        return await self._cluster.retry(attempt)

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        """State, members and what each of them reads; what this client may do to the group too if
        asked for."""
        chosen = names_of(groups, "group", one="describe_group")
        flag(authorized_operations, "authorized_operations")

        async def describe(coordinator: Coordinator) -> GroupDescription:
            return await self._describe(coordinator, authorized_operations=authorized_operations)

        return await self._each_group(chosen, describe)

    async def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        """As `describe_groups` for one; raises the KafkaError."""
        described = await self.describe_groups([group], authorized_operations=authorized_operations)
        found = described[group]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def _describe(
        self, coordinator: Coordinator, *, authorized_operations: bool = False
    ) -> GroupDescription:
        group = coordinator.group_id
        try:
            answer = await coordinator.call(
                ConsumerGroupDescribeRequest(
                    group_ids=[group], include_authorized_operations=authorized_operations
                ),
                ConsumerGroupDescribeResponse,
            )
            found = answer.groups[0]
            self._check(coordinator, found.error_code, found.error_message or "")
            allowed = operations_in(found.authorized_operations)
            return replace(consumer_group(found), authorized_operations=allowed)
        except KafkaError as error:
            if error.code not in _NOT_THAT_TYPE:
                raise
        old = await coordinator.call(
            DescribeGroupsRequest(
                groups=[group], include_authorized_operations=authorized_operations
            ),
            DescribeGroupsResponse,
        )
        described = old.groups[0]
        self._check(coordinator, described.error_code, described.error_message or "")
        allowed = operations_in(described.authorized_operations)
        return replace(classic_group(described), authorized_operations=allowed)

    async def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups that have no members, with their offsets."""
        chosen = names_of(groups, "group", one="delete_group")
        return await self._each_group(chosen, self._delete)

    async def delete_group(self, group: str) -> None:
        """As `delete_groups` for one; raises the KafkaError."""
        error = (await self.delete_groups([group]))[group]
        if error is not None:
            raise error

    async def _delete(self, coordinator: Coordinator) -> None:
        request = DeleteGroupsRequest(groups_names=[coordinator.group_id])
        answer = await coordinator.call(request, DeleteGroupsResponse)
        self._check(coordinator, answer.results[0].error_code)

    # Offsets

    async def group_offsets(
        self,
        group: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of these partitions or of all. `require_stable`: waits for
        transactions that are about to commit offsets."""
        wanted = None if partitions is None else partitions_in(partitions)
        flag(require_stable, "require_stable")

        async def ask(coordinator: Coordinator) -> dict[TopicPartition, OffsetAndMetadata]:
            return await self._committed(coordinator, wanted, require_stable=require_stable)

        return await self._at_coordinator(group, ask)

    async def _committed(
        self,
        coordinator: Coordinator,
        wanted: list[TopicPartition] | None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        new, old = fetch_request(coordinator.group_id, wanted, require_stable=require_stable)
        connection = await coordinator.connection()
        version = connection.version_of(OffsetFetchRequest, at_most=NEWEST_WITH_NAMES)
        request = new if version >= MANY_GROUPS else old
        found = fetched(
            await coordinator.call(request, OffsetFetchResponse, at_most=NEWEST_WITH_NAMES)
        )
        self._check(coordinator, found.error_code)
        for where, code in found.errors.items():
            self._check(coordinator, code, topic=where.topic, partition=where.partition)
        return found.offsets

    async def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Makes the group go on elsewhere. It must have no members. OffsetsNotStored where a
        partition could not be altered: what can be done for the others is done, and `results` has
        each."""
        whole = offsets_to_store(offsets)

        async with self._coordinator(group) as coordinator:

            async def ask(wanted: list[TopicPartition]) -> Stored:
                return await self._store(coordinator, {where: whole[where] for where in wanted})

            results: Stored = await self._for_each(whole, ask)
        first = next((error for error in results.values() if error is not None), None)
        if first is not None:
            stored = [str(where) for where, error in results.items() if error is None]
            raise OffsetsNotStored(
                first.code, first.reason, results=results, **first.context, stored=stored
            )

    async def _store(
        self, coordinator: Coordinator, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Stored:
        """One try: for each partition that its offset is stored, or why not."""
        answer = await coordinator.call(
            commit_request(coordinator.group_id, NOBODY, offsets, None),
            OffsetCommitResponse,
            at_most=NEWEST_WITH_NAMES,
        )
        codes = commit_codes(answer, None)
        results: Stored = {}
        for where in offsets:
            code = codes.get(where, ErrorCode.UNKNOWN_SERVER_ERROR)
            coordinator.note(code)
            facts = {"group": coordinator.group_id, **where._asdict()}
            error = error_of(code, _NOT_STORED.get(code), **facts)
            results[where] = maybe_final(error)
        return results

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[Partition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forgets what the group has committed of partitions that none of its members reads."""
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for where in partitions_in(partitions):
            wanted = OffsetDeleteRequestPartition(partition_index=where.partition)
            by_topic.setdefault(where.topic, []).append(wanted)
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=found)
                for name, found in by_topic.items()
            ],
        )

        async def ask(coordinator: Coordinator) -> dict[TopicPartition, KafkaError | None]:
            answer = await coordinator.call(request, OffsetDeleteResponse)
            self._check(coordinator, answer.error_code)
            return {
                TopicPartition(topic.name, each.partition_index): (
                    KafkaError(
                        each.error_code,
                        group=group,
                        topic=topic.name,
                        partition=each.partition_index,
                    )
                    if each.error_code
                    else None
                )
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self._at_coordinator(group, ask)

    # Members

    async def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        """Removes members of a classic group: static ones by instance id, others by member id.
        KafkaError names the first one that could not be removed."""
        because = _reason(reason)
        members = [
            MemberIdentity(member_id="", group_instance_id=each, reason=because)
            for each in names_of(instance_ids, "static member")
        ]
        members += [
            MemberIdentity(member_id=each, reason=because)
            for each in names_of(member_ids, "member")
        ]
        request = LeaveGroupRequest(group_id=group, members=members)

        async def ask(coordinator: Coordinator) -> None:
            answer = await coordinator.call(request, LeaveGroupResponse)
            self._check(coordinator, answer.error_code)
            for each in answer.members:
                member = each.group_instance_id or each.member_id
                self._check(coordinator, each.error_code, member=member)

        await self._at_coordinator(group, ask)

    async def remove_all_members(self, group: str, *, reason: str = "") -> None:
        """Removes all members of a classic group; its consumers join again if they still run."""
        _reason(reason)
        members = (await self.describe_group(group)).members
        if members:
            await self.remove_members(
                group,
                instance_ids=[each.instance_id for each in members if each.instance_id],
                member_ids=[each.member_id for each in members if not each.instance_id],
                reason=reason,
            )

    # Asking

    def _check(
        self, coordinator: Coordinator, code: int, reason: str = "", /, **context: object
    ) -> None:
        coordinator.note(code)
        raise_for(code, reason, group=coordinator.group_id, **context)

    @asynccontextmanager
    async def _coordinator(self, group: str) -> AsyncIterator[Coordinator]:
        coordinator = Coordinator(self._cluster, name_of(group, "group"), lane="")
        try:
            yield coordinator
        finally:
            await coordinator.aclose()

    async def _at_coordinator(self, group: str, ask: Callable[[Coordinator], Awaitable[V]]) -> V:
        async with self._coordinator(group) as coordinator:

            async def attempt() -> V:
                return await ask(coordinator)

            return await self._cluster.retry(attempt)

    async def _each_group(
        self, groups: Iterable[str], ask: Callable[[Coordinator], Awaitable[V]]
    ) -> dict[str, V | KafkaError]:
        async def one(group: str) -> V | KafkaError:
            try:
                return await self._at_coordinator(group, ask)
            except KafkaError as error:
                return error

        names = list(dict.fromkeys(names_of(groups, "group")))
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def _reason(given: str) -> str:
    """What members are told that are removed."""
    reason = text_of(given, "reason")
    return text_of(f"{_BY_ADMIN}: {reason}", "reason") if reason else _BY_ADMIN


_NOT_STORED: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "the group has members, which commit for themselves: stop them first"
    )
}
