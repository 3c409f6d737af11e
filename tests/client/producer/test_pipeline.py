"""What happens to a record on its way into a batch, and who is told of it afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

import pytest

from moldau.client import Producer, Sent
from moldau.client.base.user_code import load_interceptors
from moldau.client.producer.delivery import Deliveries, Delivery
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.client.serdes.contract import Place
from moldau.config import BadSettings
from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Topic
from moldau.protocol.messages.produce import ProduceRequest
from moldau.records import Record, open_batch
from moldau.runtime import Runtime
from moldau.values.failures import SerializationFailed
from tests.client.producer.scripted_producer import producer
from tests.client.scripted import Log
from tests.client.world import BOOTSTRAP, ClientWorld


def stored(log: Log) -> list[Record]:
    return [record for data in log.batches for record in open_batch(data).records()]


# Callbacks


def test_a_callback_hears_once_of_each_record_where_it_is() -> None:
    heard: list[tuple[Sent | None, KafkaError | None]] = []

    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            for number in range(5):
                await sender.send(
                    "t",
                    b"%d" % number,
                    partition=0,
                    timestamp_ms=10 * number,
                    on_delivery=lambda sent, error: heard.append((sent, error)),
                )

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert heard == [(Sent("t", 0, offset, 10 * offset), None) for offset in range(5)]


@pytest.mark.parametrize("kind", [Producer, SharedProducer])
def test_every_record_tells_its_time_however_it_was_sent(kind: Any) -> None:
    async def main(runtime: Runtime) -> list[Sent]:
        options: dict[str, Any] = {"linger_ms": 1000}
        async with kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as sender:
            sent = []
            for _ in range(3):
                sent.append(await sender.send("t", b"v"))
                await asyncio.sleep(0.01)
                sent.append(await sender.send("t", b"v", partition=0))
            return [await each for each in sent]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        sent = world.run_client(main)
        assert [each.timestamp for each in sent] == [each.timestamp for each in stored(log)]
        assert len({each.timestamp for each in sent}) > 2


@pytest.mark.parametrize("appended_at", [-1, 99])
def test_who_gave_a_record_its_time_is_told_it_unless_the_broker_sets_it(appended_at: int) -> None:
    async def main(runtime: Runtime) -> list[Sent]:
        async with producer(runtime, linger_ms=5, max_request_size=400) as sender:
            small = [await sender.send("t", b"v", timestamp_ms=each) for each in (5, 3)]
            large = [
                await sender.send("t", bytes(100), partition=0, timestamp_ms=each)
                for each in (7, 8, 9)
            ]
            return [await each for each in (*small, *large)]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 250
        world.cluster.log_append_time_ms = appended_at
        sent = world.run_client(main)
        assert log.too_large, "some of them go in parts"
        assert [each.timestamp for each in stored(log)] == [5, 3, 7, 8, 9]
    own = [5, 3, 7, 8, 9]
    assert [each.timestamp for each in sent] == ([99] * 5 if appended_at > 0 else own)
    assert [each.offset for each in sent] == [0, 1, 2, 3, 4]


def test_a_callback_hears_of_a_failure_which_flush_does_not_repeat() -> None:
    heard: list[KafkaError | None] = []

    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            await sender.send("t", b"told", partition=0, on_delivery=lambda _, e: heard.append(e))
            await sender.flush()
            world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            await sender.send("t", b"told", partition=0, on_delivery=lambda _, e: heard.append(e))
            await sender.send("t", b"not told", partition=0)
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = world.run_client(main)
    assert [each.code if each else None for each in heard] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ] * 2
    assert error.context["failed_records"] == 1, "only the one that nobody heard of"


def failures_told(
    story: Callable[[Runtime], Coroutine[Any, Any, KafkaError]], refusals: int = 1
) -> Any:
    """How many records the error of that tells of; so many Produce requests are refused."""
    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 1])
        refused = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * refusals
        world.cluster.refuse[ProduceRequest].extend(refused)
        return world.run_client(story).context["failed_records"]


def test_who_awaits_one_record_does_not_answer_for_the_others_of_its_batch() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            awaited = await sender.send("t", b"awaited", partition=0)
            for _ in range(3):
                await sender.send("t", b"forgotten", partition=0)
            with pytest.raises(KafkaError):
                await awaited
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    assert failures_told(main) == 3


async def wait_for(delivery: Delivery) -> None:
    await delivery


async def fail_together(delivery: Delivery) -> None:
    """Two tasks wait for one record."""
    both = asyncio.gather(*(wait_for(delivery) for _ in range(2)), return_exceptions=True)
    assert [type(each) for each in await both] == [KafkaError] * 2


async def fail_unseen(delivery: Delivery) -> None:
    """Who waits is cancelled in the very turn in which the batch fails."""

    def cancel() -> None:
        waiting.cancel()

    waiting = asyncio.create_task(wait_for(delivery))
    delivery.batch.when_done(cancel)
    await asyncio.wait([waiting])
    assert waiting.cancelled()


@pytest.mark.parametrize(("fail", "forgotten"), [(fail_together, 1), (fail_unseen, 0)])
def test_those_who_wait_hide_no_failure_that_nobody_hears_of(fail: Any, forgotten: int) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, linger_ms=100) as sender:
            delivery = await sender.send("t", b"awaited", partition=0)
            for _ in range(forgotten):
                await sender.send("t", b"forgotten", partition=0)
            await fail(delivery)
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    assert failures_told(main) == 1


@pytest.mark.parametrize("fail", [fail_together, fail_unseen])
def test_a_flush_that_waited_before_them_hears_those_who_wait_out(fail: Any) -> None:
    """It is woken first."""

    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, linger_ms=100) as sender:
            delivery = await sender.send("t", b"awaited", partition=0)
            if fail is fail_together:
                await sender.send("t", b"forgotten", partition=0)
            flushing = asyncio.create_task(sender.flush())
            await asyncio.sleep(0)
            await fail(delivery)
            with pytest.raises(KafkaError) as caught:
                await flushing
            return caught.value

    assert failures_told(main) == 1


def test_who_awaits_all_that_fails_and_never_flushes_gathers_nothing() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            for _ in range(20):
                with pytest.raises(KafkaError):
                    await (await sender.send_many("t", [b"v"] * 5, partition=0))
            assert len(sender._accumulator.buffer.failures._batches) == 1

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ProduceRequest] += [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 20
        world.run_client(main)


@pytest.mark.parametrize("many", [False, True])
def test_who_awaits_a_record_when_its_batch_has_failed_has_heard_of_it(many: bool) -> None:
    """As who goes through what `send` gave, one after the other. To ask again for what he has heard
    of answers for no other record."""

    async def failures(sender: Producer, count: int) -> list[Delivery | Deliveries]:
        sent: list[Delivery | Deliveries] = []
        for _ in range(count):
            if many:
                sent.append(await sender.send_many("t", [b"v"], partition=0))
            else:
                sent.append(await sender.send("t", b"v", partition=0))
        return sent

    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            for each in await failures(sender, 4):
                with pytest.raises(KafkaError):
                    await each
            await sender.flush()
            first, second, *_ = await failures(sender, 4)
            for each in (first, second, first, second):
                with pytest.raises(KafkaError):
                    await each
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    assert failures_told(main, refusals=2) == 2


def test_who_asks_twice_for_many_answers_for_no_other_record() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, linger_ms=100) as sender:
            many = await sender.send_many("t", [b"v"] * 4, partition=[0, 0, 1, 1])
            for _ in range(2):
                await sender.send("t", b"nobody asks", partition=1)
            for _ in range(2):
                with pytest.raises(KafkaError):
                    await many
                await asyncio.sleep(1.0)
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    assert failures_told(main, refusals=2) == 2


def test_who_asks_for_a_part_of_a_split_batch_has_heard_of_that_part() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime) as sender:
            sent = [await sender.send("t", bytes(size), partition=0) for size in (400, 9, 400, 400)]
            outcomes = [await _error_of(each) for each in sent[:3]]
            assert [each is None for each in outcomes] == [False, True, False]
            with pytest.raises(KafkaError) as caught:
                await sender.flush()
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        log.max_message_bytes = 200
        assert world.run_client(main).context["failed_records"] == 1


async def _error_of(delivery: Delivery) -> KafkaError | None:
    try:
        await delivery
    except KafkaError as error:
        return error
    return None


def test_a_callback_that_raises_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Sent | None] = []

    def bad(sent: Sent | None, error: KafkaError | None) -> None:
        raise RuntimeError("my bug")

    async def main(runtime: Runtime) -> Sent:
        async with producer(runtime) as sender:
            await sender.send("t", b"1", partition=0, on_delivery=bad)
            await sender.send("t", b"2", partition=0, on_delivery=lambda s, _: heard.append(s))
            return await (await sender.send("t", b"3", partition=0))

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        world.cluster.add_topic("t", [1])
        assert world.run_client(main).offset == 2
    assert [each.offset for each in heard if each is not None] == [1]
    assert "on_delivery failed" in caplog.text
    assert "my bug" in caplog.text


# Interceptors


class Noting(ProducerInterceptor):
    """Adds its name to values, and remembers what it heard."""

    def __init__(self, name: str = "noting") -> None:
        self.name = name
        self.heard: list[tuple[int, int, MoldauError | None]] = []
        self.is_closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return replace(record, value=f"{record.value}+{self.name}")

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        self.heard.append((sent.partition, sent.offset, error))

    def close(self) -> None:
        self.is_closed = True


class Bad(ProducerInterceptor):
    """Fails wherever it can."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("no send")

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        raise RuntimeError("no acknowledgement")

    def close(self) -> None:
        raise RuntimeError("no close")


