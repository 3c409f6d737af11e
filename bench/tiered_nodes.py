"""Brokers with remote storage beside the same brokers without it: for the area `tiered`.

The store is versitygw on this machine, and librdkafka is the client. Each round has new brokers, a
new store and an empty cache. Both cases run with the same settings of the broker; only the topic's
differ. Records are noise unless a note says otherwise.

`BENCH_SCALE=0.05` makes every load so much smaller, for a quick run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import obstore
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.cluster import SCALE, WITHIN_SECONDS, producer, until
from bench.harness import Case, Goal, Missing, Table
from bench.paced_puts import bucket, put
from bench.peer_brokers import cpu_seconds
from moldau.client import Admin, NewTopic
from moldau.client import TopicPartition as Place
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.base.offsets import EARLIEST_LOCAL, LATEST
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.testing import Cluster
from tests.broker.tiered.s3_servers import (
    BUCKET,
    KEY,
    REGION,
    SECRET,
    S3Server,
    ServerMissing,
    versitygw,
)

LOCAL: Final = "a local topic"
TIERED: Final = "a tiered topic"
OVER: Final = "a tiered topic, over that"
CEILING: Final = "a local topic, and obstore alone puts 100 MB/s"
"""What a broker would reach whose copies cost it nothing: the store shares its machine."""
LOOP: Final = "the broker's event loop"
TOPIC: Final = "t"
PARTITIONS: Final = 4
SIZE_BYTES: Final = 1000
SEGMENT_BYTES: Final = max(1 << 20, int(min(1.0, SCALE) * (16 << 20)))
COPY_BYTES_PER_S: Final = 100_000_000
BACKLOG_BYTES: Final = max(64 << 20, int(2 * SCALE * (1 << 30)))
PRODUCED_BYTES: Final = max(16 << 20, int(512 * SCALE * (1 << 20)))
READ_BYTES: Final = max(64 << 20, int(512 * SCALE * (1 << 20)))
GROWN_BYTES: Final = max(256 << 20, int(10 * SCALE * (1 << 30)))
GROWN_REMOTE: Final = 0.95
PER_SECOND: Final = 200
PACED_SECONDS: Final = max(3.0, 20 * SCALE)
IDLE_PARTITIONS: Final = max(50, int(1_000 * SCALE))
SETTLING_SECONDS: Final = max(5.0, 40 * SCALE)
"""Longer than the 30 s after which copies are looked for."""
IDLE_SECONDS: Final = max(10.0, 60 * SCALE)
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_NOISE: Final = [Random(each).randbytes(SIZE_BYTES) for each in range(32 << 10)]
"""No record of a partition comes twice in 8 MB: zstd would find it again in a chunk."""
_WORDS: Final = [b"word " * (SIZE_BYTES // 5)]
_REMOTE: Final[Mapping[str, str]] = {
    "remote.storage.enable": "true",
    "file.delete.delay.ms": "0",
}


class Nodes(NamedTuple):
    """Running brokers and their store."""

    cluster: Cluster
    store: S3Server

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def pid(self) -> int:
        return self.cluster.process_id(1)

    def ask(self, action: Callable[[Admin], Any]) -> Any:
        """Return what the brokers answer."""

        async def main(runtime: Runtime) -> Any:
            async with Admin(bootstrap_servers=self.bootstrap, runtime=runtime) as admin:
                return await action(admin)

        return run(main)

    def create(self, partitions: int, configs: Mapping[str, str]) -> None:
        own = {"segment.bytes": str(SEGMENT_BYTES), **configs}
        assigned = {each: [1] for each in range(partitions)}
        self.ask(
            lambda admin: admin.create_topic(NewTopic(TOPIC, assignments=assigned, configs=own))
        )

    def go_on_copying(self) -> None:
        """Let the topic be copied again."""
        topic, given = Resource(ResourceType.TOPIC, TOPIC), {"remote.log.copy.disable": "false"}
        self.ask(lambda admin: admin.alter_configs(topic, set_to=given))

    def offsets(self, wanted: int, partitions: int = PARTITIONS) -> list[int]:
        places = [Place(TOPIC, each) for each in range(partitions)]
        found = self.ask(lambda admin: admin.list_offsets(dict.fromkeys(places, wanted)))
        return [found[each].offset for each in places]

    def remote_part(self) -> float:
        """Return which part of the records is remote alone."""
        return sum(self.offsets(EARLIEST_LOCAL)) / max(1, sum(self.offsets(LATEST)))

    def await_remote(self, part: float) -> None:
        end = time.monotonic() + 3600
        while self.remote_part() < part:
            if time.monotonic() > end:
                raise Missing(f"{self.remote_part():.0%} is remote after an hour")
            time.sleep(0.5)

    def await_stored(self, size_bytes: int) -> None:
        """Wait until objects have so many bytes. To look for it costs the store something."""
        end = time.monotonic() + 3600
        while self.stored_bytes() < size_bytes:
            if time.monotonic() > end:
                raise Missing("too little is stored after an hour")
            time.sleep(1)

    def stored_bytes(self) -> int:
        """Return the size of all objects."""
        found = obstore.list(bucket(self.store.url))
        return sum(each["size"] for page in found for each in page)


@contextmanager
def nodes(count: int = 1, **more: str) -> Iterator[Nodes]:
    """Run brokers with a store."""
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    settings = {
        "remote.log.storage.system.enable": "true",
        "remote.storage": f"s3://{BUCKET}/p",
        "remote.storage.region": REGION,
        "remote.log.manager.copy.max.bytes.per.second": str(COPY_BYTES_PER_S),
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    try:
        with versitygw() as store, tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
            settings["remote.storage.endpoint"] = store.url
            with Cluster(brokers=count, directory=folder, settings=settings) as cluster:
                yield Nodes(cluster, store)
    except ServerMissing as missing:
        raise Missing(str(missing)) from missing


def produce(bootstrap: str, size_bytes: int, values: list[bytes]) -> float:
    """Return MB a second until all records are acknowledged."""
    client = producer(bootstrap, linger_ms=5, batch_size=262_144)
    count = size_bytes // SIZE_BYTES
    begun = time.perf_counter()
    for number in range(count):
        while True:
            try:
                client.produce(TOPIC, values[number % len(values)], partition=number % PARTITIONS)
                break
            except BufferError:
                client.poll(0.01)
        if not number % 1000:
            client.poll(0)
    if client.flush(WITHIN_SECONDS):
        raise Missing("records were not acknowledged")
    return count * SIZE_BYTES / 1e6 / (time.perf_counter() - begun)


def p99_ms(bootstrap: str) -> float:
    """Return how long an acknowledgement takes at a steady pace, for 99 of 100 records."""
    client, took = producer(bootstrap, linger_ms=0), []
    begun = time.perf_counter()
    for number in range(int(PER_SECOND * PACED_SECONDS)):
        due = begun + number / PER_SECOND
        while (left := due - time.perf_counter()) > 0:
            client.poll(left)

        def acknowledged(error: Any, _: Any, due: float = due) -> None:
            took.append(float("inf") if error else (time.perf_counter() - due) * 1000)

        client.produce(TOPIC, _NOISE[number], partition=number % 4, on_delivery=acknowledged)
    client.flush(WITHIN_SECONDS)
    return sorted(took)[int(len(took) * 0.99)]


def beside_copies(is_tiered: bool, measured: Callable[[str], float]) -> float:
    """Return what is measured on a topic with a backlog, which is copied at the quota meanwhile if
    the topic is tiered."""
    with nodes() as found:
        stopped = {**_REMOTE, "remote.log.copy.disable": "true"} if is_tiered else {}
        found.create(PARTITIONS, stopped)
        produce(found.bootstrap, BACKLOG_BYTES, _NOISE)
        if is_tiered:
            found.go_on_copying()
            found.await_stored(SEGMENT_BYTES + 1)
        return measured(found.bootstrap)


@contextmanager
def paced_puts(store: S3Server) -> Iterator[None]:
    """Let another process put as much into the store as a broker copies."""
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
        path = Path(folder) / "segment"
        path.write_bytes(Random(1).randbytes(SEGMENT_BYTES))
        command = [sys.executable, "-m", "bench.paced_puts"]
        given = [store.url, str(path), str(COPY_BYTES_PER_S)]
        with subprocess.Popen([*command, *given]) as process:  # noqa: S603
            try:
                yield
            finally:
                process.kill()


def beside_puts(measured: Callable[[Nodes], float]) -> float:
    """Return what is measured on a local topic while obstore alone puts as much as is copied."""
    with nodes() as found:
        found.create(PARTITIONS, {})
        produce(found.bootstrap, BACKLOG_BYTES, _NOISE)
        with paced_puts(found.store):
            found.await_stored(SEGMENT_BYTES + 1)
            return measured(found)


def stored_rate(found: Nodes) -> float:
    """Return MB a second that the store gets while records are produced."""
    before, begun = found.stored_bytes(), time.perf_counter()
    produce(found.bootstrap, PRODUCED_BYTES, _NOISE)
    return (found.stored_bytes() - before) / 1e6 / (time.perf_counter() - begun)


def copy_rate() -> float:
    """Return MB a second that are copied while records are produced."""
    with nodes() as found:
        found.create(PARTITIONS, _REMOTE)
        produce(found.bootstrap, BACKLOG_BYTES, _NOISE)
        found.await_stored(SEGMENT_BYTES + 1)
        return stored_rate(found)


def copying_ms(measured: Callable[[Nodes], float]) -> float:
    """Return the CPU time by MB that a backlog takes while it is copied, in ms."""
    with nodes() as found:
        found.create(PARTITIONS, {**_REMOTE, "remote.log.copy.disable": "true"})
        produce(found.bootstrap, PRODUCED_BYTES, _NOISE)
        segments = (PRODUCED_BYTES // SEGMENT_BYTES) - 2 * PARTITIONS
        before, of_store = measured(found), found.stored_bytes()
        found.go_on_copying()
        found.await_stored(segments * SEGMENT_BYTES)
        return 1e9 * (measured(found) - before) / (found.stored_bytes() - of_store)


def loop_seconds(found: Nodes) -> float:
    """Return the CPU time of a broker's first thread, which runs its event loop."""
    path = Path(f"/proc/{found.pid}/task/{found.pid}/schedstat")
    return int(path.read_text().split()[0]) / 1e9


