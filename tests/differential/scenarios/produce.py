"""Produce: each version, each way to be refused, and idempotent producers."""

from __future__ import annotations

from crc32c import crc32c

from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest
from moldau.records import Codec, ControlType, Producer, encode_batch, encode_control_batch
from tests.broker.api.requests import Place, produce, produce_all
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk, versions

GOOD = batch()
FOREIGN = 900_000
UNKTHENN_ID = b"\x07" * 16
FAR_FUTURE_MS = 4_102_444_800_000


def patched(at: int, new: bytes, data: bytes = GOOD) -> bytes:
    """The batch with other bytes there."""
    return data[:at] + new + data[at + len(new) :]


def of_rows(*rows: tuple[int, bytes | None]) -> bytes:
    """A batch of records by time and key."""
    return bytes(encode_batch([(at, key, b"v", ()) for at, key in rows], 0))


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t", 3)
    await talk.topic("compacted", cleanup_policy="compact")
    await talk.topic("stamped", message_timestamp_type="LogAppendTime")
    await talk.topic("small", max_message_bytes="200")
    # What brokers may treat differently is written where nothing else comes after it.
    await talk.topic("odd", 8)
    await talk.topic("strict", message_timestamp_before_max_ms="1000")
    await _accepted(talk, topic_id)
    await _wrong_places(talk, topic_id)
    await _malformed(talk)
    await _refused_by_content(talk)
    await _codecs(talk)
    await _transactional(talk)
    await _idempotent(talk)
    await _twice(talk)
    await _without_answer(talk)


async def _accepted(talk: Talk, topic_id: bytes) -> None:
    await talk.ask("one batch", produce("t", GOOD), versions(ProduceRequest, last=12))
    await talk.ask("one batch, by id", produce(topic_id, GOOD), 13)
    for acks in (1, -1):
        await talk.ask(f"acks {acks}", produce("t", batch(3), acks=acks), 9)
    for timeout_ms in (0, -1):
        await talk.ask(f"timeout {timeout_ms}", produce("t", GOOD, timeout_ms=timeout_ms), 9)
    everywhere = produce_all({("t", 0): GOOD, ("t", 1): batch(2), ("stamped", 0): GOOD})
    await talk.ask("several partitions", everywhere, versions(ProduceRequest, last=12))
    await talk.ask("a base offset of its own", produce("t", patched(0, bytes(7) + b"\x09")), 9)
    await talk.ask("a leader epoch of its own", produce("t", patched(12, bytes(4))), 9)
    await talk.ask("broker's time", produce("stamped", batch(3)), versions(ProduceRequest, last=12))
    await talk.ask("nothing at all", produce_all({}), versions(ProduceRequest))


async def _wrong_places(talk: Talk, topic_id: bytes) -> None:
    await talk.ask("unknown topic", produce("nope", GOOD), versions(ProduceRequest, last=12))
    await talk.ask("unknown id", produce(UNKTHENN_ID, GOOD), 13)
    await talk.ask("no id", produce(bytes(16), GOOD), 13)
    for index in (9, -1):
        await talk.ask(f"partition {index}", produce("t", GOOD, index=index), [3, 9, 12])
        await talk.ask(f"partition {index} by id", produce(topic_id, GOOD, index=index), 13)
    await talk.ask("bad name", produce("b ad", GOOD), 9)
    await talk.ask("no name", produce("", GOOD), 9)
    mixed = produce_all({("t", 9): GOOD, ("t", 1): GOOD, ("nope", 0): GOOD})
    await talk.ask("wrong ones beside a right one", mixed, [3, 9, 12])
    for name in ("__consumer_offsets", "__transaction_state", "__cluster_metadata"):
        await talk.ask(f"{name} that is not there", produce(name, GOOD), 9)
    for acks in (2, -2, 32767):
        await talk.ask(f"acks {acks}", produce("t", GOOD, acks=acks), [3, 9, 12])


async def _malformed(talk: Talk) -> None:
    """Beside a batch that is in order: who is refused?"""
    damaged = {
        "no bytes": b"",
        "two batches": GOOD + GOOD,
        "cut by a byte": GOOD[:-1],
        "only a beginning": GOOD[:16],
        "a long tail": GOOD + bytes(70),
        "checksum": GOOD[:-1] + b"?",
        "magic 0": patched(16, b"\x00"),
        "magic 1": patched(16, b"\x01"),
        "count too high": sealed(patched(57, (5).to_bytes(4, "big"))),
        "last offset delta too high": sealed(patched(23, (5).to_bytes(4, "big"))),
        "negative count": sealed(patched(57, (-1).to_bytes(4, "big", signed=True))),
        "unknown codec": sealed(patched(22, b"\x05")),
    }
    for label, data in damaged.items():
        await talk.ask(label, produce_all({("t", 0): data, ("t", 1): GOOD}), 9)
    await talk.ask("null", produce_all({("odd", 0): None, ("odd", 1): GOOD}), 9)
    for label, data in {
        "magic 7": patched(16, b"\x07"),
        "size 5": patched(8, (5).to_bytes(4, "big")),
    }.items():
        await talk.ask(label, produce("t", data), 9)
        beside = produce_all({("odd", 6): data, ("odd", 7): GOOD})
        await talk.ask(f"{label} beside another", beside, 9)
    await talk.ask("a short tail", produce("odd", GOOD + b"abc", index=2), 9)