def test_interceptors_see_records_in_their_order_before_they_are_serialized(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Noting("first"), Noting("second")

    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime,
            interceptor_classes=[first, f"{__name__}.Bad"],
            interceptors=[second],
            value_serializer="string",
        ) as sender:
            await (await sender.send("t", "a", partition=0))
            assert (await sender.send_many("t", ["b", "c"], partition=0)).count == 2
            with pytest.raises(KafkaError):
                await sender.send("t", "d", partition=7)
        with pytest.raises(KafkaError, match="closed"):
            await sender.send("t", "late")

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"a+first+second", b"b+first+second", b"c+first+second"]
    for each in (first, second):
        assert sorted((partition, offset) for partition, offset, _ in each.heard) == [
            (-1, -1),
            *((0, offset) for offset in range(3)),
            (7, -1),
        ]
        assert [offset for _, offset, error in each.heard if error is not None] == [-1, -1]
        assert each.is_closed
    for what in ("on_send", "on_acknowledgement", "close"):
        assert f"Bad.{what} failed" in caplog.text


NOTING: Final = Noting("shared")


def test_two_producers_that_are_given_a_name_have_one_each() -> None:
    first, second = (load_interceptors([f"{__name__}.Bad"], ProducerInterceptor) for _ in range(2))
    assert first[0] is not second[0]


