"""Voters of the core in one world of messages: logs are lists, time is a number, faults are drawn.

The harness does what the shell does, in its order: state is saved before anything leaves, a
follower's records are durable before its next fetch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from moldau.broker.log.leader_epochs import EpochEnd, LeaderEpochs
from moldau.broker.raft.messages import (
    BeginEpoch,
    EndEpoch,
    FetchAsk,
    FetchVerdict,
    PeerAnswer,
    PeerRequest,
    VoteAsk,
)
from moldau.broker.raft.quorum_state import QuorumState
from moldau.broker.raft.replica import AfterFetch, Member, RaftReplica, RaftTimeouts, Role
from moldau.broker.raft.snapshots import SnapshotId
from moldau.broker.raft.voters import DYNAMIC, Voter, Voters

TIMING = RaftTimeouts(election_ms=100, backoff_ms_max=100, fetch_ms=200, notice_ms=20)
POLL_MS = 40
Record = tuple[int, "int | tuple[int, ...]"]


@dataclass
class Disk:
    """What survives a crash."""

    state: QuorumState = field(default_factory=QuorumState)
    records: list[Record] = field(default_factory=list)
    """Epoch and value; the offset is the place in the list. A value of several numbers names the
    voters from there on."""
    is_marked: bool = False
    """It was empty at a start, and its voter has not caught up since."""


class ListLog:
    """A `LogView` over a list."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.high_watermark = 0
        self.log_start_offset = 0
        self.newest_snapshot: SnapshotId | None = None

    @property
    def log_end_offset(self) -> int:
        return len(self.disk.records)

    @property
    def last_epoch(self) -> int:
        return self.disk.records[-1][0] if self.disk.records else 0

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        epochs = LeaderEpochs()
        for offset, (each, _) in enumerate(self.disk.records):
            epochs.assign(each, offset)
        return epochs.end_offset_for(epoch, self.log_end_offset)


