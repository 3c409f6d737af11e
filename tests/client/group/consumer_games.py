"""Whole consumers and a whole broker in one hand: what users, listeners and the network do is drawn
from a seed. Above all what waits for what when a membership ends.

Each user has one consumer after the other. He polls, and goes through records and parts one by one,
which he leaves in the middle and takes up again (`consumer_reading`); he commits, seeks, pauses,
unsubscribes, subscribes and closes, cuts calls short, and lets other tasks do the same, whom he
cancels as servers do; his listener commits, takes its time, raises, unsubscribes and closes. In
a calm world answers are late at most; in a rough one connections break too. At the end somebody new
reads what is left.

`python -m tests.client.group.consumer_games --seeds 2000` plays many, `--seed N` one again,
`--mutants` looks for planted bugs. A failure tells the moves in order.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup as ConsumerProtocolGroup
from moldau.broker.coordinator.running_shard import RunningShard
from moldau.broker.log.rounds import rest
from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.client.consumer.membership import ConsumerGroup
from moldau.client.consumer.progress import ReadProgress
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import NOBODY, Identity, Member
from moldau.config import overrides
from moldau.errors.codes import KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.runtime import Runtime
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.simulation import Options, Simulation
from tests.broker.simulation.scenario import Outcome
from tests.broker.simulation.search import Subject, command
from tests.client.group.consumer_book import (
    API_S,
    GONE_S,
    PARTITIONS,
    POLL_INTERVAL_S,
    RECORDS,
    REQUEST_S,
    SESSION_S,
    Book,
    Promise,
    everything,
    weighted,
)
from tests.client.group.consumer_lives import Life
from tests.client.group.consumer_mutants import MUTANTS
from tests.client.group.consumer_reading import Reading, Schemas

HOST: Final = "broker"
GROUP: Final = "g"
COMMIT_VERSION: Final = 9
ENDING_S: Final = 25.0
HISTORY: Final = 150
BROKER: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
CLIENT: Final[Mapping[str, Any]] = {
    "bootstrap_servers": f"{HOST}:9092",
    "request_timeout_ms": round(REQUEST_S * 1000),
    "default_api_timeout_ms": round(API_S * 1000),
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "socket_connection_setup_timeout_ms": 1000,
}
MEMBER: Final[Mapping[str, Any]] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 300,
    "max_poll_interval_ms": round(POLL_INTERVAL_S * 1000),
}
CLASSIC: Final = {"session_timeout_ms": round(SESSION_S * 1000), "heartbeat_interval_ms": 200}
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "eager": {**CLASSIC, "partition_assignment_strategy": "range"},
    "cooperative": {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


class Player:
    """A user's program: one consumer after the other."""

    def __init__(self, game: Game, name: str) -> None:
        self.game, self.name = game, name
        self.random = game.world.random(name)
        self.options = {**CLIENT, **MEMBER, **KINDS[game.kind]}
        self.options["enable_auto_commit"] = self.random.random() < 0.75
        self.options["auto_commit_interval_ms"] = self.random.choice((100, 1000, 5000))
        if self.random.random() < 0.25:
            self.options["group_instance_id"] = name
        if self.random.random() < 0.3:
            self.options["value_deserializer"] = Schemas(self.random)
        self.reading: Reading

    async def run(self, runtime: Runtime) -> None:
        await rest(self.random.uniform(0.0, 1.0))
        number = 0
        while not self.game.is_ending:
            number += 1
            life = Life(self.game, f"{self.name}.{number}", runtime, self.random, self.options)
            try:
                await life.consumer.start()
            except KafkaError as error:
                self.game.book.note(life.name, f"does not start: {error}")
                continue
            self.game.lives.append(life)
            await life.subscribe()
            self.reading = Reading(life)
            await self._play(life)
            await self._end(life)
            self.game.lives.remove(life)
        self.game.playing -= 1

    async def _play(self, life: Life) -> None:
        for _ in range(self.random.randint(4, 24)):
            if life.closing is not None or self.game.is_ending:
                break
            await self._move(life)
            life.check_at_rest()

    async def _end(self, life: Life) -> None:
        random = self.random
        if life.closing is not None and random.random() < 0.3:
            await life.poll(0.1)
        cut_after_s = _draw_cut(random, 0.15)
        await life.close(random.choice((0.0, 0.3, 2.0, 6.0, 6.0, 6.0)), cut_after_s)
        for helper in life.helpers:
            await asyncio.wait([helper])
        while life.under_way or life.is_telling:
            await rest(0.05)
        while life.was_cut or not life.is_closed:
            life.was_cut = False
            await life.close(4.0)
            life.is_closed = True
        await rest(0.3)
        life.check_nothing_runs()
        self.game.world.after(GONE_S, life._check_gone, None, "closed")

    async def _move(self, life: Life) -> None:
        random = self.random
        moves = {
            "read": 14,
            "poll": 10,
            "commit": 3,
            "commit soon": 2,
            "pause": 1,
            "seek": 1,
            "rest": 2,
        }
        moves |= {"unsubscribe": 2, "close": 1, "subscribe": 1, "silence": 1}
        moves["beside"] = 4
        moves["serve"] = 2
        if not life.is_subscribed:
            moves |= {"subscribe": 15, "silence": 8, "poll": 6}
        cut_after_s = _draw_cut(random, 0.15)
        match weighted(random, moves):
            case "read":
                await self.reading.go_on(random.randint(1, 8))
            case "poll":
                await life.poll(random.choice((0.0, 0.1, 0.3, 1.0)), cut_after_s)
            case "commit":
                await life.commit(cut_after_s)
            case "commit soon":
                await life.commit_soon()
            case "pause":
                life.pause(0.5)
                await life.poll(0.1)
                if life.closing is None:
                    life.resume()
            case "seek":
                for where in sorted(life.told)[:1]:
                    life.seek(where)
            case "rest":
                await rest(random.uniform(0.0, 1.0))
            case "unsubscribe":
                await life.unsubscribe(cut_after_s or _draw_cut(random, 0.2))
            case "close":
                await life.close(random.choice((0.0, 0.3, 2.0, 6.0)), cut_after_s)
            case "subscribe":
                await life.subscribe()
            case "silence":
                await self._be_silent(life)
            case "serve":
                await self._serve(life)
            case "beside":
                life.helpers.append(life.runtime.spawn(self._help(life), name="user helper"))

    async def _serve(self, life: Life) -> None:
        """Several tasks read, until they are cancelled with what they have in hand."""
        random = self.random
        for _ in range(random.randint(1, 3)):
            reading = Reading(life, hangs=True).go_on(random.randint(1, 20))
            life.helpers.append(life.runtime.spawn(reading, name="user reader"))
        await rest(random.uniform(0.0, 0.8))
        await life.cancel_the_hanging()
        match weighted(random, {"close": 3, "unsubscribe": 1, "go on": 2}):
            case "close":
                await life.close(random.choice((0.3, 6.0, 6.0)))
            case "unsubscribe":
                await life.unsubscribe()

    async def _be_silent(self, life: Life) -> None:
        """For so long that nobody can take it for alive."""
        if self.random.random() < 0.7 or not all(each.done() for each in life.helpers):
            return
        life.book.note(life.name, "is silent")
        calls, times = life.calls, life.subscribed_times
        life.soil()
        await rest(GONE_S)
        life.book.note(life.name, "is back")
        if calls == life.calls and times == life.subscribed_times and not life.was_cut:
            life.check_is_no_member("silent")

    async def _help(self, life: Life) -> None:
        """Another task of the same program."""
        random = self.random
        await rest(random.uniform(0.0, 0.5))
        if life.closing is not None:
            return
        cut_after_s = _draw_cut(random, 0.2)
        match weighted(random, {"unsubscribe": 3, "close": 2, "commit": 2, "read": 3}):
            case "unsubscribe":
                await life.unsubscribe(cut_after_s)
            case "close":
                await life.close(random.choice((0.0, 0.3, 6.0)), cut_after_s)
            case "commit":
                await life.commit(cut_after_s)
            case "read":
                await Reading(life).go_on(random.randint(1, 6))