@pytest.mark.parametrize(
    "given",
    [[object()], ["no.such.Thing"], [f"{__name__}.producer"], [f"{__name__}.NOTING"]],
)
def test_what_is_no_interceptor_is_refused_at_the_start(given: list[Any]) -> None:
    async def main(runtime: Runtime) -> ConfigError:
        sender = producer(runtime, interceptor_classes=given)
        with pytest.raises(ConfigError) as caught:
            await sender.start()
        return caught.value

    with ClientWorld() as world:
        assert world.run_client(main).context["setting"] == "interceptor.classes"


# Serializers


class Fetching:
    """A serializer that has to fetch something for the first value of each place."""

    def __init__(self) -> None:
        self.known: set[Place] = set()

    def __call__(self, value: str, place: Place) -> Any:
        if place in self.known:
            return value.encode()
        self.known.add(place)
        return self._fetched(value)

    async def _fetched(self, value: str) -> bytes:
        await asyncio.sleep(0.1)
        if value == "bad":
            raise LookupError("no schema")
        return value.encode()


def test_serializers_are_names_functions_or_objects_and_never_see_none() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, key_serializer="string", value_serializer="json") as sender:
            await sender.send("t", {"a": 1}, key="k", partition=0)
            await sender.send("t", None, key=None, partition=0)
            await sender.send_many("t", [[1], None], keys=["x", None], partition=0)
        async with producer(runtime, value_serializer=lambda value: str(value).encode()) as sender:
            await sender.send("t", 7, key=b"raw", partition=0)
        async with producer(runtime, value_serializer=Fetching()) as sender:
            await sender.send("t", "slow", partition=0)
            await sender.send("t", "fast", partition=0)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert [(each.key, each.value) for each in stored(log)] == [
            (b"k", b'{"a":1}'),
            (None, None),
            (b"x", b"[1]"),
            (None, None),
            (b"raw", b"7"),
            (None, b"slow"),
            (None, b"fast"),
        ]


async def by_and_by(value: object) -> str:
    return "text"


