"""Groups and their offsets: list, describe, delete, alter offsets, remove members.

Requests about a group go to its coordinator, which is looked up for each call; to list groups,
every broker gets a request. `describe_groups` handles all kinds: first the request for consumer
groups (KIP-848), then, for other groups, those for classic, share and streams groups.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.admin.requests import Requests, at_once, error_of, value_of
from moldau.client.base import arguments
from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.base.coordinator import Coordinator
from moldau.client.base.unknown_topic import maybe_final
from moldau.client.group import offset_requests
from moldau.client.group.descriptions import (
    GroupDescription,
    ListedGroup,
    classic_group,
    consumer_group,
    share_group,
    streams_group,
)
from moldau.client.group.member import NOBODY
from moldau.client.group.offset_requests import MANY_GROUPS, NEWEST_WITH_NAMES
from moldau.client.group.protocols import GROUP_STATES, GROUP_TYPES
from moldau.errors.codes import ErrorCode, KafkaError, raise_for
from moldau.link.arguments import text_of
from moldau.link.metadata import TopicPartition, by_topic
from moldau.protocol.acl_operations import operations_in
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import api_of
from moldau.protocol.messages import consumer_group_describe as describing
from moldau.protocol.messages import describe_groups as describing_classic
from moldau.protocol.messages import describe_share_group_offsets as share_offsets
from moldau.protocol.messages import leave_group as leaving
from moldau.protocol.messages import offset_delete as forgetting
from moldau.protocol.messages import share_group_describe as describing_shares
from moldau.protocol.messages import streams_group_describe as describing_streams
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

V = TypeVar("V")
R = TypeVar("R", bound=Response)

# Errors for groups that the coordinator has with another type, or not at all.
_NOT_THAT_TYPE: Final = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION))
_BY_ADMIN: Final = "member was removed by an admin"


Stored = dict[TopicPartition, KafkaError | None]
"""The error of each partition whose offset was not stored; None if it was stored."""


class OffsetsNotStored(KafkaError):
    """Some or all offsets of a group were not stored. Code, reason and context are those of the
    first failed partition; `stored` lists the stored ones, `results` has all."""

    def __init__(
        self, code: int, reason: str = "", /, *, results: Stored | None = None, **context: object
    ) -> None:
        super().__init__(code, reason, **context)
        self.results: Stored = results or {}

    @property
    def stored(self) -> list[TopicPartition]:
        """The partitions whose offset was stored."""
        return [where for where, error in self.results.items() if error is None]

    @property
    def retriable(self) -> bool:
        """Whether all failures are retriable: a final one would fail the same request again."""
        failed = [error for error in self.results.values() if error is not None]
        return all(error.retriable for error in failed) if failed else super().retriable


class Groups:
    """Describes and changes groups and their offsets."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        request = ListGroupsRequest(
            states_filter=arguments.known_names(states, "state", GROUP_STATES),
            types_filter=arguments.known_names(types, "type", GROUP_TYPES),
        )

        answers = await self._requests.ask_all(request, ListGroupsResponse)
        found = {
            each.group_id: ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
            for answer in answers.values()
            for each in answer.groups
        }
        return [found[name] for name in sorted(found)]

    async def describe(
        self, groups: Iterable[str], authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        chosen = arguments.names_of(groups, "group", one="describe_group")
        arguments.flag(authorized_operations, "authorized_operations")

        async def ask(coordinator: Coordinator) -> GroupDescription:
            return await self.described(coordinator, authorized_operations)

        return await self.at_coordinators(chosen, ask)

    async def described(
        self, coordinator: Coordinator, authorized_operations: bool = False
    ) -> GroupDescription:
        """Return the coordinator's description of a group, of any kind."""
        ids, allowed = [coordinator.group_id], authorized_operations
        request = describing.ConsumerGroupDescribeRequest(
            group_ids=ids, include_authorized_operations=allowed
        )
        try:
            response = describing.ConsumerGroupDescribeResponse
            found = (await coordinator.call(request, response)).groups[0]
            _check(
                "ConsumerGroupDescribe", coordinator, found.error_code, found.error_message or ""
            )
            operations = operations_in(found.authorized_operations)
            return replace(consumer_group(found), authorized_operations=operations)
        except KafkaError as error:
            if error.code not in _NOT_THAT_TYPE:
                raise
        old = describing_classic.DescribeGroupsRequest(
            groups=ids, include_authorized_operations=allowed
        )
        answer = await coordinator.call(old, describing_classic.DescribeGroupsResponse)
        classic = answer.groups[0]
        if classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            for describe in (self._described_shares, self._described_streams):
                other = await describe(coordinator, authorized_operations)
                if other is not None:
                    return other
        _check("DescribeGroups", coordinator, classic.error_code, classic.error_message or "")
        operations = operations_in(classic.authorized_operations)
        return replace(classic_group(classic), authorized_operations=operations)

    async def _described_shares(
        self, coordinator: Coordinator, authorized_operations: bool
    ) -> GroupDescription | None:
        """Return the description of a share group; None if the coordinator has none of this id."""
        request = describing_shares.ShareGroupDescribeRequest(
            group_ids=[coordinator.group_id],
            include_authorized_operations=authorized_operations,
        )
        response = describing_shares.ShareGroupDescribeResponse
        return await self._described_as(coordinator, request, response, share_group)

    async def _described_streams(
        self, coordinator: Coordinator, authorized_operations: bool
    ) -> GroupDescription | None:
        """Return the description of a streams group; None if the coordinator has none of this
        id."""
        request = describing_streams.StreamsGroupDescribeRequest(
            group_ids=[coordinator.group_id],
            include_authorized_operations=authorized_operations,
        )
        response = describing_streams.StreamsGroupDescribeResponse
        return await self._described_as(coordinator, request, response, streams_group)

    async def _described_as(
        self,
        coordinator: Coordinator,
        request: Request,
        response: type[R],
        description: Callable[[Any], GroupDescription],
    ) -> GroupDescription | None:
        try:
            answer: Any = await coordinator.call(request, response)
            (found,) = answer.groups
            _check(api_of(request), coordinator, found.error_code, found.error_message or "")
        except KafkaError as error:
            if error.code in _NOT_THAT_TYPE:
                return None
            raise
        operations = operations_in(found.authorized_operations)
        return replace(description(found), authorized_operations=operations)

    async def share_offsets(
        self, coordinator: Coordinator
    ) -> dict[TopicPartition, tuple[int, int | None]]:
        """Return where a share group begins in each of its partitions, and how many records are
        left to do; None is unknown."""
        asked = share_offsets.DescribeShareGroupOffsetsRequestGroup(
            group_id=coordinator.group_id, topics=None
        )
        request = share_offsets.DescribeShareGroupOffsetsRequest(groups=[asked])
        response = share_offsets.DescribeShareGroupOffsetsResponse
        (found,) = (await coordinator.call(request, response)).groups
        _check(
            "DescribeShareGroupOffsets", coordinator, found.error_code, found.error_message or ""
        )
        return {
            TopicPartition(topic.topic_name, each.partition_index): (
                each.start_offset,
                None if each.lag < 0 else each.lag,
            )
            for topic in found.topics
            for each in topic.partitions
        }

    async def delete(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        async def ask(coordinator: Coordinator) -> None:
            request = DeleteGroupsRequest(groups_names=[coordinator.group_id])
            answer = await coordinator.call(request, DeleteGroupsResponse)
            (result,) = answer.results
            _check("DeleteGroups", coordinator, result.error_code)

        return await self.at_coordinators(
            arguments.names_of(groups, "group", one="delete_group"), ask
        )

    # Offsets

    async def offsets(
        self, group: str, partitions: Iterable[PartitionGiven] | None, require_stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = None if partitions is None else arguments.partitions_in(partitions)
        arguments.flag(require_stable, "require_stable")

        async def ask(coordinator: Coordinator) -> dict[TopicPartition, OffsetAndMetadata]:
            return await self.committed(coordinator, wanted, require_stable)

        return await self.at_coordinator(group, ask)

    async def committed(
        self,
        coordinator: Coordinator,
        wanted: list[TopicPartition] | None = None,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that the group's coordinator stores, of these partitions or of all."""
        new, old = offset_requests.fetch_request(
            coordinator.group_id, wanted, require_stable=require_stable
        )
        connection = await coordinator.connection()
        version = connection.version_of(OffsetFetchRequest, at_most=NEWEST_WITH_NAMES)
        request = new if version >= MANY_GROUPS else old
        found = offset_requests.fetched(
            await coordinator.call(request, OffsetFetchResponse, at_most=NEWEST_WITH_NAMES)
        )
        _check("OffsetFetch", coordinator, found.error_code)
        for where, code in found.errors.items():
            _check("OffsetFetch", coordinator, code, **where._asdict())
        return found.offsets

    async def alter_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        whole = arguments.offsets_to_store(offsets)

        async with self._coordinator(group) as coordinator:

            async def ask(wanted: list[TopicPartition]) -> Stored:
                return await _store(coordinator, {where: whole[where] for where in wanted})

            results: Stored = await self._requests.for_each(whole, ask)
        first = next((error for error in results.values() if error is not None), None)
        if first is not None:
            stored = [str(where) for where, error in results.items() if error is None]
            raise OffsetsNotStored(
                first.code, first.reason, results=results, **first.context, stored=stored
            )

    async def delete_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        topics = []
        for name, numbers in by_topic(arguments.partitions_in(partitions)).items():
            wanted = [forgetting.OffsetDeleteRequestPartition(partition_index=n) for n in numbers]
            topics.append(forgetting.OffsetDeleteRequestTopic(name=name, partitions=wanted))
        request = forgetting.OffsetDeleteRequest(group_id=group, topics=topics)

        async def ask(coordinator: Coordinator) -> dict[TopicPartition, KafkaError | None]:
            answer = await coordinator.call(request, forgetting.OffsetDeleteResponse)
            _check("OffsetDelete", coordinator, answer.error_code)
            answers = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in answer.topics
                for each in topic.partitions
            }
            return {
                where: error_of("OffsetDelete", code, group=group, **where._asdict())
                for where, code in answers.items()
            }

        return await self.at_coordinator(group, ask)

    # Members

    async def remove_members(
        self, group: str, instance_ids: Iterable[str], member_ids: Iterable[str], reason: str
    ) -> None:
        member = partial(leaving.MemberIdentity, reason=_reason(reason))
        static = arguments.names_of(instance_ids, "static member")
        members = [member(member_id="", group_instance_id=each) for each in static]
        others = arguments.names_of(member_ids, "member")
        members += [member(member_id=each) for each in others]
        request = leaving.LeaveGroupRequest(group_id=group, members=members)

        async def ask(coordinator: Coordinator) -> None:
            answer = await coordinator.call(request, leaving.LeaveGroupResponse)
            _check("LeaveGroup", coordinator, answer.error_code)
            for each in answer.members:
                member = each.group_instance_id or each.member_id
                _check("LeaveGroup", coordinator, each.error_code, member=member)

        await self.at_coordinator(group, ask)

    async def remove_all_members(self, group: str, reason: str) -> None:
        _reason(reason)
        members = value_of((await self.describe([group]))[group]).members
        if members:
            static = [each.instance_id for each in members if each.instance_id]
            others = [each.member_id for each in members if not each.instance_id]
            await self.remove_members(group, static, others, reason)

    # Coordinators

    @asynccontextmanager
    async def _coordinator(self, group: str) -> AsyncIterator[Coordinator]:
        coordinator = Coordinator(
            self._requests.cluster, arguments.name_of(group, "group"), lane=""
        )
        try:
            yield coordinator
        finally:
            await coordinator.aclose()

    async def at_coordinator(self, group: str, ask: Callable[[Coordinator], Awaitable[V]]) -> V:
        async with self._coordinator(group) as coordinator:

            async def attempt() -> V:
                return await ask(coordinator)

            return await self._requests.cluster.retry(attempt)

    async def at_coordinators(
        self, groups: Iterable[str], ask: Callable[[Coordinator], Awaitable[V]]
    ) -> dict[str, V | KafkaError]:
        """Call `ask` with the coordinators of all groups at the same time."""

        async def one(group: str) -> V:
            return await self.at_coordinator(group, ask)

        return await at_once(groups, one)


def _check(
    api: str, coordinator: Coordinator, code: int, reason: str = "", /, **context: object
) -> None:
    coordinator.note(code)
    raise_for(api, code, reason, group=coordinator.group_id, **context)


async def _store(
    coordinator: Coordinator, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Stored:
    """Try once to store the offsets. Return the error of each partition; None if stored."""
    answer = await coordinator.call(
        offset_requests.commit_request(coordinator.group_id, NOBODY, offsets, None),
        OffsetCommitResponse,
        at_most=NEWEST_WITH_NAMES,
    )
    codes = offset_requests.commit_codes(answer, None)
    results: Stored = {}
    for where in offsets:
        code = codes.get(where, ErrorCode.UNKNOWN_SERVER_ERROR)
        coordinator.note(code)
        facts = {"group": coordinator.group_id, **where._asdict()}
        results[where] = maybe_final(error_of("OffsetCommit", code, _NOT_STORED.get(code), **facts))
    return results


def _reason(given: str) -> str:
    """Return the reason that removed members get."""
    reason = text_of(given, "reason")
    return text_of(f"{_BY_ADMIN}: {reason}", "reason") if reason else _BY_ADMIN


_NOT_STORED: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "the group has members, which commit for themselves: stop them first"
    )
}
