"""Share groups: where they stand in their partitions, and how to change that (KIP-932).

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        print(await ShareGroupAdmin(admin).offsets("mailer"))

A share group has no committed offsets: it has a start offset in each partition, and behind it
records in work and records that are done. A new start offset discards all of that, so it may only
be set while the group has no members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from moldau.client.admin.requests import error_of
from moldau.client.base import arguments
from moldau.client.base.coordinator import Coordinator
from moldau.client.base.unknown_topic import maybe_final
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.metadata import TopicPartition, by_topic
from moldau.protocol.messages import alter_share_group_offsets as altering
from moldau.protocol.messages import delete_share_group_offsets as deleting

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.base.arguments import ByPartition


class ShareOffset(NamedTuple):
    """Where a share group stands in a partition."""

    start: int | None
    """All records before it are done. None if the group has not begun there yet."""
    lag: int | None
    """How many records are not done. None if the broker does not know it."""


class ShareGroupAdmin:
    """Shows and changes the start offsets of share groups, by a started admin client. To list,
    describe and delete share groups, use the methods of `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self._groups = admin._parts.groups

    async def offsets(self, group: str) -> dict[TopicPartition, ShareOffset]:
        """Return where the group stands, by partition. Raise KafkaError if the coordinator cannot
        tell. A group that is not a share group stands nowhere."""
        found = await self._groups.at_coordinator(group, self._groups.share_offsets)
        return {
            where: ShareOffset(None if start < 0 else start, lag)
            for where, (start, lag) in sorted(found.items())
        }

    async def alter_offsets(
        self, group: str, offsets: ByPartition[int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Let the group begin anew at these offsets; return the error of each partition, or None.
        The group must have no members; one that does not exist is made."""
        wanted = arguments.offsets_to_store(offsets)
        topics = [
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    altering.AlterShareGroupOffsetsRequestPartition(
                        partition_index=number,
                        start_offset=wanted[TopicPartition(topic, number)].offset,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(wanted).items()
        ]
        request = altering.AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

        async def ask(coordinator: Coordinator) -> dict[TopicPartition, KafkaError | None]:
            answer = await coordinator.call(request, altering.AlterShareGroupOffsetsResponse)
            _check("AlterShareGroupOffsets", coordinator, answer.error_code, answer.error_message)
            results: dict[TopicPartition, KafkaError | None] = {}
            for topic in answer.responses:
                for each in topic.partitions:
                    where = TopicPartition(topic.topic_name, each.partition_index)
                    facts = {"group": group, **where._asdict()}
                    error = error_of(
                        "AlterShareGroupOffsets", each.error_code, each.error_message, **facts
                    )
                    results[where] = maybe_final(error)
            return results

        return await self._groups.at_coordinator(group, ask)

    async def delete_offsets(
        self, group: str, topics: Iterable[str]
    ) -> dict[str, KafkaError | None]:
        """Let the group forget these topics; return the error of each topic, or None. The group
        must have no members. If it reads the topic again, it begins as a new group does."""
        names = arguments.names_of(topics, "topic")
        request = deleting.DeleteShareGroupOffsetsRequest(
            group_id=group,
            topics=[deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=n) for n in names],
        )

        async def ask(coordinator: Coordinator) -> dict[str, KafkaError | None]:
            answer = await coordinator.call(request, deleting.DeleteShareGroupOffsetsResponse)
            _check("DeleteShareGroupOffsets", coordinator, answer.error_code, answer.error_message)
            return {
                each.topic_name: maybe_final(
                    error_of(
                        "DeleteShareGroupOffsets",
                        each.error_code,
                        each.error_message,
                        group=group,
                        topic=each.topic_name,
                    )
                )
                for each in answer.responses
            }

        return await self._groups.at_coordinator(group, ask)


def _check(api: str, coordinator: Coordinator, code: int, message: str | None) -> None:
    coordinator.note(code)
    raise_for(api, code, message or "", group=coordinator.group_id)
