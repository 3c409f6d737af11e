"""The shell of a transactional producer: the calls of its user, and the requests to coordinators.

Invariants: a commit or abort waits for the sends that have begun, and for the outcome of all
records; meanwhile no further send begins. A call that ends early, by a timeout or a cancellation,
can be made again and then completes.

`transaction_core` decides. Records are the sender's, which asks the core itself and calls `on_step`
after each of its steps: there may be a request to send, and a call that waits may go on. The task
that sends requests ends when there is nothing to do, and starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import Any, Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import TRANSACTION, Coordinator, GroupMetadata
from moldau.client.base.user_code import LOG
from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.delivery import Delivery
from moldau.client.producer.sender import Sender
from moldau.client.producer.transaction_core import (
    TransactionCore,
    TransactionReady,
    TransactionState,
)
from moldau.client.producer.transaction_errors import (
    RetriableTransactionError,
    TransactionError,
    dropped,
    of_kind,
)
from moldau.client.producer.transaction_requests import (
    V2_END_TXN,
    SentOffsets,
    TransactionRequest,
    fitting,
)
from moldau.client.settings import producer as rows
from moldau.config import Settings
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import told
from moldau.link.cluster import Cluster
from moldau.link.connection import Connection
from moldau.link.lifetime import ClientClosed, WrongLoop, WrongProcess, closed
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.runtime import Runtime
from moldau.runtime.driver import Driver
from moldau.runtime.timeouts import timeout

LANE: Final = "transaction"
_FEATURE: Final = "transaction.version"
_V2: Final = 2


class Transactions:
    """The transactions of a producer with a transactional id."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        on_gate: Callable[[], None],
        max_block_s: float,
    ) -> None:
        """`on_gate` is called when sends become possible, and when they end."""
        assert accumulator.transaction is not None
        self.core = accumulator.transaction
        self._clock = runtime.clock
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._on_gate = on_gate
        self._max_block_s = max_block_s
        self._loop = asyncio.get_running_loop()
        self._coordinator = Coordinator(
            cluster,
            self.core.transactional_id,
            LANE,
            key_type=TRANSACTION,
            purpose="InitProducerId",
        )
        self._groups: dict[str, Coordinator] = {}
        self._driver = Driver(
            runtime, "transaction", self._ready, self._act, self._is_over, reported=True
        )
        self._waiting: list[asyncio.Future[None]] = []

    # The sends

    async def during(self, send: Coroutine[Any, Any, Delivery]) -> Delivery:
        """Await a send, and make a commit wait for it."""
        with closing(send), _Send(self):
            return await send

    def on_send(self) -> None:
        """A send begins, in any thread. Raise TransactionError outside a transaction."""
        with self._accumulator.lock:
            self.core.on_send()

    def on_sent(self) -> None:
        """A send has returned or failed, in any thread."""
        with self._accumulator.lock:
            self.core.on_sent()
            if self._waiting and not self.core.sends:
                self._loop.call_soon_threadsafe(self._wake)

    def refused(self, error: Exception) -> Exception:
        """Note that a send raises this error: the open transaction lacks its records, so that it
        must not be committed (KAFKA-9279). Return the error to raise."""
        if isinstance(error, TransactionError | ClientClosed | WrongLoop | WrongProcess):
            return error
        is_known = isinstance(error, KafkaError)
        kept = of_kind(error if isinstance(error, KafkaError) else _not_taken(error))
        try:
            is_home = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_home = False
        if is_home:
            self._on_refused(kept)
        else:
            with suppress(RuntimeError):  # the loop has ended: no commit follows
                self._loop.call_soon_threadsafe(self._on_refused, kept)
        return kept if is_known else error

    def _on_refused(self, error: KafkaError) -> None:
        self.core.on_failed(error)
        self._wake()
        self._sender.drain_soon()

    # The calls

    def check_usable(self) -> None:
        """Raise WrongLoop, WrongProcess or ClientClosed."""
        self._cluster.check_loop()
        if self._sender.is_closing:
            raise closed("producer")

    async def open(self) -> None:
        """Get the producer id, which fences all older producers of the transactional id. Raise
        TransactionError."""
        self.core.on_open()
        is_new = TransactionState.INITIALIZING
        await self._within(lambda: self.core.state is not is_new, "begin_transaction")
        if self.core.error is not None:
            raise self.core.failure()

    async def begin(self) -> None:
        """Begin a transaction. Raise TransactionError."""
        if self.core.state in (TransactionState.UNINITIALIZED, TransactionState.INITIALIZING):
            await self.open()
        await self._until(self._has_no_sends)
        if self.core.is_ending and self.core.has_ended:
            await self._within(self._is_at_rest, "begin_transaction")
        self._set_gate(self.core.on_begin)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit offsets with the transaction; return when the group's coordinator has them."""
        core, sent = self.core, SentOffsets(group, dict(offsets))
        core.check_open(is_new=True)
        if not offsets:
            return
        core.on_offsets(sent)
        number, takes = core.number, (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)
        await self._within(
            lambda: not sent.left or core.number != number or core.state not in takes,
            "send_offsets",
        )
        if sent.left:
            raise dropped(core.transactional_id) if core.error is None else core.failure()

    async def commit(self) -> None:
        """Wait for every record, then commit. Raise TransactionError."""
        if self.core.state is TransactionState.IN_TRANSACTION:
            self._set_gate(self.core.on_ending)
            await self._until(self._has_no_sends)
        self.core.on_commit()
        await self._sender.settle(None)
        await self._end("commit_transaction")
        if self.core.error is not None and not self.core.has_ended:
            raise self.core.failure()
        self.core.on_reported()

    async def abort(self) -> None:
        """Drop what is not sent, wait for what is on its way, then abort. Raise
        TransactionError."""
        self._set_gate(self.core.on_ending)
        self.core.on_abort()
        self._sender.drain_soon()
        await self._until(lambda: self._accumulator.buffer.is_idle or self._sender.is_closed)
        await self._end("abort_transaction")
        if self.core.error is not None:
            raise self.core.failure()
        self.core.on_reported()

    async def _end(self, call: str) -> None:
        """End the transaction, after the outcome of all records."""
        buffer = self._accumulator.buffer
        self.core.on_settled(is_unsure=buffer.is_unsure(self.core.identity))
        buffer.failures.take()  # the transaction's outcome says it all
        await self._within(self._is_at_rest, call)

    def _set_gate(self, event: Callable[[], None]) -> None:
        with self._accumulator.lock:
            event()
            self._on_gate()

    async def close(self, timeout_s: float | None) -> None:
        """Abort what is open, as the producer is closed. Failures are logged: the cluster aborts
        the transaction in time."""
        if not self.core.is_open or self.core.state is TransactionState.FATAL:
            return
        try:
            async with timeout(timeout_s):
                if self.core.may_abort:
                    LOG.info("producer: closed in a transaction, which is aborted")
                    await self.abort()
                else:
                    await self.commit()
        except (KafkaError, TimeoutError) as error:
            why = str(error) or f"no answer in {timeout_s} s"
            LOG.warning("producer: the open transaction could not be ended: %s", why)

    # Waiting

    def _has_no_sends(self) -> bool:
        return not self.core.sends

    def _is_at_rest(self) -> bool:
        return not self.core.is_ending

    async def _until(self, is_done: Callable[[], bool]) -> None:
        """Return when `is_done()`. The last send may return in another thread meanwhile."""
        while True:
            with self._accumulator.lock:
                if is_done():
                    return
                future: asyncio.Future[None] = self._loop.create_future()
                self._waiting.append(future)
            await future

    async def _within(self, is_done: Callable[[], bool], call: str) -> None:
        """Return when `is_done()`. After `max.block.ms` raise the error that says to make this call
        again."""
        self._poke()
        began = self._clock.monotonic()
        try:
            async with timeout(self._max_block_s):
                await self._until(is_done)
        except TimeoutError:
            self.core.on_waited()
            if self.core.error is not None:
                raise self.core.failure() from None
            trouble = self.core.trouble
            facts = {} if trouble is None else {"last_error": str(trouble)}
            raise RetriableTransactionError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{call}: no answer within max.block.ms. Call {call} again",
                seconds=round(self._clock.monotonic() - began, 3),
                transactional_id=self.core.transactional_id,
                **facts,
            ) from None

    def _wake(self) -> None:
        """Let all calls look at the state again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # The requests

    def on_step(self) -> None:
        """The sender has done a step, or is closed."""
        self._poke()
        self._wake()

    def _poke(self) -> None:
        self._driver.poke()
        if not (self._driver.is_alive or self._sender.is_closed) and self.core.has_next:
            self._driver.begin()

    def _ready(self, now: float) -> TransactionReady:
        return TransactionReady() if self._sender.is_closed else self.core.ready(now)

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
                self.core.on_versions(speaks_v2=_speaks_v2(connection))
            version = connection.version_of(type(ask.request), at_most=ask.version_max)
            request = fitting(ask.request, version)
            answer = await connection.request(request, ask.response, version=version)
        except KafkaError as error:
            answer = without_frames(error)
        self.core.on_answer(ask, answer, self._clock.monotonic())
        if self.core.trouble is not None:
            coordinator.note(self.core.trouble.code)
        if self._accumulator.identity != self.core.identity:
            self._accumulator.identify(self.core.identity)
        self._wake()
        if not self._sender.is_closed:
            self._sender.drain_soon()

    def _of_group(self, group_id: str) -> Coordinator:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = Coordinator(
                self._cluster, group_id, purpose="TxnOffsetCommit"
            )
        return found

    async def aclose(self) -> None:
        """End the task and pending lookups; calls that wait see the state as it is."""
        await self._driver.end(0.0)
        for each in (self._coordinator, *self._groups.values()):
            await each.aclose()
        self._wake()


class _Send(AbstractContextManager[None]):
    """A block in which records are sent, in any thread: an end of the transaction waits for it. Its
    exception is that of a send that was refused."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def __enter__(self) -> None:
        self._transactions.on_send()

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if isinstance(error, Exception):
                found = self._transactions.refused(error)
                if found is not error:
                    raise found from error
        finally:
            self._transactions.on_sent()


