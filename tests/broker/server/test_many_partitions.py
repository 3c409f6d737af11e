"""A thousand partitions made at once, on a slow disk: the loop of the node goes on meanwhile."""

from __future__ import annotations

from contextlib import suppress

import pytest

from moldau.broker.replication import wanted_replicas
from moldau.broker.replication.log_maker import MakeableLog
from moldau.broker.replication.replicas import Replicas
from moldau.broker.replication.wanted_replicas import WantedReplica, WantedReplicas
from moldau.broker.server.cluster_node import ClusterNode
from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.report import SimulationFailed
from moldau.testing import SimulatedCluster, seeds

_MANY = 1_000
_CALL_NS = 2_000_000
"""What a call to the disk takes: a log, which takes five of them, then takes ten milliseconds."""


def _admin(cluster: SimulatedCluster, runtime: Runtime) -> Admin:
    return Admin(runtime=runtime, bootstrap_servers=cluster.bootstrap_servers)


def _slow(cluster: SimulatedCluster, number: int = 1) -> None:
    cluster.nodes[number].disk.costs.call_ns = _CALL_NS


def _quick(cluster: SimulatedCluster, number: int = 1) -> None:
    cluster.nodes[number].disk.costs.call_ns = 2_000


def _made(cluster: SimulatedCluster, number: int = 1) -> set[str]:
    """The directories of the topic "many" on the node's disk."""
    names = {path.split("/")[2] for path in cluster.nodes[number].disk.paths()}
    return {name for name in names if name.startswith("many-")}


def _leader_epochs(cluster: SimulatedCluster) -> set[int]:
    node = cluster.up[1]
    assert isinstance(node, ClusterNode)
    topic = node.image.topics.by_name("many")
    assert topic is not None
    return {each.leader_epoch for each in topic.partitions.values()}


def _isrs(cluster: SimulatedCluster, partitions: int) -> set[frozenset[int]]:
    return {cluster.isr_of("many", index) for index in range(partitions)}


async def _write_and_read(
    cluster: SimulatedCluster, runtime: Runtime, topic: str, index: int = 0
) -> None:
    servers = cluster.bootstrap_servers
    async with Producer(runtime=runtime, bootstrap_servers=servers) as out:
        await out.send_and_wait(topic, b"value", partition=index)
    async with Consumer(
        runtime=runtime, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, index)])
        assert (await consumer.getone()).value == b"value"


async def _use_another(cluster: SimulatedCluster, runtime: Runtime) -> float:
    """Create another topic, write to it and read it. Return the seconds of it all."""
    begun = runtime.clock.monotonic()
    async with _admin(cluster, runtime) as admin:
        await admin.create_topic(NewTopic("other", 1))
    await _write_and_read(cluster, runtime, "other")
    return runtime.clock.monotonic() - begun


def _start_creation(cluster: SimulatedCluster, partitions: int, copies: int = 1) -> None:
    """Begin to create the topic "many"."""

    async def create(runtime: Runtime) -> None:
        # After a crash the client asks again, and hears that the topic exists.
        with suppress(KafkaError):
            async with _admin(cluster, runtime) as admin:
                await admin.create_topic(NewTopic("many", partitions, copies))

    cluster.start_program(create)