def sealed(data: bytes) -> bytes:
    """With the checksum of what it holds."""
    return patched(17, crc32c(data[21:]).to_bytes(4, "big"), data)


async def _refused_by_content(talk: Talk) -> None:
    async def beside(label: str, topic: str, data: bytes) -> None:
        request = produce_all({(topic, 0): data, ("t", 1): GOOD})
        await talk.ask(label, request, versions(ProduceRequest, first=7, last=12))

    long_ago = produce("odd", of_rows((-5, b"k")), index=3)
    await talk.ask("a time below -1", long_ago, 9)

    await beside("one without a key", "compacted", of_rows((THEN, b"k"), (THEN, None)))
    await beside("all without keys", "compacted", of_rows((THEN, None), (THEN, None)))
    await beside("a time too far ahead", "t", of_rows((THEN, b"k"), (FAR_FUTURE_MS, b"k")))
    await beside("a time too long ago", "strict", of_rows((THEN, b"k")))
    await beside("time -1", "t", of_rows((-1, b"k")))
    await beside("too large", "small", batch(40))
    control = encode_control_batch(
        [(ControlType.COMMIT, bytes(6))], THEN, 0, producer=Producer(FOREIGN, 0, -1, True)
    )
    await talk.ask("a control batch", produce("t", bytes(control)), 9)


async def _codecs(talk: Talk) -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        data = batch(20, size=100, codec=codec)
        await talk.ask(codec.name.lower(), produce("t", data), versions(ProduceRequest, last=12))


async def _transactional(talk: Talk) -> None:
    of_transaction = batch(producer=Producer(FOREIGN, 0, 0, True))
    beside: dict[Place, bytes | None] = {("t", 0): of_transaction, ("t", 1): GOOD}
    await talk.ask("transactional, no transactional id", produce_all(beside), [9, 11])
    await talk.ask(
        "transactional id, plain batch", produce("t", GOOD, transactional_id="x"), [9, 11]
    )


async def _idempotent(talk: Talk) -> None:
    producer_id = await talk.producer_id()

    async def write(label: str, epoch: int, sequence: int, count: int = 1, at: int = 2) -> None:
        data = batch(count, producer=Producer(producer_id, epoch, sequence))
        await talk.ask(f"sequence: {label}", produce("t", data, index=at), 9)

    await write("first", 0, 0)
    await write("second", 0, 1)
    await write("second again", 0, 1)
    await write("first again", 0, 0)
    await write("a gap", 0, 3)
    for sequence in range(2, 8):
        await write(f"number {sequence}", 0, sequence)
    await write("too old to be known", 0, 1)
    await write("a known one, but longer", 0, 7, 2)
    await write("next epoch, not from 0", 1, 5)
    await write("next epoch", 1, 0, 3)
    await write("the epoch before", 0, 8)
    await write("inside of a batch", 1, 1)
    await write("two epochs on", 3, 0)
    await write("unknown here, not from 0", 0, 7, at=1)
    await write("and a gap there", 0, 9, at=1)
    for label, producer in {
        "no sequence": Producer(FOREIGN + 1, 0, -1),
        "up to the highest": Producer(FOREIGN + 3, 0, 2**31 - 1),
        "the highest epoch": Producer(FOREIGN + 5, 32767, 0),
    }.items():
        await talk.ask(f"producer: {label}", produce("t", batch(producer=producer), index=1), 9)
    negative = batch(producer=Producer(FOREIGN + 2, -1, 0))
    await talk.ask("producer: negative epoch", produce("odd", negative, index=4), 9)
    wrapped = batch(2, producer=Producer(FOREIGN + 3, 0, 0))
    await talk.ask("producer: over the highest", produce("t", wrapped, index=1), 9)
    across = batch(3, producer=Producer(FOREIGN + 4, 0, 2**31 - 2))
    await talk.ask("producer: a batch across the highest", produce("t", across, index=1), 9)
    further = batch(producer=Producer(FOREIGN + 4, 0, 1))
    await talk.ask("producer: after it", produce("t", further, index=1), 9)


async def _twice(talk: Talk) -> None:
    """One partition with two batches, in one request."""
    request = produce("odd", GOOD, index=5)
    (topic,) = request.topic_data
    topic.partition_data.append(PartitionProduceData(index=5, records=batch(2)))
    await talk.ask("a partition twice", request, 9)


async def _without_answer(talk: Talk) -> None:
    await talk.tell("acks 0", produce("t", batch(2), acks=0), 9, 0.3)
    await talk.tell("acks 0, unknown topic", produce("nope", GOOD, acks=0), 9, 2)
    await talk.tell("acks 0, checksum", produce("t", GOOD[:-1] + b"?", acks=0), 9, 2)
    await talk.ask("after acks 0", produce("t", GOOD), 9)
