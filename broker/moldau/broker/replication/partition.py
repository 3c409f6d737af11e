"""One replica that this node hosts, and the operations of handlers on it.

Invariants:
* While it leads, the log's high watermark is its `Leader`'s. Requests that wait for the partition
  are tried after every move: of the high watermark or log start, of the role, after a failure or
  deletion.
* Records become visible when they are as safe as the topic requires. If `flush.messages` requires a
  flush, an append is acknowledged and readable only after it. In Kafka the flush is a part of the
  append; here many appends share a flush (`GroupCommit`), and none blocks.
* Once it does not lead any more, every call that needs the leader raises the reason.
* An answer that names the end of the partition asks `ends` first: the high watermark of a new
  leader may be older than what an earlier one acknowledged.
* It is the only way to its log for handlers and coordinators. A read may answer a `LaterSlice`, so
  records may lie where they cannot be read at once: below the local start of a tiered log, if its
  remote part is attached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from moldau.broker.log.admission import Admitted
from moldau.broker.log.appending import AppendedFields
from moldau.broker.log.group_commit import GroupCommit
from moldau.broker.log.leader_epochs import NO_EPOCH, EpochEnd
from moldau.broker.log.log import AppendInfo, PartitionLog
from moldau.broker.log.offset_lookup import (
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    LargeLookup,
    OffsetAt,
)
from moldau.broker.log.offsets import LogOffsets
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.broker.log.slice import LogSlice
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.leader import UNKNOWN_EPOCH, Leader, Ready
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.topic_config import TopicConfig
from moldau.broker.replication.traffic import REQUEST_BYTES, TopicTraffic
from moldau.broker.replication.watchers import Watchers
from moldau.broker.tiered.remote_lookup import RemoteLookup
from moldau.broker.tiered.served_partition import RemoteRequest, ServedPartition
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.records import Buffer

LOG_END: Final = -1
"""What a replica reads, in the place of an isolation level."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_RESERVED_PREFIX: Final = "__"
_OF_REMOTE: Final = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
NOBODY: Final = -1
TO_HIGH_WATERMARK: Final = -1
"""As the offset of DeleteRecords: delete all records that consumers may have read."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The metadata of a partition that this node leads or follows."""

    topic: str
    index: int
    topic_id: Uuid
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    directory_id: Uuid | None = None
    """The log directory that has this node's replica; None if it is not chosen or not known."""
    is_new: bool = False
    """Whether the partition was created just now, so that no log of it can exist yet."""
    leader: int = NOBODY
    """The broker that leads the partition; only read if that is another broker."""
    partition_epoch: int = UNKNOWN_EPOCH
    """The partition epoch of this state; -1 means unknown, and counts as newer than all before."""


