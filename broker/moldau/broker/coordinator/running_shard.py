"""One shard and its partition: loads it, lets it decide, and wakes it when its deadlines are due.

Decisions are carried out by the `DecisionRuntime` (`moldau.broker.decision.runtime`): append,
replay, park, release. Commits of offsets are gathered: those of one turn of the event loop, or of
`group.coordinator.append.linger.ms`, share one batch and one write.

Invariants:
- A shard serves one leader epoch of its partition.
- Every parked request is answered, at the latest when the shard is unloaded.
- While the shard loads, the log is read off the event loop and replayed on it in short runs.

If the log of a shard cannot be read or replayed, the shard stays closed (NOT_COORDINATOR) until
`CoordinatorRuntime.elect` loads it again: guessing would silently lose offsets.

The log of one shard for its decision runtime: a partition that this node leads.

Invariant: an append in another leader epoch than the partition's is rejected. Its decision may be
based on records that were truncated since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias

from moldau.broker.coordinator.batches import (
    Piece,
    StoredRecord,
    TransactionMarker,
    chunks,
    decode_piece,
    encode_batch,
)
from moldau.broker.coordinator.outcome import answered
from moldau.broker.coordinator.parked import CommitWatch, OnAnswer, as_answer
from moldau.broker.coordinator.shard import S
from moldau.broker.decision.runtime import DecisionRuntime, Hooks
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.failures import UnencodableMessage
from moldau.protocol.messages.write_txn_markers import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from moldau.broker.coordinator.metrics import CoordinatorMetrics
    from moldau.broker.coordinator.outcome import Effect, LogRecord
    from moldau.broker.decision.log import Append
    from moldau.broker.log.marker import Marker
    from moldau.broker.log.slice import LogSlice
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.purgatory import Handle, Purgatory
    from moldau.logging import Logger
    from moldau.protocol.schemas.coordinator_log import CoordinatorLog
    from moldau.records import Codec
    from moldau.runtime import Runtime


class BatchEncoding(NamedTuple):
    """How records are encoded as batches."""

    schema: CoordinatorLog
    terms: Callable[[], ShardSettings]
    wall_ms: Callable[[], int]
    log: Logger


class ShardLog:
    """The log of one shard. Satisfies `decision.log.DecisionLog`."""

    __slots__ = ("_encoding", "_leader_id", "_partition")

    def __init__(self, partition: Partition, encoding: BatchEncoding) -> None:
        self._partition = partition
        self._leader_id = partition.leader_id if partition.is_leader else None
        """The id of this node, if it leads."""
        self._encoding = encoding

    @property
    def leader_epoch(self) -> int | None:
        partition = self._partition
        return partition.leader_epoch if partition.leader_id == self._leader_id else None

    @property
    def end_offset(self) -> int:
        return self._partition.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.offsets.high_watermark

    def is_level(self, leader_epoch: int) -> bool:
        partition = self._partition
        log = partition.offsets
        return (
            log.high_watermark >= log.log_end_offset
            and partition.leader_epoch == leader_epoch
            and partition.leader_id == self._leader_id
        )

    def append(self, append: Append[LogRecord]) -> int:
        partition, encoding = self._partition, self._encoding
        records, leader_epoch, producer, _ = append
        if leader_epoch != partition.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        wall_ms = encoding.wall_ms()
        limit, codec = partition.log_config.max_message_bytes, encoding.terms().codec
        try:
            batch = encode_batch(encoding.schema, records, wall_ms, codec, limit, producer)
        except UnencodableMessage as error:  # a bug; only the callers of this batch get the error
            facts = {"topic": partition.topic, "partition": partition.index}
            encoding.log.failure("a record does not fit its schema", error, **facts)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return partition.append_own(batch, wall_ms).first_offset


REPLAYED_AT_ONCE: Final = 500
TICKS_AT_ONCE: Final = 50
PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0
"""The pause before the next tick after one that raised an error."""
_MS: Final = 1_000_000


class ShardState(Enum):
    """The states of a shard. LOADING -> ACTIVE -> CLOSED; LOADING -> CLOSED."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class ShardSettings(NamedTuple):
    """The values of the settings that the shards use."""

    codec: Codec
    load_bytes: int
    """How many bytes of the log one read takes while loading."""
    commit_timeout_ms: int
    linger_ms: int
    """How long decisions are gathered. If it is not positive, they are gathered for the rest of the
    event loop's turn. That adapts to the load: the more there is to do, the longer a turn takes."""


