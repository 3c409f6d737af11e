"""The transactions of a log during compaction: which batches are aborted, which markers are needed.

Invariants: all batches are passed in order from the log's first one, because a transaction's first
batch decides about its marker. A marker may be removed if no batch of its transaction was seen
before it. An aborted transaction whose marker stays, stays in the transaction index.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.records import Batch, BatchHeader, ControlType, control_records


class CleanedTransactions:
    """The transactions that are open at the cleaner's position in the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = [(each.first_offset, each) for each in set(aborted)]
        heapq.heapify(self._coming)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_batches: set[int] = set()
        self._committed_with_batches: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """The transactions whose markers must stay, for the new transaction index. The caller
        empties it."""

    def on_batch(self, header: BatchHeader) -> bool:
        """Note a batch of records. Return whether it was aborted, so that its records can be
        removed."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_batches.add(header.producer_id)
            return True
        self._committed_with_batches.add(header.producer_id)
        return False

    def on_marker(self, batch: Batch) -> bool:
        """Note a control batch. Return whether no batch of its transaction is left."""
        header = batch.header
        self._reach(header.last_offset)
        if not header.record_count:
            return True
        producer_id = header.producer_id
        marker = control_records(batch)[0].type
        if marker == ControlType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._aborted_with_batches:
                return True
            self._aborted_with_batches.discard(producer_id)
            self.kept.append(transaction)
            return False
        if marker == ControlType.COMMIT:
            was_seen = producer_id in self._committed_with_batches
            self._committed_with_batches.discard(producer_id)
            return not was_seen
        return False

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