class Game:
    """One world."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.random = random = world.random("game")
        self.kind = random.choice(list(KINDS))
        self.is_calm = random.random() < 0.7
        self.is_ending = False
        self.book = Book(world)
        self.broker: Broker | None = None
        self.lives: list[Life] = []
        self._is_choosing = False
        self.playing = random.randint(2, 4)
        self.players = [Player(self, f"p{at}") for at in range(self.playing)]
        self.book.note("game", f"{self.kind}, {'calm' if self.is_calm else 'rough'}")
        world.add_node(HOST, self._serve)
        world.add_node("admin", self._fill)

    async def _serve(self, runtime: Runtime) -> None:
        settings = broker_settings(standalone_layer("/data", "", 9092), overrides(dict(BROKER)))
        now_ms = runtime.clock.wall_ms()
        format_if_empty(runtime.files, settings, runtime.random, now_ms, HOST)
        self.broker = await Broker.start(runtime, settings, host_name=HOST)
        await self.broker.wait()

    async def _fill(self, runtime: Runtime) -> None:
        await rest(0.5)
        async with Admin(runtime=runtime, **CLIENT) as admin:
            for topic, count in PARTITIONS.items():
                await admin.create_topic(NewTopic(topic, partitions=count))
        async with Producer(runtime=runtime, **CLIENT) as producer:
            for where in everything():
                values = [b"%d" % number for number in range(RECORDS)]
                await producer.send_many(where.topic, values, partition=where.partition)
        for player in self.players:
            self.world.add_node(player.name, player.run)
        self._disturb()

    def _disturb(self) -> None:
        """Answers come late; in a rough world some never come."""
        if self.is_ending:
            return
        random, network = self.random, self.world.network
        self.world.after(random.uniform(0.1, 2.0), self._disturb)
        name = random.choice(self.players).name
        if name not in self.world.nodes:
            return
        ways = {"clog": 3} if self.is_calm else {"clog": 2, "reset": 2, "sever": 1, "drop end": 1}
        way = weighted(random, ways)
        self.book.note("network", f"{way} {name}")
        if way == "clog":
            network.clog(HOST, name)
            seconds = random.uniform(0.05, 0.3 if self.is_calm else 1.5)
            self.world.after(seconds, network.unclog, HOST, name)
        elif way == "reset":
            network.reset(name, HOST)
        elif way == "sever":
            network.sever(name, HOST)
        else:
            network.drop_end(name, HOST)

    # The coordinator.

    def group(self) -> ClassicGroup | ConsumerProtocolGroup | None:
        """As it is now."""
        if self.broker is None:
            return None
        for _, groups in self.broker.node.groups.loaded():
            found = groups.get(GROUP)
            if isinstance(found, ClassicGroup | ConsumerProtocolGroup):
                return found
        return None

    def members(self) -> list[str]:
        """By their instance ids, or else their client ids."""
        group = self.group()
        if group is None:
            return []
        if isinstance(group, ClassicGroup):
            return [each.instance_id or each.client_id for each in group.members.values()]
        members = group.state.members.values()
        return [each.profile.instance_id or each.profile.client_id for each in members]

    def check_owners(self) -> None:
        """Of those who may commit."""
        group = self.group()
        owners: dict[TopicPartition, Life] = {}
        for life in self.lives:
            identity = life.identity
            if group is None or identity == NOBODY:
                continue
            giving_up = () if life.may_overlap else life.giving_up
            for where in _valid(group, identity, [*life.told, *giving_up]):
                other = owners.setdefault(where, life)
                self.book.demand(
                    other is life, Promise.ONE_OWNER, at=where, owners=(other.name, life.name)
                )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks after every event of this thread that can change who owns what: a broker or client
        in another thread of the process is none of this game's."""
        thread = threading.get_ident()

        def then(original: Callable[..., Any]) -> Callable[..., Any]:
            def seen(owner: Any, *arguments: Any) -> Any:
                answer = original(owner, *arguments)
                if threading.get_ident() != thread:
                    return answer
                if original.__name__ == "_replay_appended":
                    self._on_appended(arguments[1].records)
                self.check_owners()
                return answer

            return seen

        with ExitStack() as stack:
            for owner, name in (
                (RunningShard, "_replay_appended"),
                (Member, "end_change"),
                (ClassicConsumer, "on_answer"),
                (ConsumerMember, "on_answer"),
            ):
                stack.enter_context(patch.object(owner, name, then(getattr(owner, name))))
            for name in ("consumed", "done", "let_go"):
                hears = self._hearing_what_is_chosen(name, getattr(ReadProgress, name))
                stack.enter_context(patch.object(ReadProgress, name, hears))
            for name in ("_begin_change", "_say_goodbye"):
                hears = self._hearing_goodbyes(getattr(ConsumerGroup, name))
                stack.enter_context(patch.object(ConsumerGroup, name, hears))
            yield

    def _hearing_what_is_chosen(
        self, name: str, original: Callable[..., Any]
    ) -> Callable[..., Any]:
        def heard(of: ReadProgress, *arguments: Any) -> Any:
            is_inner, self._is_choosing = self._is_choosing, True  # `let_go` calls the others
            try:
                chosen = original(of, *arguments)
            finally:
                self._is_choosing = is_inner
            for life in () if is_inner else self.lives:
                if of is life.progress and chosen is not None:
                    life.on_chosen(chosen, name)
            return chosen

        return heard

    def _hearing_goodbyes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def heard(of: ConsumerGroup, *arguments: Any) -> Any:
            for life in self.lives:
                if of is life.consumer._group:
                    life.on_goodbye()
            return original(of, *arguments)

        return heard

    def _on_appended(self, records: Iterable[Any]) -> None:
        for each in records:
            if isinstance(each.key, OffsetCommitKey) and isinstance(each.value, OffsetCommitValue):
                where = TopicPartition(each.key.topic, each.key.partition)
                self.book.on_stored(where, each.value.offset)

    # The end.

    async def audit(self, runtime: Runtime) -> None:
        """Somebody comes when all have gone, and has everything in time."""
        options = {**CLIENT, **MEMBER, **KINDS[self.kind], "enable_auto_commit": True}
        life = Life(self, "auditor", runtime, self.random, options)
        self.lives.append(life)
        await life.consumer.start()
        life.is_subscribed = True
        await life.consumer.subscribe(list(PARTITIONS), listener=life)
        until = self.world.now + ENDING_S
        while not self._is_read(life):
            self.book.demand(
                self.world.now < until,
                Promise.GROUP_GOES_ON,
                has=life.told.keys(),
                stored={where: self.book.stored[where][-1] for where in everything()},
                members=self.members(),
            )
            await life.poll(0.5)
        await life.close(6.0)
        await rest(0.1)
        life.check_nothing_runs()
        left = {where: self.book.stored[where][-1] for where in everything()}
        self.book.demand(set(left.values()) == {RECORDS}, Promise.COMMITTED_AT_THE_END, stored=left)
        await rest(GONE_S)

    def _is_read(self, life: Life) -> bool:
        return life.told.keys() == set(everything()) and all(
            life.consumer.position(where) == RECORDS for where in life.told
        )


