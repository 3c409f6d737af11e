"""What becomes of the batches of a producer: what an answer, or none in time, means for each, and
for those before and behind it. A part of `Accumulator`. No IO.

Invariants: a batch ends exactly once, acknowledged or failed, and gives its memory back then; it is
acknowledged only if the broker has it, and with idempotence nothing is stored twice, whatever is
sent again; a batch whose time ran out while it was under way is failed, but keeps its place until
the broker's answer says what became of it; a batch that is too large for the broker ends with the
last of the parts that are sent instead (splitting.py says how large these are); one that cannot be
built fails alone.

A batch that is refused for a while goes again after a wait that grows with its own tries (KIP-580),
for what is refused with it waits behind it anyway. It does not wait for a leader that it was not
sent to yet, whether an answer named that one (KIP-951) or newer metadata (`Accumulator.drain`).

A broker that says OUT_OF_ORDER_SEQUENCE_NUMBER may mean four things.
1. Something before the batch is missing that is still to be sent, or is held: it is sent again.
2. Nothing before it is missing here, so the broker has lost what it had acknowledged. The partition
   goes on with the next epoch and the batch is sent again in that, as Kafka's producer does it
   (KIP-360); `on_gap` is told. So it is only when the broker surely has neither the batch nor one
   of those behind it.
3. What is behind it was acknowledged, so the broker took that without this one: it had forgotten
   the producer. Sent now it would come after those, so it has failed. Where nobody knows whether
   the broker has it (it was refused with what may also be said after the batch was appended), it
   has failed all the same: told as stored it might be lost.
4. A batch before it has failed that was sent without an answer (and not for what it holds, for
   which it would be refused whenever it came), so the broker lacks that one now; but what was sent
   of both on a connection that is no more may still be on its way, and would be stored under this
   epoch. So the batch has failed if it was ever sent without an answer: sent again under the next
   epoch it could stand there twice. 1. A batch is sent, and gets no answer until it has failed.
   2. So is the one behind it. 3. That one is asked for, is out of order, and goes on in the next
   epoch. 4. What was sent first arrives, and is stored. 5. So is what is sent in the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from moldau.client.producer.batch import NO_OFFSET, Batch, PartitionQueue
from moldau.client.producer.refusal import LOST_STATE, NOT_STORED, OF_CONTENT, TOO_LARGE, UNANSWERED
from moldau.client.producer.splitting import Fit, split
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.backoff import Backoff
from moldau.link.metadata import TopicPartition
from moldau.records import NO_PRODUCER

if TYPE_CHECKING:
    from random import Random

    from moldau.client.producer.accumulator import Options

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
    """How batches end."""

    options: Options

    def __init__(self, backoff: Backoff, random: Random) -> None:
        self.used_bytes = 0
        self.trouble: KafkaError | None = None
        """Why a broker could not be reached lately: for batches that were never sent."""
        self.on_failed: Callable[[Batch], None] | None = None
        self.on_split: Callable[[Batch], None] | None = None
        self.on_gap: Callable[[Batch], None] | None = None
        self._untold: list[Batch] = []
        self._backoff = backoff
        self._random = random
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}
        self._fits: dict[PartitionQueue, Fit] = {}

    # Answers

    def acknowledged(self, batch: Batch, base_offset: int, timestamp: int) -> Batch | None:
        """The broker has it. What it is the last part of is returned when other parts have failed
        and nobody was told."""
        queue = self._queues[batch.where]
        queue.in_flight.remove(batch)
        self.trouble = None
        queue.is_known = True
        queue.not_before = 0.0
        untold = None if batch.is_done else batch.finish(base_offset, timestamp)
        self._release(queue, batch)
        self._give_up_held(queue, batch)
        return untold

    def _give_up_held(self, queue: PartitionQueue, batch: Batch) -> None:
        """The broker has this one: what is held before it was overtaken, or is stored and nobody
        can tell. Offsets do not: others may have written in between."""
        queue.stored_number = max(queue.stored_number, batch.number)
        for held in [each for each in queue.held if each.number < batch.number]:
            queue.held.remove(held)
            untold = self._fail(queue, held, _overtaken(held))
            self._untold += [untold] if untold is not None else []

    def refused(self, batch: Batch, error: KafkaError, now: float) -> Batch | None:
        """The broker refused it, or nobody knows whether it has it. The batch, or what it is part
        of, is returned when it has failed for good and nobody was told."""
        queue = self._queues[batch.where]
        queue.in_flight.remove(batch)
        batch.last_error = error
        if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and not batch.is_done:
            if not batch.is_unsure:  # it is another one's, which has its sequence by mistake
                return self._fail(queue, batch, _overtaken(batch))
            untold = batch.finish(NO_OFFSET)
            self._release(queue, batch)
            self._give_up_held(queue, batch)
            return untold
        if error.code not in NOT_STORED:
            batch.is_unsure = True
        if error.code in UNANSWERED:
            batch.is_unanswered = True
        if error.code is _OUT_OF_ORDER and self.options.is_idempotent:
            if batch.number < queue.stored_number:
                return self._fail(queue, batch, _overtaken(batch))
            if queue.is_next_to_ask(batch) and (batch.is_unsure or queue.has_unsure):
                queue.held.append(batch)
                self._settle_held(queue)
                return None
        if error.code in TOO_LARGE and batch.count > 1 and not batch.is_done:
            return self._too_large(queue, batch)
        if not batch.is_done and self._may_retry(queue, batch, error):
            queue.put_back(batch)
            if queue.waiting[0] is batch:
                self._put_off(queue, batch.attempts, now)
            return None
        return self._fail(queue, batch, error)

    def _too_large(self, queue: PartitionQueue, batch: Batch) -> Batch | None:
        """Its parts are sent instead, as if they had not been tried yet. If they cannot be made, it
        has failed; it is returned if nobody was told."""
        fit = self._fits.get(queue)
        if fit is None:
            fit = self._fits[queue] = Fit(batch)
        else:
            fit.refused(batch)
        try:
            self._split(queue, batch, fit)
        except KafkaError as error:
            return self._fail(queue, batch, error)
        return None

    def _split(self, queue: PartitionQueue, batch: Batch, fit: Fit) -> None:
        parts = split(batch, fit.size_bytes_max, self.options.codec, self.options.level)
        queue.replace(batch, parts)
        self.used_bytes += sum(each.reserved_bytes for each in parts)
        self._release(queue, batch)
        if self.on_split is not None:
            self.on_split(batch)

    def _settle_held(self, queue: PartitionQueue) -> None:
        """Once nothing is left to ask about: what is held is not there, or nobody can tell."""
        if queue.has_unsure:
            return
        held, queue.held = sorted(queue.held, key=lambda each: each.number), []
        for batch in held:
            is_blind = batch.number < queue.lost_number
            may_come = batch.is_unanswered and queue.has_hung
            batch.is_unsure = batch.is_unanswered = may_come
            error = _on_its_way(batch) if may_come else batch.last_error
            assert error is not None
            is_over = is_blind or may_come or batch.is_done
            if not is_over and self._may_retry(queue, batch, error):
                queue.put_back(batch)
                continue
            untold = self._fail(queue, batch, error)
            self._untold += [untold] if untold is not None else []
        if not queue.is_empty:
            self._busy[queue] = None

    def _may_retry(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        if batch.attempts > self.options.retries_max:
            return False
        if error.code not in LOST_STATE or not self.options.is_idempotent:
            return error.retriable
        if error.code is _OUT_OF_ORDER:
            if queue.is_first_under_way(batch) and not queue.must_restart:
                queue.must_restart = True
                if self.on_gap is not None:
                    self.on_gap(batch)
            return True
        queue.must_restart = True
        return batch.attempts == 1

    def _put_off(self, queue: PartitionQueue, tries: int, now: float) -> None:
        queue.not_before = now + self._backoff.wait_s(tries, self._random)

    # No answer in time

    def expire(self, now: float) -> list[Batch]:
        """Fails what is over its time; those batches that nobody was told of."""
        untold = []
        created_by = now - self.options.delivery_timeout_s
        for queue in list(self._busy):
            for batch in (*queue.held, *queue.in_flight):
                if batch.is_done or batch.created > created_by:
                    continue
                failed = self._end(batch, self._too_late(batch))
                untold += [failed] if failed is not None else []
            while queue.waiting and queue.waiting[0].created <= created_by:
                batch = queue.waiting.popleft()
                failed = self._fail(queue, batch, self._too_late(batch))
                untold += [failed] if failed is not None else []
        return untold

    def _too_late(self, batch: Batch) -> KafkaError:
        context: dict[str, object] = {
            "topic": batch.where.topic,
            "partition": batch.where.partition,
            "records": batch.count,
            "attempts": batch.attempts,
        }
        last_error = batch.last_error or self.trouble
        if last_error is not None:
            context["last_error"] = str(last_error)
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"not delivered within delivery.timeout.ms ({self.options.delivery_timeout_s:g} s)",
            **context,
        )

    def take_untold(self) -> list[Batch]:
        """What has failed since this was last asked, or `drain`, and nobody was told."""
        untold, self._untold = self._untold, []
        return untold

    # The end of each

    def _fail(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> Batch | None:
        if batch.was_sent and batch.producer.id != NO_PRODUCER.id:
            queue.must_restart = True
            if batch.is_unsure:
                queue.lost_number = max(queue.lost_number, batch.number)
            if batch.is_unanswered and error.code not in OF_CONTENT:
                queue.hung_number = max(queue.hung_number, batch.number)
        untold = None if batch.is_done else self._end(batch, error)
        self._release(queue, batch)
        return untold

    def _end(self, batch: Batch, error: KafkaError) -> Batch | None:
        """It has failed for good; what has ended so and nobody was told of."""
        untold = batch.finish(NO_OFFSET, error=error)
        if self.on_failed is not None:
            self.on_failed(batch)
        return untold

    def _release(self, queue: PartitionQueue, batch: Batch) -> None:
        self.used_bytes -= batch.reserved_bytes
        batch.drop()
        if queue.is_empty:
            self._busy.pop(queue, None)


def _overtaken(batch: Batch) -> KafkaError:
    return _out_of_order(batch, _MAYBE_OVERTAKEN if batch.is_unsure else _OVERTAKEN)


def _on_its_way(batch: Batch) -> KafkaError:
    return _out_of_order(batch, _MAYBE_ON_THEIR_WAY)


def _out_of_order(batch: Batch, reason: str) -> KafkaError:
    where = {"topic": batch.where.topic, "partition": batch.where.partition}
    return KafkaError(_OUT_OF_ORDER, reason, **where, records=batch.count)