def thread_seconds(found: Nodes) -> float:
    """Return the CPU time of a broker's other threads."""
    return cpu_seconds(found.pid) - loop_seconds(found)


def store_seconds(found: Nodes) -> float:
    assert found.store.process_id is not None
    return cpu_seconds(found.store.process_id)


def putting_ms() -> float:
    """Return the CPU time by MB of obstore alone, in this process, in ms."""
    with nodes() as found, tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
        path, store = Path(folder) / "segment", bucket(found.store.url)
        path.write_bytes(Random(1).randbytes(SEGMENT_BYTES))
        begun, count = time.process_time(), PRODUCED_BYTES // SEGMENT_BYTES
        for number in range(count):
            put(store, str(number), path)
        return 1e9 * (time.process_time() - begun) / (count * SEGMENT_BYTES)


def read(is_tiered: bool) -> float:
    """Return MB a second of a consumer that reads all that is remote, or as much that is local."""
    with nodes() as found:
        found.create(PARTITIONS, {**_REMOTE, "local.retention.bytes": "1"} if is_tiered else {})
        produce(found.bootstrap, READ_BYTES, _NOISE)
        if is_tiered:
            least = 1 - PARTITIONS * SEGMENT_BYTES * 1.1 / READ_BYTES
            found.await_remote(max(0.2, least))
        ends = found.offsets(EARLIEST_LOCAL if is_tiered else LATEST)
        return consumed(found.bootstrap, ends)


