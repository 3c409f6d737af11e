"""A node that cannot join says why and what to do; what the cluster has stays whole."""

from __future__ import annotations

from moldau.broker.server.cluster_node import start_cluster_node
from moldau.errors import MoldauError
from moldau.runtime import Runtime
from tests.broker.cluster.faults import check
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAw"
OTHER_CLUSTER = "BBBBBBBBBBBBBBBBBBBBBw"


class Newcomer:
    """A broker on a machine of its own, with the settings of one that belongs to the cluster."""

    def __init__(self, brokers: SimulatedBrokers, number: int, cluster_id: str) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        settings = {
            **brokers.settings_of(number),
            "listeners": "PLAINTEXT://newcomer:9092",
            "initial.broker.registration.timeout.ms": "5000",
        }

        async def main(runtime: Runtime) -> None:
            try:
                await start_cluster_node(runtime, "/data", settings, cluster_id, self.lines.append)
            except MoldauError as error:
                self.errors.append(str(error))

        brokers.start_program(main, "newcomer")

    @property
    def said(self) -> str:
        return "\n".join(self.lines)


def test_a_node_of_another_cluster() -> None:
    with new_world(11) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        node = Newcomer(brokers, 2, OTHER_CLUSTER)
        world.run_until(lambda: "it is of another cluster" in node.said, within=60)
        assert "see that the controllers in the settings are of the cluster" in node.said
        assert set(brokers.running) == {1, 2}
        assert not brokers.failures


def test_two_nodes_with_one_id() -> None:
    with new_world(12) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        node = Newcomer(brokers, 2, CLUSTER)
        world.run_until(lambda: node.errors, within=60)
        assert "another node with its node.id is alive" in node.said
        assert "did not register this broker in time" in node.errors[0]
        assert "node.id" in node.errors[0]
        world.run_for(5)
        assert set(brokers.running) == {1, 2}, "the one that was there stays"
        assert not brokers.failures


def test_a_node_whose_disk_was_wiped_copies_everything_again() -> None:
    with new_world(13) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        produced = brokers.start_program(traffic.produce, "producer")
        world.run_for(2)
        victim = brokers.leader_of(TOPIC)
        brokers.kill(victim)
        brokers.nodes[victim].lose_disk()
        world.run_for(8)
        brokers.start(victim)
        brokers.await_up()
        brokers.await_in_sync(TOPIC, {1, 2, 3})
        traffic.is_ending = True
        world.run_until(lambda: produced.is_done, within=60)
        check(brokers, traffic)


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALONE = "User:ANONYMOUS has no right CLUSTER_ACTION on the cluster"


def said_by(brokers: SimulatedBrokers, number: int) -> str:
    return "\n".join(brokers.lines[number])


def test_a_broker_without_rights_and_its_controller_say_so() -> None:
    with new_world(14) as world:
        brokers = SimulatedBrokers(world, 1, controllers=1, authorizer_class_name=AUTHORIZER)
        controller = brokers.controller_ids[0]
        world.run_until(lambda: ALONE in said_by(brokers, controller), within=60)
        world.run_until(lambda: "super.users" in said_by(brokers, 1), within=60)
        world.run_for(20)
        told = said_by(brokers, controller).count(ALONE)
        assert told <= 3, "a line a minute for each of the requests that are refused"


def test_voters_without_rights_say_so() -> None:
    with new_world(15) as world:
        brokers = SimulatedBrokers(world, 1, controllers=3, authorizer_class_name=AUTHORIZER)
        for number in brokers.controller_ids:
            world.run_until(lambda number=number: ALONE in said_by(brokers, number), within=60)  # type: ignore[misc]
        asked = "a controller refuses this node"
        for number in brokers.node_ids:
            world.run_until(lambda number=number: asked in said_by(brokers, number), within=60)  # type: ignore[misc]
            assert "super.users" in said_by(brokers, number)
