"""A transaction as an `async with` block, with or without the consumer that it reads from.

Invariant: at the end of the block the transaction is committed, together with the consumer's
offsets; or it is aborted, and the consumer reads again what it had returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.client.base.user_code import LOG
from moldau.client.producer.transaction_errors import (
    AbortableTransactionError,
    RetriableTransactionError,
    abortable,
)
from moldau.client.producer.transactions import Transactions
from moldau.errors.codes import KafkaError
from moldau.runtime.timeouts import timeout

if TYPE_CHECKING:
    from moldau.client.consumer.consumer import Consumer
    from moldau.client.consumer.transactional import TransactionalProgress


T = TypeVar("T")

WORK_AGAIN: Final = "producer: a transaction was aborted, its work is done again: %s"
_HURRY_S: Final = 5.0
"""How long a cancelled block waits for its abort."""


Work = Callable[["Transaction"], Awaitable[T]]
"""What is done in a transaction, maybe several times."""


class Transaction:
    """One transaction: `async with producer.transaction(consumer):`."""

    def __init__(self, transactions: Transactions, consumer: Consumer[Any, Any] | None) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self._reading: TransactionalProgress | None = None
        self._is_dropped = False

    def abort(self) -> None:
        """Abort at the end of the block, instead of a commit, and read the same records again."""
        self._is_dropped = True

    async def __aenter__(self) -> Transaction:
        await self.begin()
        return self

    async def begin(self) -> None:
        """Begin the transaction. Raise TransactionError."""
        if self._consumer is not None:
            self._reading = self._consumer._in_transactions()
        await self._transactions.begin()
        if self._reading is not None:
            self._reading.is_open = True

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self._end(kind)
        finally:
            if self._reading is not None:
                self._reading.is_open = False

    async def _end(self, kind: type[BaseException] | None) -> None:
        if kind is not None or self._is_dropped:
            await self._drop(is_in_a_hurry=kind is not None and not issubclass(kind, Exception))
            return
        try:
            await self._commit()
        except AbortableTransactionError:
            await self._drop()
            raise
        except asyncio.CancelledError:
            if self._transactions.core.may_abort:
                await self._drop(is_in_a_hurry=True)
            raise

    async def _commit(self) -> None:
        """Commit with the consumer's offsets, however long the cluster takes."""
        if self._reading is None:
            await _until_done(self._transactions.commit)
            return
        try:
            self._reading.check()
        except KafkaError as error:
            raise abortable(error) from error
        offsets = self._reading.uncommitted()
        group = self._reading.metadata(offsets)
        if offsets:
            await _until_done(lambda: self._transactions.send_offsets(offsets, group))
        await _until_done(self._transactions.commit)
        self._reading.committed(offsets, group)

    async def _drop(self, *, is_in_a_hurry: bool = False) -> None:
        """Rewind the consumer and abort. A failure is only logged, so that it does not hide the
        error that made this necessary; the next `begin` raises it again."""
        if self._reading is not None:
            self._reading.rewind()
        try:
            async with timeout(_HURRY_S if is_in_a_hurry else None):
                await _until_done(self._transactions.abort)
        except (KafkaError, TimeoutError) as error:
            LOG.warning("producer: a transaction was not aborted: %s", error)


async def _until_done(call: Callable[[], Awaitable[None]]) -> None:
    """Repeat a call whose outcome is unknown until it is known."""
    while True:
        try:
            await call()
        except RetriableTransactionError as error:
            LOG.warning("producer: %s", error)
        else:
            return
