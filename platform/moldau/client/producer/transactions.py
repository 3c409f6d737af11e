"""The transactions of one producer, as its user sees them: begin, send, commit or abort.

Invariants: a commit or abort waits for the sends that have begun, and for the outcome of all
records; meanwhile no further send begins. A call that ends early, by a timeout or a cancellation,
can be made again and then completes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any, Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.user_code import LOG
from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.delivery import Delivery
from moldau.client.producer.sender import Sender
from moldau.client.producer.transaction import TransactionState, TransactionStates
from moldau.client.producer.transaction_errors import TransactionError, dropped, of_kind
from moldau.client.settings import producer as rows
from moldau.config import Settings
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import told
from moldau.link.cluster import Cluster
from moldau.link.lifetime import ClientClosed, WrongLoop, closed
from moldau.link.metadata import TopicPartition
from moldau.runtime.timeouts import timeout

_ENDING: Final = (TransactionState.COMMITTING, TransactionState.ABORTING)


class Transactions:
    """The transactions of a producer with a transactional id."""

    def __init__(
        self,
        states: TransactionStates,
        sender: Sender,
        accumulator: Accumulator,
        on_gate: Callable[[], None],
        max_block_s: float,
    ) -> None:
        """`on_gate` is called when sends become possible, and when they end."""
        assert sender.transaction is not None
        self._states = states
        self._transaction = sender.transaction
        self._cluster = sender.transaction.cluster
        self._sender = sender
        self._accumulator = accumulator
        self._on_gate = on_gate
        self._max_block_s = max_block_s
        self._loop = asyncio.get_running_loop()
        self._entered = 0
        self._is_ending = False
        self._all_left: asyncio.Future[None] | None = None

    @property
    def takes_records(self) -> bool:
        """Whether records may be sent now."""
        return self._states.state is TransactionState.IN_TRANSACTION and not self._is_ending

    @property
    def number(self) -> int:
        """The number of transactions that were begun."""
        return self._states.number

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, or its end is not confirmed."""
        return self._states.state not in (
            TransactionState.UNINITIALIZED,
            TransactionState.INITIALIZING,
            TransactionState.READY,
        )

    # The sends

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Make a commit wait for the block, in whatever thread it runs, and impossible if the block
        raises. Raise TransactionError outside a transaction."""
        with self._accumulator.lock:
            self._states.check_open(is_ending=self._is_ending)
            self._entered += 1
        try:
            with _Refusal(self):
                yield
        finally:
            with self._accumulator.lock:
                self._entered -= 1
                if not self._entered and self._all_left is not None:
                    self._loop.call_soon_threadsafe(self._tell_left)

    def refused(self, error: Exception) -> Exception:
        """Note that a send raises this error: the open transaction lacks its records, so that it
        must not be committed (KAFKA-9279). Return the error to raise."""
        if isinstance(error, TransactionError | ClientClosed | WrongLoop):
            return error
        is_known = isinstance(error, KafkaError)
        kept = of_kind(error if isinstance(error, KafkaError) else _not_taken(error))
        try:
            is_home = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_home = False
        if is_home:
            self._transaction.on_refused(kept)
        else:
            with suppress(RuntimeError):  # the loop has ended: no commit follows
                self._loop.call_soon_threadsafe(self._transaction.on_refused, kept)
        return kept if is_known else error

    async def during(self, send: Coroutine[Any, Any, Delivery]) -> Delivery:
        """Await a send, and make a commit wait for it."""
        with closing(send), self.sending():
            return await send

    def _tell_left(self) -> None:
        if self._all_left is not None and not self._entered:
            if not self._all_left.done():
                self._all_left.set_result(None)
            self._all_left = None

    async def _sends_left(self) -> None:
        while self._entered:
            if self._all_left is None:
                self._all_left = self._loop.create_future()
            await asyncio.shield(self._all_left)

    @property
    def may_abort(self) -> bool:
        """Whether `abort` is possible."""
        return self._states.may_abort

    # The calls

    def check_usable(self) -> None:
        """Raise WrongLoop or ClientClosed."""
        self._cluster.check_loop()
        if self._sender.is_closing:
            raise closed("producer")

    async def open(self) -> None:
        """Get the producer id, which fences all older producers of the transactional id. Raise
        TransactionError."""
        self._states.initialize()
        await self._transaction.until(
            lambda: self._states.state is not TransactionState.INITIALIZING,
            self._max_block_s,
            "begin_transaction",
        )
        if self._states.error is not None:
            raise self._states.failure()

    async def begin(self) -> None:
        """Begin a transaction. Raise TransactionError."""
        if self._states.state in (TransactionState.UNINITIALIZED, TransactionState.INITIALIZING):
            await self.open()
        await self._sends_left()
        if self._states.state in _ENDING and self._states.has_ended:
            await self._transaction.until(self._is_at_rest, self._max_block_s, "begin_transaction")
        self._states.begin()
        self._set_gate(is_ending=False)

    def _is_at_rest(self) -> bool:
        return self._states.state not in _ENDING

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit offsets with the transaction; return when the group's coordinator has them."""
        self._states.check_open(is_ending=self._is_ending)
        if not offsets:
            return
        sent, number = self._states.add_offsets(offsets, group), self._states.number

        def is_done() -> bool:
            return not sent.left or self._states.number != number or not self._takes_offsets()

        await self._transaction.until(is_done, self._max_block_s, "send_offsets")
        if sent.left:
            if self._states.error is not None:
                raise self._states.failure()
            raise dropped(self._states.transactional_id)

    def _takes_offsets(self) -> bool:
        return self._states.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)

    async def commit(self) -> None:
        """Wait for every record, then commit. Raise TransactionError."""
        if self._states.state is TransactionState.IN_TRANSACTION:
            self._set_gate(is_ending=True)
            await self._sends_left()
        self._states.commit()
        await self._sender.settle(None)
        self._states.on_settled(is_unsure=self._is_unsure())
        self._on_settled()
        await self._transaction.until(self._is_at_rest, self._max_block_s, "commit_transaction")
        if self._states.error is not None and not self._states.has_ended:
            raise self._states.failure()
        self._states.untold = None

    async def abort(self) -> None:
        """Drop what is not sent, wait for what is on its way, then abort. Raise
        TransactionError."""
        self._set_gate(is_ending=True)
        self._states.abort()
        await self._transaction.drop()
        self._states.on_settled(is_unsure=self._is_unsure())
        self._on_settled()
        await self._transaction.until(self._is_at_rest, self._max_block_s, "abort_transaction")
        if self._states.error is not None:
            raise self._states.failure()
        self._states.untold = None

    def _set_gate(self, *, is_ending: bool) -> None:
        with self._accumulator.lock:
            self._is_ending = is_ending
            self._on_gate()

    def _on_settled(self) -> None:
        """Forget failed records: the transaction's outcome says it all."""
        self._accumulator.buffer.failures.take()

    def _is_unsure(self) -> bool:
        """Whether a record may still arrive, or the sequence of a partition has a gap."""
        identity = self._states.identity
        return any(
            queue.must_restart
            and (queue.producer_id, queue.producer_epoch) == (identity.id, identity.epoch)
            for queue in self._accumulator.buffer.queues.values()
        )

    async def close(self, timeout_s: float | None) -> None:
        """Abort what is open, as the producer is closed. Failures are logged: the cluster aborts
        the transaction in time."""
        if not self.is_open or self._states.state is TransactionState.FATAL:
            return
        try:
            async with timeout(timeout_s):
                if self._states.may_abort:
                    LOG.info("producer: closed in a transaction, which is aborted")
                    await self.abort()
                else:
                    await self.commit()
        except (KafkaError, TimeoutError) as error:
            why = str(error) or f"no answer in {timeout_s} s"
            LOG.warning("producer: the open transaction could not be ended: %s", why)


class _Refusal:
    """Notes an exception of the block as that of a send that was refused."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception):
            found = self._transactions.refused(error)
            if found is not error:
                raise found from error


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


def states_of(settings: Settings, cluster: Cluster) -> TransactionStates | None:
    """Return the transactions of a producer with these settings; None without a transactional
    id."""
    transactional_id = settings[rows.transactional_id]
    if transactional_id is None:
        return None
    timeout_ms = settings[rows.transaction_timeout_ms]
    random = cluster.runtime.random
    return TransactionStates(transactional_id, timeout_ms, cluster.backoff, random)


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
    return nullcontext() if transactions is None else transactions.sending()


def refused(transactions: Transactions | None, error: Exception) -> Exception:
    """Return the error to raise for a record that was not taken; an open transaction lacks it."""
    return error if transactions is None else transactions.refused(error)
