"""A partition with three replicas, its topic of metadata and its store, in one hand: what happens
is drawn from a seed. Leaders change, cleanly and not; nodes are killed between any two steps; the
topic and the store answer as they like. What must hold is demanded all along.

Acknowledged records are the truth, until an unclean election loses them. In such an election no
deposed leader is left that goes on: records of the topic name no epoch, so nothing would fence its
deletions, and what it takes to be expired may be wanted in the other history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Final, NamedTuple

from moldau.broker.tiered.copying import CopyLag, next_copy
from moldau.broker.tiered.expiry import Retention, unreferenced
from moldau.broker.tiered.metadata_records import decode, encode
from moldau.broker.tiered.remote_log import TierSettings
from moldau.broker.tiered.remote_partition import RemotePartition, RemoteRange
from moldau.broker.tiered.remote_segment import (
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
)
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.promises import BrokenPromise, demand
from tests.broker.simulation.scenario import Outcome
from tests.broker.tiered.simulation.promises import Promise
from tests.broker.tiered.simulation.replica import Record, Replica
from tests.broker.tiered.simulation.store import PARTS, Answer, Content, Store

NODES: Final = 3
STORMS: Final = 3
STEPS: Final = 100
"""Of each storm."""
LULL_ROUNDS: Final = 5
ROUNDS_MAX: Final = 80
HISTORY: Final = 60
STALE_MS: Final = 1_000
"""How old a view of the topic may be, at most."""
GRACE_MS: Final = STALE_MS
"""Of orphans."""
_FAILURES: Final = tuple(each for each in Answer if each is not Answer.DONE)
_MOVES: Final = {
    "die or boot": 3,
    "change leader": 2,
    "shrink": 1,
    "delete records": 2,
    "sweep": 4,
    "persist start": 4,
    "land": 5,
    "read": 8,
    "produce": 28,
    "follow": 34,
    "read topic": 34,
    "drive": 38,
    "carry out": 44,
}
"""What happens, and how often."""


class Sweep(NamedTuple):
    """A look for orphans that has listed the store."""

    replica: Replica
    stored: dict[SegmentId, int]
    now_ms: int
    until: int
    """The end of the topic, as far as the node is told."""


class World:
    """One run."""

    def __init__(self, seed: int, *, is_deaf: bool = False, is_unclean: bool = False) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.is_deaf = is_deaf
        """Whether deposed leaders hear of it in the end only."""
        self.is_unclean = is_unclean
        """Whether a replica falls behind in each storm, and is elected then."""
        self.sleeper: Replica | None = None
        self.now_ms = 1000
        self.settings = TierSettings(
            lag=random.choice((CopyLag(), CopyLag(), CopyLag(100, -1), CopyLag(-1, 60))),
            retention=Retention(random.choice((-1, -1, 4000)), random.choice((-1, 600, 1500))),
            local_retention=Retention(random.choice((-1, 500)), random.choice((0, 60, 200))),
        )
        self.is_calm = False
        self.badness = random.choice((0.05, 0.15, 0.5))
        self.may_be_unclean = random.random() < 0.5
        self.replicas = [Replica(node, random, self.settings) for node in range(NODES)]
        self.leader: Replica | None = None
        self.epoch = 0
        self.isr = set(range(NODES))
        self.truth: dict[int, Record] = {}
        self.start = 0
        """Below it nothing is wanted any more."""
        self.topic: list[bytes] = []
        self.topic_times_ms: list[int] = []
        self.remote = RemotePartition()
        """The fold of the whole topic."""
        self.announced: dict[SegmentId, RemoteSegment] = {}
        self.deleted: set[SegmentId] = set()
        self.store = Store(lambda: self.now_ms)
        self.late: list[Callable[[], None]] = []
        self.sweeps: list[Sweep] = []
        self.serial = 0
        self.counts: Counter[str] = Counter()
        self.history: list[str] = []
        self._digest = blake2b(digest_size=8)
        self.elect(self.replicas[0])

    def note(self, what: str, *facts: object) -> None:
        line = " ".join(map(str, (self.now_ms, what, *facts)))
        self.counts[what] += 1
        self.history.append(line)
        self._digest.update(line.encode())

    def outcome(self) -> Outcome:
        digest = self._digest.hexdigest()
        return Outcome(Fingerprint(digest, len(self.history), self.now_ms), self.counts)

    # The log and its replicas.

    def produce(self, replica: Replica) -> None:
        """A deposed leader goes on too, and is never acknowledged."""
        assert replica.led_epoch is not None
        for _ in range(self.random.randint(1, 4)):
            self.serial += 1
            kind, first = self._next_kind(replica)
            record = Record(replica.led_epoch, self.serial, self.now_ms, kind, first)
            replica.append(record)
        if self.random.random() < 0.5:
            replica.roll()

    def _next_kind(self, replica: Replica) -> tuple[str, int]:
        opened = replica.first_open()
        if opened == replica.end:
            return ("txn" if self.random.random() < 0.2 else "plain"), -1
        kind = self.random.choice(("plain", "txn", "commit", "abort"))
        return kind, opened if kind in ("commit", "abort") else -1

    def follow(self, replica: Replica) -> None:
        leader = self.leader
        if leader is None or not leader.is_alive or replica in (leader, self.sleeper):
            return
        if replica.led_epoch is not None:
            if not self.is_calm and (self.is_deaf or self.random.random() < 0.7):
                return
            self.learn(replica)
        replica.follow(leader, self.random.randint(1, 9))
        if replica.end == leader.end:
            self.isr.add(replica.node)
            leader.isr = set(self.isr)

    def learn(self, replica: Replica) -> None:
        """A deposed leader hears of it."""
        replica.led_epoch = None
        replica.is_core_leader = False
        replica.core.on_follower()

    def commit(self) -> None:
        leader = self.leader
        if leader is None or not leader.is_alive:
            return
        others = (leader.ends.get(node, 0) for node in self.isr if node != leader.node)
        mark = min((leader.end, *others))
        for offset in range(leader.high_watermark, mark):
            record = leader.at(offset)
            assert record is not None
            self.truth[offset] = record
        leader.high_watermark = max(leader.high_watermark, mark)

    def shrink(self) -> None:
        """Only an active leader asks for it."""
        leader = self.leader
        if leader is None or not leader.is_alive or len(self.isr) == 1:
            return
        others = sorted(self.isr - {leader.node})
        self.isr.discard(self.random.choice(others))
        leader.isr = set(self.isr)

    def elect(self, replica: Replica) -> None:
        """Out of the in-sync replicas or, uncleanly, of others."""
        old = self.leader
        is_clean = replica.node in self.isr
        self.note("election" if is_clean else "unclean election", replica.node)
        self.epoch += 1
        self.leader = replica
        if not is_clean:
            self.isr = {replica.node}
            for each in self.replicas:
                self.learn(each)
        if old is not None and old.led_epoch is not None and old.is_alive:
            if not self.is_deaf and self.random.random() < 0.5:
                self.learn(old)
            else:  # it is cut off, and goes on as if it led
                self.isr.discard(old.node)
        self.learn(replica)
        replica.led_epoch = self.epoch
        replica.isr, replica.starts, replica.ends = set(self.isr), {}, {}
        replica.chain.assign(self.epoch, replica.end)
        if not is_clean:
            self._lose(replica)
        self.start = max(self.start, replica.log_start)
        self._forget()

    def _lose(self, replica: Replica) -> None:
        self.start = min(self.start, replica.end)
        for offset, record in [*self.truth.items()]:
            is_known = replica.chain.epoch_for_offset(offset) == record.epoch
            if offset >= replica.end or not is_known:
                del self.truth[offset]
                self.counts["lost uncleanly"] += 1

    def _forget(self) -> None:
        for offset in [each for each in self.truth if each < self.start]:
            del self.truth[offset]

    def delete_records(self) -> None:
        leader = self.leader
        if leader is not None and leader.is_alive and leader.high_watermark > leader.log_start:
            self.raise_start(leader, self.random.randint(leader.log_start, leader.high_watermark))

    def raise_start(self, replica: Replica, offset: int) -> None:
        """What goes must have been there: else it was lost before."""
        if replica is self.leader:
            self.check_kept()
            self.start = max(self.start, offset)
            self._forget()
        replica.raise_start(offset)

    # The topic and the store.

    def answer(self) -> Answer:
        is_bad = not self.is_calm and self.random.random() < self.badness
        return self.random.choice(_FAILURES) if is_bad else Answer.DONE

    def append(self, event: RemoteEvent) -> None:
        """The topic takes everything, from anybody."""
        self.topic.append(encode(event))
        self.topic_times_ms.append(self.now_ms)
        assert not isinstance(event, PartitionDeletion)
        if isinstance(event, RemoteSegment):
            known = self.announced.setdefault(event.id, event)
            demand(known == event, Promise.ID_ONCE, id=str(event.id))
        was_known = event.id in self.remote
        self.remote.replay(event)
        if was_known and event.id not in self.remote:
            self.deleted.add(event.id)
        now = self.remote.get(event.id)
        if now is not None and now.state is SegmentState.COPY_FINISHED:
            demand(event.id not in self.deleted, Promise.DELETED_STAYS, id=str(event.id))
            self.check_whole(now)

    def write(self, replica: Replica, event: RemoteEvent) -> None:
        answer = self.answer()
        self.note(f"write {answer}", replica.node, _told(event))
        if answer is Answer.LATE:
            self.late.append(partial(self.append, event))
        elif answer in (Answer.DONE, Answer.LOST):
            self.append(event)
        if answer is not Answer.DONE:
            replica.core.on_write_failed(event, self.now_ms)

    def put(self, replica: Replica, segment: RemoteSegment, content: Content) -> None:
        answer = self.answer()
        self.note(f"put {answer}", replica.node, _told(segment))
        if answer is Answer.LATE:
            self.late.append(partial(self.store.put, segment.id, content))
        elif answer is Answer.TORN:
            self.store.put(segment.id, content, PARTS[:1])
        elif answer is not Answer.FAILED:
            self.store.put(segment.id, content)
        if answer is Answer.DONE:
            replica.core.on_put(segment.id, b"x", self.now_ms)
        else:
            replica.core.on_put_failed(segment.id, self.now_ms)

    def delete(self, replica: Replica, segment: RemoteSegment) -> None:
        answer = self.answer()
        self.note(f"delete {answer}", replica.node, _told(segment))
        if answer is Answer.LATE:
            self.late.append(partial(self.store.delete, segment.id))
        elif answer is Answer.TORN:
            self.store.delete(segment.id, PARTS[:1])
        elif answer is not Answer.FAILED:
            self.store.delete(segment.id)
        self.check_served()
        if answer is Answer.DONE:
            replica.core.on_deleted(segment.id, self.now_ms)
        else:
            replica.core.on_delete_failed(segment.id, self.now_ms)

    def sweep(self, replica: Replica) -> None:
        """List the store, and look again when the topic is read to its end: to the one that a
        deposed leader names, perhaps, who does not know of records of the last moments."""
        age_ms = 0 if self.is_calm else self.random.choice((0, STALE_MS // 2, STALE_MS))
        until = bisect_right(self.topic_times_ms, self.now_ms - age_ms)
        self.sweeps.append(Sweep(replica, self.store.stored(), self.now_ms, until))

    def end_sweeps(self) -> None:
        for sweep in [*self.sweeps]:
            replica = sweep.replica
            if replica.position >= sweep.until:
                self.sweeps.remove(sweep)
                before_ms = sweep.now_ms - GRACE_MS
                for segment in unreferenced(sweep.stored, replica.core.remote, before_ms):
                    self.note("swept", segment)
                    self.store.delete(segment)
                self.check_served()

    # The remote work of a node.

    def read_topic(self, replica: Replica, count: int) -> None:
        for value in self.topic[replica.position : replica.position + count]:
            replica.core.on_record(decode(value))
            replica.position += 1
        is_read = replica.position == len(self.topic)
        replica.has_read_topic = replica.has_read_topic or is_read
        if is_read and replica.led_epoch is not None and not replica.is_core_leader:
            replica.is_core_leader = True
            replica.core.on_leader(replica.led_epoch)

    def drive(self, replica: Replica) -> None:
        ready = replica.core.ready(replica.facts(), replica.low_watermark(), self.now_ms)
        if ready.log_start_offset is not None:
            self.note("start", replica.node, ready.log_start_offset)
            self._check_retained(replica, ready.log_start_offset)
            self.raise_start(replica, ready.log_start_offset)
        if ready.local_start_offset is not None:
            self.note("cut", replica.node, ready.local_start_offset)
            replica.cut(ready.local_start_offset)
        effects = replica.effects
        effects += [partial(self.write, replica, each) for each in ready.writes]
        if ready.put is not None:
            segment = ready.put
            content = self._content(replica, segment)
            effects.append(partial(self.put, replica, segment, content))
        effects += [partial(self.delete, replica, each) for each in ready.deletes]

    def _content(self, replica: Replica, segment: RemoteSegment) -> Content:
        """The files are open: what becomes of the log meanwhile changes nothing."""
        found = ((at, replica.at(at)) for at in range(segment.start_offset, segment.end_offset))
        records = {at: record for at, record in found if record is not None}
        aborted = [(r.first_offset, at) for at, r in records.items() if r.kind == "abort"]
        return Content(records, tuple(aborted) if segment.has_transaction_index else ())

    def carry_out(self, replica: Replica) -> None:
        if replica.effects:
            effects = replica.effects
            effects.pop(0 if self.is_calm else self.random.randrange(len(effects)))()

    def land(self) -> None:
        """Something late arrives."""
        if self.late:
            self.note("landed")
            self.late.pop(self.random.randrange(len(self.late)))()
            self.check_served()

    # What must hold.

    def check_kept(self) -> None:
        """Every acknowledged record, as the leader's log names it."""
        leader = self.leader
        if leader is None:
            return
        wanted = {at: each for at, each in self.truth.items() if leader.at(at) != each}
        begin = min(wanted, default=leader.end)
        for found in self.remote.ranges(leader.chain, begin, leader.end, over_holes=True):
            content = self.store.get(found.segment.id, "log")
            for at in range(found.start_offset, found.end_offset):
                if content is not None and at in wanted and content.records.get(at) == wanted[at]:
                    del wanted[at]
        demand(not wanted, Promise.KEPT, offsets=[*wanted], leader=leader.node, base=leader.base)

    def _check_retained(self, replica: Replica, offset: int) -> None:
        """Without retention, a start is raised over what is gone already."""
        if replica is self.leader and self.settings.retention == Retention():
            kept = [each for each in self.truth if each < offset]
            demand(not kept, Promise.KEPT, offsets=kept, start=offset)

    def check_whole(self, segment: RemoteSegment) -> None:
        for part in PARTS:
            content = self.store.get(segment.id, part)
            demand(content is not None, Promise.WHOLE, segment=_told(segment), part=part)

    def check_served(self) -> None:
        for segment in self.remote.segments():
            if segment.state is SegmentState.COPY_FINISHED:
                self.check_whole(segment)

    def read(self, replica: Replica) -> None:
        """A consumer reads from somewhere to the high watermark, over both tiers."""
        if not replica.has_read_topic:
            return
        position = self.random.randint(replica.log_start, max(replica.log_start, replica.end))
        last = -1
        while position < replica.high_watermark:
            found = None
            if position < replica.base:
                remote = replica.core.remote
                found = remote.next_range(replica.chain, position, replica.base)
            if found is None:
                position = max(position, replica.base)
                record = replica.at(position)
                if record is None:  # all that it had is below a start that it has forgotten
                    return
                self._see(replica, position, record)
                last, position = position, position + 1
                continue
            content = self.store.get(found.segment.id, "log")
            if content is None:  # its deletion has begun, which this node has not read yet
                demand(not self._is_served(found), Promise.WHOLE, segment=_told(found.segment))
                return
            self._read_range(replica, found, content, last)
            last, position = found.end_offset - 1, found.end_offset

    def _is_served(self, found: RemoteRange) -> bool:
        known = self.remote.get(found.segment.id)
        return known is not None and known.state is SegmentState.COPY_FINISHED

    def _read_range(
        self, replica: Replica, found: RemoteRange, content: Content, last: int
    ) -> None:
        aborted = self._aborted(replica, found.start_offset)
        for at in range(found.start_offset, found.end_offset):
            demand(at > last and at in content.records, Promise.IN_ORDER, offset=at)
            self._see(replica, at, content.records[at])
            last = at
        ended = ((at, each) for at, each in self.truth.items() if each.kind == "abort")
        for marker, record in ended if replica is self.leader and aborted is not None else ():
            if record.first_offset < found.end_offset and marker >= found.start_offset:
                is_known = (record.first_offset, marker) in (aborted or ())
                facts = {"transaction": (record.first_offset, marker), "range": found[1:]}
                demand(is_known, Promise.ABORTED_KNOWN, **facts)

    def _aborted(self, replica: Replica, offset: int) -> set[tuple[int, int]] | None:
        """The aborted transactions from here on, by the indexes of both tiers; None if an index is
        being deleted."""
        remote, known = replica.core.remote, set()
        for found in remote.ranges_with_transaction_index(replica.chain, offset, replica.base):
            content = self.store.get(found.segment.id, "indexes")
            if content is None:
                return None
            known |= {each for each in content.aborted if each[1] < found.end_offset}
        pairs = enumerate(replica.records, replica.base)
        return known | {(each.first_offset, at) for at, each in pairs if each.kind == "abort"}

    def _see(self, replica: Replica, offset: int, record: Record) -> None:
        epoch = replica.chain.epoch_for_offset(offset)
        demand(record.epoch == epoch, Promise.ONE_EPOCH, offset=offset, epoch=epoch, found=record)
        if replica is self.leader and offset in self.truth:
            demand(record == self.truth[offset], Promise.ONE_EPOCH, offset=offset, found=record)

    # The run.

    def step(self) -> None:
        random = self.random
        self.now_ms += random.choice((0, 1, 10, 60))
        alive = [each for each in self.replicas if each.is_alive]
        if not alive:
            self._die_or_boot()
            return
        (move,) = random.choices([*_MOVES], [*_MOVES.values()])
        leading = [each for each in alive if each.led_epoch is not None]
        works = move in ("read topic", "drive", "carry out") and leading and random.random() < 0.7
        self._move(move, random.choice(leading if works else alive))

    def _move(self, move: str, replica: Replica) -> None:
        match move:
            case "die or boot":
                self._die_or_boot()
            case "change leader":
                self._change_leader()
            case "shrink":
                self.shrink()
            case "delete records":
                self.delete_records()
            case "sweep":
                self.sweep(replica)
            case "persist start":
                replica.persist_start()
            case "land":
                self.land()
            case "read":
                self.read(replica)
            case "produce" if replica.led_epoch is not None:
                self.produce(replica)
            case "follow":
                self.follow(replica)
                self.commit()
            case "read topic":
                self.read_topic(replica, self.random.randint(1, 6))
                self.end_sweeps()
            case "drive":
                self.drive(replica)
            case "carry out":
                self.carry_out(replica)

    def _die_or_boot(self) -> None:
        dead = [each for each in self.replicas if not each.is_alive]
        if dead and self.random.random() < 0.7:
            self.boot(self.random.choice(dead))
            return
        replica = self.random.choice(self.replicas)
        if replica.is_alive:
            self.note("kill", replica.node, len(replica.effects))
            replica.die()
            if replica is not self.leader and len(self.isr) > 1:
                self.isr.discard(replica.node)

    def boot(self, replica: Replica) -> None:
        self.note("boot", replica.node)
        self.sweeps = [each for each in self.sweeps if each.replica is not replica]
        replica.boot()
        if replica is self.leader:
            self.elect(replica)

    def _change_leader(self) -> None:
        alive = [each for each in self.replicas if each.is_alive and each is not self.leader]
        if self.sleeper in alive:
            self.elect(self.sleeper)
            self.sleeper = None
            return
        clean = [each for each in alive if each.node in self.isr]
        if clean:
            self.elect(self.random.choice(clean))
        elif alive and self.may_be_unclean:
            self.elect(self.random.choice(alive))

    def storm(self) -> None:
        """Anything may fail, at any step."""
        if self.is_unclean:
            others = [each for each in self.replicas if each is not self.leader]
            self.sleeper = self.random.choice(others)
            self.isr.discard(self.sleeper.node)
            if self.leader is not None:
                self.leader.isr = set(self.isr)
        for number in range(STEPS):
            self.step()
            if not number % 8:
                self.check_kept()
        self.sleeper = None

    def lull(self) -> None:
        """Nothing fails for a while: segments are copied, and the local logs cut."""
        leader = self._calm_down()
        for _ in range(LULL_ROUNDS):
            self.produce(leader)
            self.now_ms += 200
            self._round(leader, sweeps=False)
        self.is_calm = False

    def _calm_down(self) -> Replica:
        self.is_calm = True
        while self.late:
            self.land()
        for replica in self.replicas:
            if not replica.is_alive:
                self.boot(replica)
            if replica is not self.leader:
                self.learn(replica)
        assert self.leader is not None
        return self.leader

    def settle(self) -> None:
        """Nothing fails any more: the work is done, and what is left is what should be."""
        leader = self._calm_down()
        for number in range(ROUNDS_MAX):
            before = (self._digest.hexdigest(), len(self.topic), leader.end)
            self.now_ms += 200
            self._round(leader, sweeps=number % 8 == 7)
            if (self._digest.hexdigest(), len(self.topic), leader.end) == before and number > 8:
                break
        else:
            demand(False, Promise.SETTLES, rounds=ROUNDS_MAX)
        self._check_end(leader)

    def _round(self, leader: Replica, *, sweeps: bool) -> None:
        for replica in self.replicas:
            if sweeps:
                self.sweep(replica)
            self.follow(replica)
            self.commit()
            self.read_topic(replica, len(self.topic))
            self.end_sweeps()
            self.drive(replica)
            while replica.effects:
                self.carry_out(replica)
            self.read(replica)
        self.check_kept()

    def _check_end(self, leader: Replica) -> None:
        left = [each for each in self.remote.segments() if each.state is not SegmentState(1)]
        demand(not left, Promise.NO_ORPHANS, left=[_told(each) for each in left])
        orphans = unreferenced(self.store.stored(), self.remote, self.now_ms)
        demand(not orphans, Promise.NO_ORPHANS, orphans=[str(each) for each in orphans])
        due = next_copy(leader.core.remote, leader.facts(), self.settings.lag, self.now_ms)
        demand(due is None, Promise.CATCHES_UP, segment=due)
        self.check_kept()
        self.check_served()
        self.counts["segments in the end"] += len(self.remote)
        self.counts["records below the local log"] += leader.base - self.start


def _told(event: RemoteEvent) -> str:
    if isinstance(event, PartitionDeletion):
        return event.state.name
    number = event.id.id.hex()[:6]
    if isinstance(event, RemoteSegment):
        return f"{number} {event.state.name} {event.start_offset}-{event.end_offset}"
    return f"{number} {event.state.name}"


def run_tiered(seed: int) -> Outcome:
    """One run; SimulationFailed when a promise is broken."""
    return _run(World(seed))


def run_deaf(seed: int) -> Outcome:
    """One run in which deposed leaders go on and on."""
    return _run(World(seed, is_deaf=True))


def run_unclean(seed: int) -> Outcome:
    """One run in which most elections are unclean."""
    return _run(World(seed, is_unclean=True))


def _run(world: World) -> Outcome:
    try:
        for _ in range(STORMS):
            world.storm()
            world.lull()
        world.settle()
    except BrokenPromise as broken:
        moves = "\n".join(world.history[-HISTORY:])
        report = f"seed {world.seed}: {broken}\n{moves}"
        raise SimulationFailed(world.seed, str(broken), report) from broken
    return world.outcome()
