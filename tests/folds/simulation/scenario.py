"""One world from one seed: a cluster, three members of a group of which one writes, and faults.

Each member has a fold of one topic, and asks for a number for each name: a decision gives a name
the next number, in two records. Members are killed, paused and cut off, requests are cancelled, the
store fails at each step of a write, brokers die. Safety, always: a name keeps the number that was
answered, no number is given twice, both records of a decision are there or none, and a member that
has caught up knows all that was answered before it began to. Liveness: all is healed, one member
leads and writes, and all members say the same.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client import GenerationAssignment, KafkaError
from moldau.errors.codes import ErrorCode
from moldau.folds.elected import Elected, Leader
from moldau.folds.leader_writer import Entry, LeaderWriter, NotLeader, Outcome
from moldau.folds.topic import FoldTopic
from moldau.folds.topic_fold import Record, TopicFold
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.trace import Fingerprint
from moldau.testing import SimulatedCluster

MEMBERS: Final = ("one", "two", "three")
NAMES: Final = 300
SAFETY_S: Final = 30.0
LIVENESS_S: Final = 200.0
ID: Final = "ledger-writer"
LEDGER: Final = FoldTopic("ledger", "the ledger", is_ordered=True)
STEPS: Final = ("append", "appended", "replayed")
FAULTS: Final = (
    "kill", "kill at a step", "refuse at a step", "cancel at a step", "pause", "isolate", "broker",
    "election", "slow reader", "slow reader",
)  # fmt: skip
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.index.size.max.bytes": "4096",
}
SESSION: Final = {
    "session.timeout.ms": "3000", "heartbeat.interval.ms": "500", "rebalance.timeout.ms": "5000",
}  # fmt: skip


class Ledger:
    """The state: each name's number, and the highest one, as the records say."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.highest = 0
        self.next_offset = 0

    def replay(self, record: Record) -> None:
        assert record.offset >= self.next_offset, "a record comes twice, or out of order"
        self.next_offset = record.offset + 1
        name, number = (record.key or b"").decode(), int(record.value or b"0")
        if name == "highest":
            self.highest = number
        else:
            self.numbers[name] = number

    def number_of(self, name: str) -> Outcome:
        """Decide: the number of a name."""
        assert len(self.numbers) == self.highest, "half a decision is in the log"
        if name in self.numbers:
            return Outcome(self.numbers[name])
        number = self.highest + 1
        value = b"%d" % number
        return Outcome(number, [(name.encode(), value), (b"highest", value)])


