"""Which open transactions hang, while brokers with coordinators are away."""

from __future__ import annotations

from moldau.client import Admin, NewTopic, Producer
from moldau.operations.transactions import STATE_TOPIC, OpenTransaction, open_transactions
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world

TOPIC = "t"
LATER_MS = 10**15


def test_nothing_hangs_while_a_coordinator_is_away() -> None:
    """It may have decided to commit: a marker of an abort would tear the transaction."""
    with new_world(1) as world:
        brokers = SimulatedBrokers(
            world,
            3,
            transaction_state_log_num_partitions="1",
            transaction_state_log_replication_factor="1",
            transaction_state_log_min_isr="1",
        )
        brokers.await_up()

        async def leave_open(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topic(NewTopic(TOPIC, 1, 3))
            producer = Producer(runtime=runtime, bootstrap_servers=servers, transactional_id="app")
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"open")
            await producer.aclose(abort=True)

        async def look(runtime: Runtime) -> OpenTransaction:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                (found,) = (await open_transactions(admin, [TOPIC])).found
            return found

        brokers.run(leave_open)
        found = brokers.run(look)
        assert (found.is_known, found.is_judged, found.hangs(LATER_MS, 0)) == (True, True, False)
        brokers.kill(brokers.leader_of(STATE_TOPIC))
        world.run_until(lambda: brokers.leader_of(STATE_TOPIC) < 0, within=60)
        world.run_until(lambda: brokers.leader_of(TOPIC) >= 0, within=60)
        found = brokers.run(look, within=120)
        assert (found.is_known, found.is_judged, found.hangs(LATER_MS, 0)) == (False, False, False)
