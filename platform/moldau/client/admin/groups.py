"""Groups and their offsets: list, describe, delete, move offsets, remove members.

A group is asked about at its coordinator, which is found anew for each call; groups are listed by
asking every broker. `describe_groups` knows both protocols: the coordinator is asked for consumer
groups (KIP-848) first, and those that are none are described as classic ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from moldau.client.admin.requests import Requests, at_once, error_of, value_of
from moldau.client.consumer.unknown_topic import maybe_final
from moldau.client.group import offset_requests
from moldau.client.group.coordinator import Coordinator
from moldau.client.group.descriptions import (
    GroupDescription,
    ListedGroup,
    classic_group,
    consumer_group,
)
from moldau.client.group.member import NOBODY
from moldau.client.group.offset_requests import MANY_GROUPS, NEWEST_WITH_NAMES
from moldau.client.group.states import GROUP_STATES, GROUP_TYPES
from moldau.client.settings import arguments
from moldau.client.settings.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.errors.codes import ErrorCode, KafkaError, raise_for
from moldau.link.arguments import text_of
from moldau.link.metadata import TopicPartition, by_topic
from moldau.protocol.acl_operations import operations_in
from moldau.protocol.messages import consumer_group_describe as describing
from moldau.protocol.messages import describe_groups as describing_classic
from moldau.protocol.messages import leave_group as leaving
from moldau.protocol.messages import offset_delete as forgetting
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
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


class Groups:
    """Asks about groups and their offsets, and changes them."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        request = ListGroupsRequest(
            states_filter=arguments.known_names(states, "state", GROUP_STATES),
            types_filter=arguments.known_names(types, "type", GROUP_TYPES),
        )

        async def ask(broker: int) -> ListGroupsResponse:
            async def attempt() -> ListGroupsResponse:
                answer = await self._requests.ask_once(request, ListGroupsResponse, broker)
                raise_for(answer.error_code, broker=broker)
                return answer

            return await self._requests.cluster.retry(attempt)

        answers = await at_once(await self._requests.brokers(), ask)
        found = {
            each.group_id: ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
            for answer in answers.values()
            for each in value_of(answer).groups
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
        """What the coordinator of a group says of it, in either protocol."""
        ids, allowed = [coordinator.group_id], authorized_operations
        request = describing.ConsumerGroupDescribeRequest(
            group_ids=ids, include_authorized_operations=allowed
        )
        try:
            response = describing.ConsumerGroupDescribeResponse
            found = (await coordinator.call(request, response)).groups[0]
            _check(coordinator, found.error_code, found.error_message or "")
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
        _check(coordinator, classic.error_code, classic.error_message or "")
        operations = operations_in(classic.authorized_operations)
        return replace(classic_group(classic), authorized_operations=operations)

    async def delete(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        async def ask(coordinator: Coordinator) -> None:
            request = DeleteGroupsRequest(groups_names=[coordinator.group_id])
            answer = await coordinator.call(request, DeleteGroupsResponse)
            _check(coordinator, answer.results[0].error_code)

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

        return await self._at_coordinator(group, ask)

    async def committed(
        self,
        coordinator: Coordinator,
        wanted: list[TopicPartition] | None = None,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that the coordinator of a group keeps, of these partitions or of all."""
        new, old = offset_requests.fetch_request(
            coordinator.group_id, wanted, require_stable=require_stable
        )
        connection = await coordinator.connection()
        version = connection.version_of(OffsetFetchRequest, at_most=NEWEST_WITH_NAMES)
        request = new if version >= MANY_GROUPS else old
        found = offset_requests.fetched(
            await coordinator.call(request, OffsetFetchResponse, at_most=NEWEST_WITH_NAMES)
        )
        _check(coordinator, found.error_code)
        for where, code in found.errors.items():
            _check(coordinator, code, **where._asdict())
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
            _check(coordinator, answer.error_code)
            answers = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in answer.topics
                for each in topic.partitions
            }
            return {
                where: error_of(code, group=group, **where._asdict())
                for where, code in answers.items()
            }

        return await self._at_coordinator(group, ask)

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
            _check(coordinator, answer.error_code)
            for each in answer.members:
                member = each.group_instance_id or each.member_id
                _check(coordinator, each.error_code, member=member)

        await self._at_coordinator(group, ask)

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

    async def _at_coordinator(self, group: str, ask: Callable[[Coordinator], Awaitable[V]]) -> V:
        async with self._coordinator(group) as coordinator:

            async def attempt() -> V:
                return await ask(coordinator)

            return await self._requests.cluster.retry(attempt)

    async def at_coordinators(
        self, groups: Iterable[str], ask: Callable[[Coordinator], Awaitable[V]]
    ) -> dict[str, V | KafkaError]:
        """Ask the coordinators of all groups at the same time."""

        async def one(group: str) -> V:
            return await self._at_coordinator(group, ask)

        return await at_once(groups, one)


def _check(coordinator: Coordinator, code: int, reason: str = "", /, **context: object) -> None:
    coordinator.note(code)
    raise_for(code, reason, group=coordinator.group_id, **context)


async def _store(
    coordinator: Coordinator, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Stored:
    """One try: for each partition that its offset is stored, or why not."""
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
        results[where] = maybe_final(error_of(code, _NOT_STORED.get(code), **facts))
    return results


def _reason(given: str) -> str:
    """What members are told that are removed."""
    reason = text_of(given, "reason")
    return text_of(f"{_BY_ADMIN}: {reason}", "reason") if reason else _BY_ADMIN


_NOT_STORED: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "the group has members, which commit for themselves: stop them first"
    )
}
