"""The failures that `flush` raises: how many records failed unawaited, and the first cause. No IO.

A `Delivery` may be awaited after its record has failed, so failed batches are kept until a flush.
Beyond `BATCHES_MAX` the oldest are only counted: awaiting one of those later changes nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from moldau.client.producer.batch import Batch
from moldau.client.producer.delivery import again
from moldau.errors.codes import KafkaError

BATCHES_MAX: Final = 1_000


class Failures:
    """One producer's failed batches since the last flush."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._count = 0
        self._cause: KafkaError | None = None

    def add(self, batch: Batch) -> None:
        """Add a batch that has failed, wholly or in part."""
        while self._batches and not self._batches[0].unawaited:
            self._batches.popleft()
        self._batches.append(batch)
        if len(self._batches) > BATCHES_MAX:
            self._settle(self._batches.popleft())

    def _settle(self, batch: Batch) -> None:
        records = batch.unawaited
        if records:
            self._count += records
            self._cause = self._cause or batch.error

    @property
    def count(self) -> int:
        """The number of records that have failed and were not awaited."""
        return self._count + sum(batch.unawaited for batch in self._batches)

    def take(self) -> KafkaError | None:
        """Return the first cause, with the count in its context (`failed_records`). Forget all."""
        while self._batches:
            self._settle(self._batches.popleft())
        cause, self._cause = self._cause, None
        count, self._count = self._count, 0
        if cause is None:
            return None
        found = again(cause)
        found.context = {**cause.context, "failed_records": count}
        return found