class Partition:
    """One replica. Only `Replicas` creates it. `log` is for the modules of this package."""

    __slots__ = (
        "_acks_min",
        "_commit",
        "_is_held",
        "_leader",
        "_purgatory",
        "_refusal",
        "_served",
        "epoch_start_offset",
        "index",
        "is_fetch_throttled",
        "is_in_sync",
        "is_reserved",
        "is_send_throttled",
        "leader_epoch",
        "leader_id",
        "log",
        "log_config",
        "offsets",
        "topic",
        "topic_id",
        "traffic",
        "watchers",
        "work",
    )

    def __init__(
        self,
        leadership: Leadership,
        log: PartitionLog,
        commit: GroupCommit,
        purgatory: Purgatory,
        traffic: TopicTraffic | None = None,
    ) -> None:
        """`commit` belongs to the log's directory. Call `lead` or `follow` next."""
        self.traffic = traffic or TopicTraffic()
        self.work = 0
        """What clients, followers and coordinators cost this replica as leader: their bytes, and
        REQUEST_BYTES for each batch and read. It only grows."""
        self.topic = leadership.topic
        self.index = leadership.index
        self.topic_id = leadership.topic_id
        self.is_reserved = leadership.topic.startswith(_RESERVED_PREFIX)
        """Whether its name begins like those of the cluster's own topics."""
        self.leader_epoch = leadership.leader_epoch
        self.log = log
        self.offsets: LogOffsets = log.state
        """The offsets of its log, for code that reads several of them for every request."""
        self.log_config = log.config
        """The settings of its log."""
        self._commit = commit
        self._purgatory = purgatory
        self._leader: Leader | None = None
        self._is_held = False
        self._acks_min = 1
        self.watchers = Watchers()
        """The sessions of followers that read the partition."""
        self.epoch_start_offset = log.log_end_offset
        """The end of the log when this replica began to lead or follow in the present epoch."""
        self.leader_id = NOBODY
        self.is_in_sync = False
        """While it follows: whether it is in the ISR in the metadata."""
        self.is_send_throttled = self.is_fetch_throttled = False
        self._refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._served: ServedPartition | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    # Called by handlers.

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
        """The offset below which records are as safe as the topic requires, and may be read."""
        return self.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""
        return self.offsets.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.log_end_offset

    @property
    def size_bytes(self) -> int:
        """What its log has on this node's disk."""
        return self.log.size_bytes

    def check_epoch(self, current_leader_epoch: int, *, must_lead: bool = True) -> None:
        """Reject a request with a different leader epoch (-1 means that it has none), and any
        request where this replica does not lead, unless a follower may serve it."""
        epoch = self.leader_epoch
        if current_leader_epoch != epoch and current_leader_epoch != NO_EPOCH:
            code = ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > epoch:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, **_facts(self), epoch=current_leader_epoch, our_epoch=epoch)
        if self._leader is None:
            self._check_following(must_lead=must_lead)

    def _check_following(self, *, must_lead: bool = False) -> None:
        if must_lead or not self.is_following:
            raise self._refused()

    def append_usual(self, records: Buffer, acks: int, now_ms: int) -> AppendedFields | None:
        """Append like `append`, or return None and do nothing if the batch needs a full check.
        OversizedRecords: it needs one in a thread."""
        leader = self._leader
        if leader is None:
            raise self._refused()
        if acks < 0:
            leader.check_acks(acks, self._acks_min)
        fields = self.log.append_usual(records, self.leader_epoch, now_ms)
        if fields is not None:
            self.on_appended(leader)
        return fields

    def append(
        self, records: Buffer, acks: int, now_ms: int, admitted: Admitted | None = None
    ) -> AppendInfo:
        """Append a client's batch. Raise KafkaError if it is rejected, without effect. The disk's
        room is checked here, and not in `append_usual`. `admitted` is what the batch's check in a
        thread has returned. Without it, raise OversizedRecords, without effect, if the batch
        decompresses to so much that it needs one.

        The batch is stamped in place if its buffer is writable. `is_acknowledged` says when to
        answer: at once, unless a flush is due or other replicas must have the batch.
        """
        leader = self._leader
        if leader is None:
            raise self._refused()
        if acks < 0:
            leader.check_acks(acks, self._acks_min)
        room = self.log.state.owner.room
        if room.is_short:
            room.check()
        if admitted is None:
            fields = self.log.append_small(records, self.leader_epoch, now_ms)
        else:
            fields = self.log.append_admitted(admitted, self.leader_epoch, now_ms)
        self.on_appended(leader)
        return AppendInfo(*fields)

    def append_own(self, batches: Buffer, now_ms: int, transaction_version: int = 0) -> AppendInfo:
        """Append batches of this node's coordinators: their records, or transaction markers.

        They need enough in-sync replicas, like a client's batch with acks=all. Raise KafkaError if
        they are rejected; then none of them is in the log. See `LogAppender.append_own`.

        A log that a restore fills takes none of them: a marker would stand where a batch of the
        backup belongs. Coordinators send their markers again until that is done.
        """
        leader = self._leader
        if leader is None:
            raise self._refused()
        if self.log_config.is_restoring:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "the topic is being restored, and takes no marker until that is done",
                **_facts(self),
            )
        leader.check_acks(-1, self._acks_min)
        fields = self.log.append_own(batches, self.leader_epoch, now_ms, transaction_version)
        self.work += len(batches) + REQUEST_BYTES
        self.on_appended(leader)
        return AppendInfo(*fields)

    def on_appended(self, leader: Leader) -> None:
        """Submit a due flush after an append, or advance the leader's end and the high
        watermark."""
        log = self.log.state
        end = log.log_end_offset
        if self.watchers.by_replica:
            self.watchers.tell()
        if end - log.flushed_end_offset >= log.config.flush_messages:
            self._commit.submit(self.log, self._on_durable)
        else:
            leader.on_own_end(end)
            if leader.high_watermark > log.high_watermark:
                log.update_high_watermark(leader.high_watermark)
                self._purgatory.moved(self)
                return
        if not leader.is_alone:
            self._purgatory.moved(self)  # followers wait for new records

    def is_acknowledged(self, last_offset: int, acks: int) -> bool:
        """Whether an append that ended with `last_offset` may be answered, as `acks` requires.
        Raise KafkaError if it never will be: the partition is gone, failed, or has another
        leader."""
        leader = self._leader
        if leader is None:
            raise self._refused()
        return leader.is_acknowledged(last_offset, acks, self._acks_min)

    def fetch_bound(self, isolation_level: int, is_follower: bool) -> int:
        """Return the offset before which the reader may read. A consumer may also read from a
        follower: call `check_epoch` before."""
        if self._leader is None:
            self._check_following(must_lead=is_follower)
        log = self.log.state
        if is_follower:
            return log.log_end_offset
        if isolation_level == READ_COMMITTED:
            return log.last_stable_offset
        return log.high_watermark

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper: int,
        min_one_batch: bool,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> LogSlice | LaterSlice:
        """Read like `PartitionLog.read`, below `upper`, which `fetch_bound` returned.

        A `LaterSlice` is the answer if the records are in remote storage. If it has not come, the
        caller waits for it in the purgatory, under the slice itself as key. With READ_COMMITTED it
        brings the aborted transactions. Raise KafkaError: OFFSET_OUT_OF_RANGE; for LOG_END, which
        is another replica, OFFSET_MOVED_TO_TIERED_STORAGE; or the reason why this replica cannot
        be read.
        """
        if self._leader is None:
            self._check_following()
        try:
            return self.log.read(offset, max_bytes, upper, min_one_batch=min_one_batch)
        except KafkaError as error:
            log = self.log.state
            is_remote = log.log_start_offset <= offset < log.local_log_start_offset
            if not is_remote or error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        if max_bytes <= 0 and not min_one_batch:
            return LogSlice(None, 0, 0)
        is_committed = isolation_level == READ_COMMITTED
        wanted = RemoteRequest(offset, max_bytes, upper, is_committed, self.is_leader)
        return _read_remote(self, LaterSlice(self._purgatory), wanted, isolation_level)

    @property
    def remote_part(self) -> ServedPartition | None:
        """What the remote tier has of the partition; None if it has none, or if it is not known
        yet whether it does."""
        return self._served

    def attach_remote(self, served: ServedPartition | None) -> None:
        """Serve the remote part of the log from now on; None serves no longer any."""
        self._served = served
        self.on_moved()

    def read_own(self, offset: int, max_bytes: int) -> LogSlice:
        """Read up to the log's end, for a coordinator that loads its records. They are never
        later: topics of coordinators are compacted, so all their records are in the log."""
        return self.log.read(offset, max_bytes)

    def aborted_transactions(self, offset: int, read: LogSlice) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer must skip in `read`, a
        slice from `offset`, ordered by first offset. Clients may rely on this order."""
        found = self.log.reading.aborted_transactions(offset, read)
        if len(found) > 1:
            found.sort(key=lambda each: each.first_offset)
        return found

    def look_up(
        self, timestamp: int, upper: int | None = None, start_offset: int = 0
    ) -> OffsetAt | LargeLookup | RemoteLookup | None:
        """Answer ListOffsets for a timestamp, or one of its special values, below `upper` (default:
        the log's end), over both tiers, but leave to the caller what takes long: a large batch to
        its thread, and a look into the remote tier to its task. If that finds nothing, the caller
        looks again from its `next_offset`. Raise KafkaError if the log cannot be read."""
        return _look_up(self, timestamp, upper, start_offset)

    @property
    def producers(self) -> Mapping[int, ProducerStateEntry]:
        """What the log knows of its producers, by producer id. Each change of a producer makes
        another entry, so two looks at one entry have the same object only if nothing happened."""
        return self.log.producers.entries

    def on_moved(self) -> None:
        """Try the requests that wait for the partition, and inform the watchers. Called after each
        change that they may wait for; by `Replicas` if retention has moved the log's start."""
        self._purgatory.moved(self)
        if self.watchers.by_replica:
            self.watchers.tell()

    # Followers and the ISR.

    @property
    def leadership(self) -> Leader:
        """The state of the followers and the ISR. Raise KafkaError if it does not lead."""
        if self._leader is None:
            raise self._refused()
        return self._leader

    def on_fetch(
        self, replica_id: int, offset: int, log_start_offset: int, now_ms: int, broker_epoch: int
    ) -> int | None:
        """Note a fetch of another replica: its log ends at `offset`, and begins at
        `log_start_offset`. Return a replica that may join the ISR now."""
        leader = self.leadership
        leader.on_log_start(replica_id, log_start_offset)
        leader.on_fetch(replica_id, offset, self.log_end_offset, now_ms, broker_epoch)
        ready = leader.ready()
        self._carry_out(ready)
        return ready.candidate

    def low_watermark(self, replica_ids: Collection[int]) -> int:
        """Return the smallest log start of this and the given replicas; -1 if one is unknown."""
        leader, lowest = self.leadership, self.log.log_start_offset
        for replica_id in replica_ids:
            if replica_id != leader.replica_id:
                lowest = min(lowest, leader.log_start_of(replica_id))
        return lowest

    def take_over(self, high_watermark: int, log_start_offset: int) -> None:
        """Apply the leader's high watermark and log start to this follower. Consumers that read
        here may then see more records."""
        log = self.log
        is_news = log.update_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            is_news |= log.increment_log_start_offset(min(log_start_offset, log.high_watermark))
        if is_news:
            self.on_moved()

    def on_isr(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        """Apply the controller's answer to a proposal."""
        leader = self._leader
        if leader is None or leader_epoch != self.leader_epoch:
            return
        leader.on_isr(isr, leader.replica_count, partition_epoch)
        self.log.state.is_everywhere = len(isr) >= leader.replica_count
        self._carry_out(leader.ready())

    def withdraw(self, leader: Leader) -> None:
        """Drop the proposal of `leader`, which the controller rejected."""
        if self._leader is leader:
            leader.withdraw()
            self._carry_out(leader.ready())

    def _carry_out(self, ready: Ready) -> None:
        if self.log.update_high_watermark(ready.high_watermark) or ready.is_changed:
            self.on_moved()

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """Return the largest epoch up to `leader_epoch`, and its end, for OffsetForLeaderEpoch. The
        epoch in which this replica leads is known even before a record is written in it."""
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
        """Raise the log start to `offset` (-1: the high watermark) and return the new one. Durable
        after `Replicas.log_starts_durable`.

        Raise POLICY_VIOLATION if only compaction may delete, and OFFSET_OUT_OF_RANGE beyond the
        records that consumers could read.
        """
        if self._leader is None:
            raise self._refused()
        log = self.log
        if log.config.is_compacted and not log.config.is_deleted:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted", **_facts(self)
            )
        if offset == TO_HIGH_WATERMARK:
            offset = log.high_watermark
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, **_facts(self), offset=offset)
        if log.increment_log_start_offset(offset):
            self.on_moved()
        return log.log_start_offset

    # Called by `Replicas`.

    def lead(self, leadership: Leadership, node_id: int, now_ms: int = 0) -> None:
        """Lead from now on, in this epoch. The records of the log count as this leader's when they
        are as safe as the topic requires. Called again in the same epoch, only the ISR and the
        replicas change."""
        log, known = self.log, self._leader
        replica_count = len(leadership.replicas)
        self.log.state.is_everywhere = len(leadership.isr) >= replica_count
        if known is not None and self.leader_epoch == leadership.leader_epoch:
            known.on_isr(leadership.isr, replica_count, leadership.partition_epoch)
            ready = known.ready()
            if log.update_high_watermark(ready.high_watermark) or ready.is_changed:
                self._trust_log(known)
            else:
                self.watchers.tell()  # the replicas may have changed
            return
        self.leader_epoch, self.leader_id = leadership.leader_epoch, node_id
        self._leader = leader = Leader(node_id, leadership.isr, replica_count, log.high_watermark)
        leader.on_isr(leadership.isr, replica_count, leadership.partition_epoch)
        self.epoch_start_offset = log.log_end_offset
        leader.begin(log.log_end_offset, now_ms)
        leader.require(self._acks_min)
        if self._is_held:
            leader.hold()
        self._trust_log(leader)

    def follow(self, leadership: Leadership, node_id: int) -> None:
        """Follow another broker from now on, in this epoch."""
        if self.leader_epoch != leadership.leader_epoch:
            self.epoch_start_offset = self.log.log_end_offset
        self.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER, leadership.leader_epoch)
        self.leader_id = leadership.leader
        self.is_in_sync = node_id in leadership.isr
        self.log.state.is_everywhere = len(leadership.isr) >= len(leadership.replicas)

    def hold(self) -> None:
        """Accept appends, but acknowledge none of them until `carry_on`."""
        self._is_held = True
        if self._leader is not None:
            self._leader.hold()

    def carry_on(self) -> None:
        """End `hold`: acknowledge the appends that are as safe as the topic requires."""
        self._is_held = False
        if self._leader is not None:
            self._leader.carry_on()
            self._trust_log(self._leader)

    def move_to(self, log: PartitionLog, commit: GroupCommit) -> None:
        """Replace the log by one with the same records in another directory. The partition must be
        held. Appends that waited until the old log was durable wait for the new one."""
        assert self._is_held
        log.state.is_everywhere = self.log.state.is_everywhere
        self.log, self._commit = log, commit
        self.offsets, self.log_config = log.state, log.config

    def configure(self, config: TopicConfig) -> None:
        """Use other settings, from the next append on."""
        self._acks_min = config.min_insync_replicas
        self.is_send_throttled = self.index in config.sends_throttled
        self.is_fetch_throttled = self.index in config.fetches_throttled
        self.log_config = config.log
        self.log.configure(config.log)
        if self._leader is not None:
            self._leader.require(self._acks_min)
            self._carry_out(self._leader.ready())

    def stop(self, reason: ErrorCode, leader_epoch: int | None = None) -> None:
        """Stop leading or following, and fail waiting requests. `leader_epoch` is the new one."""
        self._leader = None
        self.leader_id = NOBODY
        self._refusal = reason
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        self.on_moved()

    # Inside.

    def _trust_log(self, leader: Leader) -> None:
        """Trust the log to its end, or if a flush is due, submit it and trust the flushed part."""
        log = self.log
        end = log.log_end_offset
        if end - log.flushed_end_offset >= log.config.flush_messages:
            end = log.flushed_end_offset
            self._commit.submit(log, self._on_durable)
        leader.on_own_end(end)
        self.log.update_high_watermark(leader.ready().high_watermark)
        self.on_moved()

    def _on_durable(self, error: KafkaError | None) -> None:
        """React to the end of a flush. After an error, `Replicas` handles the failed directory."""
        leader = self._leader
        if error is not None or leader is None:
            return
        log = self.log
        leader.on_own_end(log.flushed_end_offset)
        log.update_high_watermark(leader.high_watermark)
        self.on_moved()

    def _refused(self) -> KafkaError:
        return KafkaError(self._refusal, **_facts(self))