def _valid(
    group: ClassicGroup | ConsumerProtocolGroup, identity: Identity, owned: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """What it could commit now."""
    member_id, epoch, instance_id = identity
    try:
        check = group.check_commit(member_id, instance_id, epoch, COMMIT_VERSION, is_txn=False)
    except KafkaError:
        return []
    valid = []
    for where in owned:
        try:
            if check is not None:
                check(where.topic, ZERO_UUID, where.partition)
        except KafkaError:
            continue
        valid.append(where)
    return valid


def _draw_cut(random: Random, share: float) -> float | None:
    return 10 ** random.uniform(-4.0, -0.5) if random.random() < share else None


def play(seed: int) -> Outcome:
    """One game; SimulationFailed when a promise is broken."""
    mean_ns = round(10 ** Random(seed).uniform(5.0, 7.3))
    with Simulation(
        seed, Options(link=LinkOptions(latency_mean_ns=mean_ns), shuffle=True)
    ) as world:
        game = Game(world)
        with _telling(game.book), game.watching(), _hearing(game.book):
            world.run_for(1.0 + game.random.uniform(3.0, 15.0))
            game.is_ending = True
            _reach(world, game, lambda: not game.playing)
            world.network.heal()
            auditor = world.add_node("auditor", game.audit)
            _reach(world, game, lambda: not auditor.is_alive)
        return Outcome(world.fingerprint, game.book.counts)


def _reach(world: Simulation, game: Game, question: Callable[[], bool]) -> None:
    """Calls watch over their own time, so this is the last resort."""
    alarm = world.after(
        120.0, lambda: game.book.demand(False, Promise.ENDS_IN_TIME, call="everything")
    )
    world.run_until(question, within=200.0)
    alarm.cancel()


@contextmanager
def _telling(book: Book) -> Iterator[None]:
    """A failure is told with the moves that led to it."""
    try:
        yield
    except SimulationFailed as failure:
        moves = "\n".join(book.history[-HISTORY:])
        reason = f"{failure.reason}\n{moves}"
        report = f"seed {failure.seed}: {reason}\n\n{failure}"
        raise SimulationFailed(failure.seed, reason, report) from failure.__cause__


class _Ear(logging.Handler):
    def __init__(self, book: Book) -> None:
        super().__init__()
        self.book = book

    def emit(self, record: logging.LogRecord) -> None:
        self.book.note("log", record.getMessage()[:200])
        self.book.counts[f"log: {record.getMessage()[:70]}"] += 1


@contextmanager
def _hearing(book: Book) -> Iterator[None]:
    log, ear = logging.getLogger("moldau.client"), _Ear(book)
    was = log.propagate
    log.propagate = False
    log.addHandler(ear)
    try:
        yield
    finally:
        log.removeHandler(ear)
        log.propagate = was


if __name__ == "__main__":
    subject = Subject(play, MUTANTS)
    sys.exit(command(subject, "python -m tests.client.group.consumer_games", __doc__))
