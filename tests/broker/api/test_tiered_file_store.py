"""Fetch over both tiers with real files and a store in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from moldau.broker.tiered.segment_objects import CHUNK_BYTES
from moldau.broker.tiered.segment_upload import SegmentUpload
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.records import HEADER_BYTES, read_header
from moldau.runtime import Runtime
from tests.broker.api.requests import NOW, fetch, list_offsets, want
from tests.broker.api.serving import Serving, fetched
from tests.broker.api.tiered_log import Tier, roll, write
from tests.broker.tiered.stores import folder_store, on_runtime

BATCHES: Final = 60
COUNT: Final = 5
SEGMENTS: Final = 3


async def row_at(at: Serving, offset: int) -> Any:
    answer = await at.ask(fetch(("t", want(0, offset)), wait_ms=500), FetchResponse, 12)
    (row,) = fetched(answer).values()
    return row


async def read_all(at: Serving, end_offset: int) -> bytes:
    found, offset = b"", 0
    while offset < end_offset:
        row = await row_at(at, offset)
        assert row.error_code == 0
        data = bytes(row.records)
        position = 0
        while position + HEADER_BYTES <= len(data):
            header = read_header(data, position)
            if position + header.size_bytes > len(data):
                break
            position += header.size_bytes
            offset = header.next_offset
        found += data[:position]
    return found


def test_a_consumer_reads_a_real_log_through_both_tiers(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()

    async def main(runtime: Runtime) -> None:
        paths = [str(tmp_path / "d1"), str(tmp_path / "d2")]
        at = Serving(runtime, cast(Any, None), paths=paths)
        at.create("t")
        partition = at.partition("t")
        for number in range(SEGMENTS):
            if number:
                roll(partition)
            for batch in range(BATCHES):
                write(partition, COUNT, at_ms=NOW + 1000 * number + batch, size=15_000)
        end_offset = partition.log_end_offset
        tier = Tier(at, partition, store=folder_store(runtime, folder))
        tier.upload = SegmentUpload(runtime, tier.store, None, CHUNK_BYTES)
        size = end_offset // SEGMENTS
        for number in range(SEGMENTS - 1):
            copied = await tier.copy(number * size, (number + 1) * size)
            assert copied.size_bytes > CHUNK_BYTES
        assert tier.cut((SEGMENTS - 1) * size) == (SEGMENTS - 1) * size
        assert await read_all(at, end_offset) == b"".join(each.data for each in tier.batches)
        answer = await at.ask(list_offsets(NOW + 1000), ListOffsetsResponse)
        assert answer.topics[0].partitions[0].offset == size
        await tier.close()
        at.replicas.purgatory.close()

    on_runtime(main)


def test_objects_that_are_lost_are_a_retriable_error(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()

    async def main(runtime: Runtime) -> None:
        at = Serving(runtime, cast(Any, None), paths=[str(tmp_path / "d1"), str(tmp_path / "d2")])
        at.create("t")
        partition = at.partition("t")
        write(partition, COUNT)
        roll(partition)
        write(partition, COUNT)
        tier = Tier(at, partition, store=folder_store(runtime, folder))
        await tier.copy(0, COUNT)
        tier.cut(COUNT)
        for path in folder.rglob("*"):
            if path.is_file():
                path.unlink()
        row = await row_at(at, 0)
        assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len([line for line in at.lines if "remote records cannot be read" in line]) == 1
        assert (await row_at(at, COUNT)).records, "the local part is served"
        await tier.close()
        at.replicas.purgatory.close()

    on_runtime(main)
