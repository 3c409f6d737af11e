"""What sees the records and commits of a consumer on their way: a base for classes of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client.base.arguments import OffsetAndMetadata
    from moldau.client.consumer.records import PartitionRecords


class ConsumerInterceptor:
    """Sees a consumer's records and commits; methods that are not overridden change nothing.

    An exception from a method is logged and otherwise ignored; so is a return value that is no list
    of records. The methods are called, not awaited.
    """

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Return the records that a poll returns instead of `parts`."""
        return parts

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after these offsets were committed."""
        return

    def close(self) -> None:
        """Called when the consumer is closed."""
        return