class GivesText:
    """A serializer of whole columns that gives text."""

    def __call__(self, value: object, place: Place) -> Any:
        return "text"

    def many(self, values: list[Any], place: Place) -> Any:
        return ["text"] * len(values)


@pytest.mark.parametrize("way", ["send", "send_many"])
@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("serializer", [lambda _: "text", by_and_by, GivesText()])
def test_a_serializer_that_gives_no_bytes_is_not_told_to_be_set(
    serializer: Any, side: str, way: str
) -> None:
    async def main(runtime: Runtime) -> SerializationFailed:
        async with producer(runtime, **{f"{side}_serializer": serializer}) as sender:
            if way == "send":
                call: Any = sender.send("t", b"v", key=b"k")
            else:
                call = sender.send_many("t", [b"v"], keys=[b"k"])
            with pytest.raises(SerializationFailed) as caught:
                await call
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert error.reason.endswith("TypeError: it must give bytes or None, and gave str 'text'")
        assert error.context["setting"] == f"{side}.serializer"
        assert log.values() == []


@pytest.mark.parametrize("way", ["send", "send_many"])
@pytest.mark.parametrize(
    ("serializer", "value", "told"),
    [
        ("string", 5, "value"),
        (Fetching(), "bad", "no schema"),
        (lambda value: 1 / value, 0, "zero"),
    ],
)
def test_a_serializer_that_fails_is_named_and_nothing_is_sent(
    way: str, serializer: Any, value: Any, told: str
) -> None:
    async def main(runtime: Runtime) -> SerializationFailed:
        if isinstance(serializer, Fetching):
            serializer.known.clear()
        async with producer(runtime, value_serializer=serializer) as sender:
            given = value if way == "send" else [value]
            with pytest.raises(SerializationFailed, match=told) as caught:
                await getattr(sender, way)("t", given)
            return caught.value

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        error = world.run_client(main)
        assert error.context["topic"] == "t"
        assert error.context["setting"] == "value.serializer"
        assert log.values() == []


@pytest.mark.parametrize("serializer", ["int", Fetching()])
def test_interceptors_hear_of_what_could_not_be_serialized(serializer: Any) -> None:
    class Hearing(ProducerInterceptor):
        def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
            heard.append((sent.topic, sent.partition, type(error)))

    heard: list[tuple[str, int, type[MoldauError | None]]] = []

    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime, interceptors=[Hearing()], value_serializer=serializer
        ) as sender:
            with pytest.raises(SerializationFailed):
                await sender.send("t", "bad", partition=0)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
    assert heard == [("t", 0, SerializationFailed)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"partition": "0"}, "the partition that Changes.on_send returns must be an int or None"),
        ({"partition": True}, "the partition that Changes.on_send returns must be an int or None"),
        ({"timestamp_ms": 1.5}, "the timestamp_ms that Changes.on_send returns must be an int"),
    ],
)
def test_a_record_of_an_interceptor_that_nobody_could_send_is_passed_over(
    change: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Changes(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return replace(record, value=b"changed", **change)

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, interceptors=[Changes()]) as sender:
            await (await sender.send("t", b"v"))

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"v"]
    assert told in caplog.text


class Returns(ProducerInterceptor):
    """Makes of a record what is none."""

    def __init__(self, what: object) -> None:
        self.what = what

    def on_send(self, record: ProducerRecord) -> Any:
        return self.what


def test_an_interceptor_that_returns_no_record_is_named_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    noting = Noting()

    async def main(runtime: Runtime) -> None:
        given = [Returns("text"), noting, Returns(None)]
        options: dict[str, Any] = {"value_serializer": "string"}
        async with producer(runtime, interceptors=given, **options) as sender:
            await sender.send("t", "a", partition=0)

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert log.values() == [b"a+noting"]
    words = (
        "Returns.on_send must return a ProducerRecord, or None to change nothing, not str 'text'"
    )
    assert caplog.text.count(words) == 1
    assert [(partition, error) for partition, _, error in noting.heard] == [(0, None)]


