"""The leader's view of one partition: its followers, the replicas in sync, the high watermark.

Invariants:
* high_watermark <= the end of every replica of the maximal ISR, and it never goes back.
* The maximal ISR is every replica that the controller may already count as in sync (KIP-497): the
  confirmed ones, and the proposed ones. A replica that may be elected must hold all records that a
  reader has seen.
* The high watermark does not move while fewer replicas are in sync than `min.insync.replicas`
  requires (KIP-966): the last one of them may lose its disk's cache.
* The leader's own end is the offset up to which it trusts its log: records after it need a flush
  first. So one rule covers a single replica that acknowledges after fsync, and three replicas that
  wait for each other.

One `Leader` serves one leader epoch, over all changes of the ISR. A volatile core: offsets and
times are arguments of its events, and `ready` returns what the partition must do after them. The
high watermark is soft state, which may be read without `ready`: an append that moves it does
nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

ALL_IN_SYNC = -1
"""`acks=all`. 1 waits for the leader alone, and 0 for no replica."""
UNKNOWN_END = -1
UNKNOWN_EPOCH: Final = -1


class Ready(NamedTuple):
    """What the partition must do, in this order."""

    high_watermark: int
    """Take it over into the log; if it has moved there, try the requests that wait."""
    is_changed: bool
    """Something else has changed that requests or followers wait for: try them."""
    candidate: int | None
    """A follower that has fetched and may join the ISR now: propose it."""


class FetchClock:
    """The time of a follower's last fetch in a session with settled partitions. The follower has
    all records of a settled partition, so a fetch updates only this time and not each such
    partition."""

    __slots__ = ("fetched_ms",)

    def __init__(self) -> None:
        self.fetched_ms = 0


@dataclass(slots=True)
class Follower:
    """The state of another replica, from its fetches."""

    end_offset: int = UNKNOWN_END
    broker_epoch: int = UNKNOWN_EPOCH
    caught_up_ms: int = 0
    """The last time at which it had all records of the leader."""
    fetched_ms: int = 0
    leader_end_offset: int = 0
    """The leader's log end at the follower's last fetch."""
    log_start_offset: int = UNKNOWN_END
    clock: FetchClock | None = None
    """While the follower is settled: each fetch of its session is one from the log end."""

    @property
    def last_caught_up_ms(self) -> int:
        """The last time at which it had all records of the leader, also while it is settled."""
        clock = self.clock
        return self.caught_up_ms if clock is None else max(self.caught_up_ms, clock.fetched_ms)

    def unsettle(self) -> None:
        """Stop using the session's clock. Its last fetch still counts for this partition."""
        clock, self.clock = self.clock, None
        if clock is not None and clock.fetched_ms > self.fetched_ms:
            self.fetched_ms = clock.fetched_ms
            self.caught_up_ms = max(self.caught_up_ms, clock.fetched_ms)


