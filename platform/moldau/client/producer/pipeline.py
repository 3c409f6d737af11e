"""Interceptors and serializers: what happens to a record before it is bytes. No IO.

    prepared = pipeline.prepare(record, on_delivery)  # or `RecordPreparation`: a serde needs IO

Invariants: interceptors run in order on the application's record, each on the result of the one
before. None is never serialized. All interceptors get the outcome of every record that they saw,
once, whether it was sent or failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from moldau.client.base.arguments import check_number, check_timestamp
from moldau.client.base.user_code import close_all, guarded
from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP
from moldau.client.producer.delivery import Delivery, Sent, error_of, sent_of
from moldau.client.producer.record import OnDelivery, ProducerInterceptor, ProducerRecord
from moldau.client.serdes.contract import BatchSerializer, Place, Serializer, failed_to_serialize
from moldau.errors import MoldauError
from moldau.link.arguments import told
from moldau.records import HeadersGiven
from moldau.runtime.cancellation import CancelledError, is_cancelling

NO_PARTITION: Final = -1
_OVERHEAD_BYTES: Final = 12
_TURN: Final = 100


class PreparedRecord(NamedTuple):
    """A serialized record, and the callback for its outcome."""

    record: ProducerRecord
    key: bytes | None
    value: bytes | None
    partition: int | None
    on_delivery: OnDelivery | None = None

    @property
    def headers(self) -> HeadersGiven:
        """The headers to send."""
        return self.record.headers

    @property
    def size_bytes(self) -> int:
        """The approximate size in a batch. Types are not checked yet: wrong ones do not count."""
        headers: object = self.headers
        pairs = headers if isinstance(headers, list | tuple) else ()
        parts = chain((self.key, self.value), *(each for each in pairs if isinstance(each, tuple)))
        return _OVERHEAD_BYTES + sum(len(each) for each in parts if isinstance(each, bytes | str))


class Pipeline:
    """One producer's interceptors and serializers."""

    def __init__(
        self,
        interceptors: Sequence[ProducerInterceptor] = (),
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        *,
        lent: Sequence[object] = (),
    ) -> None:
        """The user owns the interceptors that are also in `lent`."""
        self.interceptors = self._unended = tuple(interceptors)
        self._lent = tuple(lent)
        self._serializers = {True: key_serializer, False: value_serializer}
        self._places: dict[tuple[str, bool], Place] = {}

    @property
    def is_empty(self) -> bool:
        """Whether records pass unchanged, without interceptors and serializers."""
        return not self.interceptors and not any(self._serializers.values())

    def prepare(
        self, record: ProducerRecord, on_delivery: OnDelivery | None = None
    ) -> PreparedRecord | RecordPreparation:
        """Return the record to send. Raise SerializationFailed if a serializer fails."""
        for each in self.interceptors:
            changed = guarded(f"{type(each).__name__}.on_send", _on_send, each, record)
            record = record if changed is None else changed
        key: Any = None
        try:
            key = self._serialized(record.topic, record.key, is_key=True)
            value = self._serialized(record.topic, record.value, is_key=False)
        except MoldauError as error:
            _leave(key)
            self.failed(record, error)
            raise
        if isinstance(key, Awaitable) or isinstance(value, Awaitable):
            return RecordPreparation(self, record, key, value, on_delivery)
        return PreparedRecord(record, key, value, record.partition, on_delivery)

    def _serialized(self, topic: str, value: object, *, is_key: bool) -> Any:
        serializer = self._serializers[is_key]
        if serializer is None or value is None:
            return value
        place = self._place(topic, is_key=is_key)
        try:
            made = serializer(value, place)
            if not isinstance(made, bytes):
                _check_made(made)
        except (Exception, CancelledError) as error:
            raise failed_to_serialize(place, value, error) from error
        return made

    def _place(self, topic: str, *, is_key: bool) -> Place:
        place = self._places.get((topic, is_key))
        if place is None:
            place = self._places[topic, is_key] = Place(topic, is_key)
        return place

    async def awaited(
        self, record: ProducerRecord, key: Any, value: Any, on_delivery: OnDelivery | None
    ) -> PreparedRecord:
        """Return the record when its serializers are done."""
        with ErrorReport(self, record):
            try:
                key = await self._made(record.topic, record.key, key, is_key=True)
                value = await self._made(record.topic, record.value, value, is_key=False)
            finally:
                _leave(value)
        return PreparedRecord(record, key, value, record.partition, on_delivery)

    async def _made(self, topic: str, value: object, made: Any, *, is_key: bool) -> Any:
        if not isinstance(made, Awaitable):
            return made
        with _failing_as(self._place(topic, is_key=is_key), value):
            made = await made
            _check_made(made)
            return made

    async def serialize_many(
        self,
        topic: str,
        values: Sequence[Any],
        turn: Callable[[], Awaitable[None]],
        *,
        is_key: bool,
    ) -> Sequence[bytes | None]:
        """Serialize a column of keys or values, without interceptors. Await `turn` now and then, so
        that other tasks can run."""
        serializer = self._serializers[is_key]
        if serializer is None:
            return values
        if isinstance(serializer, BatchSerializer):
            place = self._place(topic, is_key=is_key)
            with _failing_as(place, values):
                made = serializer.many(values, place)
                if isinstance(made, Awaitable):
                    made = await made
                if len(made) != len(values):
                    raise ValueError(f"many gave {len(made)} for {len(values)} values")
                for each in made:
                    if not isinstance(each, bytes):
                        _check_made(each)
            return made
        found = []
        for index, value in enumerate(values, 1):
            one = self._serialized(topic, value, is_key=is_key)
            found.append(await self._made(topic, value, one, is_key=is_key))
            if index % _TURN == 0:
                await turn()
        return found

    # Outcomes

    def watch(self, prepared: PreparedRecord, delivery: Delivery) -> None:
        """Call interceptors and the callback when the record's batch is decided."""
        batch = delivery.batch
        if prepared.on_delivery is not None:
            batch.when_done(partial(_deliver, prepared.on_delivery, delivery))
        if self.interceptors:
            batch.when_done(partial(self._acknowledge, delivery, prepared.record))

    def _acknowledge(self, delivery: Delivery, record: ProducerRecord) -> None:
        batch, index = delivery.batch, delivery.index
        where = batch.where
        sent = Sent(where.topic, where.partition, NO_OFFSET, NO_TIMESTAMP)
        error = error_of(batch, index)
        if error is None:
            sent = sent_of(batch, index, delivery.timestamp)
        self._tell(record, sent, error)

    def failed(self, record: ProducerRecord, error: BaseException) -> None:
        """Give the interceptors the error of a record that could not be sent."""
        if not self.interceptors:
            return
        if not isinstance(error, MoldauError):
            error = MoldauError("the record was not sent", error=repr(error))
        partition = NO_PARTITION if record.partition is None else record.partition
        self._tell(record, Sent(record.topic, partition, NO_OFFSET, NO_TIMESTAMP), error)

    def _tell(self, record: ProducerRecord, sent: Sent, error: MoldauError | None) -> None:
        for each in self.interceptors:
            what = f"{type(each).__name__}.on_acknowledgement"
            guarded(what, each.on_acknowledgement, sent, error)
            on_outcome = getattr(each, "on_outcome", None)
            if on_outcome is not None:
                guarded(f"{type(each).__name__}.on_outcome", on_outcome, record, sent, error)

    def close(self, *, is_for_good: bool = True) -> None:
        """Close each interceptor once. Unless `is_for_good`, keep those that the user owns."""
        ended, self._unended = self._unended, ()
        self._unended = close_all(ended, but=() if is_for_good else self._lent)


