"""What a blocking `send` gives: where the record went, for who asks.

Nothing is made for a record but a tuple: the batch it is in has one outcome for all, and who waits
for it waits on a lock of his own. A failure that nobody asks for is not lost: the producer's next
`flush` or `close` raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from moldau.client.producer.batch import Batch
from moldau.client.producer.delivery import Deliveries as AsyncDeliveries
from moldau.client.producer.delivery import Delivery as Place
from moldau.client.producer.delivery import Sent, SentRange, again, error_of, ranges_of, sent_of
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import seconds
from moldau.runtime.loop_thread import Deadline, Waiter

if TYPE_CHECKING:
    from moldau.client.sync.producer import Producer


class Delivery:
    """One record on its way. Made for every record, so it has no `__init__`: see `send`."""

    __slots__ = ("place", "producer")

    place: Place
    producer: Producer

    @property
    def is_done(self) -> bool:
        """Whether it is decided."""
        return self.place.is_done

    def result(self, timeout_s: float | None = None) -> Sent:
        """Where the record is, when the cluster has it; the KafkaError that it failed with;
        TimeoutError when that takes longer."""
        error = self.exception(timeout_s)
        if error is not None:
            raise again(error)
        return sent_of(self.place.batch, self.place.index, self.place.timestamp)

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        """What it failed with; None when the cluster has it."""
        batch, index = self.place.batch, self.place.index
        if not batch.is_done:
            _wait(self.producer, [(batch, 1)], timeout_s)
        if batch.error is not None:
            self.producer._on_loop(partial(batch.hear, index))
        return error_of(batch, index)

    def add_done_callback(self, tell: Callable[[Delivery], object]) -> None:
        """Calls `tell(delivery)` when it is decided, on the loop's thread, where it must not wait.
        Whoever is told so has been told of a failure."""
        told = partial(tell, self)
        if not self.producer._on_loop(
            partial(_tell_at_end, self.place.batch, self.place.index, told)
        ):
            tell(self)

    def __repr__(self) -> str:
        batch = self.place.batch
        state = "waits" if not batch.is_done else batch.error or "done"
        return f"<Delivery {batch.where} {state}>"


class Deliveries:
    """Many records on their way."""

    __slots__ = ("_parts", "_producer", "count")

    def __init__(self, sent: AsyncDeliveries, producer: Producer) -> None:
        self._parts = sent.parts
        self._producer = producer
        self.count = sent.count

    @property
    def is_done(self) -> bool:
        """Whether all of them are decided."""
        return all(part[0].is_done for part in self._parts)

    def result(self, timeout_s: float | None = None) -> list[SentRange]:
        """Where they are, when the cluster has them all; the first KafkaError that some failed
        with; TimeoutError when that takes longer."""
        unsettled = [(batch, count) for batch, _, count in self._parts if not batch.is_done]
        if unsettled:
            _wait(self._producer, unsettled, timeout_s)
        for batch, first, count in self._parts:
            if batch.error is not None:
                self._producer._on_loop(partial(batch.hear, first, count))
        for part in self._parts:
            error = error_of(*part)
            if error is not None:
                raise again(error)
        return [each for part in self._parts for each in ranges_of(*part)]


def _wait(
    producer: Producer, batches: Sequence[tuple[Batch, int]], timeout_s: float | None
) -> None:
    """Until these batches are done, for so many records of each. Who gives up has not been told of
    a failure.

    A batch's list of whom to tell belongs to the loop, where the batch ends.
    """
    producer._check_may_wait()
    deadline = Deadline(None if timeout_s is None else seconds(timeout_s, "timeout_s"))
    waits = [_Wait(batch, records) for batch, records in batches]
    for each in waits:
        if not producer._on_loop(each.begin):
            each.waiter.wake()
    is_told = False
    try:
        is_told = all(each.waiter.wait(deadline.left_s(), producer._is_served) for each in waits)
    finally:
        if not is_told or any(batch.error is not None for batch, _ in batches):
            for each in waits:
                producer._on_loop(each.end)
    undecided = sorted({str(batch.where) for batch, _ in batches if not batch.is_done})
    if undecided and not producer._is_served():
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer's thread has ended")
    if undecided:
        raise TimeoutError(f"not decided within {timeout_s} s: {', '.join(undecided)}")


class _Wait:
    """For the end of a batch, by somebody who will hear of so many of its records. What it does to
    the batch is done on the loop."""

    __slots__ = ("_batch", "_is_counted", "_records", "waiter")

    def __init__(self, batch: Batch, records: int) -> None:
        self._batch = batch
        self._records = records
        self._is_counted = False
        self.waiter = Waiter()

    def begin(self) -> None:
        if self._batch.is_done:
            self.waiter.wake()
        else:
            self._is_counted = True
            self._batch.when_done(self.waiter.wake, self._records)

    def end(self) -> None:
        """He gave up, or says by `Batch.hear` what he has heard."""
        if self._is_counted:
            self._is_counted = False
            self._batch.told -= self._records


def _tell_at_end(batch: Batch, index: int, tell: Callable[[], object]) -> None:
    if batch.is_done:
        batch.hear(index)
        tell()
        return

    def at_end() -> None:
        batch.waiter_hears(index)
        tell()

    batch.when_done(at_end, 1)
