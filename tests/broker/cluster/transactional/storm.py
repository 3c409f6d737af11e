"""Three brokers, transactional writers and readers of committed records, struck by whatever may
happen to them, from one seed.

Safety: nodes die, stop, stand still and lose each other, leadership moves (also of coordinators),
second instances take over, copies of requests arrive seconds late, transactions time out, ids and
producer states expire, topics are compacted; the watches look after every event. Liveness: all
heals, every writer gets more done, no transaction stays open, and everything is read and judged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from moldau.broker.coordinator.transaction import ending, state
from moldau.client import Admin, Consumer, NewTopic, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.testing.simulated_cluster import PORT
from tests.broker.cluster.ends import EndReader
from tests.broker.cluster.invariants import Watch, check_metadata
from tests.broker.cluster.storm import ALL, LIVENESS_S, Storm, draw_settings
from tests.broker.cluster.transactional.instance import KEYED, PARTITIONS, TOPIC
from tests.broker.cluster.transactional.ledger import NONE, Ledger, Place, Promise
from tests.broker.cluster.transactional.watch import SeenMarker, TransactionWatch
from tests.broker.cluster.transactional.wire import INTERNAL_PARTITIONS, OFFSETS, TRANSACTIONS
from tests.broker.cluster.transactional.writers import PIPELINED_SHARE, Writer
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.server.wire import wired
from tests.broker.simulation.promises import demand
from tests.broker.simulation.scenario import Outcome, draw_options

READ: Final[list[Place]] = [*((TOPIC, index) for index in range(PARTITIONS)), (KEYED, 0)]
PLACES: Final[list[Place]] = [
    *READ,
    *((name, index) for name in (TRANSACTIONS, OFFSETS) for index in range(INTERNAL_PARTITIONS)),
]
FEW_EPOCHS: Final = 9
PATIENCE_S: Final = 90.0
FETCH_BYTES: Final = 1 << 20
REMEMBERED_MS: Final = 60_000


def committed_reader(
    brokers: SimulatedBrokers, runtime: Runtime, fetch_bytes: int = FETCH_BYTES
) -> Consumer:
    """A consumer of committed records, from the beginning."""
    return Consumer(
        runtime=runtime,
        bootstrap_servers=brokers.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=fetch_bytes,
    )


def draw_transaction_settings(random: Random) -> dict[str, str]:
    """Everything that happens in days happens in seconds, or not at all."""
    return {
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "300",
        "transactional_id_expiration_ms": random.choice(("2500", "604800000")),
        "transaction_remove_expired_transaction_cleanup_interval_ms": "500",
        "producer_id_expiration_ms": random.choice(("1500", "86400000")),
        "producer_id_expiration_check_interval_ms": "300",
        "log_roll_ms": random.choice(("300", "604800000")),
        "log_cleaner_backoff_ms": "100",
        "log_index_size_max_bytes": "4096",
        "log_cleaner_min_cleanable_ratio": "0.01",
        "log_cleaner_delete_retention_ms": random.choice(("0", "300", "86400000")),
    }


def drawn_brokers(world: Simulation, random: Random, given: Mapping[str, str]) -> SimulatedBrokers:
    """Three brokers, maybe with a controller of their own. `given` settings are not drawn."""
    settings = {**draw_settings(random), **draw_transaction_settings(random), **given}
    controllers = random.choice((0, 0, 1))
    return SimulatedBrokers(world, 3, controllers=controllers, first_voter=None, **settings)


class Run:
    """See the module. Satisfies the instances' `Run`."""

    def __init__(self, brokers: SimulatedBrokers, random: Random) -> None:
        self.world = brokers.world
        self.brokers = brokers
        self.ledger = Ledger()
        self.is_ending = False
        self.versions: tuple[int, ...] = (2,)
        """The transaction versions of clients."""
        self.pause_s = random.choice((0.1, 0.4))
        self.lates = random.choice((0.0, 0.1, 0.3))
        self.idles = random.choice((0.0, 0.1))
        self.fetch_bytes = random.choice((1000, FETCH_BYTES, FETCH_BYTES))
        """Readers that get little at once begin in the middle of transactions."""
        self.delete_retention_ms = random.choice(("0", "500"))
        self.watch = TransactionWatch(self.brokers)
        self.read: dict[Place, list[str]] = {}
        self.offsets: dict[str, int] = {}
        self._random = random
        self.counted = 0
        self.names: list[str] = []
        """The transactional ids of writers, each of which is to get going again."""
        self.places = PLACES

    def prepare(self) -> None:
        """Create all topics, and watch them."""
        self.brokers.await_up(within=LIVENESS_S)
        self.brokers.run(self._create, within=LIVENESS_S)
        watch = Watch(self.brokers, TOPIC)
        watch.begin()
        places = [place for place in READ if place[0] == TOPIC]
        self.ends = EndReader(
            self.brokers, watch, places, Random(self._random.random()), lambda: self.is_ending
        )
        self.watch.begin()

    async def _create(self, runtime: Runtime) -> None:
        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": self.delete_retention_ms,
        }
        replicas = len(self.brokers.broker_ids)
        topics = [
            NewTopic(TOPIC, PARTITIONS, replicas),
            NewTopic(KEYED, 1, replicas, configs=compacted),
        ]
        servers = self.brokers.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            await admin.create_topics(topics)

    def start_clients(self) -> list[Any]:
        """Writers, some with a second instance, and a reader."""
        random = self._random
        programs = []
        for number in range(3):
            name = f"app{number}"
            self.names.append(name)
            version = random.choice(self.versions)
            for instance in range(random.choice((1, 1, 2))):
                seeded, pipelines = Random(random.random()), random.random() < PIPELINED_SHARE
                writer = Writer(self, name, version, seeded, pipelines=pipelines)
                programs.append(self.brokers.start_program(writer.main, f"{name}-{instance}"))
        programs.append(self.brokers.start_program(self._follow, "reader"))
        programs.append(self.brokers.start_program(self.ends.read, "ends"))
        return programs

    # Readers.

    async def _follow(self, runtime: Runtime) -> None:
        while not self.is_ending:
            try:
                await self._follow_once(runtime)
            except KafkaError:
                await asyncio.sleep(0.1)

    async def _follow_once(self, runtime: Runtime) -> None:
        async with committed_reader(self.brokers, runtime, self.fetch_bytes) as consumer:
            consumer.assign([TopicPartition(*each) for each in READ])
            while not self.is_ending:
                for part in await consumer.poll(0.2):
                    for record in part.records:
                        self.ledger.check_read(_text(record.value))
                        if part.topic == TOPIC:
                            self.watch.check_read((part.topic, part.partition), record.offset)

    async def audit(self, runtime: Runtime) -> None:
        """Read everything, and the groups' offsets."""
        servers = self.brokers.bootstrap_servers
        async with committed_reader(self.brokers, runtime, self.fetch_bytes) as consumer:
            places = [TopicPartition(*each) for each in READ]
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            read: dict[Place, list[str]] = {place: [] for place in READ}
            newest: dict[str, str] = {}
            while any((consumer.position(each) or 0) < ends[each] for each in places):
                for part in await consumer.poll(0.2):
                    for record in part.records:
                        self.ledger.check_read(_text(record.value))
                        read[part.topic, part.partition].append(_text(record.value))
                        if part.topic == KEYED:
                            newest[_text(record.key)] = _text(record.value)
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            for name in self.names:
                found = (await admin.group_offsets(name)).get(TopicPartition(TOPIC, 0))
                self.offsets[name] = NONE if found is None else found.offset
        del read[KEYED, 0]
        self.read = read
        self.ledger.check(read)
        self.ledger.check_keys(newest, read)
        self.ledger.check_offsets(read, self.offsets)

    # Requests that arrive again.

    @property
    def faults(self) -> list[Callable[[], None]]:
        """What strikes transactions alone. Partitions must remember producers for long enough."""
        kept_ms = self.brokers.settings_of(1).get("producer.id.expiration.ms", "86400000")
        return [self._marker_again] if int(kept_ms) > REMEMBERED_MS else []

    def _marker_again(self) -> None:
        """A marker arrives a second time, as from a coordinator that had no answer."""
        if self.watch.markers:
            marker = self._random.choice(self.watch.markers)
            self.counted += 1
            name = f"marker-{self.counted}"
            self.brokers.start_program(lambda runtime: self.send_marker(runtime, marker), name)

    async def send_marker(self, runtime: Runtime, seen: SeenMarker) -> None:
        """Write a marker that was written before."""
        (topic, index), marker = seen
        leader = self.brokers.leader_of(topic, index)
        if leader < 0:
            return
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.is_commit,
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                    topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                )
            ]
        )
        try:
            async with wired(runtime, f"b{leader}", PORT) as wire:
                await wire.ask(request, WriteTxnMarkersResponse)
        except (OSError, EOFError, TimeoutError):
            return

    # The end.

    def is_stable(self) -> bool:
        """Whether no partition has an open transaction."""
        for place in self.places:
            leader = self.brokers.running.get(self.brokers.leader_of(*place))
            if leader is None:
                if place in READ:
                    return False
                continue  # an internal topic that nothing has used
            partition = leader.node.replicas.find(*place)
            if partition is None or partition.last_stable_offset != partition.log_end_offset:
                return False
        return True

    def await_more(self) -> None:
        """Every writer commits again."""
        now = self.ledger.committed
        before = Counter(now)

        def is_so() -> bool:
            return all(now[name] > before[name] for name in self.names)

        _await(self, is_so, Promise.WRITERS_GO_ON)


