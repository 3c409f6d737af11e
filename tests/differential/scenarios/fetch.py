"""Fetch without sessions: each version, limits, waiting, epochs, isolation, and what is wrong."""

from __future__ import annotations

from functools import partial

from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from moldau.protocol.messages.fetch import FetchRequest, ReplicaState
from moldau.records import Codec, Producer
from tests.broker.api.requests import delete_records, fetch, want
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk, versions

BY_NAME = versions(FetchRequest, last=12)
BY_ID = versions(FetchRequest, first=13)
UNKNOWN_ID = b"\x07" * 16
WAIT_MS = 400
PATIENT_MS = 2500


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t", 3)
    empty_id = await talk.topic("empty", 2)
    await talk.topic("packed")
    await talk.topic("zstd", compression_type="zstd")
    await talk.topic("rolled", segment_bytes="1048576")
    await talk.topic("stamped", message_timestamp_type="LogAppendTime")
    await talk.write("t", batch(3), batch(3, at=THEN + 10), batch(3, at=THEN + 20))
    await talk.write("t", batch(3), index=1)
    await talk.write("t", batch(3), index=2)
    await talk.write("zstd", batch(30))
    await talk.write("stamped", batch(3))
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        await talk.write("packed", batch(20, size=50, codec=codec))
    await talk.write("rolled", *(batch(2, size=300_000) for _ in range(4)))
    await _plain(talk, topic_id)
    await _limits(talk)
    await _waiting(talk)
    await _wrong_places(talk, topic_id, empty_id)
    await _epochs(talk, topic_id)
    await _isolation(talk)
    await _replicas(talk)
    await _gone(talk)
    await talk.send(delete_records("t", 4), DeleteRecordsResponse)
    for offset in (0, 3, 4, 9):
        await talk.ask(f"from {offset} after a cut at 4", fetch(("t", want(offset=offset))), 12)


async def _plain(talk: Talk, topic_id: bytes) -> None:
    await talk.ask("all of a partition", fetch(("t", want())), BY_NAME)
    await talk.ask("all of a partition, by id", fetch((topic_id, want())), BY_ID)
    for topic in ("packed", "stamped"):
        await talk.ask(f"all of {topic}", fetch((topic, want())), [4, 10, 12])
    await talk.ask("all of rolled", fetch(("rolled", want(partition_max_bytes=1 << 22))), 12)
    await talk.ask("zstd", fetch(("zstd", want())), BY_NAME)
    three = [("t", want(index)) for index in range(3)]
    await talk.ask("three partitions", fetch(*three), BY_NAME)
    for offset in (1, 3, 4, 8):
        await talk.ask(f"from {offset}", fetch(("t", want(offset=offset))), [4, 12])
    await talk.ask("nothing", fetch(wait_ms=0), versions(FetchRequest))
    twice = fetch(("t", want()), ("t", want(offset=3)))
    await talk.ask("a partition twice", twice, 12)


async def _limits(talk: Talk) -> None:
    three = [("t", want(index)) for index in range(3)]
    for limit in (0, 1, 10, 75, 76, 150, 200, 300, 10_000):
        one = fetch(("t", want(partition_max_bytes=limit)))
        await talk.ask(f"partition_max_bytes {limit}", one, [4, 12])
        await talk.ask(f"max_bytes {limit}", fetch(*three, max_bytes=limit), [4, 12])
        second = [("t", want(0)), ("t", want(1, partition_max_bytes=limit))]
        await talk.ask(f"partition_max_bytes {limit} of the second", fetch(*second), 12)
    for limit in (-1, -(2**31)):
        await talk.ask(f"max_bytes {limit}", fetch(*three, max_bytes=limit), 12)
        one = fetch(("t", want(partition_max_bytes=limit)))
        await talk.ask(f"partition_max_bytes {limit}", one, 12)
    for offset in (0, 2, 5):
        middle = fetch(("rolled", want(offset=offset, partition_max_bytes=700_000)))
        await talk.ask(f"across segments from {offset}", middle, 12)