CarryOut: TypeAlias = "Callable[[tuple[Effect, ...], RunningShard[Any]], None]"
"""Carries out the effects of a shard's decisions. What comes of them are decisions of that shell
again (`RunningShard.run`), which refuses them if it is closed by then."""


def no_effects(effects: tuple[Effect, ...], shell: RunningShard[Any]) -> None:
    """Carry out the effects of a coordinator that has none."""
    raise AssertionError(f"nothing carries out {effects}")


@dataclass(frozen=True, slots=True)
class ShardServices:
    """The services that all shards of a coordinator share."""

    runtime: Runtime
    purgatory: Purgatory
    log: Logger
    schema: CoordinatorLog
    terms: Callable[[], ShardSettings]
    """Returns the current values of the settings."""
    metrics: CoordinatorMetrics
    carry_out: CarryOut = no_effects
    """Carries out the effects of committed decisions."""


class RunningShard(Generic[S]):
    """One shard while this node leads its partition."""

    def __init__(self, services: ShardServices, partition: Partition, shard: S) -> None:
        """Create the shell and begin to load the shard."""
        self.state = ShardState.LOADING
        self.shard = shard
        self.partition = partition
        self._services = services
        self._timer: Handle | None = None
        self._timer_ms = 0
        self._loop = asyncio.get_running_loop()
        self._monotonic_ns = services.runtime.clock.monotonic_ns
        self._watch = CommitWatch(
            services.purgatory,
            partition,
            lambda: services.terms().commit_timeout_ms,
            self._monotonic_ns,
        )
        decisions = self._make_decisions()
        self._decisions = self._watch.decisions = decisions
        # The runtime's own methods, because each request calls them.
        self.run = decisions.run
        self.gather = decisions.gather
        self.each = decisions.each
        self._loading = services.runtime.spawn(
            self._load(), name=f"load {partition.topic}-{partition.index}"
        )

    def _make_decisions(self) -> DecisionRuntime[S, LogRecord]:
        services, partition = self._services, self.partition
        encoding = BatchEncoding(
            services.schema, services.terms, services.runtime.clock.wall_ms, services.log
        )
        hooks: Hooks[LogRecord] = Hooks(
            replay=self._replay_appended,
            as_answer=as_answer,
            on_broken=self._on_broken,
            on_parked=self._watch.begin,
            on_gathered=self._on_gathered,
            on_settled=self._set_timer,
            on_effects=self._on_effects,
            processed=services.metrics.processed,
            waited=services.metrics.parked.observe,
        )
        return DecisionRuntime(
            self.shard,
            ShardLog(partition, encoding),
            hooks,
            partition.leader_epoch,
            self._monotonic_ns,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )

    def is_active(self) -> bool:
        """Whether the shard is loaded and not closed."""
        return self.state is ShardState.ACTIVE

    def is_closed(self) -> bool:
        """Whether the shard failed to load, or this node no longer leads its partition."""
        return self.state is ShardState.CLOSED

    # Requests.

    def check(self) -> None:
        """Raise KafkaError if no decision can be made now."""
        refusal = self._decisions.refusal
        if refusal is not None:
            raise KafkaError(refusal)

    def end_transaction(self, marker: Marker, on_answer: OnAnswer) -> None:
        """Write the end of a transaction to the log of this shard, and apply it. `on_answer` gets
        an empty response when it is committed. Raise KafkaError if it was not written."""
        self._decisions.write_gathered()
        self.check()
        batch = marker.batch(self._services.runtime.clock.wall_ms())
        self.partition.append_own(
            batch, self._services.runtime.clock.wall_ms(), marker.transaction_version
        )
        self.shard.replay_end(marker.producer_id, is_commit=marker.is_commit)
        written = WriteTxnMarkersResponse(markers=[])
        self.run(
            lambda shard, now_ms: answered(on_answer, written), on_answer, name="WriteTxnMarkers"
        )

    def close(self) -> None:
        """Close the shard: this node no longer leads the partition, or the shard has failed."""
        if self.state is ShardState.CLOSED:
            return
        was_active = self.is_active()
        self.state = ShardState.CLOSED
        self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._watch.end()
        tickets = self.shard.on_unloaded() if was_active else ()
        self._decisions.close(ErrorCode.NOT_COORDINATOR, tickets)

    # Hooks of the decision runtime.

    def _on_gathered(self) -> None:
        linger_ms = self._services.terms().linger_ms
        if linger_ms > 0:
            self._loop.call_later(linger_ms / 1000, self._decisions.write_gathered)
        else:
            self._loop.call_soon(self._decisions.write_gathered)

    def _on_effects(self, effects: tuple[Effect, ...]) -> None:
        self._services.carry_out(effects, self)

    def _replay_appended(self, offset: int, append: Append[LogRecord], now_ms: int) -> None:
        records, _, producer, _ = append
        replay, producer_id = self.shard.replay, producer.id
        for key, value, _ in records:
            replay(offset, producer_id, key, value, now_ms)
            offset += 1

    def _on_broken(self, name: str) -> None:
        what = "replaying what was appended failed"
        self._services.log.error(what, **self._facts(), decision=name)
        self.close()

    # Time.

    def _set_timer(self) -> None:
        self._wake_when_due(0.0)

    def _wake_when_due(self, least_seconds: float) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        ahead = due_ms / 1000 - self._services.runtime.clock.monotonic()
        self._timer = self._loop.call_later(max(ahead, least_seconds), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        pause = PAUSE_AFTER_FAILURE_SECONDS
        try:
            self._carry_out_due()
            pause = 0.0
        finally:
            if self.is_active():
                self._wake_when_due(pause)

    def _carry_out_due(self) -> None:
        self._decisions.write_gathered()
        now_ms = self._now_ms()
        for _ in range(TICKS_AT_ONCE):
            due_ms = self.shard.next_deadline_ms()
            if not self.is_active() or due_ms is None or due_ms > now_ms:
                break
            self._decisions.perform(self.shard.on_tick(now_ms), now_ms)

    def _now_ms(self) -> int:
        return self._monotonic_ns() // _MS

    # Loading.

    async def _load(self) -> None:
        services = self._services
        began = services.runtime.clock.monotonic()
        count = None
        try:
            count = await self._replay_log()
        except (MoldauError, OSError) as error:
            what = "a shard of a coordinator cannot be loaded"
            services.log.failure(what, error, **self._facts())
        finally:
            if count is None:
                self.close()
        if count is None or self.state is not ShardState.LOADING:
            return
        self.state = ShardState.ACTIVE
        took = services.runtime.clock.monotonic() - began
        services.metrics.loading.observe(took)
        if count:
            seconds = round(took, 3)
            what = "loaded a coordinator's shard"
            services.log.info(what, **self._facts(), records=count, seconds=seconds)
        self._decisions.open(self._now_ms())

    async def _replay_log(self) -> int:
        """Replay the whole log. Return the number of its records and transaction markers."""
        partition, services = self.partition, self._services
        offset, count, unknown = partition.log_start_offset, 0, 0
        while offset < partition.log_end_offset:
            piece = partition.read_own(offset, services.terms().load_bytes)
            found = await services.runtime.run_blocking(self._decode, piece, offset)
            if self.state is not ShardState.LOADING:
                return count
            for chunk in chunks(found.entries, REPLAYED_AT_ONCE):
                self._replay(chunk)
                await asyncio.sleep(0)
            if found.next_offset == offset:
                break  # the rest was removed by compaction
            count += len(found.entries)
            unknown += found.unknown
            offset = found.next_offset
        if unknown:
            services.log.warn(
                "left out records of kinds that are not known here",
                **self._facts(),
                count=unknown,
            )
        return count

    def _decode(self, piece: LogSlice, offset: int) -> Piece:
        return decode_piece(self._services.schema, piece.read(), offset)

    def _replay(self, entries: Sequence[StoredRecord | TransactionMarker]) -> None:
        now_ms = self._now_ms()
        for entry in entries:
            if isinstance(entry, StoredRecord):
                self.shard.replay(entry.offset, entry.producer_id, entry.key, entry.value, now_ms)
            else:
                self.shard.replay_end(entry.producer_id, is_commit=entry.is_commit)

    def _facts(self) -> dict[str, object]:
        return {"topic": self.partition.topic, "partition": self.partition.index}