def _speaks_v2(connection: Connection) -> bool:
    return (
        connection.features.get(_FEATURE, 0) >= _V2
        and connection.version_of(EndTxnRequest) >= V2_END_TXN
    )


def core_of(settings: Settings, cluster: Cluster) -> TransactionCore | None:
    """Return the transactions of a producer with these settings; None without a transactional
    id."""
    transactional_id = settings[rows.transactional_id]
    if transactional_id is None:
        return None
    timeout_ms = settings[rows.transaction_timeout_ms]
    random = cluster.runtime.random
    return TransactionCore(transactional_id, timeout_ms, cluster.backoff, random)


def group_of(given: object) -> GroupMetadata:
    """Return the group that offsets are sent for. Raise TypeError for anything else."""
    if not isinstance(given, GroupMetadata):
        raise TypeError(
            "group must be a GroupMetadata, as Consumer.group_metadata() gives it, not "
            f"{told(given)}"
        )
    if not given.group_id:
        raise ValueError("group must name a group: its group_id is empty")
    return given


def needed(transactions: Transactions | None, call: str) -> Transactions:
    """Return the transactions. Raise TransactionError for a producer that has none."""
    if transactions is None:
        raise TransactionError(
            ErrorCode.INVALID_TXN_STATE,
            f"{call}: the producer needs a transactional.id, a name that no other producer has at "
            "the same time, and has to be started",
            setting=rows.transactional_id.name,
        )
    transactions.check_usable()
    return transactions


def _not_taken(error: Exception) -> KafkaError:
    made = KafkaError(
        ErrorCode.INVALID_RECORD,
        "a send of this transaction was refused, so that its records are not in it",
        error=str(error) or repr(error),
    )
    made.__cause__ = without_frames(error)
    return made


def sending(transactions: Transactions | None) -> AbstractContextManager[None]:
    """Make a commit wait for the block. Raise TransactionError outside a transaction. An error in
    the block makes the transaction abortable."""
    return nullcontext() if transactions is None else _Send(transactions)