async def _waiting(talk: Talk) -> None:
    at_end = ("t", want(offset=9))
    nothing = ("empty", want())
    all_of_it = ("t", want(1))

    async def waits(label: str, request: FetchRequest) -> None:
        await talk.ask(f"waits? {label}", request, 12, wait_ms=WAIT_MS)

    await waits("at the end", fetch(at_end, wait_ms=WAIT_MS))
    await waits("at the end, read committed", fetch(at_end, wait_ms=WAIT_MS, isolation_level=1))
    await waits("at the end, min_bytes 0", fetch(at_end, wait_ms=WAIT_MS, min_bytes=0))
    await waits("at the end, min_bytes -1", fetch(at_end, wait_ms=WAIT_MS, min_bytes=-1))
    await waits("at the end, no wait", fetch(at_end, wait_ms=0))
    await waits("at the end, negative wait", fetch(at_end, wait_ms=-1))
    await waits("min_bytes out of reach", fetch(all_of_it, wait_ms=WAIT_MS, min_bytes=100_000))
    await waits("min_bytes just there", fetch(all_of_it, wait_ms=WAIT_MS, min_bytes=84))
    await waits("an empty one beside", fetch(nothing, all_of_it, wait_ms=WAIT_MS))
    await waits("no partitions", fetch(wait_ms=WAIT_MS))
    for label, other in {
        "an unknown topic": ("nope", want()),
        "an unknown partition": ("t", want(9)),
        "an offset out of range": ("t", want(offset=100)),
        "a fenced epoch": ("t", want(current_leader_epoch=7)),
    }.items():
        await waits(f"{label} alone", fetch(other, wait_ms=WAIT_MS))
        await waits(f"{label} beside an empty one", fetch(nothing, other, wait_ms=WAIT_MS))

    await talk.ask_while(
        "a write ends the wait",
        fetch(("empty", want(1)), wait_ms=2000),
        12,
        partial(talk.write, "empty", batch(), index=1),
        2000,
    )
    await talk.ask_while(
        "a write elsewhere does not",
        fetch(("empty", want()), wait_ms=WAIT_MS),
        12,
        partial(talk.write, "empty", batch(), index=1),
        WAIT_MS,
    )


async def _wrong_places(talk: Talk, topic_id: bytes, empty_id: bytes) -> None:
    await talk.ask("unknown topic", fetch(("nope", want())), BY_NAME)
    await talk.ask("unknown id", fetch((UNKNOWN_ID, want())), BY_ID)
    await talk.ask("no id", fetch((bytes(16), want())), BY_ID)
    await talk.ask("no name", fetch(("", want())), 12)
    await talk.ask("bad name", fetch(("b ad", want())), 12)
    for index in (9, -1):
        await talk.ask(f"partition {index}", fetch(("t", want(index))), BY_NAME)
        await talk.ask(f"partition {index} by id", fetch((topic_id, want(index))), BY_ID)
    mixed = fetch((UNKNOWN_ID, want()), (empty_id, want()), (topic_id, want(1)))
    await talk.ask("an unknown id beside others", mixed, BY_ID)
    for offset in (10, 100, -1, -5, 2**62):
        await talk.ask(f"offset {offset}", fetch(("t", want(offset=offset))), [4, 12])
    beside = fetch(("t", want(offset=100)), ("t", want(1)))
    await talk.ask("an offset out of range beside others", beside, BY_NAME)


