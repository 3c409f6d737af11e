"""The runtime of one shard and its partition: loads, decides, appends, replays, parks, and ticks.

Order of one request: decide -> append the records as one batch -> replay them -> park the answers
until the high watermark has passed everything appended so far. A rejected append changes nothing:
none of its records was replayed. Decisions that do not depend on each other (commits of offsets)
are gathered: those of one turn of the event loop share one batch and one write. Before any other
decision the gathered records are replayed.

Invariants:
- One decision is made at a time, after all records that were appended before are replayed.
  (Gathered decisions do not see each other's records.)
- Every parked request is answered, at the latest when the shard is unloaded.
- While the shard loads, the log is read off the event loop and replayed on it in short runs.

If the log of a shard cannot be read or replayed, the shard stays closed (NOT_COORDINATOR) until
`CoordinatorRuntime.elect` loads it again: guessing would silently lose offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from moldau.broker.coordinator.batches import (
    Ended,
    Piece,
    Stored,
    chunks,
    decode_piece,
    encode_batch,
)
from moldau.broker.coordinator.outcome import Outcome, answered
from moldau.broker.coordinator.parked import OnAnswer, Waiting, as_answer
from moldau.broker.coordinator.shard import NO_PRODUCER, S
from moldau.broker.decision.outcome import give
from moldau.broker.decision.parked import Parked
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.failures import UnencodableMessage

if TYPE_CHECKING:
    from moldau.broker.coordinator.metrics import CoordinatorMetrics
    from moldau.broker.coordinator.shard import Decide
    from moldau.broker.log.slice import LogSlice
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.purgatory import Handle, Purgatory
    from moldau.logging import Logger
    from moldau.protocol.schemas.coordinator_log import CoordinatorLog
    from moldau.records import Codec
    from moldau.runtime import Runtime

REPLAYED_AT_ONCE: Final = 500
GATHERED_MAX: Final = 1000
TICKS_AT_ONCE: Final = 50
_OF_ONE_OF_THEM: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Errors of a shared batch that may be the fault of one of its outcomes only."""
_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000


class State(Enum):
    """The states of a shard. LOADING -> ACTIVE -> CLOSED; LOADING -> CLOSED."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class Terms(NamedTuple):
    """Values of the settings."""

    codec: Codec
    load_bytes: int
    """How many bytes one read of the log takes while loading."""
    commit_timeout_ms: int
    linger_ms: int
    """How long decisions are gathered. If it is not positive, they are gathered for the rest of the
    event loop's turn. That adapts to the load: the more there is to do, the longer a turn takes."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all shards of a coordinator share."""

    runtime: Runtime
    purgatory: Purgatory
    log: Logger
    schema: CoordinatorLog
    terms: Callable[[], Terms]
    """The values as of now."""
    metrics: CoordinatorMetrics