def test_an_interceptor_whose_methods_wait_is_refused() -> None:
    class Waits(ProducerInterceptor):
        async def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:  # type: ignore[override]
            pass

    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match="called, not awaited") as caught:
            await producer(runtime, interceptors=[Waits()]).start()
        assert (caught.value.context["type"], caught.value.context["method"]) == (
            "Waits",
            "on_acknowledgement",
        )

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("t", "text"), "value must be bytes"), (("t", b"v", "key"), "bytes"), ((("t", 5)), "int")],
)
def test_what_is_no_bytes_says_which_setting_would_help(
    arguments: tuple[Any, ...], told: str
) -> None:
    async def main(runtime: Runtime) -> None:
        topic, value, *key = arguments
        async with producer(runtime) as sender:
            await sender.send("t", b"the topic is known and a batch open", partition=0)
            for _ in range(2):
                with pytest.raises(TypeError, match=f"{told}.*value.serializer"):
                    await sender.send(topic, value, key=key[0] if key else None)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert len(log.values()) == 1


# Partitioners


class ByLength:
    """A partitioner of a user, that looks at everything it is given."""

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> int:
        assert isinstance(record.value, str)
        assert value == record.value.encode()
        return len(value) % len(topic.partitions) if value != b"out" else 9


def test_a_partitioner_of_the_user_is_asked_for_records_without_a_partition() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(
            runtime, partitioner_class=ByLength(), value_serializer="string"
        ) as sender:
            await sender.send("t", "12")
            await sender.send("t", "12", partition=1)
            await sender.send_many("t", ["1", "123", "12"], keys=[b"a", b"b", b"c"])
            with pytest.raises(KafkaError, match=r"partitioner\.class") as caught:
                await sender.send("t", "out")
            return caught.value

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        error = world.run_client(main)
        assert logs[0].values() == [b"12", b"12"]
        assert logs[1].values() == [b"12", b"1", b"123"]
        assert error.context["partition"] == 9
        assert error.context["partitions"] == 2


def test_round_robin_spreads_whatever_the_key() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, partitioner_class="round-robin") as sender:
            for number in range(6):
                await sender.send("t", b"%d" % number, key=b"same")

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2, 1])
        world.run_client(main)
        assert [log.values() for log in logs] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


def test_keys_can_be_ignored() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, partitioner_ignore_keys=True, batch_size=200) as sender:
            for number in range(100):
                await sender.send("t", b"%d" % number, key=b"same")
            await sender.send_many("t", [b"many"] * 100, keys=[b"same"] * 100)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        world.run_client(main)
        assert all(log.end > 20 for log in logs)
        assert {each.key for log in logs for each in stored(log)} == {b"same"}
    with pytest.raises(BadSettings, match=r"partitioner\.ignore\.keys"):
        Producer(
            bootstrap_servers="a:1", partitioner_ignore_keys=True, partitioner_class="round-robin"
        )


def test_keys_are_ignored_by_those_who_send_many_too() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime, partitioner_ignore_keys=True, batch_size=200) as sender:
            await sender.send_many("t", [b"%d" % n for n in range(400)], keys=[b"same"] * 400)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        world.run_client(main)
        assert all(log.end > 20 for log in logs)
        assert {each.key for log in logs for each in stored(log)} == {b"same"}


def test_few_records_a_second_are_spread_too() -> None:
    """Each batch goes by its linger, far from full: the sticky partition counts bytes, not full
    batches."""

    async def main(runtime: Runtime) -> None:
        async with producer(runtime, batch_size=1000, linger_ms=1) as sender:
            for _ in range(300):
                await sender.send("t", bytes(100))
                await asyncio.sleep(0.01)

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2, 1, 2])
        world.run_client(main)
        assert all(log.end > 20 for log in logs)


def test_partitions_of_a_broker_that_takes_nothing_are_passed_over() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(
            runtime, batch_size=100, partitioner_availability_timeout_ms=500
        ) as sender:
            await (await sender.send("t", b"first", partition=0))
            await (await sender.send("t", b"first", partition=1))
            world.nodes["b2"].crash()
            for number in range(400):
                await sender.send("t", bytes(50))
                await asyncio.sleep(0.01)
                if number == 350:
                    sent_late = [await sender.send("t", bytes(50)) for _ in range(20)]
            world.nodes["b2"].start()
            late = {(await each).partition for each in sent_late}
            assert late == {0}

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1, 2])
        world.run_client(main)


def test_a_delivery_can_be_printed() -> None:
    async def main(runtime: Runtime) -> None:
        async with producer(runtime) as sender:
            delivery: Delivery = await sender.send("t", b"v", partition=0)
            assert not delivery.is_done
            assert "t-0 open" in repr(delivery)
            assert (await delivery).offset == 0
            assert delivery.is_done

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
