"""Scripted clients, which write down in the ledger what they are told.

Each goes on whatever happens: when a connection ends, or the broker refuses, it begins again. Until
the world says that it is `ending`; then each one gets one more thing done, and has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, NamedTuple, Protocol

from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.messages.fetch import PartitionData
from moldau.records import Producer, iter_records, walk
from moldau.runtime import Runtime
from tests.broker.simulation.channel import (
    TROUBLE,
    Channel,
    Place,
    Refused,
    channel,
    checked,
    pause,
)
from tests.broker.simulation.promises import (
    BrokenPromise,
    Kind,
    Ledger,
    Partition,
    Promise,
    Sent,
    Topic,
    demand,
)

RETRY_S: Final = 0.02
PATIENCE: Final = 100
"""How often an empty answer is no reason to believe that nothing more is there."""
FORGOTTEN: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    )
)
"""The broker does not know the writer as the writer knows himself."""
HANGS_UP: Final = 0.03
RETIRES: Final = 0.02
COUNTED_SETTING: Final = "max.message.bytes"
SETTING_BASE: Final = 1_000_000


class World(Place, Protocol):
    """What clients know of the run that they are in."""

    ledger: Ledger
    is_ending: bool
    pause_s: float

    @property
    def life(self) -> int:
        """The life of the broker from which on answers bind, where not all do."""
        ...

    def on_ended(self) -> None: ...


class Client(ABC):
    """Connects again and again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = world.ledger
        self.trouble = ""
        """Why it had to begin again the last time."""

    async def run(self, runtime: Runtime) -> None:
        is_over = False
        while not is_over:
            try:
                async with channel(runtime, self.world) as connection:
                    is_over = await self.talk(connection)
            except (*TROUBLE, Refused) as error:
                self.trouble = repr(error)
                await pause(runtime, RETRY_S)
        self.world.on_ended()

    def __str__(self) -> str:
        return type(self).__name__

    @abstractmethod
    async def talk(self, connection: Channel) -> bool:
        """Until the connection ends; whether the script is over."""

    def is_current(self, connection: Channel, at: Partition) -> bool:
        """Whether what this connection told still binds. An answer that was on its way while the
        power failed does not, where the promise ends with the power."""
        return at.kind.is_durable or connection.life >= self.world.life


class InFlight(NamedTuple):
    """A batch of an idempotent writer, which is sent until it is answered."""

    batch: tuple[Sent, ...]
    sequence: int
    acks: int
    life: int
    """Of the broker, when it was sent first."""


