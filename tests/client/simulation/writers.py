"""Processes that write: one producer after the other, by all ways that there are to send.

Which settings a producer has is drawn with the scenario, what each record is like here. A record
that may not be sent at all (no value that a serializer takes, too large, no such partition, a time
that no broker takes) is among them now and then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from itertools import count
from random import Random
from typing import Any, Final, Protocol

from moldau.broker.log.rounds import rest
from moldau.client import Producer
from moldau.client.producer.delivery import Deliveries, Delivery
from moldau.client.serdes.contract import Place
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Codec, Headers
from moldau.runtime import Runtime
from moldau.runtime.simulated.clock import NodeClock
from tests.client.simulation.actors import CLIENT, RETRY_S, World, pause
from tests.client.simulation.records import MORTAL, NAME, Draft, Kind, Records

TOPICS_DRAWN: Final[tuple[str, ...]] = (
    "a",
    "a",
    "a",
    "b",
    "b",
    MORTAL,
    "narrow",
    "narrow",
    "stamped",
    "stamped",
)
FILLINGS: Final = (0, 0, 50, 400)
MANY: Final = (1, 3, 12)
MINUTE_MS: Final = 60_000
TOO_NEW_MS: Final = 180 * MINUTE_MS
"""Brokers take what is an hour ahead of them, and clocks are not as wrong as this."""
TOO_LARGE: Final = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
REFUSALS: Final = frozenset((ErrorCode.INVALID_TIMESTAMP,))
"""A delivery that hears one of these is of a record that is not stored."""


class Slowly:
    """A serializer that has to ask somebody before it knows what to make of some values."""

    def __call__(self, value: str, place: Place, /) -> bytes | Awaitable[bytes]:
        data = value.encode()
        return self._asked(data) if len(data) % 3 == 0 else data

    async def _asked(self, data: bytes) -> bytes:
        await rest(0.003)
        return data


SERIALIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "none": {},
    "by name": {"key_serializer": "string", "value_serializer": "string"},
    "function": {"value_serializer": str.encode},
    "slow": {"key_serializer": "string", "value_serializer": Slowly()},
}


def draw_producer(random: Random) -> dict[str, Any]:
    """Settings."""
    options: dict[str, Any] = {
        "linger_ms": random.choice((0, 5, 30)),
        "batch_size": random.choice((200, 2000, 16384)),
        "delivery_timeout_ms": random.choice((700, 2000, 10_000)),
        "max_block_ms": 600,
        "compression_type": random.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")),
        "max_request_size": random.choice((1_048_576, 1_048_576, 1500)),
        **SERIALIZERS[random.choice(("none", "none", *SERIALIZERS))],
    }
    if options["linger_ms"] != 30:
        options["batch_waiting_size"] = 8 * options["batch_size"]
    if random.random() < 0.25:
        options |= {"enable_idempotence": False, "acks": random.choice(("1", "all"))}
    return options


class Waiting(Protocol):
    """What was sent, and is not known to be decided."""

    @property
    def is_done(self) -> bool: ...

    async def settle(self, records: Records) -> str:
        """Waits until it is, and tells the truth of it; what was heard."""
        ...


class One:
    """By `send`."""

    def __init__(self, name: str, delivery: Delivery) -> None:
        self.name = name
        self.delivery = delivery

    @property
    def is_done(self) -> bool:
        return self.delivery.is_done

    async def settle(self, records: Records) -> str:
        """See `Waiting`."""
        try:
            records.acknowledged(self.name, await self.delivery)
        except KafkaError as error:
            if error.code in TOO_LARGE:
                records.refused_as_too_large(self.name, error)
            elif error.code in REFUSALS:
                records.refused(self.name)
            return f"delivery heard {error.code.name}"
        return "acknowledged"


class Many:
    """By `send_many`."""

    def __init__(self, names: list[str], deliveries: Deliveries, *, is_in_order: bool) -> None:
        """`is_in_order`: they went where they went one after the other."""
        self.names = names
        self.deliveries = deliveries
        self.is_in_order = is_in_order

    @property
    def is_done(self) -> bool:
        return all(batch.is_done for batch, _, _ in self.deliveries.parts)

    async def settle(self, records: Records) -> str:
        """See `Waiting`."""
        try:
            ranges = await self.deliveries
        except KafkaError as error:
            if self.is_in_order:
                for name, delivery in zip(self.names, self._each(), strict=True):
                    await One(name, delivery).settle(records)
            return f"many heard {error.code.name}"
        told = [await each for each in self._each()]
        records.all_acknowledged(self.names, ranges, told)
        if self.is_in_order:
            for name, each in zip(self.names, told, strict=True):
                records.acknowledged(name, each)
        return "many acknowledged"

    def _each(self) -> Iterator[Delivery]:
        for batch, first, records_count in self.deliveries.parts:
            for index in range(first, first + records_count):
                yield Delivery(batch, index)


class Writer:
    """A producer after the other, under names of their own."""

    def __init__(
        self, world: World, name: str, options: Mapping[str, Any], clock: NodeClock
    ) -> None:
        """`clock`: of the machine that it is on."""
        self.world = world
        self.name = name
        self.options = options
        self.topics = TOPICS_DRAWN
        """One of these at a time."""
        self.records = world.truth.records
        self._clock = clock
        self._codec = Codec[options.get("compression_type", "none").upper()]
        self._is_idempotent = options.get("enable_idempotence", True)
        self._lives = 0
        self._waiting: list[Waiting] = []
        self._names: Iterator[str] = iter(())

    async def run(self, runtime: Runtime) -> None:
        while True:
            self._lives += 1
            self._waiting = []
            self._names = (f"{self.name}-{self._lives}/{number}" for number in count(1))
            try:
                async with Producer(runtime=runtime, **CLIENT, **self.options) as producer:
                    await self._write(runtime, producer)
                break
            except KafkaError as error:
                self._heard("producer", error)
                await pause(runtime, RETRY_S)
        self.world.on_ended()

    def _heard(self, who: str, error: Exception) -> None:
        what = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        self.world.truth.counts[f"{who} heard {what}"] += 1

    async def _write(self, runtime: Runtime, producer: Producer) -> None:
        random = runtime.random
        while not self.world.is_ending:
            topic = random.choice(self.topics)
            if random.random() < 0.2:
                await self._send_many(random, producer, topic)
            else:
                for _ in range(random.choice((1, 1, 2, 6))):
                    await self._send(random, producer, topic)
            if random.random() < 0.3:
                await self._settle(is_patient=random.random() < 0.3)
            if random.random() < 0.01:
                break
            await pause(runtime, self.world.pause_s)
        await self._end(producer)

    async def _settle(self, *, is_patient: bool) -> None:
        left = []
        for each in self._waiting:
            if each.is_done or is_patient:
                self.world.truth.counts[await each.settle(self.records)] += 1
            else:
                left.append(each)
        self._waiting = left

    async def _end(self, producer: Producer) -> None:
        """Everything that was accepted is decided in time."""
        await self._settle(is_patient=True)
        try:
            await producer.flush()
        except KafkaError:
            self.world.truth.counts["flush told of failures"] += 1
        split = producer.metrics()["producer-metrics"]["batch-split-total"]
        self.world.truth.counts["batches split"] += int(split)

    # One record.

    async def _send(self, random: Random, producer: Producer, topic: str) -> None:
        name = next(self._names)
        if random.random() < 0.5:
            draft = Draft(topic, _draw_key(random), _draw_value(random, name))
        else:
            draft = self._draw(random, topic, name)
        options: dict[str, Any] = {"key": self._given("key", draft.key)}
        if draft.headers:
            options["headers"] = draft.headers
        if draft.partition is not None:
            options["partition"] = draft.partition
        if draft.timestamp_ms is not None:
            options["timestamp_ms"] = draft.timestamp_ms
        self._sending(name, draft)
        value = self._given("value", draft.value, is_good=random.random() > 0.005)
        try:
            delivery = await producer.send(topic, value, **options)
            self._waiting.append(One(name, delivery))
        except (MoldauError, TypeError) as error:
            self.records.refused(name)
            self._heard("send", error)
        finally:
            self.records.sending_is_over([name])

    def _sending(self, name: str, draft: Draft) -> None:
        self.records.sending(
            name, draft, self._clock, is_idempotent=self._is_idempotent, codec=self._codec
        )

    def _given(self, side: str, data: bytes | None, *, is_good: bool = True) -> object:
        """As the producer wants to have it, or something that it cannot take."""
        if not is_good:
            return 1.5
        needs_text = f"{side}_serializer" in self.options
        return data.decode() if needs_text and data is not None else data

    def _draw(self, random: Random, topic: str, name: str) -> Draft:
        """A record with whatever a record may have."""
        headers = _draw_headers(random)
        value: bytes | None = _draw_value(random, name)
        if random.random() < 0.1:
            headers, value = (*headers, (NAME, name.encode())), None
        partition = timestamp = None
        if random.random() < 0.4:
            partition = _draw_partition(random, self.records.kinds[topic])
        if random.random() < 0.4:
            timestamp = self._draw_time(random)
        return Draft(topic, _draw_key(random), value, headers, timestamp, partition)

    def _draw_time(self, random: Random) -> int:
        if random.random() < 0.03:
            return self._clock.wall_ms() + TOO_NEW_MS
        return self._clock.wall_ms() + random.randrange(-30 * MINUTE_MS, 30 * MINUTE_MS)

    # Many records.

    async def _send_many(self, random: Random, producer: Producer, topic: str) -> None:
        names = [next(self._names) for _ in range(random.choice(MANY))]
        drafts = [self._draw(random, topic, name) for name in names]
        columns: dict[str, Any] = {}
        drafts = self._draw_columns(random, drafts, columns)
        is_in_order = isinstance(columns.get("partition"), int) or (
            "keys" not in columns and "partition" not in columns
        )
        for name, draft in zip(names, drafts, strict=True):
            self._sending(name, draft)
        is_good = random.random() > 0.05
        bad = -1 if is_good else random.randrange(len(names))
        values = [
            self._given("value", draft.value, is_good=index != bad)
            for index, draft in enumerate(drafts)
        ]
        try:
            deliveries = await producer.send_many(topic, values, **columns)
            self._waiting.append(Many(names, deliveries, is_in_order=is_in_order))
        except (MoldauError, TypeError) as error:
            accepted = _accepted(error)
            self.records.some_were_refused(names, accepted, is_in_order=is_in_order)
            self._heard("send many", error)
        finally:
            self.records.sending_is_over(names)

    def _draw_columns(
        self, random: Random, drafts: list[Draft], columns: dict[str, Any]
    ) -> list[Draft]:
        """Leaves columns out, or makes them the same for all; the records as they are then."""
        if random.random() < 0.5:
            drafts = [each._replace(key=None) for each in drafts]
        else:
            columns["keys"] = [self._given("key", each.key) for each in drafts]
        if any(each.headers for each in drafts):
            columns["headers"] = [each.headers for each in drafts]
        partition, is_same = _column(random, [each.partition for each in drafts])
        if is_same:
            drafts = [each._replace(partition=partition) for each in drafts]
        stamp, is_same = _column(random, [each.timestamp_ms for each in drafts])
        if is_same:
            drafts = [each._replace(timestamp_ms=stamp) for each in drafts]
        given = {"partition": partition, "timestamps_ms": stamp}
        columns.update({name: each for name, each in given.items() if each is not None})
        return drafts


def _column(random: Random, each: list[int | None]) -> tuple[Any, bool]:
    """As it is given; whether that is the same for all."""
    kind = random.choice(("none", "one", "each"))
    if kind == "each":
        return each, False
    return (each[0] if kind == "one" else None), True


def _accepted(error: Exception) -> int:
    """How many records of a `send_many` are on their way all the same."""
    if isinstance(error, MoldauError):
        return int(str(error.context["accepted"]))
    return int(error.__notes__[-1].split()[0])


def _draw_key(random: Random) -> bytes | None:
    return random.choice((None, b"k%d" % random.randrange(8)))


def _draw_value(random: Random, name: str) -> bytes:
    """Half of them hardly get smaller by compression."""
    size = random.choice(FILLINGS)
    if random.random() < 0.03:
        size = random.randrange(3000)
    filling = b"." * size if random.random() < 0.5 else b"%x" % random.getrandbits(4 * size + 1)
    return name.encode() + b" " + filling


def _draw_headers(random: Random) -> Headers:
    kind = random.randrange(4)
    if kind == 0:
        return (("h", b"1"), ("h", None), ("", b"x" * random.randrange(20)))
    return (("trace", b"%d" % random.randrange(100)),) if kind == 1 else ()


def _draw_partition(random: Random, kind: Kind) -> int:
    """One that there is; seldom one that may come into being, or never will."""
    if random.random() < 0.03:
        return kind.partitions + random.randrange(2)
    return random.randrange(kind.partitions)
