"""The shell of the accumulator: sends its requests, reports the responses, wakes it in time.

Invariants: every accepted record is acknowledged or failed within `delivery.timeout.ms`; a failed
record that was not awaited is raised by the next `flush`. To append a record, only `drain_soon` and
`begun` need the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, cast

from moldau.client.base.user_code import LOG
from moldau.client.producer.accumulator import Accumulator, ToSend
from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP, Batch
from moldau.client.producer.buffer import Mishap
from moldau.client.producer.delivery import again, decided
from moldau.client.producer.metrics import BUFFER_WAIT, FLUSH, ProducerMetrics
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.requests import produce_request, settle_response
from moldau.client.producer.room import Room
from moldau.client.producer.transaction_errors import (
    FatalTransactionError,
    RetriableTransactionError,
)
from moldau.client.settings import producer as own_rows
from moldau.config import Settings
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, may_work_later
from moldau.ids import Uuid
from moldau.link.arguments import seconds
from moldau.link.cluster import Cluster
from moldau.link.connection import Connection
from moldau.link.lifetime import closed
from moldau.link.metadata import TopicPartition
from moldau.link.settings import request_timeout_ms
from moldau.protocol.declare import Response
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Producer as Identity
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout, timeout_at

_ID_TIMEOUT_MS: Final = 2**31 - 1
_WAKE_S_MIN: Final = 0.001
_PRESSING: Final = 8
_PRESSING_MAX: Final = 16
_TURN_S: Final = 0.002
_GAP: Final = (
    "producer: %s lacks records that it had acknowledged; those after them are sent under the next "
    "producer epoch"
)


class Turn(NamedTuple):
    """A place in the line for room: lower numbers come first."""

    number: int
    until: float


class Sender:
    """Moves batches from an accumulator to the brokers. Belongs to the event loop it was made in,
    except for `drain_soon` and `begun`, which a subclass may make thread-safe."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        accumulator: Accumulator,
        metrics: ProducerMetrics,
        settings: Settings,
        on_step: Callable[[], None] | None = None,
    ) -> None:
        """`on_step` is called after each step of records in transactions, and at the end."""
        self._runtime = runtime
        self._clock = runtime.clock
        self._cluster = cluster
        self._accumulator = accumulator
        self._metrics = metrics
        self._acks = {"all": -1, "-1": -1, "1": 1, "0": 0}[settings[own_rows.acks]]
        self._request_timeout_ms = settings[request_timeout_ms]
        self._max_block_s = settings[own_rows.max_block_ms] / 1000
        self._loop = asyncio.get_running_loop()
        self.is_closing = False
        self.is_closed = False
        self._opening: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._drain_is_due = False
        self._filled = 0
        self._drained_at = 0.0
        self.presses = False
        """Whether so many batches are full that the loop should run now."""
        options = accumulator.options
        self._room = Room(min(options.batch_bytes, options.request_bytes))
        self._waking: dict[int, asyncio.Future[None]] = {}
        self._turns = 0
        self._identifying: asyncio.Task[None] | None = None
        self._unidentified = 0
        self._identify_at = 0.0
        self._flushes = 0
        self._closers = 0
        self._buffer = accumulator.buffer
        self._transaction = accumulator.transaction
        self._on_step = on_step

    # Called when records are appended

    def drain_soon(self) -> None:
        """Schedule a drain: there may be something to send."""
        if not self._drain_is_due:
            self._drain_is_due = True
            self._loop.call_soon(self._drain)

    def filled(self) -> bool:
        """Note that a batch is full. Return whether it `presses` now: a program that sends without
        a pause would else fill the memory before anything is sent.

        Full batches are sent several at a time: a request with several costs little more than one
        with a single batch. If they fill quickly, more are collected, so that small batches can
        grow meanwhile.
        """
        self.drain_soon()
        self._filled += 1
        if self._filled >= _PRESSING:
            took_s = self._clock.monotonic() - self._drained_at
            self.presses = took_s >= _TURN_S or self._filled >= _PRESSING_MAX
        return self.presses

    def begun(self, queue: PartitionQueue) -> None:
        """Note that a batch was begun: send earlier ones now, this one after the linger."""
        linger_s = self._accumulator.options.linger_s
        if queue.waiting or linger_s <= 0 or not self._buffer.has_room:
            self.drain_soon()
        else:
            self._wake_at(self._loop.time() + linger_s)

    def may_begin(self, waited: Turn | None) -> bool:
        """Whether a batch may be begun. A send that has not waited comes after those that have."""
        return self._buffer.has_room and (waited is not None or not self._waking)

    def patience(self) -> float:
        """Return the deadline (loop time) for metadata and room of a send that begins now."""
        return self._loop.time() + self._max_block_s

    def left_s(self, until: float) -> float:
        """Return the seconds from now to `until`."""
        return max(0.0, until - self._loop.time())

    async def wait_for_room(
        self,
        where: TopicPartition,
        waited: Turn | None,
        until: float | None = None,
        size_bytes: int | None = None,
    ) -> Turn:
        """Return when `size_bytes` may be appended (None: a batch). Raise KafkaError at `until`, or
        after `max.block.ms`. If another send takes the room first, call again with the returned
        turn: it keeps the place and the deadline."""
        self.check_open()
        self.drain_soon()
        start_ns = self._clock.monotonic_ns()
        if waited is None:
            self._turns += 1
            waited = Turn(self._turns, self.patience() if until is None else until)
        future: asyncio.Future[None] = self._loop.create_future()
        self._waking[waited.number] = future
        self._room.come(waited.number, where, size_bytes)
        try:
            async with timeout_at(waited.until):
                await future
        except TimeoutError:
            self._metrics.exhausted.add(self._clock.monotonic(), 1)
            raise self._no_room(where) from None
        finally:
            del self._waking[waited.number]
            if self._room.leave(waited.number):
                self._loop.call_soon(self._wake_senders)  # after the last of these has appended
            self._metrics.spent(BUFFER_WAIT, start_ns)
        return waited

    def _no_room(self, where: TopicPartition) -> KafkaError:
        context: dict[str, object] = {
            "topic": where.topic,
            "partition": where.partition,
            "setting": own_rows.buffer_memory.name,
            "buffer_memory": self._accumulator.options.memory_bytes,
            "used_bytes": self._buffer.used_bytes,
        }
        for held_up, error in self._first_trouble():
            context["held_up"] = f"{held_up}: {error}"
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "no room for a record within max.block.ms: records come faster than they leave "
            "buffer.memory",
            **context,
        )

    def _first_trouble(self) -> list[tuple[TopicPartition, KafkaError]]:
        return list(self._accumulator.troubles().items())[:1]

    def _why(self) -> dict[str, object]:
        """Return the facts about what keeps records from being sent, if known."""
        for where, error in self._first_trouble():
            return {"topic": where.topic, "partition": where.partition, "why": str(error)}
        return {}

    @property
    def waiting(self) -> int:
        """The number of sends that wait for room."""
        return len(self._waking)

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return sum(each.in_flight for each in self._cluster.ready_connections().values())

    @property
    def connections(self) -> int:
        """The number of brokers with a connection."""
        return len(self._cluster.ready_connections())

    def check_open(self) -> None:
        """Raise ClientClosed once it is closed or closing: the last flush must know all records.
        Raise TransactionError outside a transaction."""
        if self.is_closing:
            raise closed("producer")
        if self._transaction is not None:
            self._transaction.check_open()

    # Requests out

    def _wake_at(self, when: float) -> None:
        """Set the timer. An earlier one stays and sets the next: moving the timer with each request
        would cost more than a few needless wake-ups."""
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._awake)

    def _awake(self) -> None:
        self._timer = None
        self._drain()

    def _drain(self) -> None:
        """Send what may be sent, fail what is too late, and set the timer for the next drain, even
        if something unexpected fails."""
        self._drain_is_due = False
        self._filled, self.presses = 0, False
        if self.is_closed:
            return
        now, began = self._clock.monotonic(), self._loop.time()
        self._drained_at = now
        try:
            self._send_what_may_go(now)
        finally:
            wake = self._accumulator.next_wake(now)
            if wake is not None:
                self._wake_at(max(began + wake - now, self._loop.time() + _WAKE_S_MIN))

    def _send_what_may_go(self, now: float) -> None:
        self._accumulator.expire(now)
        connections = self._cluster.ready_connections()
        limit, room = self._accumulator.options.in_flight_max, {}
        for node_id, connection in connections.items():
            room[node_id] = max(0, limit - connection.in_flight)
        if self._cluster.may_be_misled:
            # A broker may have closed its connection because it is the wrong one: batches would be
            # lost there, and so would the metadata request behind them, as it ends again.
            room.clear()
        drained = self._accumulator.drain(now, self._cluster.metadata, room)
        for each in drained.requests:
            self._transmit(each, connections[each.node_id], now)
        if self._on_step is not None or self._buffer.mishaps:
            self._end_step()
        is_unidentified = self._accumulator.needs_identity and self._transaction is None
        if is_unidentified and self._identifying is None:
            self._consider_identity(now)
        if drained.has_leaderless:
            self._cluster.request_refresh()
        for node_id in drained.unreachable - self._opening:
            if self._cluster.ready_connection(node_id) is None:
                self._opening.add(node_id)
                self._runtime.spawn(self._connect(node_id), name=f"connect to {node_id}")
        if self._waking:
            self._wake_senders()

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except KafkaError as error:
            self._buffer.trouble = without_frames(error)
            self._cluster.request_refresh()
            await asyncio.sleep(self._cluster.backoff.wait_s(1, self._runtime.random))
        finally:
            self._opening.discard(node_id)
        if not self.is_closed:
            self.drain_soon()

    def _transmit(self, each: ToSend, connection: Connection, now: float) -> None:
        """Send a request. On any failure its batches get the error, and the next one is sent."""
        in_flight = connection.in_flight
        try:
            self._metrics.drained(each.batches, now)
            request, version, names = produce_request(
                connection,
                each.batches,
                self._cluster.metadata,
                self._acks,
                self._request_timeout_ms,
                self._transaction,
            )
            if self._acks == 0:
                connection.tell(request, partial(self._told, each), version=version)
            else:
                on_answer = partial(self._answered, each, names, now)
                connection.ask(request, on_answer, version=version)
        except KafkaError as error:
            self._all_refused(each.batches, error)
            self._go_on()
        except Exception as bug:
            self._loop.call_exception_handler(
                {"message": f"a bug in a produce request to {connection!r}", "exception": bug}
            )
            if connection.in_flight == in_flight:  # else it was sent, and its end is reported
                for batch in each.batches:
                    self._all_refused([batch], _not_sent(batch, bug))
                self._go_on()

    def _told(self, each: ToSend, error: KafkaError | None) -> None:
        """Handle a request without acknowledgements: the network has it, or it is retried."""
        if error is not None:
            self._all_refused(each.batches, error)
        else:
            for batch in each.batches:
                self._accumulator.acknowledged(batch, NO_OFFSET, NO_TIMESTAMP)
        self._go_on()

    def _answered(
        self,
        each: ToSend,
        names: dict[Uuid, str],
        sent_at: float,
        answer: Response | KafkaError,
    ) -> None:
        if isinstance(answer, KafkaError):
            self._all_refused(each.batches, answer)
        else:
            response = cast(ProduceResponse, answer)
            self._metrics.answered(each.node_id, each.batches, sent_at, response.throttle_time_ms)
            now = self._clock.monotonic()
            settle_response(response, each.batches, names, self._accumulator, self._cluster, now)
        self._go_on()

    def _go_on(self) -> None:
        """Drain again after a response. If nothing is left to send, leave the next loop iteration
        to other tasks: a consumer, say, whose record came with the response."""
        if self._on_step is not None or self._buffer.mishaps:
            self._end_step()
        if not self.is_closed and (self._waking or self._buffer.busy):
            self.drain_soon()

    def _end_step(self) -> None:
        """Count what has become of batches. A transaction whose records have failed is over, and
        the next drain fails the others."""
        mishaps = self._buffer.mishaps
        if mishaps:
            for mishap, batch in mishaps:
                if mishap is Mishap.FAILED:
                    self._metrics.failed(batch)
                elif mishap is Mishap.SPLIT:
                    self._metrics.split(batch)
                else:
                    LOG.warning(_GAP, batch.where)
            mishaps.clear()
            if self._transaction is not None:
                self.drain_soon()
        if self._on_step is not None:
            self._on_step()

    def _all_refused(self, batches: list[Batch], error: KafkaError) -> None:
        self._cluster.note(error)
        now = self._clock.monotonic()
        for batch in batches:
            self._accumulator.refused(batch, error, now)

    def _wake_senders(self) -> None:
        """Wake the sends that there is room for. The next ones are woken when these have had their
        turn, used or not: no wake-up is lost, and few are needless."""
        if not self._waking or not self._buffer.has_room:
            return
        free_bytes = self._accumulator.options.memory_bytes - self._buffer.used_bytes
        for number in self._room.turns(free_bytes):
            future = self._waking[number]
            if not future.done():
                future.set_result(None)

    def _consider_identity(self, now: float) -> None:
        """Request a producer id at the start. After a failure, request it only if there is
        something to send, and after the backoff."""
        if self._unidentified and self._buffer.is_idle:
            return
        if now < self._identify_at:
            self._wake_at(self._loop.time() + self._identify_at - now)
            return
        self._identifying = self._runtime.spawn(self._identify(), name="producer id")

    async def _identify(self) -> None:
        """Get the producer id; without one nothing is sent."""
        try:
            timeout_s = self._accumulator.options.delivery_timeout_s
            answer = await self._cluster.retry(self._ask_identity, timeout_s=timeout_s)
            self._accumulator.identify(Identity(answer.producer_id, answer.producer_epoch))
            self._unidentified = 0
        except KafkaError as error:
            self._unidentified += 1
            wait_s = self._cluster.backoff.wait_s(self._unidentified, self._runtime.random)
            self._identify_at = self._clock.monotonic() + wait_s
            if not may_work_later(error):
                self._accumulator.fail_all(error)
        finally:
            self._identifying = None
        if not self.is_closed:  # not after a cancellation at the loop's end: it would start again
            self.drain_soon()

    async def _ask_identity(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_ID_TIMEOUT_MS
        )
        try:
            answer = await self._cluster.call(request, InitProducerIdResponse)
            if answer.error_code:
                raise KafkaError(answer.error_code, api="InitProducerId")
        except KafkaError as error:
            self._buffer.trouble = without_frames(error)
            raise
        self._buffer.trouble = None
        return answer

    # The end

    @property
    def unsettled(self) -> int:
        """The number of records that are not decided, or have failed and were not awaited."""
        return _records(self._accumulator.unfinished()) + self._buffer.failures.count

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything accepted before is decided. Raise KafkaError after the timeout, or
        if records failed that were not awaited."""
        await self.settle(timeout_s)
        self.raise_failure()

    async def settle(self, timeout_s: float | None) -> None:
        """Wait as `flush` does, and raise KafkaError only after the timeout."""
        timeout_s = None if timeout_s is None else seconds(timeout_s, "timeout_s")
        start_ns = self._clock.monotonic_ns()
        waiting = self._accumulator.unfinished()
        self._flushes += 1
        self._accumulator.is_flushing = True
        try:
            self.drain_soon()
            async with timeout(timeout_s):
                for batch in waiting:
                    await decided(batch)
        except TimeoutError:
            left = _records(waiting)
            kind = KafkaError if self._transaction is None else RetriableTransactionError
            if left:  # the last one may have been decided at the timeout
                raise kind(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "not all records that were sent before are delivered yet",
                    records=left,
                    timeout_s=timeout_s,
                    **self._why(),
                ) from None
        finally:
            self._flushes -= 1
            self._accumulator.is_flushing = self._flushes > 0
            self._metrics.spent(FLUSH, start_ns)
        if self._buffer.failures.count:
            await asyncio.sleep(0)  # first wake tasks that await a record which has just failed

    def raise_failure(self) -> None:
        """Raise KafkaError if unawaited records failed, with their number and the first cause."""
        failure = self._buffer.failures.take()
        if failure is not None:
            raise failure

    @property
    def is_waited_for(self) -> bool:
        """Whether a closing call waits for the last records."""
        return self._closers > 0

    async def settle_or_give_up(self, timeout_s: float | None) -> None:
        """Wait for the last records. After the timeout, or when the last waiting call is cancelled,
        the rest fails and its number is logged. A timeout while other calls wait raises
        KafkaError."""
        self._closers += 1
        try:
            await self.settle(timeout_s)
        except KafkaError:
            if self._closers > 1:
                raise
            why = "the time that it had for that was over"
            self._give_up(ErrorCode.REQUEST_TIMED_OUT, why, timeout_s=timeout_s)
        except asyncio.CancelledError:
            if self._closers == 1:
                self._give_up(ErrorCode.NETWORK_EXCEPTION, "the call that closes it was cancelled")
            raise
        finally:
            self._closers -= 1

    def _give_up(self, code: ErrorCode, why: str, **facts: object) -> None:
        """Close, with this error for the records that are left."""
        reason = f"the producer was closed, and {why} before the record was delivered"
        self.close(KafkaError(code, reason, **facts, **self._why()))

    def close(self, error: KafkaError | None = None) -> None:
        """Fail undecided records and waiting sends, and log how many records. May be called
        again."""
        self.is_closing = self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if error is None:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")
        if self._transaction is not None:
            error = FatalTransactionError(error.code, error.reason, **error.context)
        left = _records(self._accumulator.unfinished())
        if left:
            LOG.warning("producer: closed before all was delivered: %d records, %s", left, error)
        self._accumulator.fail_all(error)
        for future in self._waking.values():
            if not future.done():
                future.set_exception(again(without_frames(error)))
        if self._on_step is not None or self._buffer.mishaps:
            self._end_step()


def _not_sent(batch: Batch, bug: Exception) -> KafkaError:
    error = KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "a bug of the client kept these records from being sent",
        **batch.where._asdict(),
        records=batch.count,
        why=repr(bug),
    )
    error.__cause__ = bug
    return error


def _records(batches: list[Batch]) -> int:
    """Return how many of their records are not decided."""
    counts = (
        each.count if each.builder is None or each.count else each.builder.count
        for each in batches
        if not each.is_done
    )
    return sum(counts)