class Writer(Client):
    """Appends to one partition. Idempotent: several batches in flight, each sent until it is
    answered. Plain: one at a time, and never again."""

    def __init__(
        self, world: World, at: tuple[Uuid, int], name: str, *, keys: int, depth: int
    ) -> None:
        super().__init__(world)
        self.name = name
        self.topic_id, self.index = at
        self.at = self.ledger.partitions[at]
        self.keys = keys
        self.is_idempotent = name.startswith("idempotent")
        self.depth = depth
        self.window: deque[InFlight] = deque()
        self.producer: tuple[int, int] | None = None
        self.generation = 0
        self.sequence = 0
        self.count = 0

    def __str__(self) -> str:
        return self.name

    async def talk(self, connection: Channel) -> bool:
        if not self.is_idempotent:
            self.window.clear()
        elif self.producer is None:
            self.producer = await connection.producer_id()
            self.ledger.on_producer_id(self.producer[0])
            self.sequence = 0
        for each in self.window:
            self._send(connection, each)
        if self.window:
            self.ledger.counts["resends"] += 1
        random = connection.runtime.random
        depth = self.depth
        while True:
            is_last = self.world.is_ending
            while len(self.window) < random.randint(1, depth):
                self._send(connection, self._make(connection))
            if random.random() < HANGS_UP:
                await pause(connection.runtime, RETRY_S)
                raise Refused("nobody waits for the answers")
            while len(self.window) > (0 if is_last else random.randrange(depth)):
                await self._settle(connection)
            if is_last:
                return True
            if self.is_idempotent and not self.window and random.random() < RETIRES:
                # A new process: of the old id only its last batch tells, for as long as it counts.
                self._become_another()
                raise Refused("another writer begins")
            await pause(connection.runtime, self.world.pause_s)

    def _make(self, connection: Channel) -> InFlight:
        random = connection.runtime.random
        batch = []
        for _ in range(random.choice((1, 1, 2, 5))):
            name = f"{self.name}/{self.count}"
            self.count += 1
            key = f"key-{random.randrange(self.keys)}".encode() if self.keys else None
            value = name.encode() + b"." * random.choice((0, 10, 100, 900))
            is_deletion = key is not None and random.random() < 0.25
            batch.append(self.ledger.sending(Sent(name, key, None if is_deletion else value)))
        made = InFlight(tuple(batch), self.sequence, random.choice((1, -1)), connection.life)
        self.sequence += len(batch)
        self.window.append(made)
        return made

    def _send(self, connection: Channel, each: InFlight) -> None:
        producer = Producer()
        if self.is_idempotent:
            assert self.producer is not None
            self.at.sequences.pop(self.producer[0], None)
            producer = Producer(*self.producer, each.sequence)
        connection.send_batch(self.topic_id, self.index, each.batch, each.acks, producer)

    async def _settle(self, connection: Channel) -> None:
        outcome = await connection.outcome()
        code = ErrorCode(outcome.error_code)
        if code in FORGOTTEN:
            # A snapshot of producers holds the last batch of each. Of several whose answers were
            # lost with a life of the broker, the next one knows that one only: so does Kafka.
            is_excused = self.depth > 1 and connection.life > self.window[0].life
            demand(
                is_excused or not self.at.kind.is_durable,
                Promise.WRITER_GOES_ON,
                at=self.at,
                refused=code.name,
                sequence=self.window[0].sequence,
                life=connection.life,
            )
            self._become_another()
            self.ledger.counts["forgotten writers"] += 1
        checked(code)
        done = self.window.popleft()
        if self.is_current(connection, self.at):
            self.ledger.on_acknowledged(self.at, outcome.base_offset, done.batch)
            if self.producer is not None and not self.window:
                last = len(done.batch) - 1
                known = done.sequence + last, outcome.base_offset + last
                self.at.sequences[self.producer[0]] = known

    def _become_another(self) -> None:
        """With an id of its own, and a name: what is still on its way under the old ones may be
        appended later than what comes now, and no epoch keeps it away."""
        self.producer = None
        self.window.clear()
        self.generation += 1
        how, _, at = self.name.partition("-")
        self.name = f"{how.rstrip('0123456789')}{self.generation}-{at}"