def _facts(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.index}


def judge(partition: Partition, records: Buffer, now_ms: int) -> Callable[[], Admitted]:
    """Return the check of a large batch of a client, which may run in a thread. What it returns is
    for `Partition.append`."""
    return partition.log.judge(records, now_ms)


# The remote part.


def _remote_part(partition: Partition) -> ServedPartition:
    served = partition.remote_part
    if served is None or not served.is_ready:
        raise KafkaError(
            ErrorCode.REPLICA_NOT_AVAILABLE,
            "the remote segments of the partition are not known yet",
            **_facts(partition),
        )
    return served


def _read_remote(
    partition: Partition, later: LaterSlice, wanted: RemoteRequest, isolation_level: int
) -> LogSlice | LaterSlice:
    """Read below the local start."""
    log = partition.log
    if isolation_level == LOG_END:
        raise KafkaError(
            ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
            **_facts(partition),
            offset=wanted.offset,
            local_log_start_offset=log.local_log_start_offset,
        )
    if wanted.offset >= wanted.upper:
        return LogSlice(None, 0, 0)
    if _remote_part(partition).read(log, wanted, later):
        return later
    # There is a hole before the local log.
    return log.read(log.local_log_start_offset, wanted.max_bytes, wanted.upper)


def _look_up(
    partition: Partition, timestamp: int, upper: int | None, start_offset: int
) -> OffsetAt | LargeLookup | RemoteLookup | None:
    """Answer ListOffsets where a part of the log is remote only, or about the remote part."""
    log, served = partition.log, partition.remote_part
    if timestamp in _OF_REMOTE:
        if served is not None:
            is_last = timestamp == LATEST_TIERED
            return served.last_tiered(log) if is_last else served.first_pending(log)
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        start_offset = max(start_offset, log.log_start_offset)
        if start_offset < log.local_log_start_offset:
            return RemoteLookup(_remote_part(partition), log, timestamp, start_offset)
    return log.reading.look_up(timestamp, upper, start_offset)
