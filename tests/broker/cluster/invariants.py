"""What must hold in a cluster after every event, whatever fails; if not, a `BrokenPromise`.

The watch looks into all nodes at once, which no node can. What it takes for committed is what any
leader's high watermark has passed. Its cost is in proportion to what changed.

Within one event a leader may pass a mark and lead no more: 1. it reads of an ISR without the
follower that held it back, so the mark rises; 2. the next batch of the same metadata says that
another leads, or none. What it passed in step 1 is committed (it has been held by all replicas of
that ISR, and consumers could read it), though nothing outside has seen this leader with that mark.
So the watch asks a leader that resigned for its last mark, before it looks at what came after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from moldau.broker.controller.image import Image
from moldau.broker.controller.topics import Partition as Known
from moldau.broker.log.log import PartitionLog
from moldau.broker.replication.leader import Leader
from moldau.broker.replication.partition import Partition
from moldau.broker.server import Broker
from moldau.broker.server.cluster_node import ClusterNode
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand

Name = tuple[str, int]
NOTHING = -1
MIN_ISR = 2
"""Of all simulated clusters of three."""


class Invariant(StrEnum):
    """As a failure names it, and a planted bug by which it must be found."""

    IN_SYNC_HOLDS_COMMITTED = "a replica that may be elected holds all that is committed"
    """In the ISR or the ELR, and its broker is alive as the incarnation that is registered."""
    LEADER_IS_COMPLETE = "a new leader holds all that is committed"
    LOG_MATCHING = "batches of one offset and epoch are equal, and so is what is before them"
    ONE_LEADER = "an epoch has one leader"
    MARK_GROWS = "a leader's high watermark only grows"
    MARK_IN_LOG = "a high watermark is not behind the log's end, nor ahead of what is committed"
    ISR_IS_ALIVE = "no broker in the ISR is fenced or about to stop"
    ISR_OF_REPLICAS = "ISR and ELR are replicas, and no replica is in both"
    LEADER_IN_SYNC = "the leader is in the ISR"
    EPOCHS_GROW = "leader epochs and partition epochs only grow"
    ELR_IS_NEEDED = "the ELR is empty while enough replicas are in sync"
    END_IS_KNOWN = "no end that a client gets is below what was committed before it asked"
    METADATA_KEPT = "a leader of the metadata quorum holds all that is committed"
    ONE_METADATA_LEADER = "an epoch of the metadata quorum has one leader"
    SAME_METADATA = "nodes that have read the metadata equally far know the same"


class Batch(NamedTuple):
    """What of a batch tells it from others."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int


@dataclass(slots=True)
class Replica:
    """What the watch has seen of one log."""

    log: PartitionLog
    truncations: int
    batches: list[Batch] = field(default_factory=list)
    state: tuple[object, ...] = ()
    leader: Leader | None = None
    """While it leads."""
    place: tuple[int, int, int] = (NOTHING, NOTHING, NOTHING)
    """Its broker, the broker's epoch and its leader epoch."""

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def holds(self, committed: Batch) -> bool:
        """Whether that batch is there; log matching has looked at those before it."""
        for each in reversed(self.batches):
            if each.base_offset <= committed.base_offset:
                return each == committed
        return False


@dataclass(slots=True)
class Truth:
    """What is known of one partition."""

    committed: Batch | None = None
    """The last batch that is committed."""
    end: int = 0
    """Below it all is committed."""
    before: dict[tuple[int, int], tuple[Batch, Batch | None]] = field(default_factory=dict)
    """By epoch and base offset: the batch, and the one before it."""
    leaders: dict[int, int] = field(default_factory=dict)
    """By epoch."""
    marks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """By broker, its broker epoch and leader epoch."""
    known: Known | None = None