class Reader(Client):
    """Reads one partition, from its beginning after every restart of the broker."""

    def __init__(self, world: World, at: tuple[Uuid, int]) -> None:
        super().__init__(world)
        self.topic_id, self.index = at
        self.at = self.ledger.partitions[at]
        self.position = -1
        self.life = -1
        self.expected: dict[int, tuple[int, int]] = {}
        self.sequences: dict[int, int] = {}
        """By producer: what the log has to tell, and what it told, since the last beginning."""

    def __str__(self) -> str:
        return f"reader-{self.at}"

    async def talk(self, connection: Channel) -> bool:
        if self.position < 0 or self.life != connection.life:
            await self._rewind(connection)
            self.life = connection.life
        random = connection.runtime.random
        while not self.world.is_ending:
            await self.read_on(connection, random.choice((300, 2000, 1 << 20)), wait_ms=50)
            if random.random() < 0.05:
                await self._rewind(connection)
        return True

    async def _rewind(self, connection: Channel) -> None:
        promised = self.at.promised_start
        self.expected, self.sequences = dict(self.at.sequences), {}
        self.position = await connection.earliest(self.at.topic, self.index)
        if self.is_current(connection, self.at):
            self.at.on_log_start(self.position, promised)

    async def read_on(
        self, connection: Channel, bytes_max: int, wait_ms: int
    ) -> list[tuple[int, Sent]]:
        """One fetch; what it brought."""
        found = await connection.fetch(self.topic_id, self.index, self.position, bytes_max, wait_ms)
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            demand(
                self.position < self.at.asked_start,
                Promise.SEEN_KEPT,
                at=self.at,
                position=self.position,
                high_watermark=found.high_watermark,
            )
            await self._rewind(connection)
            return []
        checked(found.error_code)
        self.at.on_high_watermark(connection.life, found.high_watermark)
        records = self._records(found)
        if self.is_current(connection, self.at):
            for offset, sent in records:
                self.ledger.on_read(self.at, offset, sent)
            if self.position >= found.high_watermark:
                self.at.check_sequences(self.expected, self.sequences, self.position)
        return records

    def _records(self, answer: PartitionData) -> list[tuple[int, Sent]]:
        try:
            batches = list(walk(answer.records or b""))
            records = list(iter_records(batches))
        except CorruptRecord as error:
            raise BrokenPromise(Promise.ONLY_SENT, f"{self.at}: {error}") from error
        for batch in batches:
            self.sequences[batch.header.producer_id] = batch.header.last_sequence
        found = []
        for record in records:
            if record.offset < self.position:
                continue
            demand(
                record.offset == self.position or self.at.kind.is_compacted,
                Promise.DENSE,
                at=self.at,
                expected=self.position,
                found=record.offset,
            )
            demand(
                record.offset < answer.high_watermark,
                Promise.BELOW_HIGH_WATERMARK,
                at=self.at,
                found=record.offset,
                high_watermark=answer.high_watermark,
            )
            name = bytes(record.headers[0][1] or b"").decode() if record.headers else ""
            found.append((record.offset, Sent(name, record.key, record.value)))
            self.position = record.offset + 1
        if batches:  # compaction leaves some that are empty, and gaps
            self.position = max(self.position, batches[-1].header.next_offset)
        return found

    async def read_all(self, connection: Channel) -> list[tuple[int, Sent]]:
        """Everything, while nobody writes. After a start the high watermark may stand lower than
        before, until what was found is durable anew: so does Kafka's."""
        await self._rewind(connection)
        whole: list[tuple[int, Sent]] = []
        newest = max(self.at.records, default=-1)
        patience = PATIENCE
        while patience:
            before = self.position
            answer = await connection.fetch(self.topic_id, self.index, before, 1 << 20, 50)
            checked(answer.error_code)
            whole += self._records(answer)
            if self.position == before:
                patience = 0 if answer.high_watermark > newest else patience - 1
                is_whole = self.at.kind.is_compacted or before == answer.high_watermark
                demand(is_whole or patience > 0, Promise.DENSE, at=self.at, stuck_at=before)
        return whole