class Leader:
    """The state of one leader epoch; see the module."""

    __slots__ = (
        "_candidate",
        "_epoch_start_offset",
        "_followers",
        "_is_alone",
        "_is_changed",
        "_is_held",
        "_maximal",
        "_min_isr",
        "_partition_epoch",
        "end_offset",
        "high_watermark",
        "in_sync_count",
        "isr",
        "proposed",
        "replica_count",
        "replica_id",
    )

    def __init__(
        self, replica_id: int, isr: Collection[int], replica_count: int, high_watermark: int
    ) -> None:
        """`replica_count` is the number of assigned replicas, in sync or not."""
        assert replica_id in isr, "a leader is in sync with itself"
        self.replica_id = replica_id
        self.replica_count = replica_count
        self.high_watermark = high_watermark
        self.end_offset = UNKNOWN_END
        """The offset below which the leader itself trusts its log."""
        self.proposed: frozenset[int] | None = None
        """The ISR that is proposed to the controller; None without a proposal."""
        self._epoch_start_offset = 0
        self._min_isr = 1
        self._partition_epoch = UNKNOWN_EPOCH
        self._is_held = False
        self._followers: dict[int, Follower] = {}
        self._is_changed = False
        self._candidate: int | None = None
        self._confirm(frozenset(isr))

    def __repr__(self) -> str:
        return f"Leader({self.replica_id}, isr={sorted(self.isr)}, at={self.high_watermark})"

    def begin(self, log_end_offset: int, now_ms: int) -> None:
        """Begin the epoch at this offset. Replicas in sync count as caught up until now."""
        self._epoch_start_offset = log_end_offset
        for replica_id in self.isr - {self.replica_id}:
            self._followers[replica_id] = Follower(caught_up_ms=now_ms, fetched_ms=now_ms)

    def ready(self) -> Ready:
        """Return what there is to do after the events since the last call."""
        ready = Ready(self.high_watermark, self._is_changed, self._candidate)
        self._is_changed, self._candidate = False, None
        return ready

    @property
    def is_alone(self) -> bool:
        """Whether the high watermark follows the leader's own end alone."""
        return self._is_alone

    # Ends of logs.

    def on_own_end(self, end_offset: int) -> None:
        """Note how far the leader trusts its log."""
        if not self._is_alone:
            self.on_end(self.replica_id, end_offset)
            return
        self.end_offset = end_offset
        if end_offset > self.high_watermark:
            self.high_watermark = end_offset

    def on_end(self, replica_id: int, end_offset: int) -> None:
        """Note a replica's log end."""
        if replica_id != self.replica_id:
            self._follower(replica_id).end_offset = end_offset
        elif self._is_held:
            return
        else:
            self.end_offset = end_offset
        self._advance()

    def on_fetch(
        self, replica_id: int, offset: int, log_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """Note a fetch: the follower has all below `offset`."""
        follower = self._follower(replica_id)
        if follower.clock is not None:
            follower.unsettle()
        if offset >= log_end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif offset >= follower.leader_end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.fetched_ms, follower.leader_end_offset = now_ms, log_end_offset
        follower.broker_epoch = broker_epoch
        self.on_end(replica_id, offset)
        if self.may_join(replica_id):
            self._candidate = replica_id

    def settle(self, replica_id: int, clock: FetchClock) -> None:
        """Settle the follower, whose last fetch showed that it has all records. Until `unsettle`,
        `clock` has the time of its fetches. It must be in sync: otherwise each fetch may let it
        join."""
        assert replica_id in self.isr
        self._follower(replica_id).clock = clock

    def unsettle(self, replica_id: int, clock: FetchClock) -> None:
        """End the settled state of this clock: each fetch of the follower is noted again."""
        known = self._followers.get(replica_id)
        if known is not None and known.clock is clock:
            known.unsettle()

    def on_log_start(self, replica_id: int, log_start_offset: int) -> None:
        """Note the log start of a follower."""
        follower = self._follower(replica_id)
        if follower.log_start_offset != log_start_offset:
            follower.log_start_offset = log_start_offset
            self._is_changed = True

    def log_start_of(self, replica_id: int) -> int:
        """Return the log start of a follower; -1 if it is unknown."""
        known = self._followers.get(replica_id)
        return UNKNOWN_END if known is None else known.log_start_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start of the replicas that may be elected: this leader's own, which
        is `log_start_offset`, and those of the maximal ISR; -1 if one is unknown. What is remote
        and below it may be deleted: no replica serves it any more, whichever leads."""
        lowest = log_start_offset
        for replica_id in self._maximal:
            if replica_id != self.replica_id:
                lowest = min(lowest, self.log_start_of(replica_id))
        return lowest

    def caught_up_replicas(self, offset: int) -> dict[int, tuple[int, int]]:
        """Return the followers in sync whose logs hold `offset` or end there: the log end of each,
        and the last time at which it had all records of the leader."""
        return {
            replica_id: (known.end_offset, known.last_caught_up_ms)
            for replica_id, known in self._followers.items()
            if replica_id in self.isr and known.log_start_offset <= offset <= known.end_offset
        }

    def _follower(self, replica_id: int) -> Follower:
        known = self._followers.get(replica_id)
        if known is None:
            known = self._followers[replica_id] = Follower()
        return known

    def _advance(self) -> None:
        if self._is_under_min:
            return
        followers, own = self._followers, self.replica_id
        held = self.end_offset
        for replica_id in self._maximal:
            if replica_id != own:
                known = followers.get(replica_id)
                end_offset = UNKNOWN_END if known is None else known.end_offset
                if end_offset < held:
                    held = end_offset
        if held > self.high_watermark:
            self.high_watermark = held

    # The ISR.

    def on_isr(self, isr: Collection[int], replica_count: int, partition_epoch: int) -> None:
        """Apply an ISR that the controller confirmed. An answer that comes after a later change
        does nothing. A proposal that is based on the old state is dropped."""
        is_late = UNKNOWN_EPOCH < partition_epoch <= self._partition_epoch
        if is_late or self.replica_id not in isr:
            return
        self._partition_epoch = partition_epoch
        if self.isr != frozenset(isr) or self.replica_count != replica_count:
            self._is_changed = True
        self.replica_count = replica_count
        self.proposed = None
        self._confirm(frozenset(isr))
        self._advance()  # a proposed replica may have held the high watermark back

    @property
    def partition_epoch(self) -> int:
        """The partition epoch of the confirmed ISR, on which a proposal is based."""
        return self._partition_epoch

    def propose(self, isr: Collection[int]) -> None:
        """Propose this ISR to the controller. From now on, replicas that are to join hold the high
        watermark back. Replicas that are to leave do so until the change is confirmed."""
        assert self.proposed is None, "one proposal at a time"
        self.proposed = frozenset(isr)
        self._confirm(self.isr)

    def withdraw(self) -> None:
        """Drop the proposal after a final rejection."""
        self.proposed = None
        self._confirm(self.isr)
        self._advance()

    def may_join(self, replica_id: int) -> bool:
        """Whether the replica has all committed records and all of earlier epochs, and may join."""
        known = self._followers.get(replica_id)
        return (
            known is not None
            and self.proposed is None
            and replica_id not in self.isr
            and known.end_offset >= max(self.high_watermark, self._epoch_start_offset)
        )

    def lagging(self, log_end_offset: int, now_ms: int, lag_ms_max: int) -> frozenset[int]:
        """Return the replicas in sync that have not been caught up for longer than `lag_ms_max`."""
        late = []
        for replica_id in self.isr - {self.replica_id}:
            known = self._follower(replica_id)
            caught_up_ms = known.last_caught_up_ms
            if known.end_offset != log_end_offset and now_ms - caught_up_ms > lag_ms_max:
                late.append(replica_id)
        return frozenset(late)

    def broker_epoch(self, replica_id: int) -> int:
        """Return the broker epoch of the follower's last fetch (KIP-903); -1 if it is unknown."""
        known = self._followers.get(replica_id)
        return UNKNOWN_EPOCH if known is None else known.broker_epoch

    @property
    def min_isr(self) -> int:
        """The in-sync replicas that a write with acks=all needs."""
        return self._least(self._min_isr)

    def require(self, min_isr: int) -> None:
        """Set `min.insync.replicas`."""
        self._min_isr = min_isr
        self._confirm(self.isr)
        self._advance()

    def _confirm(self, isr: frozenset[int]) -> None:
        self.isr = isr
        self._maximal = isr if self.proposed is None else isr | self.proposed
        self.in_sync_count = len(isr)
        self._is_alone = len(self._maximal) == 1 and not self._is_held and not self._is_under_min

    @property
    def _is_under_min(self) -> bool:
        return self.in_sync_count < self._least(self._min_isr)

    # Acknowledgement.

    def hold(self) -> None:
        """Trust no more of the log until `carry_on`: the log is about to be replaced."""
        self._is_held, self._is_alone = True, False

    def carry_on(self) -> None:
        """End `hold`. Call `on_own_end` next, to say how far the log is trusted again."""
        self._is_held = False
        self._confirm(self.isr)

    def check_acks(self, acks: int, min_insync_replicas: int) -> None:
        """Reject an append that could not be acknowledged as `acks` requires."""
        if acks == ALL_IN_SYNC and self.in_sync_count < self._least(min_insync_replicas):
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS, min_insync_replicas)

    def is_acknowledged(self, last_offset: int, acks: int, min_insync_replicas: int) -> bool:
        """Whether the records up to `last_offset` are as safe as `acks` requires.

        Raise NOT_ENOUGH_REPLICAS_AFTER_APPEND if they are, but on too few replicas in sync.
        """
        if acks != ALL_IN_SYNC:
            return last_offset < self.end_offset
        if last_offset >= self.high_watermark:
            return False
        if self.in_sync_count < self._least(min_insync_replicas):
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, min_insync_replicas)
        return True

    def _least(self, min_insync_replicas: int) -> int:
        """Return the required number of replicas, at most the number that exists."""
        return min(min_insync_replicas, self.replica_count)

    def _too_few(self, code: ErrorCode, min_insync_replicas: int) -> KafkaError:
        return KafkaError(code, isr=sorted(self.isr), min_insync_replicas=min_insync_replicas)
