"""One replica that this node hosts, and what handlers do with it.

Invariants:
* While it leads, the log's high watermark is the one of its `Leader`, and requests that wait for
  the partition are told of every move: high watermark, log start, role, failure, deletion.
* Records become visible when they are as safe as the topic asks for: where `flush.messages` makes
  a flush due, an append is acknowledged and readable only after it, as in Kafka, where the flush is
  a part of the append. Here many appends share one (`GroupCommit`), and none blocks.
* Once it does not lead any more, for whatever reason, every call refuses with that reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from moldau.broker.log.appending import AppendedFields
from moldau.broker.log.group_commit import GroupCommit
from moldau.broker.log.leader_epochs import NO_EPOCH, EpochEnd
from moldau.broker.log.log import Appended, PartitionLog
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.leader import UNKNOWN_EPOCH, Leader
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.topic_config import TopicConfig
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.records import Buffer

READ_COMMITTED: Final = 1
_RESERVED_PREFIX: Final = "__"
NOBODY: Final = -1
TO_HIGH_WATERMARK: Final = -1
"""As the offset of DeleteRecords: all that consumers may have read."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the metadata says about a partition that this node leads or follows."""

    topic: str
    index: int
    topic_id: Uuid
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    directory_id: Uuid | None = None
    """The log directory that has this node's replica; None: not chosen, or not known."""
    is_new: bool = False
    """It was created just now, so that there cannot be a log of it yet."""
    leader: int = NOBODY
    """The broker that leads it; asked only where that is another one."""
    partition_epoch: int = UNKNOWN_EPOCH
    """Of this state; -1: not told, and newer than all before."""


class Watcher(Protocol):
    """A follower's session that is told of changes between its fetches."""

    def on_change(self) -> None:
        """Something changed that a fetch may have to tell. Must not call the partition."""

    def on_displaced(self) -> None:
        """Another session of the same follower watches the partition now."""