class Administrator(Client):
    """Makes the topics; then creates, deletes and changes things, and looks at what was changed."""

    def __init__(self, world: World, layout: dict[str, tuple[Kind, int, dict[str, str]]]) -> None:
        """`layout`: the topics that are there from the beginning to the end."""
        super().__init__(world)
        self.layout = layout
        self.layout_is_there = False
        self.value = SETTING_BASE
        self.generation = 0

    async def talk(self, connection: Channel) -> bool:
        for name, (kind, partitions, configs) in self.layout.items():
            if self.ledger.topics.setdefault(name, Topic(kind)).topic_id is None:
                await self._create(connection, name, partitions, configs)
        self.layout_is_there = True
        random = connection.runtime.random
        actions = (
            self._change_setting,
            self._change_setting,
            self._delete_records,
            self._delete_records,
            self._die_and_rise,
            self.look,
        )
        while not self.world.is_ending:
            await random.choice(actions)(connection)
            await pause(connection.runtime, 4 * self.world.pause_s)
        await self.look(connection)
        return True

    async def _create(
        self, connection: Channel, name: str, partitions: int, configs: dict[str, str]
    ) -> None:
        """Asked for until it is there; nobody else makes one of that name."""
        topic = self.ledger.topics[name]
        former = topic.topic_id
        topic.may_exist = {True, False}
        code = await connection.create(name, partitions, configs)
        if code != ErrorCode.TOPIC_ALREADY_EXISTS:
            checked(code)
        topic_id = (await connection.topics())[name]
        demand(topic_id != former, Promise.METADATA_KEPT, deleted_topic_is_back=name)
        self.ledger.on_created(name, topic_id, partitions)

    async def _change_setting(self, connection: Channel) -> None:
        name = connection.runtime.random.choice(list(self.layout))
        self.value += 1
        value = str(self.value)
        settings = self.ledger.topics[name].settings
        if COUNTED_SETTING not in settings:
            settings[COUNTED_SETTING] = set(
                (await connection.configs(name, [COUNTED_SETTING])).values()
            )
        allowed = settings[COUNTED_SETTING]
        allowed.add(value)
        checked(await connection.set_config(name, COUNTED_SETTING, value))
        allowed.difference_update([each for each in allowed if each is None or each < value])
        self.ledger.counts["settings"] += 1

    async def _delete_records(self, connection: Channel) -> None:
        random = connection.runtime.random
        known = [each for each in self.ledger.partitions.values() if each.topic.startswith("cut")]
        at = random.choice(known)
        low, high = at.start, max(at.records, default=0)
        if high <= low:
            return
        offset = random.randint(low, min(high, low + 20))
        if not at.kind.is_durable:
            # The reader may be ahead of what the next life has.
            offset = min(offset, at.high_watermark)
        at.asked_start = max(at.asked_start, offset)
        start = await connection.delete_records(at.topic, at.index, offset)
        demand(start >= offset, Promise.LOG_START_KEPT, asked=offset, told=start)
        at.on_records_deleted(start)
        self.ledger.counts["record deletions"] += 1

    async def _die_and_rise(self, connection: Channel) -> None:
        """A topic is made, written to, deleted, made again: nothing of it comes back."""
        name = f"phoenix-{self.generation}"
        topic = self.ledger.topics.setdefault(name, Topic(Kind(is_durable=True)))
        if topic.may_exist != {True}:
            try:
                await self._create(connection, name, 1, {"flush.messages": "1"})
            except (*TROUBLE, Refused):
                self._give_up(topic)
                raise
            return
        assert topic.topic_id is not None
        if connection.runtime.random.random() < 0.5:
            sent = self.ledger.sending(Sent(f"phoenix/{self.value}", None, b"short life"))
            self.value += 1
            connection.send_batch(topic.topic_id, 0, [sent], -1, Producer())
            outcome = await connection.outcome()
            checked(outcome.error_code)
            at = self.ledger.partitions[topic.topic_id, 0]
            self.ledger.on_acknowledged(at, outcome.base_offset, [sent])
            return
        topic.may_exist = {True, False}
        try:
            checked(await connection.delete(topic.topic_id))
        except (*TROUBLE, Refused):
            self._give_up(topic)
            raise
        self.ledger.on_deleted(name)

    def _give_up(self, topic: Topic) -> None:
        """What was asked may happen late: nothing more is said of that topic."""
        topic.may_exist = {True, False}
        self.ledger.forget(topic)
        self.generation += 1

    async def look(self, connection: Channel) -> None:
        """Compare what the broker says with what was promised."""
        self.ledger.check_topics(await connection.topics())
        for name in self.layout:
            settings = self.ledger.topics[name].settings
            if settings:
                found = await connection.configs(name, list(settings))
                self.ledger.check_settings(name, found)


async def audit(world: World, runtime: Runtime) -> None:
    """Read all partitions from their beginnings, while nobody writes, and compare."""
    for key in list(world.ledger.partitions):
        reader = Reader(world, key)
        is_read = False
        while not is_read:
            try:
                async with channel(runtime, world) as connection:
                    found = await reader.read_all(connection)
                    reader.at.check_whole(found, world.ledger.sent.values())
                    is_read = True
            except (*TROUBLE, Refused):
                await pause(runtime, RETRY_S)