class Node:
    """One voter, up or down."""

    def __init__(self, world: World, node_id: int, voters: tuple[int, ...]) -> None:
        self.world = world
        self.node_id = node_id
        self.voters = voters
        self.bootstrap: tuple[int, ...] = ()
        self.disk = Disk()
        self.is_up = False
        self.life = 0
        self.wipes = 0
        self.boot()

    def boot(self) -> None:
        self.is_up = True
        self.life += 1
        self.log = ListLog(self.disk)
        ids, _ = self.known_voters()
        if self.disk == Disk() and not self.world.is_dynamic and len(ids) > 1:
            self.disk.is_marked = True
        member = Member(
            self.node_id,
            ids,
            is_dynamic=self.world.is_dynamic,
            bootstrap=self.bootstrap,
            has_empty_disk=self.disk.is_marked,
        )
        self.core = RaftReplica(member, self.disk.state, self.log, self.world.random, TIMING)
        self.is_fetching = False
        self.core.start(self.world.now_ms)
        self.carry_out()

    def crash(self) -> None:
        self.is_up = False

    def wipe(self) -> None:
        """Stay down, and come back with an empty disk."""
        self.crash()
        self.disk = Disk()
        self.wipes += 1

    # As the shell.

    def carry_out(self) -> None:
        ready = self.core.take_ready()
        if ready.state is not None:
            self.disk.state = ready.state
        if ready.elected_by is not None:
            self.append(-1)
        if ready.has_caught_up:
            self.disk.is_marked = False
        for peer, request in ready.requests:
            self.world.send(self, peer, request)
        self.fetch()
        self.world.check()

    def append(self, value: int | tuple[int, ...]) -> None:
        assert self.core.role is Role.LEADER
        self.disk.records.append((self.core.epoch, value))
        self.learn_voters()
        self.core.on_durable(self.log.log_end_offset)
        self.advance()

    # Voters that the log names.

    def known_voters(self) -> tuple[tuple[int, ...], int]:
        """And the offset after the record that names them; 0: what the node was told."""
        for offset in range(len(self.disk.records) - 1, -1, -1):
            value = self.disk.records[offset][1]
            if isinstance(value, tuple):
                return value, offset + 1
        return self.voters, 0

    def learn_voters(self) -> None:
        if self.world.is_dynamic:
            ids, _ = self.known_voters()
            if ids != self.core.member.voters:
                voters = Voters(DYNAMIC, tuple(Voter(each) for each in ids))
                self.core.on_voters(voters, self.world.now_ms)

    def change_voters(self, random: Random) -> bool:
        """One more or one less, if the last change is committed; whether it was done."""
        leader, (ids, end) = self.core.leader, self.known_voters()
        if leader is None or leader.high_watermark is None or end > leader.high_watermark:
            return False
        others = [each for each in self.world.nodes if each not in ids]
        if others and (len(ids) < 3 or random.random() < 0.5):
            new = random.choice(others)
            known = leader.observers.get(new)
            if known is None or known.log_end_offset < leader.high_watermark:
                return False  # it has not caught up
            self.append(tuple(sorted((*ids, new))))
        elif len(ids) > 1:
            gone = random.choice(ids)
            self.append(tuple(each for each in ids if each != gone))
        return True

    def advance(self) -> None:
        leader = self.core.leader
        if leader is not None and leader.high_watermark is not None:
            self.log.high_watermark = max(self.log.high_watermark, leader.high_watermark)
            is_committed = self.known_voters()[1] <= leader.high_watermark
            if not self.core.member.is_voter and is_committed:
                self.core.resign(self.world.now_ms)

    def tick(self) -> None:
        if self.is_up:
            self.core.on_tick(self.world.now_ms)
            self.carry_out()

    def serve(self, request: PeerRequest) -> PeerAnswer:
        now_ms = self.world.now_ms
        answer: PeerAnswer
        if isinstance(request, VoteAsk):
            answer = self.core.on_vote_ask(request, now_ms)
        elif isinstance(request, BeginEpoch):
            answer = self.core.on_begin_epoch(request, now_ms)
        else:
            assert isinstance(request, EndEpoch)
            answer = self.core.on_end_epoch(request, now_ms)
        self.carry_out()
        return answer

    def fetch(self) -> None:
        asked = self.core.next_fetch()
        if self.is_fetching or asked is None:
            return
        self.is_fetching = True
        self.world.send_fetch(self, *asked)

    def serve_fetch(self, ask: FetchAsk) -> tuple[FetchVerdict, list[Record]]:
        verdict, _ = self.core.on_fetch(ask, self.world.now_ms)
        self.advance()
        self.carry_out()
        is_whole = not verdict.epoch_answer.error and verdict.diverging is None
        return verdict, self.disk.records[ask.offset : ask.offset + 3] if is_whole else []

    def on_fetched(
        self,
        source: int,
        ask: FetchAsk,
        answer: tuple[FetchVerdict, list[Record]] | None,
    ) -> None:
        self.is_fetching = False
        now_ms = self.world.now_ms
        if answer is None:
            self.core.on_leader_lost(now_ms)
        else:
            outcome = self.core.on_fetched(source, ask, answer[0], now_ms)
            if outcome.action is AfterFetch.TRUNCATE:
                del self.disk.records[outcome.truncate_to :]
                self.learn_voters()
            elif outcome.action is AfterFetch.APPEND:
                assert ask.offset == len(self.disk.records)
                self.disk.records += answer[1]
                self.learn_voters()
                known = min(outcome.high_watermark, len(self.disk.records))
                self.log.high_watermark = max(self.log.high_watermark, known)
                self.core.on_caught_up(len(self.disk.records), outcome.high_watermark)
        self.carry_out()