class Partition:
    """Made by `Replicas` only; `log` is for reading what needs no rule (ListOffsets, producers)."""

    __slots__ = (
        "_acks_min",
        "_commit",
        "_is_held",
        "_leader",
        "_purgatory",
        "_refusal",
        "_watchers",
        "index",
        "is_fetch_throttled",
        "is_in_sync",
        "is_reserved",
        "is_send_throttled",
        "leader_epoch",
        "leader_id",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        leadership: Leadership,
        log: PartitionLog,
        commit: GroupCommit,
        purgatory: Purgatory,
    ) -> None:
        """`commit` is that of the log's directory. `lead` says what it is."""
        self.topic = leadership.topic
        self.index = leadership.index
        self.topic_id = leadership.topic_id
        self.is_reserved = leadership.topic.startswith(_RESERVED_PREFIX)
        """Its name may be one of those that the cluster keeps to itself."""
        self.leader_epoch = leadership.leader_epoch
        self.log = log
        self._commit = commit
        self._purgatory = purgatory
        self._leader: Leader | None = None
        self._is_held = False
        self._acks_min = 1
        self._watchers: dict[int, Watcher] = {}
        self.leader_id = NOBODY
        self.is_in_sync = False
        """While it follows: the metadata say that it is in the ISR."""
        self.is_send_throttled = self.is_fetch_throttled = False
        self._refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    # What handlers ask.

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def is_following(self) -> bool:
        """Whether this replica follows a leader, and its log can be read."""
        is_refused = self._refusal is not ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._leader is None and self.leader_id != NOBODY and not is_refused

    @property
    def high_watermark(self) -> int:
        """Below it records are as safe as the topic asks for, and may be read."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is open."""
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    def check_epoch(self, current_leader_epoch: int, *, must_lead: bool = True) -> None:
        """Reject a request with a different leader epoch (-1 means that it has none), and any
        request where this replica does not lead, unless a follower may serve it."""
        epoch = self.leader_epoch
        if current_leader_epoch != epoch and current_leader_epoch != NO_EPOCH:
            code = ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > epoch:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, **self._facts(), epoch=current_leader_epoch, our_epoch=epoch)
        self._check_readable(must_lead=must_lead)

    def _check_readable(self, *, must_lead: bool = False) -> None:
        if self._leader is None and (must_lead or not self.is_following):
            raise self._refused()

    def append_usual(self, records: Buffer, acks: int, now_ms: int) -> AppendedFields | None:
        """As `append`, if there is nothing to say against the batch as it is; None: nothing was
        done, it needs a closer look."""
        leader = self._leader
        if leader is None:
            raise self._refused()
        if acks < 0:
            leader.check_acks(acks, self._acks_min)
        fields = self.log.append_usual(records, self.leader_epoch, now_ms)
        if fields is not None:
            self._on_appended(leader)
        return fields

    def append(self, records: Buffer, acks: int, now_ms: int) -> Appended:
        """Append the one batch of a client, stamped in place where it may be written.

        KafkaError refuses it without effect. Ask `is_acknowledged` for the answer: only where a
        flush is due, or other replicas must have it, is it not at once.
        """
        leader = self._leader
        if leader is None:
            raise self._refused()
        if acks < 0:
            leader.check_acks(acks, self._acks_min)
        fields = self.log.append_batch(records, self.leader_epoch, now_ms)
        self._on_appended(leader)
        return Appended(*fields)

    def _on_appended(self, leader: Leader) -> None:
        """The log is longer."""
        log = self.log.state
        end = log.log_end_offset
        if self._watchers:
            self._tell_watchers()
        if end - log.flushed_end_offset >= log.config.flush_messages:
            self._commit.submit(self.log, self._on_durable)
        elif leader.on_own_end(end):
            log.update_high_watermark(leader.high_watermark)
            self._purgatory.moved(self)
            return
        if not leader.is_alone:
            self._purgatory.moved(self)  # followers wait for the end of the log

    def is_acknowledged(self, last_offset: int, acks: int) -> bool:
        """Whether an append that ended with `last_offset` may be answered as `acks` asks.

        KafkaError when it never will be: the partition is gone, failed, or led by another."""
        leader = self._leader
        if leader is None:
            raise self._refused()
        return leader.is_acknowledged(last_offset, acks, self._acks_min)

    def fetch_bound(self, isolation_level: int, is_follower: bool) -> int:
        """The offset before which the asker may read. Consumers may read at a follower too: ask
        `check_epoch` before."""
        self._check_readable(must_lead=is_follower)
        log = self.log.state
        if is_follower:
            return log.log_end_offset
        if isolation_level == READ_COMMITTED:
            return log.last_stable_offset
        return log.high_watermark

    def read(self, offset: int, max_bytes: int, upper: int, min_one_batch: bool) -> LogSlice:
        """As `PartitionLog.read`, below `upper` of `fetch_bound`."""
        self._check_readable()
        return self.log.read(offset, max_bytes, upper, min_one_batch=min_one_batch)

    # Sessions of followers.

    def watch(self, replica_id: int, watcher: Watcher) -> None:
        """Tell `watcher` of changes: one session of each follower at a time."""
        before = self._watchers.get(replica_id)
        self._watchers[replica_id] = watcher
        if before is not None and before is not watcher:
            before.on_displaced()

    def unwatch(self, replica_id: int, watcher: Watcher) -> None:
        """Tell it no more."""
        if self._watchers.get(replica_id) is watcher:
            del self._watchers[replica_id]

    def _tell_watchers(self) -> None:
        for watcher in self._watchers.values():
            watcher.on_change()

    def _moved(self) -> None:
        """Try the requests that wait for the partition."""
        self._purgatory.moved(self)
        if self._watchers:
            self._tell_watchers()

    # Followers and the ISR.

    @property
    def leadership(self) -> Leader:
        """What is known of the followers. KafkaError when this replica does not lead."""
        if self._leader is None:
            raise self._refused()
        return self._leader

    def on_fetch(self, replica_id: int, offset: int, now_ms: int, broker_epoch: int) -> bool:
        """Another replica fetches from `offset`; whether it could join the ISR now."""
        leader, log = self.leadership, self.log
        if leader.on_fetch(replica_id, offset, log.log_end_offset, now_ms, broker_epoch):
            self._take_over_mark(leader)
        return leader.may_join(replica_id)

    def on_follower_start(self, replica_id: int, log_start_offset: int) -> None:
        """The log of another replica begins there, as its fetch tells."""
        if self.leadership.on_log_start(replica_id, log_start_offset):
            self._moved()

    def low_watermark(self, replica_ids: Collection[int]) -> int:
        """The smallest log start of this replica and of those; -1 while one has not told."""
        leader, lowest = self.leadership, self.log.log_start_offset
        for replica_id in replica_ids:
            if replica_id != leader.replica_id:
                lowest = min(lowest, leader.log_start_of(replica_id))
        return lowest

    def take_over(self, high_watermark: int, log_start_offset: int) -> None:
        """The leader's marks, told to this follower: consumers that read here may see more."""
        log = self.log
        is_news = log.update_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            is_news |= log.increment_log_start_offset(min(log_start_offset, log.high_watermark))
        if is_news:
            self._moved()

    def on_isr(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        """The controller's answer to a proposal."""
        leader = self._leader
        if leader is None or leader_epoch != self.leader_epoch:
            return
        if leader.on_isr(isr, leader.replica_count, partition_epoch):
            self._take_over_mark(leader)

    def withdraw(self, leader: Leader) -> None:
        """What `leader` proposed was refused."""
        if self._leader is leader and leader.withdraw():
            self._take_over_mark(leader)

    def _take_over_mark(self, leader: Leader) -> None:
        self.log.update_high_watermark(leader.high_watermark)
        self._moved()

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch: the largest epoch up to that one, and where it ends. The epoch in
        which we lead is known before anything was written in it."""
        if self._leader is None:
            raise self._refused()
        epochs, end = self.log.leader_epochs, self.log.log_end_offset
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, end)
        latest = epochs.latest_epoch
        if NO_EPOCH < leader_epoch < self.leader_epoch and (
            latest is None or latest < leader_epoch
        ):
            return EpochEnd(leader_epoch if latest is None else latest, end)
        return epochs.end_offset_for(leader_epoch, end)

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset` (-1: at the high watermark); the new beginning. Durable
        after `Replicas.log_starts_durable`.

        POLICY_VIOLATION where only compaction may delete; OFFSET_OUT_OF_RANGE beyond what consumers
        could read."""
        if self._leader is None:
            raise self._refused()
        log = self.log
        if log.config.is_compacted and not log.config.is_deleted:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted", **self._facts()
            )
        if offset == TO_HIGH_WATERMARK:
            offset = log.high_watermark
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, **self._facts(), offset=offset)
        if log.increment_log_start_offset(offset):
            self._moved()
        return log.log_start_offset

    # What `Replicas` tells.

    def lead(self, leadership: Leadership, node_id: int, now_ms: int = 0) -> None:
        """Lead from now on, in this epoch: what is in the log counts as ours, when it is as safe
        as the topic asks for. Told again, with another ISR, it goes on."""
        log, known = self.log, self._leader
        replica_count = len(leadership.replicas)
        if known is not None and self.leader_epoch == leadership.leader_epoch:
            if known.on_isr(leadership.isr, replica_count, leadership.partition_epoch):
                self._trust_log(known)
            else:
                self._tell_watchers()  # the replicas may be others
            return
        self.leader_epoch, self.leader_id = leadership.leader_epoch, node_id
        self._leader = leader = Leader(node_id, leadership.isr, replica_count, log.high_watermark)
        leader.on_isr(leadership.isr, replica_count, leadership.partition_epoch)
        leader.begin(log.log_end_offset, now_ms)
        leader.require(self._acks_min)
        if self._is_held:
            leader.hold()
        self._trust_log(leader)

    def follow(self, leadership: Leadership, node_id: int) -> None:
        """Follow another broker from now on, in this epoch."""
        self.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER, leadership.leader_epoch)
        self.leader_id = leadership.leader
        self.is_in_sync = node_id in leadership.isr

    def hold(self) -> None:
        """Take appends, and acknowledge none of them until `carry_on`."""
        self._is_held = True
        if self._leader is not None:
            self._leader.hold()

    def carry_on(self) -> None:
        """The end of `hold`: acknowledge what is as safe as the topic asks for."""
        self._is_held = False
        if self._leader is not None:
            self._leader.carry_on()
            self._trust_log(self._leader)

    def move_to(self, log: PartitionLog, commit: GroupCommit) -> None:
        """Another log that holds the same, in another directory, while it is held. What waited for
        the old one to be durable waits for this one."""
        assert self._is_held
        self.log, self._commit = log, commit

    def configure(self, config: TopicConfig) -> None:
        """Other settings from the next append on."""
        self._acks_min = config.min_insync_replicas
        self.is_send_throttled = self.index in config.sends_throttled
        self.is_fetch_throttled = self.index in config.fetches_throttled
        self.log.configure(config.log)
        if self._leader is not None and self._leader.require(self._acks_min):
            self._take_over_mark(self._leader)

    def stop(self, reason: ErrorCode, leader_epoch: int | None = None) -> None:
        """Lead no more. Waiting requests fail with `reason`; `leader_epoch` is the new leader's."""
        self._leader = None
        self.leader_id = NOBODY
        self._refusal = reason
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        self._moved()

    # Inside.

    def _trust_log(self, leader: Leader) -> None:
        """What is in the log counts as ours, when it is as safe as the topic asks for."""
        log = self.log
        end = log.log_end_offset
        if end - log.flushed_end_offset >= log.config.flush_messages:
            end = log.flushed_end_offset
            self._commit.submit(log, self._on_durable)
        leader.on_own_end(end)
        self._take_over_mark(leader)

    def _on_durable(self, error: KafkaError | None) -> None:
        """A flush is over. After an error the directory has failed, and has told `Replicas`."""
        leader = self._leader
        if error is not None or leader is None:
            return
        log = self.log
        if leader.on_own_end(log.flushed_end_offset):
            log.update_high_watermark(leader.high_watermark)
        self._moved()

    def _facts(self) -> dict[str, object]:
        return {"topic": self.topic, "partition": self.index}

    def _refused(self) -> KafkaError:
        return KafkaError(self._refusal, **self._facts())
