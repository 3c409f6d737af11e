"""Short stories that provoke the replication bugs of Kafka's history, each in a few seconds.

A scene names the faults in their order, with the KIP that tells of it; the watch looks after every
event. Without a bug every scene ends well: all that was acknowledged is there, and replicas are
equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, Literal
from unittest.mock import patch

from moldau.client import Admin, NewTopic, Producer
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.ends import EndReader
from tests.broker.cluster.faults import check
from tests.broker.cluster.invariants import Watch
from tests.broker.cluster.lost_disks import a_voter_loses_its_disk_while_another_is_down
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world
from tests.broker.server.wire import wired

CONTROLLER = 101


class Scene:
    """Three brokers and one controller, a topic that broker 1 leads, and its watch."""

    def __init__(self, brokers: SimulatedBrokers) -> None:
        self.brokers = brokers
        self.world = brokers.world
        self.network = brokers.world.network
        self.traffic = Traffic(brokers.bootstrap_servers)
        self._written = 0
        brokers.await_up()
        self.ask(lambda admin: admin.create_topics([NewTopic(TOPIC, assignments={0: [1, 2, 3]})]))
        self.watch = Watch(brokers, TOPIC)
        self.watch.begin()
        self.await_leader(1)

    # What clients do.

    def ask(self, action: Callable[[Admin], Coroutine[Any, Any, object]]) -> None:
        async def main(runtime: Runtime) -> None:
            servers = self.brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await action(admin)

        self.brokers.run(main)

    def prefer(self, *replicas: int, by: int = 1) -> None:
        """Let the first of them lead, without a broker that goes. Broker `by` is asked for it."""
        self.reassign(*replicas, by=by)
        election = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])],
            timeout_ms=1000,
        )
        self._tell(by, election, ElectLeadersResponse)
        self.world.run_until(lambda: self.brokers.leader_of(TOPIC) == replicas[0], within=60)

    def reassign(self, *replicas: int, by: int) -> None:
        """Let the replicas be these, in this order. Broker `by` is asked for it."""
        reassignment = AlterPartitionReassignmentsRequest(
            timeout_ms=1000,
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[ReassignablePartition(partition_index=0, replicas=[*replicas])],
                )
            ],
        )
        self._tell(by, reassignment, AlterPartitionReassignmentsResponse)

    def _tell(self, by: int, request: Request, answer: type[Response]) -> None:
        async def main(runtime: Runtime) -> None:
            async with wired(runtime, f"b{by}", PORT) as wire:
                await wire.ask(request, answer)

        self.brokers.run(main)

    def write(self, count: int, acks: Literal["all", "1"] = "1") -> None:
        """So many records, of which nothing is promised unless all replicas acknowledge."""
        first = self._written
        self._written += count

        async def main(runtime: Runtime) -> None:
            async with Producer(
                runtime=runtime,
                bootstrap_servers=self.brokers.bootstrap_servers,
                acks=acks,
                enable_idempotence=False,
            ) as producer:
                for number in range(first, first + count):
                    await (await producer.send(TOPIC, b"w/%d" % number, partition=0))

        self.brokers.run(main)

    # What happens to nodes.

    def await_leader(self, number: int) -> None:
        brokers = self.brokers
        self.world.run_until(lambda: brokers.leader_of(TOPIC) == number, within=60)
        self.world.run_until(
            lambda: (
                number in brokers.running
                and brokers.running[number].node.replicas.find(TOPIC, 0) is not None
            ),
            within=60,
        )

    def cut(self, a: str, b: str) -> None:
        self.network.block(a, b)
        self.network.block(b, a)

    def join(self, a: str, b: str) -> None:
        self.network.unblock(a, b)
        self.network.unblock(b, a)

    def lose_power(self, number: int) -> None:
        """The process dies, which others see, and then the machine: what was not synced is gone."""
        brokers = self.brokers
        brokers.kill(number)
        self.world.run_until(lambda: number not in brokers.isr_of(TOPIC), within=60)
        brokers.nodes[number].disk.power_loss(0.0)

    def end(self) -> None:
        """Everything heals, and is checked."""
        self.brokers.heal()
        self.brokers.await_up()
        self.brokers.await_in_sync(TOPIC, {1, 2, 3})
        writing = self.brokers.start_program(self.traffic.produce, "producer")
        self.world.run_until(lambda: self.traffic.acknowledged > 5, within=60)
        self.traffic.is_ending = True
        self.world.run_until(lambda: writing.is_done, within=60)
        self.world.run_for(1)
        logs = {*self.brokers.logs_of(TOPIC).values()}
        assert len(logs) == 1, "replicas differ"
        assert not self.brokers.failures, self.brokers.failures


Story = Callable[[Scene], None]


def scene(story: Story, **settings: str) -> Callable[[int], None]:
    """The story as a function of a seed."""

    def run(seed: int) -> None:
        with new_world(seed) as world:
            brokers = SimulatedBrokers(world, 3, controllers=1, first_voter=None, **settings)
            at = Scene(brokers)
            story(at)
            at.end()

    run.__name__ = story.__name__
    return run


def leaders_die_under_load(at: Scene) -> None:
    """KIP-101: a follower's high watermark is a fetch behind what is committed."""
    traffic = at.traffic
    traffic.pause_s = 0.005
    programs = [at.brokers.start_program(traffic.produce_ahead, "ahead")]
    at.world.run_until(lambda: traffic.acknowledged > 20, within=60)
    for _ in range(3):
        victim = at.brokers.leader_of(TOPIC)
        at.brokers.kill(victim)
        known = traffic.acknowledged
        at.world.run_until(lambda known=known: traffic.acknowledged > known + 20, within=60)  # type: ignore[misc]
        at.brokers.start(victim)
        at.brokers.await_in_sync(TOPIC, {1, 2, 3})
    traffic.is_ending = True
    at.world.run_until(lambda: programs[0].is_done, within=60)
    check(at.brokers, traffic)
    traffic.is_ending = False


