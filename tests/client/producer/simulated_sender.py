"""An accumulator whose time and cluster a test decides, and connections that may lose what they
carry."""

from __future__ import annotations

from random import Random

from moldau.client.producer.accumulator import Accumulator, DrainedBatches
from moldau.client.producer.batch import Batch
from moldau.client.producer.buffer import Options
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Metadata, TopicPartition
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.records import Codec, Producer, open_batch
from moldau.runtime.backoff import Backoff
from tests.client.scripted import Log

ROOM = {1: 5, 2: 5}

T0 = TopicPartition("t", 0)

T1 = TopicPartition("t", 1)

Pipeline = list[tuple[Batch, bool, int]]
"""What is under way: with each batch whether it will be answered, and with which code."""


def metadata(leaders: tuple[int, ...] = (1, 2)) -> Metadata:
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=leader,
            leader_epoch=0,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        for index, leader in enumerate(leaders)
    ]
    known = Metadata()
    known.update(
        MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host=f"b{node_id}", port=9092)
                for node_id in (1, 2)
            ],
            topics=[MetadataResponseTopic(error_code=0, name="t", partitions=partitions)],
        )
    )
    return known


class Sender:
    """An accumulator whose time and cluster a test holds in its hands."""

    def __init__(
        self, *, is_idempotent: bool = True, codec: str = "NONE", **changed: int | float
    ) -> None:
        options: dict[str, int | float] = {
            "batch_bytes": 200,
            "request_bytes": 1000,
            "memory_bytes": 2000,
            "linger_s": 1.0,
            "delivery_timeout_s": 100.0,
            "in_flight_max": 5,
        }
        self.accumulator = Accumulator(
            Options(
                **{**options, **changed},  # type: ignore[arg-type]
                is_idempotent=is_idempotent,
                codec=Codec[codec],
                level=None,
            ),
            Backoff(100, 1000),
            Random(1),
        )
        if is_idempotent:
            self.accumulator.identify(Producer(7, 0))
        self.metadata = metadata()
        self.now = 0.0
        for where in (T0, T1):
            self.accumulator.queue(where).is_known = True

    def send(
        self, where: TopicPartition = T0, value: bytes = b"v", now: float | None = None
    ) -> Batch:
        """One batch of one record, complete."""
        self.now = self.now if now is None else now
        queue = self.accumulator.queue(where)
        batch = self.accumulator.begin(queue, self.now, 0, None, value, ())
        self.accumulator.seal(queue)
        return batch

    def drain(self, now: float | None = None, room: dict[int, int] | None = None) -> DrainedBatches:
        self.now = self.now if now is None else now
        return self.accumulator.drain(self.now, self.metadata, ROOM if room is None else room)

    def sent(self, now: float | None = None) -> list[Batch]:
        """All batches that go out now, in the order of their requests."""
        return [batch for each in self.drain(now).requests for batch in each.batches]

    def refuse(self, batch: Batch, code: ErrorCode) -> None:
        self.accumulator.refused(batch, KafkaError(code), self.now)

    def newly_failed(self) -> list[Batch]:
        """Batches that have failed since this was last asked."""
        found = list(self.accumulator.buffer.failures._batches)
        self.accumulator.buffer.failures.take()
        return found

    def failed(self) -> tuple[ErrorCode, int] | None:
        """What a flush would raise: the first cause, and how many records."""
        error = self.accumulator.buffer.failures.take()
        return None if error is None else (error.code, error.context["failed_records"])

    def acknowledge(self, batch: Batch, offset: int = 0) -> None:
        self.accumulator.acknowledged(batch, offset, -1)


def sequence(batch: Batch) -> tuple[int, int]:
    """Epoch and sequence as they stand in the bytes."""
    assert batch.data is not None
    built = open_batch(batch.data)
    built.check_crc()
    return built.header.producer_epoch, built.header.base_sequence


def forget(log: Log) -> None:
    """What a broker knows of producers after a crash: of each its last batch."""
    for _, known in log.producers.values():
        del known[:-1]


def hear(sender: Sender, pipeline: Pipeline) -> bool:
    """What has become of the first of those under way; False when the connection is lost, and with
    it all that is said of the others."""
    batch, is_answered, code = pipeline.pop(0)
    if not is_answered:
        for lost in (batch, *(each[0] for each in pipeline)):
            sender.refuse(lost, ErrorCode.NETWORK_EXCEPTION)
        pipeline.clear()
    elif code:
        sender.refuse(batch, ErrorCode(code))
    else:
        sender.acknowledge(batch)
    return is_answered


class Wire:
    """To the broker: one connection after the other. What hangs in one that is given up may arrive
    all the same, in its order."""

    def __init__(self, random: Random, log: Log) -> None:
        self.random = random
        self.log = log
        self.hung: list[bytes] = []
        self.late: list[bytes] = []

    def arrive(self, batch: Batch) -> tuple[bool, int]:
        """What the broker does: whether its answer will come, and with which code."""
        assert batch.data is not None
        data = bytes(batch.data)
        chance = self.random.random()
        if self.hung or chance < 0.05:
            self.hung.append(data)
            return False, 0
        if chance < 0.1:
            return False, 0  # the request is lost
        if chance < 0.2:
            return True, ErrorCode.NOT_ENOUGH_REPLICAS
        if chance < 0.25:
            return True, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        code, _ = self.log.append(data)
        if chance > 0.95 and not code:
            return True, ErrorCode.NOT_LEADER_OR_FOLLOWER  # it is stored, and the leader goes
        return chance > 0.35, code  # below that it is stored, and the answer is lost

    def end(self) -> None:
        """The connection is given up."""
        self.late += self.hung
        self.hung = []

    def arrive_late(self) -> None:
        """Nobody hears any more what is said of it."""
        if self.random.random() < 0.1:
            for data in self.late:
                self.log.append(data)
            self.late = []
