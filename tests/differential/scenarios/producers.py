"""InitProducerId and DescribeProducers."""

from __future__ import annotations

from typing import Any

from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.records import Producer
from tests.broker.api.requests import produce
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions


def init(**more: Any) -> InitProducerIdRequest:
    fields: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1000, **more}
    return InitProducerIdRequest(**fields)


def describe(*places: tuple[str, list[int]]) -> DescribeProducersRequest:
    topics = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in places]
    return DescribeProducersRequest(topics=topics)


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 3)
    await talk.producer_id()
    await talk.ask("a fresh id", init(), versions(InitProducerIdRequest))
    for label, request in {
        "an id without its epoch": init(producer_id=5, producer_epoch=-1),
        "an epoch without an id": init(producer_id=-1, producer_epoch=0),
        "an id that is nobody's": init(producer_id=5, producer_epoch=1),
        "an id below -1": init(producer_id=-5, producer_epoch=-1),
        "no time": init(transaction_timeout_ms=0),
        "negative time": init(transaction_timeout_ms=-1),
        "long time": init(transaction_timeout_ms=2**31 - 1),
        "an empty transactional id": init(transactional_id=""),
    }.items():
        await talk.ask(label, request, versions(InitProducerIdRequest, 3))
    await _described(talk)


async def _described(talk: Talk) -> None:
    await talk.ask("nobody wrote", describe(("t", [0, 1])))
    first, second = await talk.producer_id(), await talk.producer_id()
    for number, (producer_id, epoch, sequence) in enumerate(
        ((first, 0, 0), (second, 0, 0), (first, 0, 2), (second, 1, 0), (second, 2, 0))
    ):
        data = batch(2, producer=Producer(producer_id, epoch, sequence))
        await talk.ask(f"write {number}", produce("t", data), 9)
        await talk.ask(f"described after {number}", describe(("t", [0])))
    await talk.ask(
        "wrong places", describe(("t", [9, -1, 1]), ("nope", [0]), ("b ad", [0]), ("", [0]))
    )
    await talk.ask("twice", describe(("t", [0, 0])))
    await talk.ask("nothing", describe())
    await talk.ask("no partitions", describe(("t", [])))
    await talk.restart()
    await talk.until(lambda: talk.is_led("t", 0))
    await talk.ask("after a restart", describe(("t", [0])))
    again = batch(2, producer=Producer(second, 2, 0))
    await talk.ask("a duplicate after a restart", produce("t", again), 9)
    gap = batch(2, producer=Producer(first, 0, 9))
    await talk.ask("a gap after a restart", produce("t", gap), 9)
    following = batch(2, producer=Producer(first, 0, 4))
    await talk.ask("the next after a restart", produce("t", following), 9)