def all_nodes_die_under_load(at: Scene) -> None:
    """KIP-207: the high watermark of a new leader is the one of a checkpoint, older than what its
    predecessor acknowledged, until its followers have fetched."""
    traffic = at.traffic
    traffic.pause_s = 0.005
    ends = EndReader(
        at.brokers, at.watch, [(TOPIC, 0)], Random(at.world.seed), lambda: traffic.is_ending
    )
    programs = [
        at.brokers.start_program(traffic.produce_ahead, "ahead"),
        at.brokers.start_program(ends.read, "ends"),
    ]
    for _ in range(3):
        known = traffic.acknowledged
        at.world.run_until(lambda known=known: traffic.acknowledged > known + 20, within=60)  # type: ignore[misc]
        for number in at.brokers.node_ids:
            at.brokers.kill(number)
        pairs = [(f"b{a}", f"b{b}") for a, b in ((1, 2), (1, 3), (2, 3))]
        for pair in pairs:
            at.cut(*pair)
        for number in at.brokers.node_ids:
            at.brokers.start(number)
        unknown = ends.counts["unknown ends"]
        at.world.run_until(lambda unknown=unknown: ends.counts["unknown ends"] > unknown, within=60)  # type: ignore[misc]
        for pair in pairs:
            at.join(*pair)
        at.brokers.await_in_sync(TOPIC, {1, 2, 3})
    traffic.is_ending = True
    at.world.run_until(lambda: all(each.is_done for each in programs), within=60)
    check(at.brokers, traffic)
    traffic.is_ending = False


def leaders_change_before_they_replicate(at: Scene) -> None:
    """KIP-279: 1. broker 1 leads and writes what broker 2 does not get. 2. Broker 2 is elected,
    both in sync, and writes in its own epoch what broker 1 does not get. 3. Broker 2 dies; broker 1
    leads again, and does not know the epoch of broker 2. 4. Broker 2 follows it."""
    at.write(5, acks="all")
    at.cut("b1", "b2")
    at.cut("b1", "b3")
    at.write(4)
    at.prefer(2, 1, 3)
    at.await_leader(2)
    at.cut("b2", "b3")
    at.write(2)
    at.brokers.kill(2)
    at.world.run_until(lambda: at.brokers.leader_of(TOPIC) in (1, 3), within=60)
    at.await_leader(1)
    at.write(3)
    at.brokers.start(2)
    at.join("b1", "b2")
    at.join("b2", "b3")
    at.join("b1", "b3")
    at.brokers.await_in_sync(TOPIC, {1, 2, 3})


def a_leader_misses_that_it_was_replaced(at: Scene) -> None:
    """KIP-320: 1. the ISR of leader 1 is {1, 2}; it hears nothing from the controller any more.
    2. Broker 2 leads meanwhile, and takes broker 3 into the ISR. 3. Leadership returns to broker 1,
    which still has its old epoch and ISR. Nobody may follow it so."""
    at.brokers.kill(3)
    at.world.run_until(lambda: at.brokers.isr_of(TOPIC) == {1, 2}, within=60)
    at.network.block(f"b{CONTROLLER}", "b1")
    at.prefer(2, 1, 3, by=2)
    at.brokers.start(3)
    at.brokers.await_in_sync(TOPIC, {1, 2, 3})
    at.prefer(1, 2, 3, by=2)
    at.cut("b1", "b3")
    at.world.run_for(0.5)
    at.traffic.pause_s = 0.01
    writing = at.brokers.start_program(at.traffic.produce_loosely, "loose")
    at.world.run_for(1)
    at.traffic.is_ending = True
    at.world.run_until(lambda: writing.is_done, within=60)
    at.traffic.is_ending = False