async def _gone(talk: Talk) -> None:
    """A topic goes, and another one has its name, while a fetch waits and after it."""
    for version in BY_ID:
        topic = f"gone-{version}"
        old_id = await talk.topic(topic)
        goes = partial(talk.delete, topic)
        waiting = fetch((old_id, want(0)), wait_ms=PATIENT_MS)
        await talk.ask_while(
            f"{topic} goes while a fetch waits", waiting, version, goes, PATIENT_MS
        )
        await talk.ask(f"{topic} is gone", fetch((old_id, want(0))), version)
        new_id = await talk.topic(topic)
        talk.symbols.call("id", new_id, f"id of {topic}, made again")
        both = fetch((new_id, want(0)), (old_id, want(0)))
        await talk.ask(f"{topic} is another one", both, version)


async def _epochs(talk: Talk, topic_id: bytes) -> None:
    for epoch in (0, 5, -2):
        one = fetch(("t", want(1, current_leader_epoch=epoch)))
        await talk.ask(f"leader epoch {epoch}", one, versions(FetchRequest, 9, 12))
    for epoch, offset in ((0, 3), (0, 20), (7, 3), (-1, 3), (0, 0)):
        one = fetch(("t", want(1, offset=offset, last_fetched_epoch=epoch)))
        await talk.ask(f"last fetched epoch {epoch} at {offset}", one, 12)
    for epoch, offset in ((-5, 0), (-5, 3), (-(2**31), 0)):
        asked = want(1, offset=offset, last_fetched_epoch=epoch)
        label = f"last fetched epoch {epoch} at {offset}"
        await talk.ask(label, fetch(("t", asked)), 12)
        await talk.ask(f"{label}, by id", fetch((topic_id, asked)), [13, 17])


async def _isolation(talk: Talk) -> None:
    await talk.topic("once")
    producer_id = await talk.producer_id()
    for sequence in range(3):
        data = batch(2, producer=Producer(producer_id, 0, sequence * 2))
        await talk.write("once", data)
    for level in (0, 1):
        for topic in ("once", "t", "empty"):
            one = fetch((topic, want()), isolation_level=level)
            await talk.ask(f"isolation {level} of {topic}", one, BY_NAME)
    for limit in (0, 10, 76):
        one = fetch(("t", want(partition_max_bytes=limit)), ("t", want(1)), isolation_level=1)
        for max_bytes in (0, 1, 1 << 20):
            one.max_bytes = max_bytes
            await talk.ask(f"committed, within {limit} and {max_bytes}", one, [4, 12])
    second = fetch(("t", want()), ("t", want(1, partition_max_bytes=10)), isolation_level=1)
    await talk.ask("committed, the second does not fit", second, [4, 12])
    parts = fetch(("t", want(1, offset=20, last_fetched_epoch=0)), isolation_level=1)
    await talk.ask("committed, where logs part", parts, 12)
    for level in (2, 7, -1):
        one = fetch(("t", want(1)), isolation_level=level)
        await talk.ask(f"isolation {level}", one, [4, 12])


async def _replicas(talk: Talk) -> None:
    for replica_id in (1, 5, -2, -3):
        for epoch in (-1, 0):
            one = fetch(("t", want(1, current_leader_epoch=epoch)), replica_id=replica_id)
            await talk.ask(f"replica {replica_id}, epoch {epoch}", one, [4, 12])
    topic_id = await talk.topic("followed")
    state = ReplicaState(replica_id=5, replica_epoch=1)
    follower = fetch((topic_id, want(current_leader_epoch=0)), replica_state=state)
    await talk.ask("an unknown replica with its epoch", follower, versions(FetchRequest, 15))
    for rack in ("r1", "?"):
        one = fetch(("t", want(1)), rack_id=rack)
        await talk.ask(f"rack {rack}", one, [11, 12])
    for cluster in ("", "another"):
        one = fetch(("t", want(1)), cluster_id=cluster)
        await talk.ask(f"cluster id {cluster!r}", one, 12)
    state_id = fetch((topic_id, want(high_watermark=0)))
    await talk.ask("a high watermark", state_id, 18)
    await talk.ask("a directory", fetch((topic_id, want(replica_directory_id=UNKNOWN_ID))), 17)
