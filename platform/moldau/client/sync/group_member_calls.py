"""`GroupMember`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.group.group_member import GroupMember as AsyncGroupMember
from moldau.client.group.member import GroupMetadata
from moldau.client.settings.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.sync.client import BlockingClient
from moldau.link.metadata import TopicPartition


class GroupMemberCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncGroupMember

    @property
    def member_id(self) -> str:
        """Empty while the member is not in its group."""
        return self._run(lambda: self._client.member_id)

    @property
    def generation(self) -> int:
        """-1 while the member is not in its group."""
        return self._run(lambda: self._client.generation)

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the present generation."""
        return self._run(lambda: self._client.is_leader)

    @property
    def error(self) -> BaseException | None:
        """What has ended the membership, until `rejoin` begins another."""
        return self._run(lambda: self._client.error)

    def group_metadata(self) -> GroupMetadata:
        """The member as a transactional producer wants to know it."""
        return self._run(lambda: self._client.group_metadata())

    def rejoin(self, reason: str = "the application asked for it") -> None:
        """Has all members join again, with new metadata. Returns at once: `on_revoked`, `metadata`
        and `on_assigned` follow. After an error it begins a new membership."""
        self._call(self._client.rejoin(reason))

    def wait(self) -> None:
        """Returns when the member is closed. Raises what has ended its membership: a KafkaError
        that no retry heals, or what a method of `Protocols` has raised."""
        self._call(self._client.wait())

    def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata],
        metadata: str = "",
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Stores offsets in the group, as this member in its present generation; `metadata` is the
        note beside those that are given as a number. KafkaError names the first partition that
        cannot be stored, such as ILLEGAL_GENERATION after the group has gone on without it."""
        self._call(self._client.commit(offsets, metadata, timeout_s=timeout_s))

    def committed(
        self, partitions: Iterable[PartitionGiven], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has stored of these partitions; None where nothing is."""
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))