def a_leader_cannot_reach_the_controller(at: Scene) -> None:
    """KIP-497: the ISR is what the controller knows, not what the leader wishes."""
    at.cut("b1", f"b{CONTROLLER}")
    at.cut("b1", "b3")
    at.write(5)
    at.world.run_for(3)
    at.join("b1", f"b{CONTROLLER}")


def a_follower_joins_under_load(at: Scene) -> None:
    """KIP-497: 1. leader 1 proposes broker 3, which takes its time. 2. Broker 3 gets no more. 3. It
    is in sync all the same when the proposal arrives: until then it holds the high watermark back.
    """
    _propose_broker_3(at)
    at.write(3)
    at.world.run_for(0.5)
    at.network.unclog("b1", f"b{CONTROLLER}")
    at.world.run_for(1)


def _propose_broker_3(at: Scene) -> None:
    """Leader 1 proposes broker 3 for the ISR, which the controller does not hear yet; broker 3 gets
    nothing more."""
    _keep_broker_3_out(at)
    at.network.clog("b1", f"b{CONTROLLER}")
    at.join("b1", "b3")
    leader = at.brokers.running[1].node.replicas.partition(TOPIC, 0).leadership
    at.world.run_until(lambda: leader.proposed, within=60)
    at.cut("b1", "b3")


def _keep_broker_3_out(at: Scene) -> None:
    """Broker 3 is alive, and lacks records that are committed: it does not reach leader 1."""
    at.brokers.kill(3)
    at.world.run_until(lambda: at.brokers.isr_of(TOPIC) == {1, 2}, within=60)
    at.write(10, acks="all")
    at.cut("b1", "b3")
    at.brokers.start(3)
    at.brokers.await_up(3)
    at.world.run_for(0.5)  # until the leader has heard that broker 3 is alive


def an_answer_to_a_leader_is_lost(at: Scene) -> None:
    """KIP-497: 1. the controller takes broker 3 into the ISR; its answer is lost, and the metadata
    are late. 2. The leader asks again, and its proposal is based on an earlier partition epoch now.
    It cannot know why."""
    loading = _load(at)
    at.brokers.kill(3)
    leader = at.brokers.up[1]
    at.world.run_until(lambda: leader.isr_of(TOPIC, 0) == {1, 2}, within=60)
    with _late_metadata(at):
        at.brokers.start(3)
        at.brokers.await_in_sync(TOPIC, {1, 2, 3})
        at.network.reset("b1", f"b{CONTROLLER}")
        at.world.run_for(1)
    loading()


@contextmanager
def _late_metadata(at: Scene) -> Iterator[None]:
    """Let broker 1 learn of the next change of a partition, and all behind it, only afterwards."""
    channel: Any = at.brokers.running[1].node.controller
    publish = channel._publish
    late: list[Callable[[], object]] = []

    def keep(records: Any, end_offset: int) -> None:
        if not late and not any(isinstance(each, PartitionChangeRecord) for each in records):
            publish(records, end_offset)
            return
        channel._published = end_offset
        turns, here = asyncio.get_running_loop(), copy_context()
        late.append(partial(turns.call_soon, partial(publish, records, end_offset), context=here))

    with patch.object(channel, "_publish", keep):
        yield
    for each in late:
        each()


def _load(at: Scene) -> Callable[[], None]:
    """Begin to write; what is returned ends that."""
    traffic = at.traffic
    traffic.pause_s = 0.005
    writing = at.brokers.start_program(traffic.produce_loosely, "loose")

    def end() -> None:
        traffic.is_ending = True
        at.world.run_until(lambda: writing.is_done, within=60)
        traffic.is_ending, traffic.pause_s = False, 0.01

    return end


def a_fenced_broker_goes_on_fetching(at: Scene) -> None:
    """KIP-841: the controller hears nothing from broker 3, the leader does."""
    loading = _load(at)
    at.network.block("b3", f"b{CONTROLLER}")
    at.world.run_for(3)
    loading()


