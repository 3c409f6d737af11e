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


class GroupMemberCalls(BlockingClient, twin_of=AsyncGroupMember):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncGroupMember

    @property
    def member_id(self) -> str:
        return self._run(lambda: self._client.member_id)

    @property
    def generation(self) -> int:
        return self._run(lambda: self._client.generation)

    @property
    def is_leader(self) -> bool:
        return self._run(lambda: self._client.is_leader)

    @property
    def error(self) -> BaseException | None:
        return self._run(lambda: self._client.error)

    def group_metadata(self) -> GroupMetadata:
        return self._run(lambda: self._client.group_metadata())

    def rejoin(self, reason: str = "the application asked for it") -> None:
        self._call(self._client.rejoin(reason))

    def wait(self) -> None:
        self._call(self._client.wait())

    def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata],
        metadata: str = "",
        *,
        timeout_s: float | None = None,
    ) -> None:
        self._call(self._client.commit(offsets, metadata, timeout_s=timeout_s))

    def committed(
        self, partitions: Iterable[PartitionGiven], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))