class ShardShell(Generic[S]):
    """One shard while this node leads its partition."""

    def __init__(self, ground: Ground, partition: Partition, shard: S) -> None:
        """Begin to load the shard."""
        self.state = State.LOADING
        self.shard = shard
        self.partition = partition
        self._ground = ground
        self._gathered: list[Outcome] = []
        self._timer: Handle | None = None
        self._timer_ms = 0
        self._loop = asyncio.get_running_loop()
        self._monotonic_ns = ground.runtime.clock.monotonic_ns
        self._observe = ground.metrics.processing.observe
        self._loading = ground.runtime.spawn(
            self._load(), name=f"load {partition.topic}-{partition.index}"
        )

    def is_active(self) -> bool:
        """Whether the shard is loaded and not closed."""
        return self.state is State.ACTIVE

    def is_closed(self) -> bool:
        """Whether the shard failed to load, or this node no longer leads its partition."""
        return self.state is State.CLOSED

    # Requests.

    def check(self) -> None:
        """Raise KafkaError if nothing can be decided now."""
        if self.state is State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is State.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def run(self, decide: Decide[S], on_answer: OnAnswer) -> None:
        """Decide now. `on_answer` is the ticket of the decision. It also receives a KafkaError that
        the decision raises, or the reason why nothing can be decided now."""
        if self._gathered:
            self._write_gathered()
        if self.state is not State.ACTIVE:
            self._turn_away(on_answer)
            return
        began_ns = self._monotonic_ns()
        now_ms = began_ns // _MS
        outcome = None
        try:
            outcome = decide(self.shard, now_ms)
        except KafkaError as error:
            outcome = answered(on_answer, error)
        finally:
            if outcome is None:  # a bug: the exception reaches the caller; drop what was created
                self._settle(now_ms)
        self._do(outcome, now_ms)
        self._processed(began_ns)

    def gather(self, decide: Decide[S], on_answer: OnAnswer) -> None:
        """Decide like `run`, but independently of the other gathered decisions. The outcome may
        share its batch with those of the same turn of the event loop."""
        if self.state is not State.ACTIVE:
            self._turn_away(on_answer)
            return
        try:
            outcome = decide(self.shard, self._now_ms())
        except KafkaError as error:
            give(on_answer, error)
            return
        self._gathered.append(outcome)
        if len(self._gathered) == 1:
            linger_ms = self._ground.terms().linger_ms
            if linger_ms > 0:
                self._loop.call_later(linger_ms / 1000, self._write_gathered)
            else:
                self._loop.call_soon(self._write_gathered)
        elif len(self._gathered) >= GATHERED_MAX:
            self._write_gathered()

    def each(self, decide: Callable[[S, int], Iterable[Outcome]]) -> None:
        """Do one outcome after the other: each is done before the next is requested. Does nothing
        while the shard is not active."""
        if self._gathered:
            self._write_gathered()
        if not self.is_active():
            return
        now_ms = self._now_ms()
        for outcome in decide(self.shard, now_ms):
            self._do(outcome, now_ms)
            if not self.is_active():
                return
        self._settle(now_ms)

    def close(self) -> None:
        """Close the shard: this node no longer leads the partition, or the shard has failed."""
        if self.state is State.CLOSED:
            return
        was_active = self.is_active()
        self.state = State.CLOSED
        self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered = self._gathered, []
        waiting = [ticket for outcome in gathered for ticket, _ in outcome.answers]
        if was_active:
            waiting += self.shard.on_unloaded()
        for ticket in waiting:
            give(ticket, KafkaError(ErrorCode.NOT_COORDINATOR))

    def _turn_away(self, on_answer: OnAnswer) -> None:
        try:
            self.check()
        except KafkaError as error:
            give(on_answer, error)

    # Outcomes.

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        began_ns = self._monotonic_ns()
        if len(gathered) == 1:
            self._do(gathered[0], began_ns // _MS)
        else:
            self._do_together(gathered, began_ns // _MS)
        self._processed(began_ns)

    def _do_together(self, outcomes: Sequence[Outcome], now_ms: int) -> None:
        together = Outcome(
            tuple(record for outcome in outcomes for record in outcome.records),
            tuple(answer for outcome in outcomes for answer in outcome.answers),
        )
        try:
            self._append(together, now_ms)
        except KafkaError as error:
            for outcome in outcomes:
                if error.code in _OF_ONE_OF_THEM:
                    self._do(outcome, now_ms)
                else:
                    self._refuse(outcome, error, now_ms)
            return
        self._park(together)
        if not self.shard.is_settled:
            self._settle(now_ms)

    def _do(self, outcome: Outcome, now_ms: int) -> None:
        try:
            self._append(outcome, now_ms)
        except KafkaError as error:
            self._refuse(outcome, error, now_ms)
        else:
            self._park(outcome)
        if not self.shard.is_settled:
            self._settle(now_ms)

    def _append(self, outcome: Outcome, now_ms: int) -> None:
        """Append and replay the records. If it raises KafkaError, neither was done."""
        records = outcome.records
        if not records:
            return
        ground, partition = self._ground, self.partition
        wall_ms = ground.runtime.clock.wall_ms()
        limit = partition.log.config.max_message_bytes
        try:
            batch = encode_batch(ground.schema, records, wall_ms, ground.terms().codec, limit)
        except UnencodableMessage as error:  # a bug; only the callers of this batch learn of it
            ground.log.failure("a record does not fit its schema", error, **self._facts())
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        offset = partition.append(batch, -1, wall_ms).first_offset
        is_replayed = False
        try:
            for record in records:
                self.shard.replay(offset, NO_PRODUCER, record.key, record.value, now_ms)
                offset += 1
            is_replayed = True
        finally:
            if not is_replayed:
                ground.log.error("replaying what was appended failed", **self._facts())
                self.close()

    def _park(self, outcome: Outcome) -> None:
        answers = outcome.answers
        if not answers:
            return
        partition, log = self.partition, self.partition.log
        end_offset = log.log_end_offset
        if log.high_watermark >= end_offset:
            for ticket, response in answers:
                give(ticket, response)
            return
        parked = Parked(partition.leader_epoch, end_offset, outcome.records, answers)
        waiting = Waiting(partition, parked, self._measured())
        timeout_ms = self._ground.terms().commit_timeout_ms
        self._ground.purgatory.watch(waiting, (partition,), timeout_ms)

    def _refuse(self, outcome: Outcome, error: KafkaError, now_ms: int) -> None:
        # A failing disk closes the shard within the append. Then `on_failure` cannot decide again.
        if outcome.on_failure is None or not self.is_active():
            heard = as_answer(error)
            for ticket, _ in outcome.answers:
                give(ticket, heard)
            return
        instead = outcome.on_failure(error, now_ms)
        assert not instead.records, "what follows a refused append must not need another"
        self._park(instead)

    def _settle(self, now_ms: int) -> None:
        """Let the shard tidy up, and set the timer for its next deadline."""
        while self.is_active():
            more = self.shard.settle(now_ms)
            if more is None:
                self._set_timer()
                return
            try:
                self._append(more, now_ms)
            except KafkaError as error:
                self._refuse(more, error, now_ms)
            else:
                self._park(more)

    # Time.

    def _now_ms(self) -> int:
        return self._monotonic_ns() // _MS

    def _processed(self, began_ns: int) -> None:
        self._observe((self._monotonic_ns() - began_ns) / _SECOND)

    def _measured(self) -> Callable[[], None]:
        """A function to call when the answers that are parked now are given.
        It measures the wait."""
        began_ns = self._monotonic_ns()

        def ended() -> None:
            took_ns = self._monotonic_ns() - began_ns
            self._ground.metrics.parked.observe(took_ns / _SECOND)

        return ended

    def _set_timer(self) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        ahead = due_ms / 1000 - self._ground.runtime.clock.monotonic()
        self._timer = self._loop.call_later(max(ahead, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._gathered:
            self._write_gathered()
        now_ms = self._now_ms()
        for _ in range(TICKS_AT_ONCE):
            due_ms = self.shard.next_deadline_ms()
            if not self.is_active() or due_ms is None or due_ms > now_ms:
                break
            self._do(self.shard.on_tick(now_ms), now_ms)
        if self.is_active():
            self._set_timer()

    # Loading.

    async def _load(self) -> None:
        ground = self._ground
        began = ground.runtime.clock.monotonic()
        count = None
        try:
            count = await self._replay_log()
        except (MoldauError, OSError) as error:
            what = "a shard of a coordinator cannot be loaded"
            ground.log.failure(what, error, **self._facts())
        finally:
            if count is None:
                self.close()
        if count is None or self.state is not State.LOADING:
            return
        self.state = State.ACTIVE
        took = ground.runtime.clock.monotonic() - began
        ground.metrics.loading.observe(took)
        if count:
            seconds = round(took, 3)
            what = "loaded a coordinator's shard"
            ground.log.info(what, **self._facts(), records=count, seconds=seconds)
        self._settle(self._now_ms())

    async def _replay_log(self) -> int:
        """Replay the whole log. Returns the number of its records and transaction markers."""
        partition, ground = self.partition, self._ground
        offset, count, unknown = partition.log_start_offset, 0, 0
        while offset < partition.log_end_offset:
            piece = partition.log.read(offset, ground.terms().load_bytes)
            found = await ground.runtime.run_blocking(self._decode, piece, offset)
            if self.state is not State.LOADING:
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
            ground.log.warn(
                "left out records of kinds that are not known here",
                **self._facts(),
                count=unknown,
            )
        return count

    def _decode(self, piece: LogSlice, offset: int) -> Piece:
        return decode_piece(self._ground.schema, piece.read(), offset)

    def _replay(self, entries: Sequence[Stored | Ended]) -> None:
        now_ms = self._now_ms()
        for entry in entries:
            if isinstance(entry, Stored):
                self.shard.replay(entry.offset, entry.producer_id, entry.key, entry.value, now_ms)
            else:
                self.shard.replay_end(entry.producer_id, is_commit=entry.is_commit)

    def _facts(self) -> dict[str, object]:
        return {"topic": self.partition.topic, "partition": self.partition.index}