def a_proposal_arrives_after_a_restart(at: Scene) -> None:
    """KIP-903: 1. leader 1 proposes broker 3, which has everything; that takes its time. 2. Broker
    3 loses power and its last records, and comes back. 3. The proposal arrives."""
    _propose_broker_3(at)
    at.lose_power(3)
    at.world.run_for(0.5)
    at.brokers.start(3)
    at.brokers.await_up(3)
    at.network.unclog("b1", f"b{CONTROLLER}")
    at.world.run_for(1)


def a_proposal_is_sent_again_after_a_restart(at: Scene) -> None:
    """KIP-903: 1. leader 1 proposes broker 3, which has everything; the request is lost. 2. Broker
    3 loses power and its last records, comes back, and fetches once. 3. The leader asks again: it
    proposes the broker 3 that it has seen in step 1."""
    _propose_broker_3(at)
    at.lose_power(3)
    at.world.run_for(0.5)
    at.brokers.start(3)
    at.brokers.await_up(3)
    leader = at.brokers.running[1].node.replicas.partition(TOPIC, 0).leadership
    before = leader.broker_epoch(3)
    at.join("b1", "b3")
    at.world.run_until(lambda: leader.broker_epoch(3) != before, within=60)
    at.cut("b1", "b3")
    at.network.reset("b1", f"b{CONTROLLER}")
    at.network.unclog("b1", f"b{CONTROLLER}")
    at.world.run_for(1)


def a_follower_is_proposed_on_a_new_ground(at: Scene) -> None:
    """KIP-497: 1. leader 1 proposes broker 3, which takes its time. 2. The partition changes, and
    the leader hears of it: it proposes broker 3 again. 3. The answer to the first proposal is that
    its ground is gone. The second one is asked for all the same."""
    _keep_broker_3_out(at)
    node = at.brokers.running[1].node
    leader = node.replicas.partition(TOPIC, 0).leadership
    submit = node.controller.submit
    late: list[Callable[[], object]] = []

    def submit_late(request: Any, context: Any, on_answer: Any) -> None:
        if isinstance(request, AlterPartitionRequest):
            turns, here = asyncio.get_running_loop(), copy_context()
            late.append(
                partial(turns.call_soon, partial(submit, request, context, on_answer), context=here)
            )
        else:
            submit(request, context, on_answer)

    with patch.object(node.controller, "submit", submit_late):
        at.join("b1", "b3")
        at.world.run_until(lambda: late, within=60)
        ground = leader.partition_epoch
        at.reassign(1, 3, 2, by=2)
        at.world.run_until(lambda: leader.partition_epoch > ground and leader.proposed, within=60)
    (first,) = late
    first()
    at.brokers.await_in_sync(TOPIC, {1, 2, 3})


def an_eligible_replica_loses_power(at: Scene) -> None:
    """KIP-966: broker 2 may lead though it is not in sync, until its disk has lost something."""
    at.brokers.kill(3)
    at.world.run_until(lambda: at.brokers.isr_of(TOPIC) == {1, 2}, within=60)
    at.write(10, acks="all")
    at.lose_power(2)
    at.cut("b1", "b2")
    at.brokers.start(2)
    at.brokers.await_up(2)
    at.world.run_for(0.5)


def the_last_replica_takes_records(at: Scene) -> None:
    """KIP-966: nothing is committed by fewer replicas than `min.insync.replicas`. Broker 2 stopped
    in order, so it may lead if broker 1 dies."""
    at.brokers.kill(3)
    at.world.run_until(lambda: at.brokers.isr_of(TOPIC) == {1, 2}, within=60)
    at.brokers.stop(2)
    at.world.run_until(lambda: at.brokers.isr_of(TOPIC) == {1}, within=60)
    at.write(10)
    at.cut("b1", "b2")
    at.brokers.start(2)
    at.brokers.await_up(2)
    at.world.run_for(0.5)


SCENES: dict[str, Callable[[int], None]] = {
    each.__name__: each
    for each in (
        a_voter_loses_its_disk_while_another_is_down,
        scene(leaders_die_under_load),
        scene(all_nodes_die_under_load),
        scene(leaders_change_before_they_replicate),
        scene(a_leader_misses_that_it_was_replaced),
        scene(a_leader_cannot_reach_the_controller, replica_lag_time_max_ms="1000"),
        scene(a_follower_joins_under_load),
        scene(an_answer_to_a_leader_is_lost),
        scene(a_fenced_broker_goes_on_fetching, broker_session_timeout_ms="2000"),
        scene(a_proposal_arrives_after_a_restart),
        scene(a_proposal_is_sent_again_after_a_restart, replica_fetch_max_bytes="1"),
        scene(a_follower_is_proposed_on_a_new_ground),
        scene(an_eligible_replica_loses_power),
        scene(the_last_replica_takes_records),
    )
}
"""By name."""