class Watch:
    """All invariants of a cluster, of some topics."""

    def __init__(self, brokers: SimulatedBrokers, *topics: str) -> None:
        self._brokers = brokers
        self._topics = topics
        self._truths: dict[Name, Truth] = {}
        self._replicas: dict[tuple[int, Name], Replica] = {}
        self._metadata_offset = NOTHING
        self._image: Image | None = None

    def begin(self) -> None:
        """Look after every event from now on."""
        self._brokers.world.add_invariant(self.look)

    def committed(self, name: Name) -> tuple[int, int]:
        """Return the newest leader epoch of a partition, and the offset below which all is
        committed."""
        truth = self._truths.get(name)
        return (NOTHING, 0) if truth is None else (max(truth.leaders, default=NOTHING), truth.end)

    def look(self) -> None:
        """Look at everything that changed."""
        touched = self._brokers.touched
        is_new = self._look_at_metadata(touched)
        for number, node in touched.items():
            broker = node.broker
            if broker is None:
                continue
            for name, partition in self._partitions(broker):
                is_new |= self._look_at(number, broker, name, partition)
        if is_new:
            running = self._brokers.running
            for name, truth in self._truths.items():
                self._check_in_sync(running, name, truth)

    def _partitions(self, broker: Broker) -> Iterator[tuple[Name, Partition]]:
        hosted = broker.node.replicas._hosted
        for name, partition in hosted.items():
            if name[0] in self._topics and partition.log.failure is None:
                yield name, partition

    # One replica.

    def _look_at(self, number: int, broker: Broker, name: Name, partition: Partition) -> bool:
        """Whether anything that is committed, or where it is, may have changed."""
        log, leader = partition.log, partition._leader
        mark = log.high_watermark if leader is None else leader.high_watermark
        state = (log.log_end_offset, log.high_watermark, mark, partition.leader_epoch, leader)
        key = number, name
        known = self._replicas.get(key)
        if known is not None and known.log is log and known.state == state:
            return False
        truth = self._truths.setdefault(name, Truth())
        if known is not None and known.log is log and known.leader not in (None, leader):
            self._look_at_resigned(number, name, truth, known)
        if known is None or known.log is not log or known.truncations != log.truncation_count:
            known = self._replicas[key] = Replica(log, log.truncation_count)
        known.state, known.leader = state, leader
        known.place = number, broker.node.broker_epoch, partition.leader_epoch
        self._read_on(number, name, truth, known)
        facts = {"broker": number, "partition": name, "leader_epoch": partition.leader_epoch}
        demand(log.high_watermark <= log.log_end_offset, Invariant.MARK_IN_LOG, **facts)
        if leader is None:
            demand(mark <= truth.end, Invariant.MARK_IN_LOG, **facts, mark=mark, known=truth.end)
            return True
        epoch = partition.leader_epoch
        is_first = epoch > max(truth.leaders, default=NOTHING)
        first = truth.leaders.setdefault(epoch, number)
        demand(first == number, Invariant.ONE_LEADER, **facts, other=first)
        if is_first and truth.committed is not None:
            is_whole = known.holds(truth.committed) and known.end >= truth.end
            demand(is_whole, Invariant.LEADER_IS_COMPLETE, **facts, committed=truth.end)
        self._commit(name, truth, known, mark)
        return True

    def _look_at_resigned(self, number: int, name: Name, truth: Truth, known: Replica) -> None:
        """What the leader that was here has passed since the last look."""
        assert known.leader is not None
        if known.truncations == known.log.truncation_count:
            self._read_on(number, name, truth, known)
        self._commit(name, truth, known, known.leader.high_watermark)

    def _commit(self, name: Name, truth: Truth, known: Replica, mark: int) -> None:
        """The leader at this replica has passed that mark."""
        number, _, epoch = known.place
        facts = {"broker": number, "partition": name, "leader_epoch": epoch, "mark": mark}
        demand(mark >= truth.marks.get(known.place, 0), Invariant.MARK_GROWS, **facts)
        demand(mark <= known.end, Invariant.MARK_IN_LOG, **facts, log_end=known.end)
        truth.marks[known.place] = mark
        if mark > truth.end:
            truth.end = mark
            truth.committed = next(
                (each for each in reversed(known.batches) if each.base_offset < mark), None
            )

    def _read_on(self, number: int, name: Name, truth: Truth, known: Replica) -> None:
        """Read what is new in the log, and compare it with what others have there."""
        if known.end == known.log.log_end_offset:
            return
        last = known.batches[-1] if known.batches else None
        for found in known.log.batches(known.end):
            header = found.header
            batch = Batch(
                header.base_offset, header.next_offset, header.partition_leader_epoch, header.crc
            )
            known_as = truth.before.setdefault((batch.epoch, batch.base_offset), (batch, last))
            demand(
                known_as == (batch, last),
                Invariant.LOG_MATCHING,
                broker=number,
                partition=name,
                batch=batch,
                before=last,
                elsewhere=known_as,
            )
            known.batches.append(batch)
            last = batch

    # The metadata.

    def _look_at_metadata(self, touched: Mapping[int, ClusterNode]) -> bool:
        newest, image = self._metadata_offset, None
        for each in touched.values():
            if each.metadata_offset > newest:
                newest, image = each.metadata_offset, each.image
        if image is None:
            return False
        self._metadata_offset, self._image = newest, image
        for topic in self._topics:
            known = image.topics.by_name(topic)
            if known is not None:
                for index, partition in known.partitions.items():
                    self._check_known((topic, index), partition, image)
        return True

    def _check_known(self, name: Name, known: Known, image: Image) -> None:
        truth = self._truths.setdefault(name, Truth())
        before, truth.known = truth.known, known
        facts = {"partition": name, "isr": known.isr, "elr": known.elr, "leader": known.leader}
        both = {*known.isr} & {*known.elr}
        is_of_replicas = {*known.isr, *known.elr} <= {*known.replicas}
        demand(is_of_replicas and not both, Invariant.ISR_OF_REPLICAS, **facts)
        demand(not known.has_leader or known.leader in known.isr, Invariant.LEADER_IN_SYNC, **facts)
        if before is not None and before != known:
            is_later = known.partition_epoch > before.partition_epoch
            is_elected = known.leader_epoch > before.leader_epoch
            is_same = known.leader == before.leader and known.leader_epoch == before.leader_epoch
            demand(is_later and (is_elected or is_same), Invariant.EPOCHS_GROW, **facts)
        if not image.features.is_elr_enabled:
            return
        alive = image.brokers.active_ids()
        demand({*known.isr} <= alive, Invariant.ISR_IS_ALIVE, **facts, alive=sorted(alive))
        is_enough = len(known.isr) >= min(MIN_ISR, len(known.replicas))
        demand(not (is_enough and known.elr), Invariant.ELR_IS_NEEDED, **facts)

    # What is committed.

    def _check_in_sync(self, running: dict[int, Broker], name: Name, truth: Truth) -> None:
        known, image = truth.known, self._image
        if known is None or image is None or truth.committed is None:
            return
        for number in (*known.isr, *known.elr):
            broker, registered = running.get(number), image.brokers.by_id.get(number)
            replica = self._replicas.get((number, name))
            if broker is None or registered is None or replica is None:
                continue
            if broker.node.broker_epoch != registered.broker_epoch or registered.is_fenced:
                continue
            hosted = broker.node.replicas._hosted.get(name)
            if hosted is None or hosted.log is not replica.log or hosted.log.failure is not None:
                continue
            demand(
                replica.end >= truth.end and replica.holds(truth.committed),
                Invariant.IN_SYNC_HOLDS_COMMITTED,
                broker=number,
                partition=name,
                committed=truth.end,
                log_end=replica.end,
                isr=known.isr,
                elr=known.elr,
                leader_epoch=known.leader_epoch,
            )


def check_metadata(brokers: SimulatedBrokers) -> None:
    """Nodes that have read the metadata equally far know the same."""
    first: dict[int, tuple[int, Image]] = {}
    for number, each in brokers.members.items():
        other, image = first.setdefault(each.metadata_offset, (number, each.image))
        demand(image == each.image, Invariant.SAME_METADATA, nodes=(other, number))