def _create(cluster: SimulatedCluster, world: Simulation, partitions: int, copies: int) -> None:
    """Begin to create the topic "many". Return when a tenth of it is on the disk of node 1."""
    _start_creation(cluster, partitions, copies)
    world.run_until(lambda: len(_made(cluster)) > partitions // 10, within=30)
    assert len(_made(cluster)) < partitions // 2, "or the test shows nothing"


@seeds(range(2))
def test_an_only_node_serves_others_while_it_makes_a_thousand_partitions(
    world: Simulation,
) -> None:
    cluster = SimulatedCluster(world, brokers=1)
    cluster.await_up()
    _slow(cluster)
    _create(cluster, world, _MANY, 1)
    assert cluster.run(lambda runtime: _use_another(cluster, runtime)) < 2
    assert len(_made(cluster)) < _MANY, "or the test shows nothing"
    world.run_until(lambda: len(_made(cluster)) == _MANY, within=30)
    assert _leader_epochs(cluster) == {0}, "a broker that was fenced leads in another epoch"
    cluster.run(lambda runtime: _write_and_read(cluster, runtime, "many", _MANY - 1))


@seeds(range(2))
def test_a_creation_is_answered_when_its_partitions_can_be_written(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=1)
    cluster.await_up()
    _slow(cluster)

    async def create_and_write(runtime: Runtime) -> int:
        async with _admin(cluster, runtime) as admin:
            await admin.create_topic(NewTopic("many", 100))
            count = len(_made(cluster))
            await admin.create_partitions("many", 150)
            assert len(_made(cluster)) == 150
        return count

    assert cluster.run(create_and_write) == 100


@seeds(range(3))
def test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=1, settings={"log.segment.delete.delay.ms": "0"})
    cluster.await_up()
    _slow(cluster)
    _create(cluster, world, 300, 1)

    async def replace(runtime: Runtime) -> None:
        async with _admin(cluster, runtime) as admin:
            await admin.delete_topic("many")
            await admin.create_topic(NewTopic("many", 2))
        await _write_and_read(cluster, runtime, "many", 1)

    cluster.run(replace)
    _quick(cluster)
    world.run_until(lambda: _made(cluster) == {"many-0", "many-1"}, within=120)
    cluster.stop(1)
    cluster.start(1)
    cluster.await_up()
    world.run_for(5)
    assert _made(cluster) == {"many-0", "many-1"}
    assert not any("stray" in line for line in cluster.lines[1])


@seeds(range(4))
def test_a_node_that_ends_while_it_makes_partitions_makes_the_rest_later(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=1)
    cluster.await_up()
    _slow(cluster)
    _create(cluster, world, 200, 1)
    end = (cluster.kill, cluster.power_loss, cluster.stop)[world.seed % 3]
    end(1)
    cluster.start(1)
    cluster.await_up()
    cluster.run(lambda runtime: _write_and_read(cluster, runtime, "many", 199))
    world.run_until(lambda: len(_made(cluster)) == 200, within=60)
    assert not any("out of service" in line for line in cluster.lines[1])


@seeds(range(3))
def test_a_leader_that_changes_while_partitions_are_made_loses_nothing(world: Simulation) -> None:
    cluster = SimulatedCluster(world, brokers=3)
    cluster.await_up()
    for number in cluster.broker_ids:
        _slow(cluster, number)
    _create(cluster, world, 200, 3)
    victim = next(each for each in cluster.broker_ids if each != cluster.controller())
    cluster.kill(victim)
    places = range(0, 200, 20)

    async def write_all(runtime: Runtime) -> None:
        for index in places:
            await _write_and_read(cluster, runtime, "many", index)

    cluster.run(write_all, within=120)
    assert {cluster.leader_of("many", index) for index in range(200)}.isdisjoint({victim, -1})
    cluster.start(victim)
    world.run_until(lambda: _isrs(cluster, 200) == {frozenset(cluster.broker_ids)}, within=120)
    assert all(len(_made(cluster, number)) == 200 for number in cluster.broker_ids)


# Planted faults.


def test_a_log_that_stays_although_its_topic_was_deleted_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Replicas._on_made

    def keeps(self: Replicas, wanted: WantedReplica, made: MakeableLog | KafkaError) -> None:
        topic_id = wanted.leadership.topic_id
        if self._ids.get(wanted.name) == topic_id or isinstance(made, KafkaError):
            original(self, wanted, made)
            return
        self._maker.wanted.end(wanted.name, topic_id)
        made.directory.partitions.end(made.new)

    monkeypatch.setattr(Replicas, "_on_made", keeps)
    with pytest.raises(SimulationFailed):
        test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing()


def test_a_replica_that_is_served_as_it_was_wanted_first_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first(self: WantedReplicas, wanted: WantedReplica) -> None:
        self._wanted.setdefault(wanted.name[0], {}).setdefault(wanted.name[1], wanted)

    monkeypatch.setattr(WantedReplicas, "want", first)
    with pytest.raises(SimulationFailed):
        test_a_leader_that_changes_while_partitions_are_made_loses_nothing()


def test_a_loop_that_makes_all_logs_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted_replicas, "AT_ONCE", 100_000)
    with Simulation(1) as world:
        cluster = SimulatedCluster(world, brokers=1)
        cluster.await_up()
        _slow(cluster)
        _start_creation(cluster, _MANY)
        world.run_for(0.05)
        assert cluster.run(lambda runtime: _use_another(cluster, runtime)) > 9
        world.run_for(5)
        assert _leader_epochs(cluster) != {0}, "it was fenced"
