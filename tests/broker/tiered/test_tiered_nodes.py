"""Three broker processes share an S3 server, and are killed while they copy to it: each record that
was acknowledged is read once and in order, and in the end no object is without its segment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from uuid import uuid4

import pytest

from moldau.broker.tiered.metadata_records import decode
from moldau.broker.tiered.metadata_topic import PartitionKey, key_of
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.segment_objects import parse_object_name
from moldau.client import Admin, Consumer, NewTopic
from moldau.objects.object_store import ObjectStore
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout
from moldau.testing import Cluster
from moldau.testing.cluster import Layout
from moldau.testing.history import Outcome
from tests.broker.network.virtual_pause import after
from tests.broker.tiered.faulty_proxy import Fault, FaultyProxy
from tests.broker.tiered.mixed_traffic import ALL_RECORDS, COMMITTED, MixedTraffic, racks
from tests.broker.tiered.s3_servers import BUCKET, REGION, S3Server
from tests.broker.tiered.stores import on_runtime, s3_store
from tests.broker.tiered.tiered_house import LOOK_S, METADATA, are_gapless, finished_ranges
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.usefixtures("key")]

NAME: Final = "t"
NODES: Final = (1, 2, 3)
PARTITIONS: Final = 3
KILLS: Final = 6
PATIENCE_S: Final = 240.0
IN_FLIGHT: Final = (Fault.LATE, Fault.HANG)
"""A put without an answer, of which the object is there or is not: then its leader is killed."""
_CLUSTER: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "transaction.state.log.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


class KilledNodes:
    """The nodes, their store behind a proxy, and the traffic."""

    def __init__(
        self, runtime: Runtime, cluster: Cluster, proxy: FaultyProxy, store: ObjectStore
    ) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.proxy = proxy
        self.store = store
        self.traffic = MixedTraffic(cluster.bootstrap_servers, NAME, PARTITIONS)
        self.random = Random(1)

    async def create_topic(self) -> None:
        topic = NewTopic(
            NAME, PARTITIONS, 3, configs=dotted({**TOPIC, "internal_segment_bytes": "8000"})
        )
        async with self._admin() as admin:
            await admin.create_topic(topic)

    def _admin(self) -> Admin:
        return Admin(runtime=self.runtime, bootstrap_servers=self.cluster.bootstrap_servers)

    async def kill_a_leader_that_copies(self, number: int) -> None:
        """Let a put have no answer, kill the broker that waits for it, and start it again when
        others have gone on without it."""
        proxy, run = self.proxy, self.runtime.run_blocking
        seen = len(proxy.seen)
        proxy.faults.extend([Fault.BUSY, Fault.LOST, IN_FLIGHT[number % len(IN_FLIGHT)]])
        async with timeout(PATIENCE_S):
            while not (hit := [each for each in proxy.seen[seen:] if each.fault in IN_FLIGHT]):
                await after(LOOK_S)
        victim = await run(partial(self._leader_of, hit[0].path))
        await run(partial(self.cluster.kill, victim))
        await self._await_more()
        await run(partial(self.cluster.start, victim))

    def _leader_of(self, path: str) -> int:
        index = path.rpartition("/")[0].rpartition("/")[2]
        return self.cluster.leader_of(NAME, int(index))

    async def _await_more(self) -> None:
        before = self.traffic.acknowledged
        async with timeout(PATIENCE_S):
            while self.traffic.acknowledged < before + 60:
                await after(LOOK_S)

    async def await_whole(self) -> None:
        for topic in (NAME, METADATA):
            for index in range(PARTITIONS):
                wait = partial(self.cluster.await_in_sync, topic, NODES, index, within=PATIENCE_S)
                await self.runtime.run_blocking(wait)

    def first_files(self) -> list[int]:
        """Where the files of each replica begin."""
        folders = (
            Path(self.cluster.data_of(number)) / f"{NAME}-{index}"
            for number in NODES
            for index in range(PARTITIONS)
        )
        return [min(int(each.stem) for each in folder.glob("*.log")) for folder in folders]

    async def remote(self) -> dict[PartitionKey, RemotePartition]:
        """What the topic of remote segments says, as a client reads it."""
        found: dict[PartitionKey, RemotePartition] = {}
        async with Consumer(
            runtime=self.runtime,
            bootstrap_servers=self.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            places = await consumer.partitions(METADATA)
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            while any((consumer.position(each) or 0) < ends[each] for each in places):
                for part in await consumer.poll(0.2):
                    for record in part.records:
                        event = decode(bytes(record.value or b""))
                        found.setdefault(key_of(event), RemotePartition()).replay(event)
        return found

    async def await_settled(self) -> None:
        """Wait until all replicas are cut, all copies are finished and all objects are of one."""
        async with timeout(PATIENCE_S):
            while not await self._is_settled():
                await after(10 * LOOK_S)

    async def _is_settled(self) -> bool:
        remote = await self.remote()
        segments = {each.id.id: each for part in remote.values() for each in part.segments()}
        names = [each.name async for each in self.store.list()]
        parsed = [each for each in map(parse_object_name, names) if each is not None]
        is_finished = all(
            len(finished_ranges(part)) == len(part) and part.segments() for part in remote.values()
        )
        is_clean = {each.id for each in parsed} == segments.keys()
        is_clean &= len(parsed) == 2 * len(segments)
        return is_finished and is_clean and len(remote) == PARTITIONS and all(self.first_files())


@asynccontextmanager
async def killed_nodes(
    runtime: Runtime, server: S3Server, directory: Path
) -> AsyncIterator[KilledNodes]:
    prefix = uuid4().hex
    async with FaultyProxy(server.port) as proxy:
        proxy.only, proxy.within = "PUT", f"/{NAME}-"
        settings = {
            **dotted(SETTINGS),
            **_CLUSTER,
            "remote.storage": f"s3://{BUCKET}/{prefix}",
            "remote.storage.endpoint": f"http://127.0.0.1:{proxy.port}",
            "remote.storage.region": REGION,
        }
        cluster = Cluster(
            len(NODES), directory=str(directory), settings=settings, layout=Layout(racks(NODES))
        )
        await runtime.run_blocking(cluster.open)
        try:
            store = s3_store(runtime, server.port, prefix)
            yield KilledNodes(runtime, cluster, proxy, store)
        finally:
            await runtime.run_blocking(cluster.close)


def test_leaders_that_are_killed_while_they_copy_lose_nothing(
    tmp_path: Path, versitygw: S3Server
) -> None:
    async def main(runtime: Runtime) -> None:
        async with killed_nodes(runtime, versitygw, tmp_path / "cluster") as nodes:
            traffic = nodes.traffic
            await nodes.create_topic()
            writers = [
                runtime.spawn(traffic.produce(runtime), name="plain"),
                runtime.spawn(traffic.transact(runtime), name="transactional"),
            ]
            for number in range(KILLS):
                await nodes.kill_a_leader_that_copies(number)
            await nodes.await_whole()
            traffic.is_ending = True
            await asyncio.wait(writers)
            await nodes.await_settled()
            for rack in racks(NODES):
                for isolation in (COMMITTED, ALL_RECORDS):
                    await traffic.read_all(runtime, rack, isolation)
            traffic.check()
            for part in (await nodes.remote()).values():
                ranges = finished_ranges(part)
                assert are_gapless(ranges, ranges[-1][1])
            assert traffic.count(Outcome.ACKNOWLEDGED) > KILLS < traffic.count(Outcome.FAILED)

    on_runtime(main)
