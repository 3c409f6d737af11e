"""Where a scene is played: brokers, the watch, and instances that do what the story says.

A story is a program on a machine of its own. What happens to brokers is done between two events:
`happens` says what, and waits for it. At the end all heals, no transaction may stay open, and
everything is read and judged, as after a storm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from random import Random
from typing import Any, Final

from moldau.client import Admin
from moldau.errors.codes import KafkaError
from moldau.records import coordinator_partition
from moldau.runtime import Runtime
from tests.broker.cluster.storm import LIVENESS_S
from tests.broker.cluster.transactional.instance import TOPIC, Fenced, GivenUp, Instance
from tests.broker.cluster.transactional.ledger import Attempt, End, Place, Promise
from tests.broker.cluster.transactional.storm import Run, await_stable, reached
from tests.broker.cluster.transactional.wire import INTERNAL_PARTITIONS, TRANSACTIONS, Wire
from tests.broker.cluster.world import SimulatedBrokers, new_world
from tests.broker.simulation.promises import demand

FIRST: Final[Place] = (TOPIC, 0)
SECOND: Final[Place] = (TOPIC, 1)
WITHIN_S: Final = 60.0
DAY_MS: Final = "86400000"
QUICK: Final = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "300",
    "producer_id_expiration_check_interval_ms": "300",
    "log_initial_task_delay_ms": "50",
    "log_cleaner_backoff_ms": "100",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_index_size_max_bytes": "4096",
    "replica_lag_time_max_ms": "600",
    "broker_session_timeout_ms": "1200",
    "broker_heartbeat_interval_ms": "300",
    "group_consumer_min_session_timeout_ms": "500",
    "group_consumer_session_timeout_ms": "1000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}
Story = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """See the module."""

    def __init__(self, brokers: SimulatedBrokers, delete_retention_ms: str = DAY_MS) -> None:
        self.brokers = brokers
        self.world = brokers.world
        self.run = Run(brokers, Random(1))
        self.run.delete_retention_ms = delete_retention_ms
        self.runtime: Runtime
        self._wires: list[Wire] = []
        self._acts: list[Callable[[], None]] = []
        self.run.prepare()

    # The story.

    def play(self, story: Story) -> None:
        """Tell the story to its end."""

        async def main(runtime: Runtime) -> None:
            self.runtime = runtime
            try:
                await story(self)
            except (Fenced, GivenUp, KafkaError) as error:
                why = f"{type(error).__name__}: {error}"
                demand(False, Promise.WRITERS_GO_ON, why=why, cause=repr(error.__cause__))
            finally:
                for each in self._wires:
                    await each.aclose()

        program = self.brokers.start_program(main, "story")
        while not program.is_done:
            self.world.run_until(lambda: program.is_done or self._acts, within=LIVENESS_S)
            acts, self._acts = self._acts, []
            for act in acts:
                act()

    def end(self) -> None:
        """Let everything heal and end, and judge it."""
        self.brokers.heal()
        self.brokers.await_up()
        self.run.is_ending = True
        await_stable(self.run)
        self.brokers.run(self.run.audit, "auditor", within=LIVENESS_S)
        assert not self.brokers.failures, self.brokers.failures

    async def happens(self, act: Callable[[], object]) -> None:
        """Let this happen to the world, and wait until it has."""
        turns, here, done = asyncio.get_running_loop(), copy_context(), asyncio.Event()

        def and_tell() -> None:
            act()
            turns.call_soon(done.set, context=here)

        self._acts.append(and_tell)
        await done.wait()

    def await_event(self, is_so: Callable[[], object]) -> None:
        """Let the world run up to the event after which it is so. Only for what `happens`."""
        self.world.run_until(is_so, within=WITHIN_S)

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until it is so."""
        await self.happens(lambda: self.await_event(is_so))

    # Clients.

    async def instance(self, name: str, *, is_judged: bool = True) -> Instance:
        """Start an instance with a transactional id. The offset of its group is judged at the end
        if it is that of its own transactions."""
        wire = Wire(self.runtime, self.brokers, name, 2, Random(len(self._wires)))
        wire.timeout_ms = 60_000
        self._wires.append(wire)
        instance = Instance(self.run, wire, Random(1))
        await instance.init()
        if is_judged and name not in self.run.names:
            self.run.names.append(name)
        return instance

    def begin(self, instance: Instance) -> Attempt:
        """Begin a transaction."""
        return self.run.ledger.begin(instance.wire.transactional_id)

    async def end_attempt(self, instance: Instance, attempt: Attempt, *, commit: bool) -> None:
        """End a transaction, and wait until its markers are there."""
        await instance.end(commit=commit)
        self.run.ledger.ended(attempt, End.COMMITTED if commit else End.ABORTED)
        stable: list[bool] = []
        await self.happens(lambda: stable.append(reached(self.run, self.run.is_stable)))
        demand(stable == [True], Promise.STABLE_ENDS)

    async def arrives(self, send: Callable[[], Awaitable[None]]) -> None:
        """A request arrives now that was sent before; its client no longer waits for an answer."""
        try:
            await send()
        except KafkaError:
            self.run.ledger.counts["refused"] += 1

    def coordinator_of(self, instance: Instance) -> int:
        """Return the broker that coordinates the instance's transactions."""
        name = instance.wire.transactional_id
        return self.brokers.leader_of(
            TRANSACTIONS, coordinator_partition(name, INTERNAL_PARTITIONS)
        )

    def partition_of_another(self, broker: int) -> Place:
        """Return a partition that another broker leads."""
        lead = self.brokers.leader_of
        return next((TOPIC, index) for index in range(3) if lead(TOPIC, index) != broker)

    def admin(self) -> Admin:
        return Admin(runtime=self.runtime, bootstrap_servers=self.brokers.bootstrap_servers)


def scene(
    story: Story, count: int = 1, *, delete_retention_ms: str = DAY_MS, **settings: str
) -> Callable[[int], None]:
    """Return the story as a function of a seed, on so many brokers."""

    def run(seed: int) -> None:
        with new_world(seed) as world:
            given = {**QUICK, **settings}
            brokers = SimulatedBrokers(world, count, controllers=0, first_voter=None, **given)
            stage = Stage(brokers, delete_retention_ms)
            stage.play(story)
            stage.end()

    run.__name__ = story.__name__
    return run
