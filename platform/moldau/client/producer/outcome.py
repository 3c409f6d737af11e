"""The effect of a response, or of none in time, on a batch and its neighbours. No IO.

Invariants: a batch ends exactly once. It is acknowledged only if the broker has it, and with
idempotence nothing is stored twice, however often it is sent. A batch whose time ran out while it
was in flight is LATE and keeps its place until the broker's response. A batch that is too large
ends with the last of its parts (splitting.py says how large these are). One that cannot be built
fails alone.

A batch with a retriable error is sent again after a wait that grows with its own tries (KIP-580),
as those rejected with it wait behind it anyway. It does not wait for a leader that it was not yet
sent to, named by a response (KIP-951) or by newer metadata (`Accumulator.drain`).

OUT_OF_ORDER_SEQUENCE_NUMBER may mean four things.
1. An earlier batch is missing that is still to be sent, or is held: it is sent again.
2. No earlier batch is missing here, so the broker has lost acknowledged records. The partition
   continues with the next epoch and the batch is sent again in that, as Kafka's producer does
   (KIP-360); the gap is logged. That is right only if the broker surely has neither the batch nor
   one of those behind it.
3. A later batch was acknowledged, so the broker took that without this one: it had forgotten the
   producer. Sent now this batch would come after later ones, so it has failed. It has failed even
   if it may be stored: reported as stored it might be lost.
4. An earlier batch has failed that was sent without a response (and not for its content, for which
   it would be rejected whenever it came), so the broker lacks that one now. But what was sent of
   both on a lost connection may still arrive, and would be stored under this epoch. So this batch
   has failed if it was ever sent without a response: under the next epoch it could be stored twice.
   1. A batch is sent, and gets no response until it has failed. 2. So is the one behind it. 3. That
   one is sent again, is out of order, and goes on in the next epoch. 4. The first copies of both
   arrive, and are stored. 5. So is the copy sent in the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP, Batch, Trace
from moldau.client.producer.buffer import Buffer, Mishap
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.refusal import (
    CONCURRENT_S,
    LOST_STATE,
    NOT_STORED,
    OF_CONTENT,
    TOO_LARGE,
    UNANSWERED,
)
from moldau.client.producer.splitting import Fit
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import NO_PRODUCER
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

_OUT_OF_ORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
_OVERTAKEN: Final = (
    "the broker had forgotten this producer, and took what was sent after these records; they are "
    "not stored"
)
_MAYBE_OVERTAKEN: Final = (
    "it is unknown whether these records are stored: the broker has what was sent after them, "
    "and may have forgotten this producer meanwhile"
)
_MAYBE_ON_THEIR_WAY: Final = (
    "it is unknown whether these records will be stored: what was sent before them has failed "
    "without an answer, and it and they may still be on their way to the broker"
)


class Outcomes:
    """Decides how the batches of a buffer end."""

    def __init__(self, buffer: Buffer, backoff: Backoff, random: Random) -> None:
        self._buffer = buffer
        self._options = buffer.options
        self._backoff = backoff
        self._random = random

    # Answers

    def acknowledged(self, batch: Batch, base_offset: int, timestamp: int) -> None:
        """End a batch that the broker has acknowledged."""
        queue = self._buffer.queues[batch.where]
        queue.in_flight.remove(batch)
        self._buffer.trouble = None
        queue.is_known = True
        queue.not_before = 0.0
        self._stored(queue, batch, base_offset, timestamp)

    def _stored(
        self,
        queue: PartitionQueue,
        batch: Batch,
        base_offset: int = NO_OFFSET,
        timestamp: int = NO_TIMESTAMP,
    ) -> None:
        """End a stored batch. Held batches before it fail: each was overtaken or is stored, and
        which one is unknown. Offsets do not show it: other producers may have written too."""
        if not batch.is_done:
            self._buffer.end(batch, base_offset, timestamp)
        self._buffer.release(queue, batch)
        queue.stored_number = max(queue.stored_number, batch.number)
        for held in list(queue.held):
            if held.number < batch.number:
                queue.held.remove(held)
                self.fail(queue, held, _overtaken(held))

    def refused(self, batch: Batch, error: KafkaError, now: float) -> None:
        """Handle a batch that the broker rejected, or that got no response."""
        queue = self._buffer.queues[batch.where]
        queue.in_flight.remove(batch)
        batch.last_error = without_frames(error)
        if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and not batch.is_done:
            if batch.trace:
                self._stored(queue, batch)
            else:  # another batch has its sequence by mistake
                self.fail(queue, batch, _overtaken(batch))
            return
        if error.code in UNANSWERED:
            batch.trace = Trace.ARRIVING
        elif error.code not in NOT_STORED:
            batch.trace = max(batch.trace, Trace.STORED)
        if error.code is _OUT_OF_ORDER and self._options.is_idempotent:
            if batch.number < queue.stored_number:
                self.fail(queue, batch, _overtaken(batch))
                return
            if queue.is_next_to_ask(batch) and (batch.trace or queue.has_unsure):
                queue.hold(batch)
                self.settle_held(queue)
                return
        if batch.is_done:
            self.fail(queue, batch, error)
        elif error.code in TOO_LARGE and batch.count > 1:
            self._too_large(queue, batch)
        elif self._may_retry(queue, batch, error):
            self._put_back(queue, batch, error, now)
        else:
            self.fail(queue, batch, error)

    def _too_large(self, queue: PartitionQueue, batch: Batch) -> None:
        """Send its parts instead, as if they were new. If they cannot be made, the batch fails."""
        fit = self._buffer.fits.get(queue)
        if fit is None:
            fit = self._buffer.fits[queue] = Fit(batch)
        else:
            fit.refused(batch)
        try:
            self._buffer.split(queue, batch, fit)
        except KafkaError as error:
            self.fail(queue, batch, error)

    def settle_held(self, queue: PartitionQueue) -> None:
        """Decide about the held batches once no later batch can give an answer."""
        if queue.has_unsure:
            return
        held, queue.held = sorted(queue.held, key=lambda each: each.number), []
        for batch in held:
            is_blind = batch.number < queue.lost_number
            may_come = batch.trace is Trace.ARRIVING and queue.has_hung
            batch.trace = Trace.ARRIVING if may_come else Trace.NONE
            error = _out_of_order(batch, _MAYBE_ON_THEIR_WAY) if may_come else batch.last_error
            assert error is not None
            is_over = is_blind or may_come or batch.is_done
            if not is_over and self._may_retry(queue, batch, error):
                queue.put_back(batch)
            else:
                self.fail(queue, batch, error)
        if not queue.is_empty:
            self._buffer.busy[queue] = None

    def _may_retry(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        if batch.attempts > self._options.retries_max:
            return False
        if error.code not in LOST_STATE or not self._options.is_idempotent:
            return error.retriable
        if self._options.is_transactional:  # the epoch is raised when the transaction is aborted
            return error.code is _OUT_OF_ORDER and not queue.is_first_under_way(batch)
        if error.code is _OUT_OF_ORDER:
            if queue.is_first_under_way(batch) and not queue.must_restart:
                queue.must_restart = True
                self._buffer.mishaps.append((Mishap.GAP, batch))
            return True
        queue.must_restart = True
        return batch.attempts == 1

    def put_off(self, queue: PartitionQueue, tries: int, now: float) -> None:
        """Send the first waiting batch no sooner than after the backoff."""
        queue.not_before = now + self._backoff.wait_s(tries, self._random)

    def _put_back(self, queue: PartitionQueue, batch: Batch, error: KafkaError, now: float) -> None:
        queue.put_back(batch)
        if queue.waiting[0] is not batch:
            return
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            queue.not_before = now + CONCURRENT_S
        else:
            self.put_off(queue, batch.attempts, now)

    # No answer in time

    def expire(self, now: float) -> None:
        """Fail complete batches past the delivery timeout."""
        created_by = now - self._options.delivery_timeout_s
        for queue in list(self._buffer.busy):
            for batch in (*queue.held, *queue.in_flight):
                if not batch.is_done and batch.created <= created_by:
                    self._buffer.end(batch, error=self._too_late(batch), is_under_way=True)
            while queue.waiting and queue.waiting[0].created <= created_by:
                batch = queue.waiting.popleft()
                self.fail(queue, batch, self._too_late(batch))

    def _too_late(self, batch: Batch) -> KafkaError:
        context: dict[str, object] = {
            "topic": batch.where.topic,
            "partition": batch.where.partition,
            "records": batch.count,
            "attempts": batch.attempts,
        }
        last_error = batch.last_error or self._buffer.trouble
        if last_error is not None:
            context["last_error"] = str(last_error)
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"not delivered within delivery.timeout.ms ({self._options.delivery_timeout_s:g} s)",
            **context,
        )

    # The end

    def fail_all(self, error: KafkaError) -> None:
        """Fail all complete batches: the producer cannot continue."""
        for queue in list(self._buffer.busy):
            for batch in (*queue.held, *queue.in_flight):
                if not batch.is_done:
                    self._buffer.end(batch, error=error, is_under_way=True)
            while queue.waiting:
                self.fail(queue, queue.waiting.popleft(), error)

    def fail(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        """End a batch that has failed for good and is in no list any more."""
        if batch.was_sent and batch.producer.id != NO_PRODUCER.id:
            queue.must_restart = True
            if batch.trace:
                queue.lost_number = max(queue.lost_number, batch.number)
            if batch.trace is Trace.ARRIVING and error.code not in OF_CONTENT:
                queue.hung_number = max(queue.hung_number, batch.number)
        if not batch.is_done:
            self._buffer.end(batch, error=error)
        self._buffer.release(queue, batch)


def _overtaken(batch: Batch) -> KafkaError:
    return _out_of_order(batch, _MAYBE_OVERTAKEN if batch.trace else _OVERTAKEN)


def _out_of_order(batch: Batch, reason: str) -> KafkaError:
    where = batch.where._asdict()
    return KafkaError(_OUT_OF_ORDER, reason, **where, records=batch.count)