def consumed(bootstrap: str, ends: list[int]) -> float:
    """Return MB a second of a read up to these offsets."""
    client = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    left = {index for index, end in enumerate(ends) if end}
    client.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in left])
    begun, size = time.perf_counter(), 0
    while left:
        for message in client.consume(5_000, 1.0):
            if message.error():
                raise Missing(str(message.error()))
            offset, partition = message.offset(), message.partition()
            assert offset is not None
            assert partition is not None
            size += SIZE_BYTES * (offset < ends[partition])
            if offset >= ends[partition] - 1:
                left.discard(partition)
    rate = size / 1e6 / (time.perf_counter() - begun)
    client.close()
    return rate


def follower_seconds(**settings: str) -> float:
    """Return how long a new replica of a topic takes until it is in sync."""
    with nodes(2, **settings) as found:
        kept = int(GROWN_BYTES * (1 - GROWN_REMOTE) / PARTITIONS)
        segment = str(min(SEGMENT_BYTES, kept // 2))
        configs = {"local.retention.bytes": str(kept // 2), "segment.bytes": segment}
        found.create(PARTITIONS, {**_REMOTE, **configs})
        produce(found.bootstrap, GROWN_BYTES, _WORDS)
        found.await_remote(GROWN_REMOTE - 0.05)
        places = [Place(TOPIC, each) for each in range(PARTITIONS)]

        def in_sync(admin: Admin) -> Any:
            return admin.describe_topics([TOPIC])

        begun = time.perf_counter()
        move = {each: [1, 2] for each in places}
        found.ask(lambda admin: admin.alter_partition_reassignments(move))
        until(lambda: all(len(each.isr) == 2 for each in found.ask(in_sync)[TOPIC].partitions))
        return time.perf_counter() - begun


def peak_mib(is_tiered: bool) -> float:
    """Return the most memory that a broker had while records came, were copied, and were read:
    first one after the other, then all at once."""
    with nodes() as found:
        found.create(PARTITIONS, {**_REMOTE, "local.retention.bytes": "1"} if is_tiered else {})
        produce(found.bootstrap, READ_BYTES, _NOISE)
        if is_tiered:
            found.await_remote(max(0.2, 1 - PARTITIONS * SEGMENT_BYTES * 1.1 / READ_BYTES))
        ends = found.offsets(LATEST)
        consumed(found.bootstrap, ends)
        with ThreadPoolExecutor(1) as producing:
            done = producing.submit(produce, found.bootstrap, READ_BYTES, _NOISE)
            consumed(found.bootstrap, ends)
            done.result()
        peak = _PEAK.search(Path(f"/proc/{found.pid}/status").read_text())
        assert peak is not None
        return int(peak[1]) / 1024


def idle_percent(is_tiered: bool) -> float:
    """Return the percent of a core that a broker needs with idle partitions, a record in each."""
    with nodes() as found:
        found.create(IDLE_PARTITIONS, _REMOTE if is_tiered else {})
        client = producer(found.bootstrap)
        for each in range(IDLE_PARTITIONS):
            client.produce(TOPIC, _NOISE[0], partition=each)
        client.flush(WITHIN_SECONDS)
        time.sleep(SETTLING_SECONDS)
        before = cpu_seconds(found.pid)
        time.sleep(IDLE_SECONDS)
        return 100 * (cpu_seconds(found.pid) - before) / IDLE_SECONDS


def over(measured: Callable[[bool], float]) -> float:
    """Return by how much a tiered topic is above a local one, both measured now."""
    local = measured(False)
    return measured(True) - local


def both(measured: Callable[[bool], float]) -> list[Case]:
    return [Case(LOCAL, partial(measured, False)), Case(TIERED, partial(measured, True))]


def extra(measured: Callable[[bool], float]) -> list[Case]:
    return [Case(LOCAL, partial(measured, False)), Case(OVER, partial(over, measured))]


def copying_tables() -> list[Table]:
    """Return those of a broker that copies."""

    def throughput(bootstrap: str) -> float:
        return produce(bootstrap, PRODUCED_BYTES, _NOISE)

    backlog = f"A backlog of {BACKLOG_BYTES >> 20} MiB in both"
    return [
        Table(
            "Produce on a tiered topic while it is copied at 100 MB/s",
            "MB/s",
            [
                *both(lambda is_tiered: beside_copies(is_tiered, throughput)),
                Case(CEILING, partial(beside_puts, lambda found: throughput(found.bootstrap))),
            ],
            [
                Goal(TIERED, versus=LOCAL, ratio_at_least=0.95),
                Goal(TIERED, versus=CEILING, ratio_at_least=0.95),
            ],
            notes=[f"{backlog}; {PRODUCED_BYTES >> 20} MiB more are measured."],
        ),
        Table(
            "The copies beside that",
            "MB/s",
            [Case("copied", copy_rate), Case(CEILING, partial(beside_puts, stored_rate))],
            notes=["The quota is 100 MB/s; what is stored while the same records are produced."],
        ),
        Table(
            "p99 of acknowledgements while the topic is copied at 100 MB/s",
            "ms",
            [
                *both(lambda is_tiered: beside_copies(is_tiered, p99_ms)),
                Case(CEILING, partial(beside_puts, lambda found: p99_ms(found.bootstrap))),
            ],
            [
                Goal(TIERED, versus=LOCAL, ratio_at_most=1.2),
                Goal(TIERED, versus=CEILING, ratio_at_most=1.2),
            ],
            higher_is_better=False,
            notes=[f"{backlog}; {PER_SECOND} records a second for {PACED_SECONDS:.0f} s."],
        ),
        Table(
            "CPU of copies, without other work",
            "ms for each MB",
            [
                Case(LOOP, partial(copying_ms, loop_seconds)),
                Case("its other threads", partial(copying_ms, thread_seconds)),
                Case("the store", partial(copying_ms, store_seconds)),
                Case("obstore alone, which puts as much", putting_ms),
            ],
            [Goal(LOOP, at_most=0.5)],
            higher_is_better=False,
            notes=["At 100 MB/s, 0.5 ms is a twentieth of the loop's time: so much produce loses."],
        ),
    ]


def tables() -> list[Table]:
    grown = f"{GROWN_BYTES / (1 << 30):.3g} GiB"
    return [
        *copying_tables(),
        Table(
            "Catch-up read by a consumer",
            "MB/s",
            both(read),
            [Goal(TIERED, versus=LOCAL, ratio_at_least=0.5)],
            notes=[f"{READ_BYTES >> 20} MiB; of the tiered topic only what is remote alone."],
        ),
        Table(
            f"A follower added to a topic of {grown}, 95 % remote",
            "s until all partitions are in sync",
            [
                Case(TIERED, follower_seconds),
                Case(
                    "the same, follower.fetch.last.tiered.offset.enable",
                    partial(follower_seconds, follower_fetch_last_tiered_offset_enable="true"),
                ),
            ],
            [Goal(TIERED, at_most=10.0)],
            higher_is_better=False,
            notes=[
                "The records are words, so that the store is small: no replica reads them there."
            ],
        ),
        Table(
            "Memory of a broker that copies and reads remote segments",
            "MiB at the most",
            extra(peak_mib),
            [Goal(OVER, at_most=64.0)],
            higher_is_better=False,
        ),
        Table(
            f"{IDLE_PARTITIONS:,} idle partitions",
            "% of a core",
            extra(idle_percent),
            [Goal(OVER, at_most=1.0)],
            higher_is_better=False,
            notes=[f"Over {IDLE_SECONDS:.0f} s, a record in each partition."],
        ),
    ]
