"""ListOffsets: times, the special ones, empty logs, epochs, and what is left after a deletion."""

from __future__ import annotations

from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker.api.requests import delete_records, list_offsets
from tests.differential.requests import THEN, batch
from tests.differential.talk import Talk, versions

ALL = versions(ListOffsetsRequest)
# Name, timestamp, and the version that has it first.
SPECIAL = (
    ("latest", -1, 1),
    ("earliest", -2, 1),
    ("max timestamp", -3, 7),
    ("earliest local", -4, 8),
    ("latest tiered", -5, 9),
    ("earliest pending upload", -6, 11),
    ("unknown special", -7, 1),
)


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 3)
    await talk.topic("empty")
    await talk.topic("rolled", segment_bytes="1048576")
    await talk.write("t", batch(3), batch(3, at=THEN + 1000), batch(3, at=THEN - 5000))
    await talk.write("rolled", *(batch(2, at=THEN + 10 * n, size=300_000) for n in range(5)))
    for label, timestamp, since in SPECIAL:
        for topic in ("t", "empty", "rolled"):
            await talk.ask(f"{label} of {topic}", list_offsets(timestamp, topic), ALL)
        if since > 1:
            early = list_offsets(timestamp, "t")
            await talk.ask(f"{label} before its version", early, since - 1)
    await _times(talk)
    await _wrong(talk)
    await talk.ask("cut", delete_records("t", 4))
    for label, timestamp, _ in SPECIAL:
        await talk.ask(f"{label} after the cut", list_offsets(timestamp, "t"), ALL[-1])
    for after in (0, 500, 1000, 1002, 5000):
        await talk.ask(f"{after} ms after the cut", list_offsets(THEN + after, "t"), ALL[-1])
    await talk.ask("cut all", delete_records("t", -1))
    for label, timestamp, _ in SPECIAL:
        await talk.ask(f"{label} with nothing left", list_offsets(timestamp, "t"), ALL[-1])


async def _times(talk: Talk) -> None:
    for after in (-THEN, -5001, -5000, -4998, 0, 1, 2, 3, 999, 1000, 1002, 1003, 10**9):
        await talk.ask(f"{after} ms after the first", list_offsets(THEN + after, "t"), ALL)
    for after in (0, 10, 11, 12, 40, 41, 42):
        await talk.ask(f"{after} ms in several segments", list_offsets(THEN + after, "rolled"), 11)
    await talk.ask("a time in an empty log", list_offsets(THEN, "empty"), ALL)


async def _wrong(talk: Talk) -> None:
    await talk.ask("unknown topic", list_offsets(-1, "nope"), ALL)
    await talk.ask("bad name", list_offsets(-1, "b ad"), 11)
    for index in (9, -1):
        await talk.ask(f"partition {index}", list_offsets(-1, index=index), ALL)
    for epoch in (0, 1, 5, -2):
        await talk.ask(
            f"leader epoch {epoch}", list_offsets(-1, epoch=epoch), versions(ListOffsetsRequest, 4)
        )
    for level in (0, 1, 7):
        asked = list_offsets(-1, isolation_level=level)
        await talk.ask(f"isolation level {level}", asked, versions(ListOffsetsRequest, 2))
        asked = list_offsets(THEN + 1, isolation_level=level)
        await talk.ask(f"a time at isolation level {level}", asked, 11)
    for replica_id in (1, 5, -2, -3):
        await talk.ask(f"replica {replica_id}", list_offsets(-1, replica_id=replica_id), 11)
    twice = [ListOffsetsPartition(partition_index=0, timestamp=each) for each in (-1, -2)]
    other = ListOffsetsPartition(partition_index=1, timestamp=-2)
    topics = [ListOffsetsTopic(name="t", partitions=[*twice, other])]
    await talk.ask("a partition twice", ListOffsetsRequest(replica_id=-1, topics=topics), ALL)
    await talk.ask("nothing", ListOffsetsRequest(replica_id=-1, topics=[]), ALL)
