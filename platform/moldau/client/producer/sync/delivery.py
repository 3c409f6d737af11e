"""The return value of a blocking `send`: the place of the record in the log.

A record costs nothing but a tuple: its batch has one outcome for all, and a waiting caller waits on
a lock of its own. A failure counts as awaited when a caller gets it; the producer's next `flush` or
`close` raises the others. A batch belongs to the loop: it is changed only there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from moldau.client.producer.delivery import Deliveries as AsyncDeliveries
from moldau.client.producer.delivery import Delivery as Place
from moldau.client.producer.delivery import (
    Part,
    Sent,
    SentRange,
    again,
    error_of,
    ranges_of,
    sent_of,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import seconds
from moldau.runtime.loop_thread import Deadline, Waiter

if TYPE_CHECKING:
    from moldau.client.producer.sync.producer import Producer


class Delivery:
    """A record that is being sent. It has no `__init__`, as one is made for every record."""

    __slots__ = ("place", "producer")

    place: Place
    producer: Producer

    @property
    def is_done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self.place.is_done

    def result(self, timeout_s: float | None = None) -> Sent:
        """Return the place of the record once the cluster has it. Raise the KafkaError that it
        failed with, or TimeoutError after `timeout_s`."""
        error = self.exception(timeout_s)
        if error is not None:
            raise again(error)
        return sent_of(self.place.batch, self.place.index, self.place.timestamp)

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        """Return the error that the record failed with, or None once the cluster has it."""
        batch, index = self.place.batch, self.place.index
        _wait(self.producer, [(batch, index, 1)], timeout_s)
        return error_of(batch, index)

    def add_done_callback(self, tell: Callable[[Delivery], object]) -> None:
        """Call `tell(delivery)` when it is decided, on the loop's thread, where it must not wait. A
        failure counts as awaited by then."""
        batch, index = self.place.batch, self.place.index

        def at_end() -> None:
            batch.mark_awaited(index)
            tell(self)

        def begin() -> None:
            if batch.is_done:
                at_end()
            else:
                batch.when_done(at_end)

        if not self.producer._on_loop(begin):
            tell(self)

    def __repr__(self) -> str:
        batch = self.place.batch
        state = "waits" if not batch.is_done else batch.error or "done"
        return f"<Delivery {batch.where} {state}>"


class Deliveries:
    """Many records that are being sent."""

    __slots__ = ("_parts", "_producer", "count")

    def __init__(self, sent: AsyncDeliveries, producer: Producer) -> None:
        self._parts = sent.parts
        self._producer = producer
        self.count = sent.count

    @property
    def is_done(self) -> bool:
        """Whether all of them are acknowledged or have failed."""
        return all(part[0].is_done for part in self._parts)

    def result(self, timeout_s: float | None = None) -> list[SentRange]:
        """Return the places of the records once the cluster has them all. Raise the first
        KafkaError that some failed with, or TimeoutError after `timeout_s`."""
        _wait(self._producer, self._parts, timeout_s)
        for part in self._parts:
            error = error_of(*part)
            if error is not None:
                raise again(error)
        return [each for part in self._parts for each in ranges_of(*part)]


def _wait(producer: Producer, parts: Sequence[Part], timeout_s: float | None) -> None:
    """Wait until these records are decided. Only then they count as awaited."""
    waits = [_Wait(part) for part in parts if not part[0].is_done]
    if waits:
        producer._check_may_wait()
        deadline = Deadline(None if timeout_s is None else seconds(timeout_s, "timeout_s"))
        for each in waits:
            if not producer._on_loop(each.begin):
                each.waiter.wake()
        is_over = False
        try:
            is_over = all(
                each.waiter.wait(deadline.left_s(), producer._is_served) for each in waits
            )
        finally:
            if not is_over:
                for each in waits:
                    producer._on_loop(each.give_up)
    undecided = sorted({str(part[0].where) for part in parts if not part[0].is_done})
    if undecided and not producer._is_served():
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer's thread has ended")
    if undecided:
        raise TimeoutError(f"not decided within {timeout_s} s: {', '.join(undecided)}")
    for batch, first, count in parts:
        if batch.error is not None:
            producer._on_loop(partial(batch.mark_awaited, first, count))


class _Wait:
    """A thread's wait for some records of a batch. They count as awaited in the same loop iteration
    in which they fail, so that a flush that ends then does not raise them too."""

    __slots__ = ("_has_marked", "_is_over", "_part", "waiter")

    def __init__(self, part: Part) -> None:
        self._part = part
        self._is_over = False
        self._has_marked = False
        self.waiter = Waiter()

    def begin(self) -> None:
        """Start to wait. On the loop."""
        batch = self._part[0]
        if batch.is_done:
            self._decided()
        else:
            batch.when_done(self._decided)

    def _decided(self) -> None:
        batch, first, count = self._part
        if not self._is_over:
            self._has_marked = True
            batch.mark_awaited(first, count)
        self.waiter.wake()

    def give_up(self) -> None:
        """End the wait without a result. On the loop."""
        batch, first, count = self._part
        self._is_over = True
        if self._has_marked:
            batch.mark_awaited(first, count, is_awaited=False)
