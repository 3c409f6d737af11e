"""`ShareGroupAdmin` for threads: shows and changes where share groups stand.

with Admin(bootstrap_servers="localhost:9092") as admin:
    print(ShareGroupAdmin(admin).offsets("mailer"))
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.share_groups import ShareGroupAdmin as AsyncShareGroupAdmin
from moldau.client.admin.share_groups import ShareOffset
from moldau.client.admin.sync.admin import Admin
from moldau.client.base.arguments import ByPartition
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition


class ShareGroupAdmin:
    """Shows and changes the start offsets of share groups, by a started admin client. To list,
    describe and delete share groups, use the methods of `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def _client(self) -> AsyncShareGroupAdmin:
        return AsyncShareGroupAdmin(self._admin._client)

    def offsets(self, group: str) -> dict[TopicPartition, ShareOffset]:
        """Return where the group stands, by partition. Raise KafkaError if the coordinator cannot
        tell. A group that is not a share group stands nowhere."""
        return self._admin._call(self._client.offsets(group))

    def alter_offsets(
        self, group: str, offsets: ByPartition[int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Let the group begin anew at these offsets; return the error of each partition, or None.
        The group must have no members; one that does not exist is made."""
        return self._admin._call(self._client.alter_offsets(group, offsets))

    def delete_offsets(self, group: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
        """Let the group forget these topics; return the error of each topic, or None. The group
        must have no members. If it reads the topic again, it begins as a new group does."""
        return self._admin._call(self._client.delete_offsets(group, topics))
