"""The leader's view of one partition: who is in sync, and what all of them hold.

Invariants:
* high_watermark <= the end of every replica of the maximal ISR, and it never goes back.
* The maximal ISR is every replica that is in sync as far as the controller may already believe
  (KIP-497): one that may be elected must hold all that a reader has seen.
* The leader's own end is where it vouches for its log: behind that a flush is due first. So one
  replica that acknowledges after fsync is the same rule as three that wait for each other.

Pure: offsets come in as they are learnt; what follows from them is read by whoever acts on it.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.errors.codes import ErrorCode, KafkaError

ALL_IN_SYNC = -1
"""`acks=all`; 1 is the leader alone and 0 nobody."""
UNKNOWN_END = -1


class Leader:
    """See the module; for one leader epoch."""

    __slots__ = (
        "_ends",
        "_is_alone",
        "_is_held",
        "end_offset",
        "high_watermark",
        "in_sync_count",
        "isr",
        "replica_count",
        "replica_id",
    )

    def __init__(
        self, replica_id: int, isr: Collection[int], replica_count: int, high_watermark: int
    ) -> None:
        """`replica_count` are those that the partition shall have, in sync or not."""
        assert replica_id in isr, "a leader is in sync with itself"
        self.replica_id = replica_id
        self.isr = frozenset(isr)
        self.replica_count = replica_count
        self.high_watermark = high_watermark
        self.in_sync_count = len(self.isr)
        self.end_offset = UNKNOWN_END
        """Below it the leader itself vouches for what it has."""
        self._is_alone = self.in_sync_count == 1
        self._is_held = False
        self._ends: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Leader({self.replica_id}, isr={sorted(self.isr)}, at={self.high_watermark})"

    def on_own_end(self, end_offset: int) -> bool:
        """The leader vouches for all below `end_offset`; whether the high watermark moved."""
        if not self._is_alone:
            return self.on_end(self.replica_id, end_offset)
        self.end_offset = end_offset
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    def on_end(self, replica_id: int, end_offset: int) -> bool:
        """The replica holds all below `end_offset`; whether the high watermark moved."""
        if replica_id != self.replica_id:
            self._ends[replica_id] = end_offset
        elif self._is_held:
            return False
        else:
            self.end_offset = end_offset
        ends = self._ends
        held = min(
            self.end_offset if each == self.replica_id else ends.get(each, UNKNOWN_END)
            for each in self.isr
        )
        if held <= self.high_watermark:
            return False
        self.high_watermark = held
        return True

    def hold(self) -> None:
        """The leader vouches for nothing more until `carry_on`: its log is about to be another."""
        self._is_held, self._is_alone = True, False

    def carry_on(self) -> None:
        """The end of `hold`; say with `on_own_end` how far it vouches again."""
        self._is_held, self._is_alone = False, self.in_sync_count == 1

    def check_acks(self, acks: int, min_insync_replicas: int) -> None:
        """Refuse an append that could not be acknowledged as it asks to be."""
        if acks == ALL_IN_SYNC and self.in_sync_count < self._least(min_insync_replicas):
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS, min_insync_replicas)

    def is_acknowledged(self, last_offset: int, acks: int, min_insync_replicas: int) -> bool:
        """Whether what was appended up to `last_offset` is as safe as `acks` asks for.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND when it is, but on fewer replicas than there must be.
        """
        if acks != ALL_IN_SYNC:
            return last_offset < self.end_offset
        if last_offset >= self.high_watermark:
            return False
        if self.in_sync_count < self._least(min_insync_replicas):
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, min_insync_replicas)
        return True

    def _least(self, min_insync_replicas: int) -> int:
        """More than there are replicas cannot be asked for."""
        return min(min_insync_replicas, self.replica_count)

    def _too_few(self, code: ErrorCode, min_insync_replicas: int) -> KafkaError:
        return KafkaError(code, isr=sorted(self.isr), min_insync_replicas=min_insync_replicas)
