"""A transaction that stays open for longer than any may be: the log and a metric tell of it."""

from __future__ import annotations

import pytest

from moldau.broker.server.late_transactions import Late, Open, OpenTransactions
from moldau.client import Admin, NewTopic, TransactionAdmin
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Producer
from moldau.runtime import Runtime
from moldau.testing.simulated_cluster import PORT
from tests.broker.api.requests import batch, produce_all
from tests.broker.cluster.world import SimulatedBrokers, new_world
from tests.broker.server.wire import wired

PLACE = ("t", 0)
FIRST, SECOND = Open(7, 10), Open(7, 20)
VERIFIES = "transaction.partition.verification.enable"


def test_a_transaction_is_late_once_and_its_end_is_told_once() -> None:
    watch = OpenTransactions()
    assert watch.on_look({PLACE: FIRST}, 0, 100) == ([], [])
    assert watch.on_look({PLACE: FIRST}, 100, 100) == ([], [])
    assert watch.late_count == 0
    assert watch.on_look({PLACE: FIRST}, 101, 100) == ([Late(PLACE, FIRST, 101)], [])
    assert watch.on_look({PLACE: FIRST}, 150, 100) == ([], [])
    assert (watch.late_count, watch.oldest_ms(170)) == (1, 170)
    assert watch.on_look({PLACE: SECOND}, 200, 100) == ([], [Late(PLACE, FIRST, 200)])
    assert watch.on_look({}, 250, 100) == ([], [])
    assert (watch.late_count, watch.oldest_ms(300)) == (0, 0)


@pytest.mark.usefixtures("no_world_is_left")
def test_a_late_transaction_is_named_with_what_to_do() -> None:
    with new_world(1) as world:
        settings = {VERIFIES.replace(".", "_"): "false"}
        brokers = SimulatedBrokers(world, 1, controllers=0, first_voter=None, **settings)
        brokers.await_up()
        servers = brokers.bootstrap_servers

        async def begin(runtime: Runtime) -> None:
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topic(NewTopic("t", 1))
            data = batch(1, producer=Producer(987_654, 3, 0, True))
            request = produce_all({PLACE: data}, transactional_id="nobody")
            async with wired(runtime, "b1", PORT) as wire:
                answer = await wire.ask(request, ProduceResponse, 11)
            assert answer.responses[0].partition_responses[0].error_code == 0

        async def end(runtime: Runtime) -> None:
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await TransactionAdmin(admin).abort(PLACE, 987_654, 3, 0)

        def told(words: str) -> list[str]:
            return [each for each in brokers.lines[1] if words in each]

        def metric(name: str) -> float:
            (found,) = (
                each
                for each in brokers.running[1].node.metrics.snapshot()
                if each.name == f"moldau.transaction.{name}"
            )
            value = found.points[0].value
            assert isinstance(value, (int, float))
            return value

        brokers.run(begin)
        world.run_for(1190)
        assert told("keeps readers of committed records back") == []
        assert metric("late") == 0
        assert metric("open.longest") > 1100
        world.run_for(200)
        (line,) = told("keeps readers of committed records back")
        assert "topic=t partition=0 producer_id=987654 offset=0" in line
        assert "moldau txn abort --topic t --partition 0 --start-offset 0" in line
        assert metric("late") == 1
        brokers.run(end)
        world.run_for(20)
        assert len(told("a late transaction is not open here any more")) == 1
        assert metric("late") == metric("open.longest") == 0
