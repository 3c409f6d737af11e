"""Interceptors of a consumer: they see everything, and what they raise costs nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import pytest

from moldau.client import Consumer, ConsumerInterceptor, PartitionRecords, TopicPartition
from moldau.client.consumer.reader import Interceptors
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from tests.client.consumer.intercepted_reading import all_is_read_and_committed
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.world import BOOTSTRAP, ClientWorld

MADE: list[Counts] = []


class Counts(ConsumerInterceptor):
    """Remembers what it sees."""

    def __init__(self) -> None:
        self.records = 0
        self.committed: list[dict[int, int]] = []
        self.closed = 0
        MADE.append(self)

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        self.records += sum(len(part.records) for part in parts)
        return parts

    def on_commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        self.committed.append({where.partition: each.offset for where, each in offsets.items()})

    def close(self) -> None:
        self.closed += 1


SHARED: Final = Counts()


class Raises(ConsumerInterceptor):
    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        raise ValueError("planted")

    def on_commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        raise ValueError("planted")

    def close(self) -> None:
        raise ValueError("planted")


class KeepsBack(ConsumerInterceptor):
    """Gives nothing of the first ten."""

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        return [
            part._replace(records=[each for each in part.records if each.offset >= 10])
            for part in parts
        ]


def test_an_interceptor_that_raises_costs_no_record_and_no_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = Counts()

    with caplog.at_level(logging.ERROR, "moldau.client"):
        all_is_read_and_committed(Raises(), counts)
    assert counts.records == 100
    assert counts.committed[0] == {0: 100}
    assert counts.closed == 1
    told = {each.getMessage().split(" failed")[0] for each in caplog.records}
    assert told == {"Raises.on_consume", "Raises.on_commit", "Raises.close"}


@pytest.mark.parametrize("what", ["text", [1], {}])
def test_an_interceptor_that_returns_no_records_is_named_and_costs_none(
    what: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Returns(ConsumerInterceptor):
        def on_consume(self, parts: list[PartitionRecords]) -> Any:
            return what

    counts = Counts()

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, interceptors=[Returns(), counts]) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            return await read_all(reader, 20)

    with ClientWorld() as world, caplog.at_level(logging.ERROR, "moldau.client"):
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == {0: list(range(20))}
    assert counts.records == 20
    words = f"Returns.on_consume must return a list of PartitionRecords, not {type(what).__name__}"
    assert words in caplog.text


def test_an_interceptor_whose_methods_wait_is_refused() -> None:
    class Waits(ConsumerInterceptor):
        async def on_consume(self, parts: Any) -> Any:  # type: ignore[override]
            return parts

    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match="called, not awaited"):
            await consumer(runtime, interceptors=[Waits()]).start()

    with ClientWorld() as world:
        world.run_client(main)


def test_what_keeps_records_back_keeps_them_from_async_for_too() -> None:
    async def main(runtime: Runtime) -> int:
        async with consumer(runtime, interceptors=[KeepsBack()], max_poll_records=5) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            async for record in reader:
                return record.offset
        return -1

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == 10


def test_what_async_for_has_left_is_not_seen_again_by_the_next_poll() -> None:
    counts = Counts()

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, interceptors=[counts]) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            async for _ in reader:
                break
            assert await read_all(reader, 19) == {0: list(range(1, 20))}

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        world.run_client(main)
    assert counts.records == 20


@pytest.mark.parametrize("given", [f"{__name__}.Counts", [Counts]])
def test_interceptors_can_be_named_by_the_setting(given: Any) -> None:
    MADE.clear()

    async def main(runtime: Runtime) -> None:
        reader = Consumer(
            {"bootstrap.servers": BOOTSTRAP, "interceptor.classes": given}, runtime=runtime
        )
        async with reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await read_all(reader, 20)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        world.run_client(main)
    assert [(each.records, each.closed) for each in MADE] == [(20, 1)]


class NeedsMore(ConsumerInterceptor):
    def __init__(self, path: str) -> None:
        raise AssertionError("nobody knows one")


@pytest.mark.parametrize(
    "given", ["no.such.Thing", [object()], f"{__name__}.NeedsMore", [NeedsMore]]
)
def test_what_is_no_interceptor_is_refused_with_the_settings_name(given: Any) -> None:
    async def main(runtime: Runtime) -> ConfigError:
        reader = Consumer(
            {"bootstrap.servers": BOOTSTRAP, "interceptor.classes": given}, runtime=runtime
        )
        with pytest.raises(ConfigError) as caught:
            await reader.start()
        return caught.value

    with ClientWorld() as world:
        assert world.run_client(main).context["setting"] == "interceptor.classes"


def test_two_consumers_that_are_given_a_name_have_one_each() -> None:
    MADE.clear()
    first, second = (Interceptors([f"{__name__}.Counts"]) for _ in range(2))
    first.close()
    assert [each.closed for each in MADE] == [1, 0]
    second.close()
    assert [each.closed for each in MADE] == [1, 1]


def test_the_name_of_an_object_that_consumers_would_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="no class: clients of that name would share it") as error:
        Interceptors([f"{__name__}.SHARED"])
    assert error.value.context == {
        "setting": "interceptor.classes",
        "name": f"{__name__}.SHARED",
        "type": "Counts",
    }
    Interceptors([SHARED]).close()  # the object itself may be given