class World:
    """All voters, the network between them, and what must hold after every step."""

    def __init__(self, seed: int, voters: int, *, observers: int = 0) -> None:
        """With observers the log says who votes."""
        self.is_dynamic = observers > 0
        self.random = Random(seed)
        self.now_ms = 0
        self.cut: set[frozenset[int]] = set()
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.leaders: dict[int, int] = {}
        self.committed: list[Record] = []
        self.nodes: dict[int, Node] = {}
        ids = tuple(range(1, voters + 1))
        for each in ids:
            self.nodes[each] = Node(self, each, ids)
        for each in range(voters + 1, voters + observers + 1):
            self.nodes[each] = Node(self, each, ())
        for node in self.nodes.values():
            node.bootstrap = tuple(other for other in self.nodes if other != node.node_id)
            if self.is_dynamic:
                node.core.member = replace(node.core.member, bootstrap=node.bootstrap)
                node.carry_out()

    # Messages.

    def later(self, delay_ms: int, step: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.count, step))

    def is_connected(self, one: int, other: int) -> bool:
        return self.nodes[other].is_up and frozenset((one, other)) not in self.cut

    def send(self, sender: Node, peer: int, request: PeerRequest) -> None:
        life = sender.life

        def arrive() -> None:
            if not self.is_connected(sender.node_id, peer):
                self.later(self.random.randrange(60), fail)
                return
            answer = self.nodes[peer].serve(request)
            self.later(self.random.randrange(8), lambda: back(answer))

        def back(answer: PeerAnswer) -> None:
            if sender.is_up and sender.life == life:
                sender.core.on_peer_answer(peer, request, answer, self.now_ms)
                sender.carry_out()

        def fail() -> None:
            if sender.is_up and sender.life == life:
                sender.core.on_peer_failed(peer, request, self.now_ms)
                sender.carry_out()

        self.later(self.random.randrange(1, 8), arrive)

    def send_fetch(self, sender: Node, source: int, ask: FetchAsk) -> None:
        life = sender.life

        def arrive() -> None:
            if not self.is_connected(sender.node_id, source):
                self.later(30, lambda: back(None))
                return
            answer = self.nodes[source].serve_fetch(ask)
            waits = (
                0 if answer[1] or answer[0].epoch_answer.error else self.random.randrange(POLL_MS)
            )
            self.later(waits + self.random.randrange(1, 8), lambda: back(answer))

        def back(answer: tuple[FetchVerdict, list[Record]] | None) -> None:
            if sender.is_up and sender.life == life:
                sender.on_fetched(source, ask, answer)

        self.later(self.random.randrange(1, 8), arrive)

    # Time.

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            while self.events and self.events[0][0] <= self.now_ms:
                heapq.heappop(self.events)[2]()
            for node in self.nodes.values():
                if node.is_up and node.core.deadline_ms <= self.now_ms:
                    node.tick()
            self.now_ms += 1

    def leader(self) -> Node | None:
        leading = [
            each for each in self.nodes.values() if each.is_up and each.core.role is Role.LEADER
        ]
        return max(leading, key=lambda each: each.core.epoch, default=None)

    def heal(self) -> None:
        self.cut.clear()
        for node in self.nodes.values():
            if not node.is_up:
                node.boot()

    # Invariants.

    def check(self) -> None:
        for node in self.nodes.values():
            if not node.is_up:
                continue
            core = node.core
            if core.role is Role.LEADER:
                known = self.leaders.setdefault(core.epoch, node.node_id)
                assert known == node.node_id, f"two leaders in epoch {core.epoch}"
                assert node.disk.state.leader_epoch == core.epoch
            mark = node.log.high_watermark
            for offset in range(len(self.committed), mark):
                self.committed.append(node.disk.records[offset])
            assert node.disk.records[:mark] == self.committed[:mark], "committed records differ"


def without(state: QuorumState) -> QuorumState:
    """A vote that was forgotten: what a mutant may do to the disk."""
    return replace(state, voted_id=-1)
