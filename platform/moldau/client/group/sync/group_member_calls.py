"""`GroupMember`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.base.blocking import BlockingClient
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.group.group_member import GroupMember as AsyncGroupMember
from moldau.link.metadata import TopicPartition


class GroupMemberCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncGroupMember

    @property
    def member_id(self) -> str:
        """The member id; empty while the member is not in its group."""
        return self._run(lambda: self._client.member_id)

    @property
    def generation(self) -> int:
        """The generation; -1 while the member is not in its group."""
        return self._run(lambda: self._client.generation)

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the current generation."""
        return self._run(lambda: self._client.is_leader)

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the membership; None again after `rejoin`."""
        return self._run(lambda: self._client.error)

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity, for a transactional producer."""
        return self._run(lambda: self._client.group_metadata())

    def rejoin(self, reason: str = "the application asked for it") -> None:
        """Make all members join again, with new metadata, and return at once: `on_revoked`,
        `metadata` and `on_assigned` are called later. After an error it starts a new membership."""
        self._call(self._client.rejoin(reason))

    def wait(self) -> None:
        """Return when the member is closed. Raise the error that has ended its membership: a
        KafkaError that no retry heals, or the exception of a method of `Protocols`."""
        self._call(self._client.wait())

    def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata],
        metadata: str = "",
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Store offsets in the group, as this member in its current generation. `metadata` is
        stored with those given as a number. KafkaError names the first partition that cannot be
        stored, such as ILLEGAL_GENERATION after the group has continued without this member."""
        self._call(self._client.commit(offsets, metadata, timeout_s=timeout_s))

    def committed(
        self, partitions: Iterable[PartitionGiven], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions; None where there is none."""
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))
