"""The metadata log for the controller's decision runtime: a quorum that this node leads.

Invariant: after an append that the disk rejects the log is not trusted. `on_failure` is called, and
the next start reads the log again. Records that do not fit into one batch do not reach the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.controller.metadata_batches import encode_records
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.log import Append
    from moldau.broker.raft.quorum import Quorum
    from moldau.protocol.declare import MetadataRecord


class MetadataLog:
    """The metadata log as a `decision.log.DecisionLog`. Its records belong to no producer."""

    def __init__(
        self,
        quorum: Quorum,
        image: Image,
        wall_ms: Callable[[], int],
        on_appended: Callable[[], None],
        on_failure: Callable[[KafkaError], None],
    ) -> None:
        """`image` determines which versions of records the cluster knows. `on_appended` is called
        when the log has grown."""
        self._quorum = quorum
        self._image = image
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._on_failure = on_failure

    @property
    def leader_epoch(self) -> int | None:
        return self._quorum.epoch if self._quorum.is_leading else None

    @property
    def end_offset(self) -> int:
        return self._quorum.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._quorum.high_watermark

    def is_level(self, leader_epoch: int) -> bool:
        return self.high_watermark >= self.end_offset and self.leader_epoch == leader_epoch

    def append(self, append: Append[MetadataRecord]) -> int:
        if append.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        now_ms = self._wall_ms()
        version = self._image.features.metadata_version
        try:
            batch = encode_records(append.records, version, now_ms)
        except CorruptLog as error:
            reason, facts = error.reason, error.context
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason, **facts) from error
        try:
            last_offset = self._quorum.append(batch, now_ms)
        except KafkaError as error:
            self._on_failure(error)
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
        self._on_appended()
        return last_offset - len(append.records) + 1