def _text(value: object) -> str:
    assert isinstance(value, (bytes, bytearray, memoryview))
    return bytes(value).decode()


@contextmanager
def few_epochs(applies: bool) -> Iterator[None]:
    """Let producer ids be used up within a run."""
    with ExitStack() as patched:
        if applies:
            for module in (state, ending):
                patched.enter_context(patch.object(module, "EPOCH_MAX", FEW_EPOCHS))
        yield


def run_transactions(
    seed: int,
    *,
    lates: float | None = None,
    epochs: bool | None = None,
    versions: tuple[int, ...] = (2, 2, 1),
    expiration_ms: str | None = None,
) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken or nothing goes on. What is given is
    not left to the seed."""
    random = Random(seed)
    is_short = random.random() < 0.3
    with (
        few_epochs(is_short if epochs is None else epochs),
        Simulation(seed, draw_options(random)) as world,
    ):
        given = {} if expiration_ms is None else {"producer_id_expiration_ms": expiration_ms}
        run = Run(drawn_brokers(world, random, given), random)
        run.versions = versions
        run.lates = run.lates if lates is None else lates
        run.prepare()
        programs = run.start_clients()
        world.run_for(random.uniform(0.5, 2.0))
        storm = Storm(run.brokers, random, PLACES, run.faults)
        storm.blow()
        run.brokers.await_up(within=LIVENESS_S)
        run.brokers.await_in_sync(TOPIC, ALL, within=LIVENESS_S)
        run.idles = 0.0
        run.await_more()
        run.is_ending = True
        world.run_until(lambda: all(each.is_done for each in programs), within=LIVENESS_S)
        await_stable(run)
        run.brokers.run(run.audit, "auditor", within=LIVENESS_S)
        check_metadata(run.brokers)
        assert not run.brokers.failures, run.brokers.failures
        counts = storm.counts + run.ledger.counts + run.ends.counts
        counts["virtual seconds"] = round(world.now)
        return Outcome(world.fingerprint, counts)


def await_stable(run: Run) -> None:
    """No transaction stays open when its clients have gone."""
    _await(run, run.is_stable, Promise.STABLE_ENDS)


def reached(run: Run, is_so: Callable[[], bool]) -> bool:
    """Let time pass until it is so, or it took too long. Return whether it is."""
    deadline = run.world.now + PATIENCE_S
    is_seen = False

    def is_over() -> bool:
        nonlocal is_seen
        is_seen = is_seen or is_so()
        return is_seen or run.world.now > deadline

    run.world.run_until(is_over, within=2 * PATIENCE_S)
    return is_seen


def _await(run: Run, is_so: Callable[[], bool], promise: Promise) -> None:
    """Let time pass until it is so; after too long the promise is broken."""
    is_seen = reached(run, is_so)

    async def judge(runtime: Runtime) -> None:
        demand(is_seen, promise)

    run.brokers.run(judge, promise.name.lower())
