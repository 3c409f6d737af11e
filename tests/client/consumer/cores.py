"""A consumer's core whose cluster is the test: it looks what is to be done, and answers."""

from __future__ import annotations

from moldau.client.consumer.consumer_core import Answer, ConsumerCore, LookUp
from moldau.client.consumer.fetch import BrokerFetches, Fetch, FetchRoom
from moldau.client.consumer.position import Position, PositionState, ReadPolicy
from moldau.client.group.missing import MissingTopics
from moldau.client.settings.offset_reset import parse_reset
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.metadata import Broker, Metadata, Partition, Topic, TopicPartition
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from moldau.records import encode_batch, stamp

T0 = TopicPartition("t", 0)


def cluster(epoch: int = 5, leader: int = 1, topics: tuple[str, ...] = ("t",)) -> Metadata:
    metadata = Metadata()
    metadata.brokers = {n: Broker(n, Address(f"b{n}", 9092)) for n in (1, 2)}
    for name in topics:
        partition = Partition(0, leader, epoch, (1, 2), (1, 2))
        metadata.topics[name] = Topic(name, bytes(16), (partition,))
    return metadata


def core(
    reset: str = "latest", memory: int = 10_000, *, metadata: Metadata | None = None
) -> ConsumerCore:
    """With the partition `T0`."""
    policy = ReadPolicy(parse_reset(reset), 1_000, lambda failures: 0.1 * failures, replica_s=30.0)
    fetches = BrokerFetches(FetchRoom(memory, 10_000, 1_000))
    missing = MissingTopics(may_be_made=False)
    known = cluster() if metadata is None else metadata
    made = ConsumerCore(policy, fetches, known, missing, has_group=True)
    made.on_assigned([T0])
    return made


def at(made: ConsumerCore, where: TopicPartition = T0) -> Position:
    return made.require(where)


def new_leader(made: ConsumerCore, epoch: int = 6) -> None:
    made.metadata.topics["t"] = cluster(epoch).topics["t"]


def data(first: int, count: int, epoch: int, near: int = -1, code: int = 0) -> PartitionData:
    batch = encode_batch([(n, None, b"x" * 50, ()) for n in range(max(1, count))])
    stamp(batch, first, epoch)
    return PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=first + count,
        aborted_transactions=None,
        records=b"" if code else bytes(batch),
        preferred_read_replica=near,
    )


def fetches(made: ConsumerCore, now: float = 0.0) -> dict[int, Fetch]:
    """What is to be fetched, by broker."""
    return {each.node_id: each for each in made.ready(now).fetches}


def respond(made: ConsumerCore, fetch: Fetch, *found: PartitionData, now: float = 0.0) -> None:
    """To a fetch of `t`; there is nothing new of others."""
    none = PartitionData(
        partition_index=0, error_code=0, high_watermark=0, aborted_transactions=None, records=None
    )
    topics = [
        FetchableTopicResponse(
            topic=name, partitions=list(found) if name == "t" and found else [none]
        )
        for name in {each.where.topic for each in fetch.requested}
    ]
    made.on_fetched(fetch, FetchResponse(session_id=1, responses=topics), now)


def fetched(made: ConsumerCore, found: PartitionData, now: float = 0.0) -> None:
    """The next fetch of `t` has that."""
    (fetch,) = fetches(made, now).values()
    respond(made, fetch, found, now=now)


def look_up(made: ConsumerCore, state: PositionState, now: float = 0.0) -> LookUp:
    """The one of this kind that is to be done."""
    (found,) = look_ups(made, state, now)
    return found


def look_ups(made: ConsumerCore, state: PositionState, now: float = 0.0) -> list[LookUp]:
    return [each for each in made.ready(now).look_ups if each.state is state]


def looked_up(
    made: ConsumerCore, state: PositionState, answer: Answer, now: float = 0.0
) -> dict[TopicPartition, int | None]:
    """The look-up of that kind has this answer. Return the timestamps that it asked for."""
    found = look_up(made, state, now)
    asked = {each.where: each.look_up.timestamp(0) for each in found.positions}
    made.on_looked_up(found, {each.where: answer for each in found.positions}, now)
    return asked


def reading(made: ConsumerCore) -> Position:
    """At offset 10, of which 5 to 9 (epoch 5) were given out and 10 to 14 lie here."""
    position = at(made)
    position.seek(5)
    for first in (5, 10):
        fetched(made, data(first, 5, 5))
        if first == 5:
            assert [r.offset for r in made.take(10)[0].records] == [5, 6, 7, 8, 9]
    assert (position.position, position.epoch, position.fetch_offset) == (10, 5, 15)
    return position


DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
