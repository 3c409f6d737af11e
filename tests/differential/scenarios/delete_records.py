"""DeleteRecords, and what a log looks like to others when its beginning has moved."""

from __future__ import annotations

from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.produce import ProduceRequest
from tests.broker.api.requests import delete_records, fetch, list_offsets, produce, want
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

ALL = versions(DeleteRecordsRequest)


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await talk.topic("compacted", cleanup_policy="compact")
    await talk.topic("both", cleanup_policy="compact,delete")
    await talk.topic("empty")
    for topic in ("t", "compacted", "both"):
        await talk.write(topic, batch(3), batch(3), batch(3))
    for offset in (-5, -2, 10, 100, 2**62):
        await talk.ask(f"to {offset}", delete_records("t", offset), ALL)
    for offset in (0, 4, 4, 2, 9):
        await talk.ask(f"to {offset}, {len(talk.entries)}", delete_records("t", offset), ALL)
    await talk.ask("to the end", delete_records("t", -1), ALL)
    await talk.ask("earliest then", list_offsets(-2), 11)
    await talk.ask("from the start then", fetch(("t", want())), 12)
    await talk.ask("a produce then", produce("t", batch()), versions(ProduceRequest, 5, 12))
    for topic in ("compacted", "both", "empty", "nope", "b ad", "", "__consumer_offsets"):
        for offset in (0, 3, -1):
            await talk.ask(f"{topic!r} to {offset}", delete_records(topic, offset), ALL)
    for index in (9, -1):
        await talk.ask(f"partition {index}", delete_records("t", 0, index), ALL)
    await talk.ask("nothing", DeleteRecordsRequest(topics=[], timeout_ms=100), ALL)
    several = DeleteRecordsTopic(
        name="t",
        partitions=[
            DeleteRecordsPartition(partition_index=index, offset=offset)
            for index, offset in ((1, 0), (9, 0), (0, 10))
        ],
    )
    await talk.ask("several", DeleteRecordsRequest(topics=[several], timeout_ms=100), ALL)
    for timeout_ms in (0, -1):
        request = delete_records("t", 11)
        request.timeout_ms = timeout_ms
        await talk.ask(f"timeout {timeout_ms}", request, ALL)
    await talk.restart()
    await talk.until(lambda: talk.is_led("t", 0))
    await talk.ask("earliest after a restart", list_offsets(-2), 11)
    await talk.ask("earliest of both after a restart", list_offsets(-2, "both"), 11)
    await talk.ask("from the start after a restart", fetch(("both", want())), 12)
