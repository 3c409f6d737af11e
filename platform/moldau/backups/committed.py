"""Group offsets as of a time, from the log of commits. No IO.

A commit in a transaction counts from its commit marker on. Compaction keeps the last commit of each
partition, so an older one is known only if a backup was made while it was still in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.records import ControlType, control_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.records import Batch

Commit = tuple[str, str, int]
"""A group, a topic and a partition."""

_OFFSET_COMMIT: Final = 1
_KEY_VERSION: Final = slice(0, 2)


class CommittedOffsets:
    """The offsets after the batches of one partition of the log so far."""

    def __init__(self) -> None:
        self.offsets: dict[Commit, OffsetAndMetadata] = {}
        self._pending: dict[int, dict[Commit, OffsetAndMetadata | None]] = {}

    def replay(self, batches: Iterable[Batch]) -> None:
        """Apply batches in the order of the log."""
        for batch in batches:
            header = batch.header
            if header.is_control:
                self._end(header.producer_id, batch)
                continue
            changes: dict[Commit, OffsetAndMetadata | None] = {}
            for record in batch.records():
                if record.key is not None and _is_commit(record.key):
                    _note(changes, record.key, record.value)
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, {}).update(changes)
            else:
                self._apply(changes)

    def _end(self, producer_id: int, batch: Batch) -> None:
        pending = self._pending.pop(producer_id, {})
        if any(each.type == ControlType.COMMIT for each in control_records(batch)):
            self._apply(pending)

    def _apply(self, changes: dict[Commit, OffsetAndMetadata | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = value


def _is_commit(key: bytes) -> bool:
    return int.from_bytes(bytes(key)[_KEY_VERSION], "big") == _OFFSET_COMMIT


def _note(changes: dict[Commit, OffsetAndMetadata | None], key: bytes, value: bytes | None) -> None:
    found, committed = GROUP_LOG.decode(key, value)
    place = cast(OffsetCommitKey, found)
    where = place.group, place.topic, place.partition
    if committed is None:
        changes[where] = None
        return
    offset = cast(OffsetCommitValue, committed)
    changes[where] = OffsetAndMetadata(offset.offset, offset.metadata, offset.leader_epoch)
