"""The shell of `TransactionStates`: sends its requests, one at a time, to the coordinator of the
transactional id or of a group, and fails the records of a transaction that is over.

The task that sends ends when there is nothing to do, and `poke` starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from moldau.client.base.coordinator import TRANSACTION, Coordinator
from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.batch import Batch
from moldau.client.producer.transaction import V2_END_TXN, TransactionReady, TransactionRequest
from moldau.client.producer.transaction_errors import (
    RetriableTransactionError,
    dropped,
    of_kind,
)
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import Cluster
from moldau.link.connection import Connection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from moldau.runtime import Runtime
from moldau.runtime.driver import Driver
from moldau.runtime.timeouts import timeout

LANE: Final = "transaction"
_FEATURE: Final = "transaction.version"
_V2: Final = 2
_WITH_ITS_ID: Final = 3
"""The first versions of InitProducerId that name the id held, and of TxnOffsetCommit that name the
member."""


class TransactionSender:
    """The requests and records of one producer's transactions."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        accumulator: Accumulator,
        on_failed: Callable[[Batch], None],
        drain_soon: Callable[[], None],
    ) -> None:
        """`on_failed` is called for each failed batch, `drain_soon` when there may be something to
        send."""
        assert accumulator.transaction is not None
        self.states = accumulator.transaction
        self._clock = runtime.clock
        self.cluster = cluster
        self._accumulator = accumulator
        self._buffer = accumulator.buffer
        self._on_failed = on_failed
        self._drain_soon = drain_soon
        self._buffer.on_failed = self._failed
        self._buffer.kind_of = of_kind
        self._coordinator = Coordinator(
            cluster,
            self.states.transactional_id,
            LANE,
            key_type=TRANSACTION,
            purpose="InitProducerId",
        )
        self._groups: dict[str, Coordinator] = {}
        self._driver = Driver(
            runtime, "transaction", self._ready, self._act, self._is_over, reported=True
        )
        self._waiting: list[asyncio.Future[None]] = []
        self._idle: asyncio.Future[None] | None = None
        self._is_closed = False

    # Records

    def before_drain(self) -> None:
        """Fail the records of a transaction that cannot be committed any more."""
        if self.states.is_over and not self._buffer.is_idle:
            if self.states.error is None:
                self._accumulator.fail_all(dropped(self.states.transactional_id))
            else:
                self._accumulator.fail_all(self.states.failure())

    def after_drain(self) -> None:
        """Send the requests that the drain has shown to be needed."""
        self.poke()
        self.note_idle()

    def _failed(self, batch: Batch) -> None:
        """Records have failed: their transaction is over, whatever the others do."""
        self._on_failed(batch)
        if batch.error is not None:
            self.states.on_failed(batch.error)
        self._tell()
        self._drain_soon()

    def on_refused(self, error: KafkaError) -> None:
        """A send was refused: its transaction lacks the record, so it is over."""
        self.states.on_failed(error)
        self._tell()
        self._drain_soon()

    async def drop(self) -> None:
        """Fail the records of a transaction that is being aborted, and return when none of them is
        in flight."""
        self.before_drain()
        while not (self._buffer.is_idle or self._is_closed):
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
        self._drain_soon()

    def note_idle(self, *, is_closed: bool = False) -> None:
        """Let `drop` return if nothing is in flight, or the producer is closed."""
        self._is_closed = self._is_closed or is_closed
        is_idle = self._buffer.is_idle or self._is_closed
        if is_idle and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # Requests

    def poke(self) -> None:
        """Send what is to be sent now."""
        self._driver.poke()
        if not (self._driver.is_alive or self._is_closed) and self.states.has_next:
            self._driver.begin()

    def _tell(self) -> None:
        """Let all calls look at the state again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, is_done: Callable[[], bool], timeout_s: float, call: str) -> None:
        """Return when `is_done()`. After the timeout raise the error that says to make this call
        again."""
        self.poke()
        began = self._clock.monotonic()
        try:
            async with timeout(timeout_s):
                while not is_done():
                    future = asyncio.get_running_loop().create_future()
                    self._waiting.append(future)
                    await future
        except TimeoutError:
            self.states.on_waited()
            if self.states.error is not None:
                raise self.states.failure() from None
            trouble = self.states.trouble
            facts = {} if trouble is None else {"last_error": str(trouble)}
            raise RetriableTransactionError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{call}: no answer within max.block.ms. Call {call} again",
                seconds=round(self._clock.monotonic() - began, 3),
                transactional_id=self.states.transactional_id,
                **facts,
            ) from None

    def _ready(self, now: float) -> TransactionReady:
        return TransactionReady() if self._is_closed else self.states.ready(now)

    async def _act(self, ready: TransactionReady) -> bool:
        if ready.ask is not None:
            await self._carry_out(ready.ask)
        return ready.ask is not None

    def _is_over(self, ready: TransactionReady) -> bool:
        return ready.wake is None

    async def _carry_out(self, ask: TransactionRequest) -> None:
        coordinator = self._coordinator if ask.group_id is None else self._of_group(ask.group_id)
        answer: Response | KafkaError
        try:
            if isinstance(ask.request, AddOffsetsToTxnRequest):
                # Before the first group is looked up, the cluster has no topic for its offsets.
                await self._of_group(ask.request.group_id).connection()
            connection = await coordinator.connection()
            if ask.group_id is None:
                self.states.on_versions(speaks_v2=_speaks_v2(connection))
            version = connection.version_of(type(ask.request), at_most=ask.version_max)
            request = _fitting(ask.request, version)
            answer = await connection.request(request, ask.response, version=version)
        except KafkaError as error:
            answer = without_frames(error)
        self.states.on_answer(ask, answer, self._clock.monotonic())
        if self.states.trouble is not None:
            coordinator.note(self.states.trouble.code)
        if self._accumulator.identity != self.states.identity:
            self._accumulator.identify(self.states.identity)
        self._tell()
        if not self._is_closed:
            self._drain_soon()

    def _of_group(self, group_id: str) -> Coordinator:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = Coordinator(
                self.cluster, group_id, purpose="TxnOffsetCommit"
            )
        return found

    async def aclose(self) -> None:
        """End the task and pending lookups; calls that wait see the state as it is."""
        self._is_closed = True
        await self._driver.end(0.0)
        for each in (self._coordinator, *self._groups.values()):
            await each.aclose()
        self._tell()


def _speaks_v2(connection: Connection) -> bool:
    return (
        connection.features.get(_FEATURE, 0) >= _V2
        and connection.version_of(EndTxnRequest) >= V2_END_TXN
    )


def _fitting(request: Request, version: int) -> Request:
    """Return the request without what brokers before Kafka 2.5 do not know."""
    if version >= _WITH_ITS_ID:
        return request
    if isinstance(request, InitProducerIdRequest):
        return replace(request, producer_id=-1, producer_epoch=-1)
    if isinstance(request, TxnOffsetCommitRequest):
        return replace(request, generation_id=-1, member_id="", group_instance_id=None)
    return request