class ByName:
    """The protocol of the group: the present leader leads, else the first by name."""

    elected: Elected

    def __init__(self, name: str, writer: LeaderWriter) -> None:
        self.name = name
        self.writer = writer

    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", json.dumps([not self.elected.leads, self.name]).encode())]

    def assign(
        self, protocol: str, leader_id: str, members: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        _, chosen = min(json.loads(each) for each in members.values())
        return dict.fromkeys(members, chosen.encode())

    async def on_assigned(self, assigned: GenerationAssignment) -> None:
        chosen = assigned.assignment.decode()
        if chosen == self.name and not self.writer.is_claimed:
            await self.writer.claim()
        self.elected.announce(Leader(chosen, chosen == self.name) if chosen else None)
        if not self.elected.leads:
            await self.writer.step_down()

    async def on_revoked(self) -> None:
        """A leader stays the leader."""

    async def on_lost(self) -> None:
        self.elected.announce(None)
        await self.writer.step_down()


class FailingWriter(LeaderWriter):
    """A writer whose store fails at a step, or whose process dies there."""

    run: Run

    async def _append(self, records: Sequence[Entry]) -> None:
        await self.run.reach("append")
        assert self._producer is not None
        async with self._producer.transaction():
            sent = [
                await self._producer.send(LEDGER.name, value, key=key) for key, value in records
            ]
        await self.run.reach("appended")
        await self._fold.read_back([await each for each in sent])
        await self.run.reach("replayed")


class SlowFold(TopicFold):
    """A fold that may read late."""

    run: Run

    async def _read(self, timeout_s: float) -> None:
        await asyncio.sleep(self.run.slow.get(self._runtime.node, 0.0))
        await super()._read(timeout_s)


class Member:
    """One process: its fold, its membership, its writer."""

    def __init__(self, run: Run, runtime: Runtime) -> None:
        self.name = runtime.node
        log = Loggers(runtime.clock, lambda line: run.say(self.name, line)).get("folds")
        settings = {"bootstrap.servers": run.servers}
        self.ledger = Ledger()
        self.fold = SlowFold(runtime, settings, LEDGER, self.ledger.replay, log)
        self.fold.run = run
        self.writer = run.writer(runtime, settings, self.fold, run.id_of(self.name), 5_000)
        self.writer.run = run
        ballots = ByName(self.name, self.writer)
        group = ("members", "ledger")
        self.elected = Elected(runtime, {**settings, **SESSION}, group, ballots, log)
        ballots.elected = self.elected
        self.writer.on_resigned = self.elected.resign

    async def start(self) -> None:
        await self.fold.start()
        await self.elected.start()

    async def aclose(self) -> None:
        await self.elected.aclose()
        await self.writer.step_down()
        await self.fold.aclose()


class Run:
    """See the module."""

    writer: type[FailingWriter] = FailingWriter
    faults: tuple[str, ...] = FAULTS

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.random = world.random("scenario")
        self.cluster = SimulatedCluster(
            world, brokers=self.random.choice((1, 3)), settings=SETTINGS
        )
        self.servers = self.cluster.bootstrap_servers
        self.happened: Counter[str] = Counter()
        self.log: list[str] = []
        self.answered: dict[str, int] = {}
        self.due: dict[str, tuple[str, str]] = {}
        """What happens to each member, and at which step."""
        self.slow: dict[str, float] = {}
        """How long each member takes at most to read once."""
        self.members: dict[str, Member] = {}
        self.is_calm = False
        self.agreed: set[str] = set()

    def id_of(self, name: str) -> str:
        """The transactional id of a member: one for all."""
        return ID

    def say(self, node: str, line: str) -> None:
        self.log.append(f"{self.world.now:9.3f} {node} {line.rstrip()}")

    def play(self) -> None:
        world = self.world
        self.cluster.await_up()
        self.nodes = {name: world.add_node(name, self._live) for name in MEMBERS}
        end = world.now + SAFETY_S
        while world.now < end:
            world.run_for(self.random.uniform(0.1, 3.0))
            self._torment(self.random.choice(self.faults))
        self._heal()
        world.run_until(lambda: self.agreed == set(MEMBERS), within=LIVENESS_S)
        for node in self.nodes.values():
            node.stop()
        world.run_until(lambda: not any(each.is_alive for each in self.nodes.values()), within=60)

    def _torment(self, fault: str) -> None:
        leads = [name for name, each in self.members.items() if each.elected.leads]
        name = self.random.choice(leads if leads and self.random.random() < 0.7 else MEMBERS)
        node, seconds = self.nodes[name], self.random.choice((0.01, 0.5, 2.0, 8.0))
        self.happened[fault] += 1
        self.say(name, f"{fault} {seconds}")
        if fault == "kill":
            self._kill(node, seconds)
        elif fault.endswith("at a step"):
            self.due[name] = (fault.partition(" ")[0], self.random.choice(STEPS))
        elif fault == "pause":
            node.pause()
            self.world.after(seconds, node.resume)
        elif fault == "isolate":
            self.world.network.isolate(name)
            self.world.after(seconds, self.world.network.heal)
        elif fault == "election" and name in self.members and node.is_alive:
            self.due[name] = ("election", self.random.choice(STEPS))
        elif fault == "slow reader":
            self.slow[name] = self.random.choice((0.1, 0.5, 2.0))
            self.world.after(seconds, self.slow.pop, name, None)
        elif fault == "broker":
            number = self.random.choice(self.cluster.broker_ids)
            if self.cluster.is_alive(number):
                self.cluster.kill(number)
                self.world.after(min(seconds, 2.0), self._start_broker, number)

    def _start_broker(self, number: int) -> None:
        if not self.cluster.is_alive(number):
            self.cluster.start(number)

    def _kill(self, node: Node, seconds: float) -> None:
        if node.is_alive:
            node.crash()
            self.world.after(seconds, self._start, node)

    def _start(self, node: Node) -> None:
        if not node.is_alive:
            node.start()

    def _heal(self) -> None:
        self.is_calm = True
        self.due.clear()
        self.slow.clear()
        self.cluster.heal()
        for node in self.nodes.values():
            node.resume()
            self._start(node)

    async def reach(self, step: str) -> None:
        """A write is at a step: what is due there happens."""
        life = CURRENT.get()
        name = "" if life is None else life.name
        what, where = self.due.get(name, ("", ""))
        if where != step:
            return
        del self.due[name]
        self.happened[f"{what} at {step}"] += 1
        self.say(name, f"{what} at {step}")
        if what == "kill":
            self.world.after(0, self._kill, self.nodes[name], 0.5)
            await asyncio.Event().wait()
        if what == "cancel":
            raise asyncio.CancelledError
        if what == "refuse":
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the store fails at {step}")
        self.members[name].elected.resign()

    # The members

    async def _live(self, runtime: Runtime) -> None:
        while True:
            member = Member(self, runtime)
            self.members[member.name] = member
            try:
                await member.start()
                await self._work(member, runtime)
            except (KafkaError, TimeoutError, OSError) as error:
                self.say(member.name, f"start again: {error!r}")
                await asyncio.sleep(1.0)
            finally:
                if self.nodes[member.name].is_alive:  # else it was killed, and closes nothing
                    await member.aclose()

    async def _work(self, member: Member, runtime: Runtime) -> None:
        while True:
            await asyncio.sleep(runtime.random.uniform(0.01, 0.4))
            if runtime.random.random() < 0.3 or self.is_calm:
                await self._check(member)
            if member.elected.leads:
                await self._ask(member, f"name-{runtime.random.randrange(NAMES)}", runtime)
            elif not self.is_calm:
                await member.elected.leader_within(0.5)

    async def _ask(self, member: Member, name: str, runtime: Runtime) -> None:
        write = member.writer.write(lambda: member.ledger.number_of(name))
        asking = runtime.spawn(write, name="ask", reported=False)
        if not self.is_calm and runtime.random.random() < 0.1:
            await asyncio.wait([asking], timeout=runtime.random.uniform(0.0, 0.01))
            self.happened["cancelled"] += asking.cancel()
        try:
            await asyncio.wait([asking])
            number = asking.result()
        except asyncio.CancelledError:
            if asking.cancelled():
                return
            raise
        except (KafkaError, NotLeader, TimeoutError) as error:
            self.say(member.name, f"not written: {error!r}")
            self.happened[type(error).__name__] += 1
            return
        self.happened["written"] += 1
        assert member.ledger.numbers[name] == number, "an answer left before it was replayed"
        self._on_answer(name, number)

    def _on_answer(self, name: str, number: int) -> None:
        assert self.answered.setdefault(name, number) == number, f"{name} had another number"
        given = Counter(self.answered.values())
        assert given[number] == 1, f"{number} is given twice"

    async def _check(self, member: Member) -> None:
        """A member that has caught up knows all that was answered before."""
        before = dict(self.answered)
        try:
            await member.fold.catch_up()
        except (KafkaError, TimeoutError) as error:
            self.say(member.name, f"not caught up: {error!r}")
            return
        self.happened["caught up"] += 1
        found = {name: member.ledger.numbers.get(name) for name in before}
        assert found == before, f"{member.name} misses what was answered"
        leader = member.elected.leader
        if self.is_calm and leader is not None and self.members[leader.url].writer.is_claimed:
            self.agreed.add(member.name)


def run_members(
    seed: int, happened: Counter[str] | None = None, kind: type[Run] = Run
) -> Fingerprint:
    """Run one world. Raise what was not kept, with the seed and the latest lines of the log."""
    with Simulation(seed) as world:
        run = kind(world)
        try:
            run.play()
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}", *run.log[-100:]]))
            raise
        if happened is not None:
            happened.update(run.happened)
        return world.fingerprint
