"""Fetch the records of one range of offsets in an executor. No other module here fetches records.

Invariants:
* A range gives the same records each time it is read. Compaction and transaction markers may leave
  gaps in its offsets.
* A range ends at `end` even if the log has no record there any more.
* An offset or a topic that was deleted is an error or a gap, as the option `failOnDataLoss` says.
* No record is of another topic than the range, even if the topic was deleted and made again after
  the range was planned or after the consumer last read it.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from moldau.client import PartitionColumns
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.executors.clients import CLIENTS
from moldau.executors.ranges import POLL_S, RangeConsumer
from moldau.runtime.children import Mailbox
from moldau.runtime.real import RealClock
from moldau.spark.ranges import TOPIC_RECREATED, OffsetRange

_BATCH_RECORDS: Final = 50_000
_KEPT_PARTITIONS: Final = 4
"""The consumer keeps this many paused partitions, up to 8 MB each of its 64 MB."""
_MISSING_ERRORS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""The driver knows a partition that is new, or the topic was deleted."""
_STALE_METADATA_ERRORS: Final = (
    *_MISSING_ERRORS,
    ErrorCode.OFFSET_NOT_AVAILABLE,  # the topic was made again: an old position is not valid
)
"""Errors that newer metadata may resolve."""


class PolledRecords(NamedTuple):
    """The records of one poll. Only the first `length` of them belong to the range."""

    columns: PartitionColumns
    length: int


def fetch(
    settings: Mapping[str, str], wanted: OffsetRange, *, fails_on_loss: bool, timeout_ms: int
) -> Iterator[PolledRecords]:
    """Yield the records of a range in the order of offsets, as columns in buffers.

    `fails_on_loss` is the option `failOnDataLoss`. `timeout_ms` limits a time without progress."""
    CLIENTS.drop_idle()
    reader = _RangeReader(settings, wanted, fails_on_loss=fails_on_loss, timeout_ms=timeout_ms)
    try:
        yield from reader.records()
    finally:
        reader.close()


class _RangeReader:
    """Reads one range. `position` is the offset of the next record."""

    def __init__(
        self,
        settings: Mapping[str, str],
        wanted: OffsetRange,
        *,
        fails_on_loss: bool,
        timeout_ms: int,
    ) -> None:
        self._wanted = wanted
        self._fails_on_loss = fails_on_loss
        self._timeout_ms = timeout_ms
        self._clock = RealClock()
        self._progress_at_s = self._clock.monotonic()
        self._is_topic_checked = False
        self._missing_error: KafkaError | None = None
        """The brokers did not know the partition, and nothing was read since."""
        self.position = wanted.start
        # Spark collects garbage after each task: without this, 35 ms for the modules alone.
        self._place = RangeConsumer(settings, {wanted.where: wanted.topic_id}, gc.freeze)
        self._place.seek({wanted.where: wanted.start})

    def records(self) -> Iterator[PolledRecords]:
        """Yield the records that the log has in the range, one part for each poll."""
        wanted = self._wanted
        while self.position < wanted.end:
            for part in self._poll():
                count = bisect_left(part.offsets, wanted.end)
                if count:
                    yield PolledRecords(part, count)
                    # Spark worked on the part during the `yield`: that is no time without progress.
                    self._progress_at_s = self._clock.monotonic()

    def _poll(self) -> list[PartitionColumns]:
        where = self._wanted.where
        most = min(_BATCH_RECORDS, self._wanted.end - self.position)
        try:
            parts = self._place.poll([where], most)
        except KafkaError as error:
            self._on_error(error)
            return []
        if parts and not self._is_topic_checked:
            self._is_topic_checked = not self._place.other_topics()
            if not self._is_topic_checked:
                self._on_other_topic()
                return []
        reached = self._place.consumer.position(where)
        if reached is not None and reached > self.position:
            self.position, self._progress_at_s = reached, self._clock.monotonic()
            self._missing_error = None
        elif self._is_timed_out:
            self._on_timeout()
        return parts

    def close(self) -> None:
        """Stop fetching, so that the next range does not wait for a useless fetch."""
        self._place.release(_KEPT_PARTITIONS)

    @property
    def _is_timed_out(self) -> bool:
        return self._clock.monotonic() - self._progress_at_s > self._timeout_ms / 1000

    def _on_error(self, error: KafkaError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_offset_out_of_range(error)
            return
        if error.code in _MISSING_ERRORS and self._is_timed_out:
            self._on_deleted_topic(error.code)
            return
        if error.code not in _STALE_METADATA_ERRORS or self._is_timed_out:
            raise error
        if error.code in _MISSING_ERRORS:
            self._missing_error = without_frames(error)
            self._place.consumer.close()
        self._reposition()

    def _on_offset_out_of_range(self, error: KafkaError) -> None:
        """Handle a position that is not in the log. Raise an error if losses must fail.

        Otherwise continue where the log begins. If the log ends before the position, wait, and end
        the range if the log does not grow in time."""
        if self._fails_on_loss:
            raise self._loss_error(error.code, "records that the batch should hold were deleted")
        where, end = self._wanted.where, self._wanted.end
        first = self._place.consumer.beginning_offsets([where])[where]
        if first > self.position:
            self.position = min(first, end)
        elif self._is_timed_out:
            self.position = end
        else:
            Mailbox[None]().take(POLL_S)
        self._reposition()

    def _on_other_topic(self) -> None:
        """Handle records of a topic with the same name and another id, and drop them.

        Either the metadata are old, or the range's topic was deleted. Wait for newer metadata.
        After the timeout raise an error, or end the range if losses must not fail."""
        if not self._is_timed_out:
            Mailbox[None]().take(POLL_S)
            self._reposition()
            return
        if self._fails_on_loss:
            raise self._loss_error(ErrorCode.UNKNOWN_TOPIC_ID, TOPIC_RECREATED)
        self.position = self._wanted.end

    def _on_deleted_topic(self, code: ErrorCode) -> None:
        """Handle a topic or partition that the brokers have not known for the whole timeout.

        Raise an error, or end the range if losses must not fail."""
        if self._fails_on_loss:
            raise self._loss_error(code, "the topic or the partition was deleted")
        self.position = self._wanted.end

    def _on_timeout(self) -> None:
        """Handle a partition that gave no record in time.

        If its topic was deleted, that is a loss. If the log ends before the range and losses must
        not fail, end the range. Otherwise raise TimeoutError."""
        where = self._wanted.where
        trouble = self._place.consumer.troubles().get(where, self._missing_error)
        if trouble is not None and trouble.code in _MISSING_ERRORS:
            self._on_deleted_topic(trouble.code)
            return
        if not self._fails_on_loss and self._log_end() <= self.position:
            self.position = self._wanted.end
            return
        raise TimeoutError(
            f"{where} gave no record at or after offset {self.position} in {self._timeout_ms} ms: "
            f"check that its leader runs, or raise the option kafkaConsumer.pollTimeoutMs"
        )

    def _log_end(self) -> int:
        where = self._wanted.where
        return self._place.consumer.end_offsets([where])[where]

    def _reposition(self) -> None:
        self._place.seek({self._wanted.where: self.position})
        self._is_topic_checked = False

    def _loss_error(self, code: ErrorCode, reason: str) -> KafkaError:
        where, start, end, _ = self._wanted
        advice = "set failOnDataLoss=false to continue without them"
        return KafkaError(code, f"{reason}: {advice}", **where._asdict(), start=start, end=end)
