"""A consumer with deserializers: every record once, and a bad one stops nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from moldau.client import Consumer, ConsumerRecord, PartitionRecords
from moldau.client.consumer.decoding import RecordDecoder
from moldau.client.serdes import DeserializationFailed, JsonDeserializer, Place
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from moldau.values.wire import frame
from tests.client.consumer.decoded_values import begin, fill, read, values
from tests.client.consumer.numbered_records import consumer
from tests.client.serdes.scripted_registry import PORT, ScriptedRegistry
from tests.client.world import BOOTSTRAP, ClientWorld

Read = Callable[[Runtime], Coroutine[Any, Any, Any]]


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


class Slow:
    """Needs the world for what it has not met yet, as a registry's does."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.begun = asyncio.Event()
        self.may_go = asyncio.Event()

    def __call__(self, data: bytes, place: Place, /) -> Any:
        return int(data) if data in self.known else self._learn(data)

    async def _learn(self, data: bytes) -> int:
        self.begun.set()
        await self.may_go.wait()
        self.known.add(data)
        return int(data)


class Batches:
    """Takes whole batches, and says what it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, data: bytes, place: Place, /) -> Any:
        self.calls.append("one")
        return json.loads(data)

    def many(self, data: Sequence[bytes | None], place: Place, /) -> list[Any]:
        self.calls.append(f"{place.topic} {place.side} {len(data)}")
        return [None if each is None else json.loads(each) for each in data]


def run(records: Sequence[bytes | None], main: Read, partitions: Sequence[int] = (1,)) -> Any:
    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", list(partitions)):
            fill(log, records)
        return world.run_client(main)


def test_keys_and_values_are_what_the_deserializers_make_of_them() -> None:
    async def main(runtime: Runtime) -> list[Any]:
        options = {"key_deserializer": int, "value_deserializer": JsonDeserializer[Any]()}
        async with consumer(runtime, **options) as reader:
            await begin(reader)
            return await read(reader, 6)

    parts = run([b"{}", None, b"[1]", b'"x"', b"4", b"null"], main)

    assert values(parts) == [{}, None, [1], "x", 4, None]
    records = [record for part in parts for record in part.records]
    assert [each.key for each in records] == list(range(6))
    assert [each.offset for each in records] == [each.timestamp for each in records]
    assert all(each.headers == (("h", b"1"),) for each in records)


@pytest.mark.parametrize("name", ["json", "io.confluent.kafka.serializers.KafkaJsonDeserializer"])
def test_a_deserializer_may_be_named_as_in_a_properties_file(name: str) -> None:
    async def main(runtime: Runtime) -> list[Any]:
        settings = {"value.deserializer": name, "bootstrap.servers": BOOTSTRAP}
        async with Consumer(settings, runtime=runtime) as reader:
            await begin(reader)
            found = []
            async for record in reader:
                found.append((record.key, record.value))
                if len(found) == 3:
                    return found
        raise AssertionError

    assert run(numbers(3), main) == [(b"0", 0), (b"1", 1), (b"2", 2)]


def test_a_name_that_nobody_knows_is_told_at_the_start() -> None:
    async def main(runtime: Runtime) -> str:
        with pytest.raises(ConfigError) as caught:
            async with consumer(runtime, value_deserializer="jsn"):
                pass
        return str(caught.value)

    told = run([], main)

    assert "value.deserializer" in told
    assert "'json'" in told


def test_whole_batches_are_decoded_at_once() -> None:
    async def main(runtime: Runtime) -> list[str]:
        batches = Batches()
        async with consumer(runtime, value_deserializer=batches) as reader:
            await begin(reader)
            await read(reader, 12)
            return batches.calls

    calls = run(numbers(12), main)

    assert "one" not in calls
    assert sum(int(call.split()[-1]) for call in calls) == 12


@pytest.mark.parametrize("deserializer", [JsonDeserializer[Any](), Batches(), json.loads])
def test_the_position_stays_at_what_cannot_be_read_until_it_is_sought_past(
    deserializer: Any,
) -> None:
    async def main(runtime: Runtime) -> list[Any]:
        async with consumer(runtime, value_deserializer=deserializer, max_poll_records=3) as reader:
            await begin(reader)
            found = values(await read(reader, 5))
            for _ in range(2):
                with pytest.raises(DeserializationFailed) as caught:
                    await reader.poll(5.0)
                context = caught.value.context
                assert (context["topic"], context["partition"], context["offset"]) == ("t", 0, 5)
                assert context["setting"] == "value.deserializer"
                assert "the value of a record" in caught.value.reason
                assert reader.position(("t", 0)) == 5
            reader.seek(("t", 0), 6)
            return found + values(await read(reader, 4))

    assert run([*numbers(5), b"{", *numbers(4, 6)], main) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_nothing_behind_a_bad_record_of_the_partition_is_given_out() -> None:
    def part(partition: int, start: int, values: list[bytes]) -> PartitionRecords:
        records = [
            ConsumerRecord("t", partition, start + n, 0, None, each)
            for n, each in enumerate(values)
        ]
        return PartitionRecords("t", partition, records, start + len(values), 100)

    parts = [part(0, 0, [b"0", b"x"]), part(1, 0, [b"5"]), part(0, 2, [b"2"]), part(1, 1, [b"6"])]

    good, bad = asyncio.run(RecordDecoder(None, JsonDeserializer[Any]()).decode(parts))

    assert [each.partition for each in good] == [0, 1, 1]
    assert values(good) == [0, 5, 6]
    assert good[0].next_offset == 1
    assert [(each.where.partition, each.offset) for each in bad] == [(0, 1)]


def test_a_key_that_cannot_be_read_is_told_as_a_key() -> None:
    async def main(runtime: Runtime) -> dict[str, object]:
        def key(data: bytes) -> str:
            raise RuntimeError("no such key")

        async with consumer(runtime, key_deserializer=key) as reader:
            await begin(reader)
            with pytest.raises(DeserializationFailed, match="RuntimeError: no such key") as caught:
                await reader.poll(5.0)
            return caught.value.context

    assert run(numbers(1), main)["setting"] == "key.deserializer"


def test_other_partitions_go_on_and_the_error_is_told_nevertheless() -> None:
    async def main(runtime: Runtime) -> tuple[dict[int, int], list[object]]:
        counts: dict[int, int] = {0: 0, 1: 0}
        errors: list[object] = []
        async with consumer(runtime, value_deserializer=int, max_poll_records=2) as reader:
            await begin(reader)
            while counts[1] < 200:
                try:
                    parts = await reader.poll(5.0)
                except DeserializationFailed as error:
                    errors.append(error.context["partition"])
                    continue
                for part in parts:
                    counts[part.partition] += len(part.records)
        return counts, errors

    with ClientWorld() as world:
        bad, good = world.cluster.add_topic("t", [1, 1])
        fill(bad, [b"x", *numbers(5)])
        fill(good, numbers(200))
        counts, errors = world.run_client(main)
    assert counts == {0: 0, 1: 200}
    assert set(errors) == {0}


def test_a_paused_partition_is_not_met_again() -> None:
    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, value_deserializer=int) as reader:
            await begin(reader)
            with pytest.raises(DeserializationFailed):
                await reader.poll(5.0)
            reader.pause([("t", 0)])
            return len(await reader.poll(3.0))

    assert run([b"x", b"1"], main) == 0


def test_a_poll_that_is_cancelled_while_it_decodes_loses_nothing() -> None:
    async def main(runtime: Runtime) -> list[int]:
        slow = Slow()
        async with consumer(runtime, value_deserializer=slow) as reader:
            await begin(reader)
            poll = asyncio.ensure_future(reader.poll(5.0))
            await slow.begun.wait()
            assert reader.position(("t", 0)) == 0
            assert all(each.offset == 0 for each in reader.consumed().values())
            poll.cancel()
            await asyncio.wait([poll])
            slow.may_go.set()
            return values(await read(reader, 10))

    assert run(numbers(10), main) == list(range(10))


def test_what_is_sought_elsewhere_meanwhile_is_not_given_out() -> None:
    async def main(runtime: Runtime) -> list[int]:
        slow = Slow()
        async with consumer(runtime, value_deserializer=slow) as reader:
            await begin(reader)
            poll = asyncio.ensure_future(reader.poll(5.0))
            await slow.begun.wait()
            reader.seek(("t", 0), 8)
            slow.may_go.set()
            return values(await poll)

    assert run(numbers(10), main) == [8, 9]


def test_an_async_for_may_be_left_and_taken_up_again() -> None:
    async def main(runtime: Runtime) -> tuple[list[int], list[int], int | None]:
        async with consumer(runtime, value_deserializer=int) as reader:
            await begin(reader)
            first = []
            async for record in reader:
                first.append(record.value)
                if record.offset == 3:
                    break
            position = reader.position(("t", 0))
            rest = values(await read(reader, 6))
            return first, rest, position

    assert run(numbers(10), main) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9], 4)


def test_a_batch_of_the_wrong_length_is_nobodys_batch() -> None:
    class Short(Batches):
        def many(self, data: Sequence[bytes | None], place: Place, /) -> list[Any]:
            return [0]

    async def main(runtime: Runtime) -> list[Any]:
        async with consumer(runtime, value_deserializer=Short()) as reader:
            await begin(reader)
            return values(await read(reader, 4))

    assert run(numbers(4), main) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_a_registry_that_fails_now_and_then_costs_no_record(seed: int) -> None:
    scripted = ScriptedRegistry()
    schemas = [{"schema": f'{{"type":"fixed","size":{n + 1},"name":"F{n}"}}'} for n in range(6)]
    expected = [bytes([65 + n % 26]) * (n % 6 + 1) for n in range(60)]
    data = [
        frame(scripted.put("t-value", schemas[n % 6])) + each for n, each in enumerate(expected)
    ]

    async def main(runtime: Runtime) -> tuple[list[bytes], list[str]]:
        found: list[bytes] = []
        told: list[str] = []
        options: dict[str, Any] = {
            "value_deserializer": "avro",
            "schema_registry_url": f"http://registry:{PORT}",
            "max_retries": 1,
            "retries_wait_ms": 100,
        }
        async with consumer(runtime, **options) as reader:
            await begin(reader)
            while len(found) < len(expected):
                try:
                    found += values(await reader.poll(1.0, max_records=5))
                except DeserializationFailed as error:
                    told.append(error.reason)
        return found, told

    with ClientWorld(seed) as world:
        world.add_node("registry", scripted.main())
        random = world.random("registry")
        scripted.refuse.extend(random.choice([200, 500, 503]) for _ in range(12))
        scripted.hang_up.extend(random.random() < 0.3 for _ in range(20))
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, data)
        found, told = world.run_client(main)
    assert found == expected
    assert all("poll again" in each for each in told)
    assert len(scripted.asked) > len(schemas), "some were refused"
