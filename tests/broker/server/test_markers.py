"""Markers for other brokers: one request in flight to each, with those of many transactions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from moldau.broker.coordinator.transaction.effects import WriteMarkers
from moldau.broker.coordinator.transaction.state import TopicPartition
from moldau.broker.server.markers import MarkerWriter
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.runtime import Runtime
from tests.broker.one_node import simulate

HERE, OTHER = 1, 2


class OtherBroker:
    """Answers when it is let; satisfies `Peers` as far as markers need it."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        """The producer ids of each request."""
        self.lets = asyncio.Semaphore(0)
        self.refuses = False

    async def request(self, node_id: int, request: Any, response: Any, *, lane: str) -> Any:
        assert node_id == OTHER
        assert isinstance(request, WriteTxnMarkersRequest)
        self.asked.append([each.producer_id for each in request.markers])
        await self.lets.acquire()
        if self.refuses:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=each, error_code=0)
                                for each in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


class Shell:
    """Counts the reports; satisfies `RunningShard` as far as markers need it."""

    def __init__(self) -> None:
        self.partition = SimpleNamespace(leader_epoch=5)
        self.reports = 0
        self.reported = asyncio.Event()

    def is_closed(self) -> bool:
        return False

    def run(self, decide: Any, on_answer: Any, *, name: str) -> None:
        self.reports += 1
        self.reported.set()


def effect(producer_id: int, epoch: int = 1) -> WriteMarkers:
    place = frozenset((TopicPartition("t", 0),))
    return WriteMarkers(f"app-{producer_id}", producer_id, epoch, True, place, 2)


async def begun(runtime: Runtime) -> tuple[MarkerWriter, OtherBroker, Shell]:
    """A writer whose other broker leads `t`."""
    topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=OTHER)})
    other = OtherBroker()
    node = SimpleNamespace(
        node_id=HERE,
        runtime=runtime,
        peers=other,
        log=Loggers(runtime.clock, lambda line: None).get("test"),
        image=SimpleNamespace(topics=SimpleNamespace(by_name=lambda name: topic)),
    )
    return MarkerWriter(cast(Any, node)), other, Shell()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_transactions_that_end_meanwhile_share_the_next_request() -> None:
    async def main(runtime: Runtime) -> None:
        writer, other, shell = await begun(runtime)
        writer.carry_out((effect(1), effect(2)), cast(Any, shell))
        await turns()
        assert other.asked == [[1, 2]]
        for producer_id in range(3, 8):
            writer.carry_out((effect(producer_id),), cast(Any, shell))
        await turns()
        assert other.asked == [[1, 2]], "one request is in flight"
        assert shell.reports == 0
        other.lets.release()
        await turns()
        assert other.asked == [[1, 2], [3, 4, 5, 6, 7]]
        assert shell.reports == 2
        other.lets.release()
        await turns()
        assert shell.reports == 7
        assert not writer.tasks
        writer.close()

    simulate(main)


def test_two_markers_of_one_producer_are_in_two_requests() -> None:
    async def main(runtime: Runtime) -> None:
        writer, other, shell = await begun(runtime)
        writer.carry_out((effect(1, 1), effect(2), effect(1, 3)), cast(Any, shell))
        await turns()
        other.lets.release()
        await turns()
        assert other.asked == [[1, 2], [1]]
        writer.close()

    simulate(main)


def test_markers_without_an_answer_are_sent_again() -> None:
    async def main(runtime: Runtime) -> None:
        writer, other, shell = await begun(runtime)
        other.refuses = True
        writer.carry_out((effect(1), effect(2)), cast(Any, shell))
        await turns()
        other.lets.release()
        await turns()
        assert shell.reports == 0
        other.refuses = False
        other.lets.release()
        other.lets.release()
        while shell.reports < 2:
            shell.reported.clear()
            await shell.reported.wait()
        assert sorted(each for request in other.asked[1:] for each in request) == [1, 2]
        writer.close()

    simulate(main)
