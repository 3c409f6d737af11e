"""Three whole replicas of one tiered partition: what happens to them is drawn from a seed.

Nodes are killed, lose power or their disk, and come back; leaders change, cleanly or not; the store
fails. Producers send their last batch again and again, also long after it is in remote storage
only. Who leads and who is in sync is decided here, as a controller would.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from moldau.broker.log.log import PartitionLog
from moldau.broker.replication.partition import NOBODY, Partition
from moldau.errors.codes import KafkaError
from moldau.records import Batch, Producer
from moldau.runtime.simulated import Options, Simulation
from moldau.runtime.simulated.report import SimulationFailed
from tests.broker.log.machine import batch
from tests.broker.simulation.promises import BrokenPromise, demand
from tests.broker.simulation.scenario import Outcome
from tests.broker.tiered.replicas.member import Member
from tests.broker.tiered.replicas.promises import Promise
from tests.broker.tiered.replicas.remote_store import RemoteStore

ALL: Final = (1, 2, 3)
TURNS: Final = 60
PRODUCERS: Final = 6
SETTLE_S: Final = 60.0
HISTORY: Final = 60
_HAPPENS: Final = {
    "nothing": 8,
    "kill": 5,
    "lose power": 3,
    "lose disk": 2,
    "start": 10,
    "elect": 4,
    "fall behind": 2,
}
_UNCLEAN: Final = {"elect": 10, "fall behind": 10}


class Acknowledged(NamedTuple):
    """A batch as it was acknowledged."""

    epoch: int
    producer_id: int
    sequence: int


@dataclass
class Sender:
    """An idempotent producer with one batch in flight."""

    cluster: Cluster
    producer_id: int
    pace: float
    sequence: int = 0
    pending: int | None = None
    """The rows of the batch that is not acknowledged."""
    in_flight: tuple[int, int, int] | None = None
    """The leader epoch in which it was appended, its first and its last offset."""
    last: tuple[int, int, int] | None = None
    """The sequence, the rows and the offset of the last batch that was acknowledged."""

    def work(self, partition: Partition, now_ms: int) -> None:
        """What it does at a leader now."""
        random = self.cluster.random
        if self.pending is not None:
            self._go_on(partition, now_ms)
        elif self.last is not None and random.random() < 0.1:
            self._repeat(partition, now_ms)
        elif random.random() < self.pace:
            self.pending = random.randint(1, 4)
            self._go_on(partition, now_ms)

    def _batch(self, sequence: int, rows: int) -> bytearray:
        return batch(rows, producer=Producer(self.producer_id, 0, sequence))

    def _go_on(self, partition: Partition, now_ms: int) -> None:
        assert self.pending is not None
        try:
            if self.in_flight is None or self.in_flight[0] != partition.leader_epoch:
                data = self._batch(self.sequence, self.pending)
                done = partition.append(data, -1, now_ms)
                self.in_flight = partition.leader_epoch, done.first_offset, done.last_offset
            _, first, last = self.in_flight
            if partition.is_acknowledged(last, -1):
                self.last = self.sequence, self.pending, first
                found = Acknowledged(
                    partition.log.leader_epochs.epoch_for_offset(first) or 0,
                    self.producer_id,
                    self.sequence,
                )
                self.cluster.acknowledge(first, found)
                self.sequence += self.pending
                self.pending = self.in_flight = None
        except KafkaError as error:
            demand(False, Promise.ONCE, error=str(error), producer=self.producer_id)

    def _repeat(self, partition: Partition, now_ms: int) -> None:
        """As after an answer that was lost."""
        assert self.last is not None
        sequence, rows, offset = self.last
        if offset < max(partition.log_start_offset, self.cluster.start):
            return  # what is deleted may be forgotten
        self.cluster.counts["repeated"] += 1
        if offset < partition.log.local_log_start_offset:
            self.cluster.counts["repeated and remote"] += 1
        try:
            done = partition.append(self._batch(sequence, rows), -1, now_ms)
            is_known = done.is_duplicate and done.first_offset == offset
        except KafkaError as error:
            demand(False, Promise.ONCE, error=str(error), producer=self.producer_id)
        facts = {"producer": self.producer_id, "offset": offset, "again": done}
        demand(is_known, Promise.ONCE, **facts, leader=self.cluster.leader)


class Cluster:
    """One run."""

    def __init__(self, world: Simulation, seed: int, *, is_unclean: bool = False) -> None:
        self.world = world
        self.random = random = Random(seed)
        self.is_unclean = is_unclean
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.history: list[str] = []
        self.store = RemoteStore(random)
        self.is_remote_skipped = random.random() < 0.4
        self.local_bytes = random.choice((0, 600, 1500))
        self.truth: dict[int, Acknowledged] = {}
        self.start = 0
        self.version = 1
        self.epoch = 1
        self.leader = 1
        self.isr = {*ALL}
        self._next_id = 100
        self.producers: list[Sender] = []
        self._hire()
        self.members = {number: Member(self, number) for number in ALL}

    def note(self, what: str, *facts: object) -> None:
        self.counts[what] += 1
        self.history.append(" ".join(map(str, (f"{self.world.now:.3f}", what, *facts))))

    def _hire(self) -> None:
        """Other producers: some write all the time, others once."""
        self.producers = [
            Sender(self, self._next_id + number, 0.5 if number < 2 else 0.03)
            for number in range(PRODUCERS)
        ]
        self._next_id += PRODUCERS

    # What leaders report.

    def acknowledge(self, offset: int, found: Acknowledged) -> None:
        self.truth[offset] = found
        self.counts["acknowledged"] += 1

    def delete_records(self, log_start_offset: int) -> None:
        self.note("delete records", log_start_offset)
        self.start = max(self.start, log_start_offset)
        self._forget()

    def _forget(self) -> None:
        for offset in [each for each in self.truth if each < self.start]:
            del self.truth[offset]

    def join(self, partition: Partition, number: int) -> None:
        """A leader asks for a replica to be counted as in sync."""
        if partition.leader_epoch != self.epoch or not self.is_up(number):
            return
        self.note("in sync", number)
        self.isr.add(number)
        self._change()
        partition.on_isr(tuple(self.isr), self.epoch, self.version)

    # The controller.

    def is_up(self, number: int) -> bool:
        return self.members[number].node.is_alive

    def _change(self) -> None:
        self.version += 1

    def elect(self, number: int) -> None:
        is_clean = number in self.isr
        self.note("elected" if is_clean else "elected uncleanly", number)
        self.epoch += 1
        self.leader = number
        if not is_clean:
            self.isr = {number}
        self._change()
        if not is_clean:
            self._lose(number)

    def _lose(self, number: int) -> None:
        """What the new leader does not have is lost; producers begin anew."""
        partition = self.members[number].partition
        if partition is None:
            self.truth.clear()
        else:
            log = partition.log
            self.start = min(self.start, log.log_end_offset)
            for offset, known in list(self.truth.items()):
                is_same = log.leader_epochs.epoch_for_offset(offset) == known.epoch
                if not is_same or offset >= log.log_end_offset or offset < log.log_start_offset:
                    del self.truth[offset]
                    self.counts["lost uncleanly"] += 1
        self._hire()

    def leave(self, number: int) -> None:
        """The node is dead."""
        self.members[number].partition = None
        if number in self.isr and len(self.isr) > 1:
            self.isr.discard(number)
        self._change()
        if number == self.leader:
            self.leader = NOBODY
            self.epoch += 1
        self.fill()

    def fill(self) -> None:
        """Elect a leader if there is none."""
        if self.leader == NOBODY:
            clean = [each for each in self.isr if self.is_up(each)]
            up = [each for each in ALL if self.is_up(each) and self.members[each].partition]
            if clean:
                self.elect(self.random.choice(clean))
            elif up and self.is_unclean and self.random.random() < 0.3:
                self.elect(self.random.choice(up))

    # Faults.

    def turn(self) -> None:
        random = self.random
        happens = _HAPPENS | _UNCLEAN if self.is_unclean else _HAPPENS
        (what,) = random.choices([*happens], [*happens.values()])
        number = random.choice(ALL)
        is_last = self.isr == {number}
        match what:
            case "kill" if self.is_up(number):
                self.note("kill", number)
                self.members[number].node.crash()
                self.leave(number)
            case "lose power" if self.is_up(number) and not is_last:
                self.note("lose power", number)
                self.members[number].node.power_loss()
                self.leave(number)
            case "lose disk" if number not in self.isr and number != self.leader:
                self.note("lose disk", number)
                if self.is_up(number):
                    self.members[number].node.crash()
                    self.leave(number)
                self.members[number].node.lose_disk()
            case "start":
                self._start(number)
            case "elect":
                self._elect(number)
            case "fall behind" if number != self.leader and not is_last:
                self.note("falls behind", number)
                self.isr.discard(number)
                self._change()
        self.fill()

    def _start(self, number: int) -> None:
        if not self.is_up(number):
            self.note("start", number)
            self.members[number].node.start()

    def _elect(self, number: int) -> None:
        is_other = self.is_up(number) and number != self.leader
        may_lead = number in self.isr or (self.is_unclean and self.random.random() < 0.5)
        if is_other and may_lead and self.members[number].partition is not None:
            self.elect(number)

    # What must hold.

    def check(self) -> None:
        for number in self.isr:
            partition = self.members[number].partition
            is_current = partition is not None and partition.leader_epoch == self.epoch
            if partition is None or not is_current or not self.is_up(number):
                continue
            if partition.log.state.is_history_known:
                self._check_replica(number, partition.log)
            if number == self.leader and partition.is_leader:
                self._check_leader(partition.log)

    def _check_replica(self, number: int, log: PartitionLog) -> None:
        chain, local = log.leader_epochs, log.local_log_start_offset
        for offset, known in self.truth.items():
            if log.log_start_offset <= offset < log.log_end_offset:
                epoch = chain.epoch_for_offset(offset)
                facts = {"replica": number, "offset": offset, "wanted": known, "found": epoch}
                demand(epoch == known.epoch, Promise.EPOCHS, **facts)
        offset = log.log_start_offset
        if self.is_unclean:
            return  # two unclean elections may leave a hole
        for found in self.store.remote.ranges(chain, offset, local):
            offset = found.end_offset
        demand(offset >= local, Promise.NO_HOLE, replica=number, offset=offset, local=local)

    def _check_leader(self, log: PartitionLog) -> None:
        for offset, known in self.truth.items():
            found = self._batch_at(log, offset)
            header = None if found is None else found.header
            is_same = header is not None and known == (
                header.partition_leader_epoch,
                header.producer_id,
                header.base_sequence,
            )
            demand(is_same, Promise.KEPT, offset=offset, wanted=known, found=header, log=log)

    def _batch_at(self, log: PartitionLog, offset: int) -> Batch | None:
        if offset < log.log_start_offset or offset >= log.log_end_offset:
            return None
        if offset >= log.local_log_start_offset:
            return next(iter(log.batches(offset, offset + 1)), None)
        found = self.store.remote.range_at(log.leader_epochs, offset, log.local_log_start_offset)
        if found is None:
            return None
        return self.store.objects[found.segment.id].batch_at(offset)

    def is_settled(self) -> bool:
        """Whether all replicas are in sync, and have all."""
        found = [self.members[number].partition for number in ALL]
        logs = [each.log for each in found if each is not None]
        ends = {each.log_end_offset for each in logs}
        return len(logs) == len(ALL) and len(ends) == 1 and self.isr == {*ALL}

    def settle(self) -> None:
        """Nothing fails any more; each replica leads once, and the producers repeat themselves."""
        self.store.badness = 0.0
        for number in ALL:
            self._start(number)
        for number in ALL:
            until = self.world.now + SETTLE_S
            while not self.is_settled() and self.world.now < until:
                self.world.run_for(0.05)
                self.fill()
                self.check()
            demand(self.is_settled(), Promise.JOINS, isr=self.isr, leader=self.leader)
            if number != self.leader:
                self.elect(number)
            for _ in range(20):
                self.world.run_for(0.05)
                self.check()


def run_replicas(seed: int) -> Outcome:
    """One run; SimulationFailed when a promise is broken."""
    return _run(seed, is_unclean=False)


def run_unclean_replicas(seed: int) -> Outcome:
    """One run in which replicas are elected that were not in sync."""
    return _run(seed, is_unclean=True)


def _run(seed: int, *, is_unclean: bool) -> Outcome:
    with Simulation(seed, Options()) as world:
        cluster = Cluster(world, seed, is_unclean=is_unclean)
        world.run_for(0.3)
        cluster.store.badness = cluster.random.choice((0.0, 0.2))
        try:
            for _ in range(TURNS):
                world.run_for(cluster.random.choice((0.02, 0.1, 0.3)))
                cluster.turn()
                cluster.check()
            cluster.settle()
        except BrokenPromise as broken:
            moves = "\n".join(cluster.history[-HISTORY:])
            report = f"seed {seed}: {broken}\n{moves}"
            raise SimulationFailed(seed, str(broken), report) from broken
        return Outcome(world.fingerprint, cluster.counts)