def _on_send(interceptor: ProducerInterceptor, record: ProducerRecord) -> ProducerRecord | None:
    """Return the interceptor's record, or None. Raise TypeError if it returned anything else."""
    changed: object = interceptor.on_send(record)
    what = f"{type(interceptor).__name__}.on_send"
    if changed is None or isinstance(changed, ProducerRecord):
        if changed is not None:
            check_timestamp(changed.timestamp_ms, f"the timestamp_ms that {what} returns")
            check_number(changed.partition, f"the partition that {what} returns")
        return changed
    raise TypeError(
        f"{what} must return a ProducerRecord, or None to change nothing, not {told(changed)}"
    )


class RecordPreparation:
    """A record whose serializers wait for something: await it. If the `with` block raises before
    the await, interceptors get that error as if a serializer had failed."""

    __slots__ = ("_has_begun", "_key", "_on_delivery", "_pipeline", "_record", "_value")

    def __init__(
        self,
        pipeline: Pipeline,
        record: ProducerRecord,
        key: Any,
        value: Any,
        on_delivery: OnDelivery | None,
    ) -> None:
        self._pipeline = pipeline
        self._record = record
        self._key = key
        self._value = value
        self._on_delivery = on_delivery
        self._has_begun = False

    def __await__(self) -> Generator[Any, None, PreparedRecord]:
        self._has_begun = True
        awaited = self._pipeline.awaited(self._record, self._key, self._value, self._on_delivery)
        return awaited.__await__()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None and not self._has_begun:
            _leave(self._key)
            _leave(self._value)
            self._pipeline.failed(self._record, error)


class ErrorReport:
    """Reports any exception of the block to the interceptors: the record could not be sent."""

    __slots__ = ("_pipeline", "_record")

    def __init__(self, pipeline: Pipeline, record: ProducerRecord) -> None:
        self._pipeline = pipeline
        self._record = record

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            self._pipeline.failed(self._record, error)


@contextmanager
def _failing_as(place: Place, value: object) -> Iterator[None]:
    """Name the serializer in its exception. Raise if the calling task itself is cancelled."""
    try:
        yield
    except (Exception, CancelledError) as error:
        if is_cancelling(error):
            raise
        raise failed_to_serialize(place, value, error) from error


def _check_made(made: object) -> None:
    """Raise TypeError if a serializer returned neither bytes, None nor an awaitable."""
    if not (made is None or isinstance(made, bytes | Awaitable)):
        raise TypeError(f"it must give bytes or None, and gave {told(made)}")


def _leave(made: object) -> None:
    """End the unfinished work of a serializer that nothing waits for any more."""
    end = getattr(made, "close", None) or getattr(made, "cancel", None)
    if isinstance(made, Awaitable) and end is not None:
        end()


def _deliver(on_delivery: OnDelivery, delivery: Delivery) -> None:
    batch, index = delivery.batch, delivery.index
    error = error_of(batch, index)
    if error is not None:
        batch.mark_awaited(index)
    sent = None if error else sent_of(batch, index, delivery.timestamp)
    guarded("on_delivery", on_delivery, sent, error)
