"""Tiered storage: a catch-up read of a remote segment, beside the store's own ranged reads.

The store is versitygw, an S3 server over a folder, as a process of its own on this machine. The
peer is obstore alone: it gets the stored chunks of the same object, four at a time, and does
nothing with them. The reader gets no more at a time; it checks every chunk and returns whole
batches, 1 MiB a read. Its cache is empty at the start of each round.

Records are noise, so that chunks are stored as they are: the store's bytes are those of the log.

Rows with whole brokers are in `tiered_nodes`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import obstore
from obstore.store import S3Store

from bench import tiered_nodes
from bench.harness import Case, Goal, Missing, Table
from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import Segment
from moldau.broker.tiered.chunk_cache import CacheLimits, ChunkCache
from moldau.broker.tiered.key_ring import KeyRing
from moldau.broker.tiered.remote_reader import PREFETCHED_CHUNKS, RemoteReader
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState
from moldau.broker.tiered.segment_objects import (
    CHUNK_BYTES,
    ObjectKind,
    Section,
    object_name,
)
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.objects.object_store import ObjectStore
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.records import encode_batch
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.tiered.s3_servers import (
    BUCKET,
    KEY,
    REGION,
    SECRET,
    S3Server,
    ServerMissing,
    versitygw,
)

SEGMENT_BYTES: Final = 256 << 20
BATCH_BYTES: Final = 64 << 10
READ_BYTES: Final = 1 << 20
IN_FLIGHT: Final = 1 + PREFETCHED_CHUNKS
NOW: Final = 1_700_000_000_000
ALONE: Final = "obstore alone"
READER: Final = "RemoteReader"
ENCRYPTED: Final = "RemoteReader, encrypted"
RING: Final = KeyRing({"bench": bytes(range(32))}, "bench")


class Copied(NamedTuple):
    """A segment in a store on this machine."""

    runtime: Runtime
    endpoint: str
    store: ObjectStore
    segment: RemoteSegment
    folder: Path


Work = Callable[[Copied], Awaitable[float]]
Clock = Callable[[], float]


@contextmanager
def server() -> Iterator[S3Server]:
    """Run an S3 server, with its credentials in the environment."""
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with ExitStack() as stack:
        try:
            started = stack.enter_context(versitygw())
        except ServerMissing as missing:
            raise Missing(str(missing)) from missing
        yield started


def made_segment(runtime: Runtime, folder: Path) -> tuple[RemoteSegment, SegmentFiles]:
    """Write a segment of noise."""
    random = Random(1)
    files = runtime.files
    files.make_dirs(f"{folder}/log")
    local = Segment.create(files, f"{folder}/log", 0, LogConfig())
    offset = 0
    while local.size_bytes < SEGMENT_BYTES:
        rows = [(NOW, None, random.randbytes(1000), ()) for _ in range(BATCH_BYTES // 1000)]
        data = encode_batch(rows, offset)
        offset += len(rows)
        local.append(data, offset - 1, NOW)
    local.seal()
    described = RemoteSegment(
        SegmentId(b"t" * 16, 0, random.randbytes(16)),
        "bench",
        0,
        offset,
        NOW,
        local.size_bytes,
        (EpochEntry(0, 0),),
        broker_id=1,
        event_ms=NOW,
        has_transaction_index=False,
    )
    sections = {Section.OFFSET_INDEX: local.path(".index")}
    return described, SegmentFiles(local.log_path, sections, b"")


def in_store(work: Work, ring: KeyRing | None) -> float:
    """Copy a segment into a new store and return what `work` measures there."""
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as name:
        folder = Path(name)

        async def main(runtime: Runtime) -> float:
            with server() as started:
                address = parse_address(f"s3://{BUCKET}/p")
                config = StoreConfig(address, started.url, REGION, path_style=True)
                store = ObjectStore(runtime, ObstoreBucket(runtime, config))
                segment, files = made_segment(runtime, folder)
                metadata = await SegmentUpload(runtime, store, ring).upload(segment, files)
                finished = replace(
                    segment, state=SegmentState.COPY_FINISHED, custom_metadata=metadata
                )
                return await work(Copied(runtime, started.url, store, finished, folder))

        return run(main)


async def read_alone(clock: Clock, copied: Copied) -> float:
    """Return MB/s of obstore's own ranged reads of the chunks."""
    segment = copied.segment
    alone = S3Store(
        BUCKET,
        endpoint=copied.endpoint,
        region=REGION,
        prefix="p",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    name = object_name(segment, ObjectKind.LOG)
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def get(start: int) -> int:
        async with slots:
            size = min(CHUNK_BYTES, segment.size_bytes - start)
            return len(await obstore.get_range_async(alone, name, start=start, length=size))

    begun = clock()
    sizes = await asyncio.gather(*map(get, range(0, segment.size_bytes, CHUNK_BYTES)))
    return sum(sizes) / (clock() - begun) / 1e6


async def read_by_reader(clock: Clock, ring: KeyRing | None, copied: Copied) -> float:
    """Return MB/s of a read from the segment's start to its end."""
    runtime, segment = copied.runtime, copied.segment
    cache = ChunkCache(runtime, f"{copied.folder}/cache", CacheLimits(free_bytes_min=0))
    await cache.open()
    reader = RemoteReader(runtime, copied.store, cache, ring)
    begun = clock()
    offset, size = 0, 0
    while offset < segment.end_offset:
        found = await reader.read(segment, offset, READ_BYTES)
        size += len(found.data)
        offset = found.next_offset
    elapsed = clock() - begun
    if size != segment.size_bytes:
        raise AssertionError("not all was read")
    await cache.close()
    return size / elapsed / 1e6


def cases(clock: Clock) -> list[Case]:
    by_reader = partial(read_by_reader, clock)
    return [
        Case(ALONE, partial(in_store, partial(read_alone, clock), None)),
        Case(READER, partial(in_store, partial(by_reader, None), None)),
        Case(ENCRYPTED, partial(in_store, partial(by_reader, RING), RING)),
    ]


def tables() -> list[Table]:
    return [
        Table(
            "Catch-up read of a remote segment, 256 MiB",
            "MB/s",
            cases(time.perf_counter),
            [Goal(READER, versus=ALONE, ratio_at_least=0.7)],
            notes=[
                f"{IN_FLIGHT} gets of 4 MiB in flight at most, in each case; the server and the"
                " client share the machine.",
            ],
        ),
        Table(
            "The same, by the client's CPU",
            "MB a second of CPU time",
            cases(time.process_time),
        ),
        *tiered_nodes.tables(),
    ]
