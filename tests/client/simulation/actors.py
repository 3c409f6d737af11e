"""Processes of users: members of groups, an administrator, an auditor; who writes is in `writers`.

Each goes on whatever happens, as programs do that are started again when they end. Until the world
is `ending`: then producers see their records through, and members read until all is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final, Protocol

from moldau.broker.log.rounds import rest
from moldau.client import Admin, Consumer, NewTopic, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from tests.broker.simulation.promises import demand
from tests.client.simulation.promises import Promise
from tests.client.simulation.reading import Reading
from tests.client.simulation.records import MORTAL, Kind, Read, name_of
from tests.client.simulation.truth import Group, Truth
from tests.client.simulation.watch import Watch

LASTING: Final = ("a", "b")
HAND_PARTITIONS: Final = 2
"""Of `b`, for who reads it by hand."""
PARTITIONS_MAX: Final = 6
CLIENT: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "broker:9092",
    "request_timeout_ms": 500,
    "default_api_timeout_ms": 3000,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "metadata_max_age_ms": 700,
    "socket_connection_setup_timeout_ms": 500,
}
RETRY_S: Final = 0.05
POLL_S: Final = 0.2
SLOW_S: Final = 3.0
"""Longer than a user may take."""
OF_TOPICS: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))
OF_STATIC_MEMBERS: Final = frozenset(
    (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
)


class World(Protocol):
    """What processes know of the run that they are in."""

    truth: Truth
    watch: Watch
    is_ending: bool
    is_over: bool
    pause_s: float

    def on_ended(self) -> None: ...


async def pause(runtime: Runtime, mean_s: float) -> None:
    await rest(runtime.random.expovariate(1 / mean_s))


class Reader:
    """A member of a group, or its only consumer if it has no subscription."""

    def __init__(
        self, world: World, group: Group, name: str, options: Mapping[str, Any], what: Any
    ) -> None:
        """`what`: topics, or a pattern of them; None: all partitions of `b`, by hand."""
        self.world = world
        self.group = group
        self.name = name
        self.options = options
        self.what = what
        self.is_spare = False
        """It has the name of another one, and leaves when all heals."""
        self.changes_share = 0.01
        """After so many polls it gives all up and subscribes again."""

    async def run(self, runtime: Runtime) -> None:
        while not self._is_over():
            reader = Consumer(
                runtime=runtime,
                group_id=self.group.name,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                fetch_max_wait_ms=100,
                **{**CLIENT, **self.options},
            )
            try:
                async with reader:
                    await self._read(runtime, reader)
            except KafkaError as error:
                self._heard("consumer", error)
            finally:
                self.world.watch.readings.pop(self.name, None)
            await pause(runtime, RETRY_S)
        self.world.on_ended()

    def _is_over(self) -> bool:
        return self.world.is_over or (self.is_spare and self.world.is_ending)

    def _heard(self, who: str, error: KafkaError) -> None:
        self.world.truth.counts[f"{who} heard {error.code.name}"] += 1

    async def _read(self, runtime: Runtime, reader: Consumer) -> None:
        random = runtime.random
        watch = self.world.watch
        reading = Reading(self.world.truth, self.group, self.name, reader, watch.looking)
        watch.readings[self.name] = reading
        await self._subscribe(reader, reading)
        by_one = random.random() < 0.3
        while not self._is_over():
            try:
                if by_one:
                    await self._take_each(runtime, reader, reading)
                else:
                    await self._take_many(runtime, reader, reading)
            except KafkaError as error:
                self._heard("poll", error)
                self._check_told(error)
                if random.random() < 0.3:
                    return
                await pause(runtime, RETRY_S)
            if self.world.is_ending:
                continue
            if random.random() < 0.01:
                return
            if self.what is not None and random.random() < self.changes_share:
                await reader.unsubscribe()
                await self._subscribe(reader, reading)

    def _check_told(self, error: KafkaError) -> None:
        """What poll raises is what trying again does not heal."""
        is_of_topic = error.code in OF_TOPICS
        is_of_twins = error.code in OF_STATIC_MEMBERS and "group_instance_id" in self.options
        demand(
            is_of_topic or is_of_twins,
            Promise.TOLD_BY_POLL,
            member=self.name,
            error=str(error),
        )

    async def _subscribe(self, reader: Consumer, reading: Reading) -> None:
        if self.what is None:
            wanted = [TopicPartition("b", index) for index in range(HAND_PARTITIONS)]
            reader.assign(wanted)
            reading.on_partitions_assigned(wanted)
        elif isinstance(self.what, str):
            await reader.subscribe(pattern=self.what, listener=reading)
        else:
            await reader.subscribe(self.what, listener=reading)

    async def _take_many(self, runtime: Runtime, reader: Consumer, reading: Reading) -> None:
        random = runtime.random
        parts = await reader.poll(POLL_S, max_records=random.choice((1, 5, 500)))
        names = [
            (where, record.offset, reading.given(where, record))
            for part in parts
            for where in (TopicPartition(part.topic, part.partition),)
            for record in part.records
        ]
        if names:
            is_slow = random.random() < 0.01 and not self.world.is_ending
            await pause(runtime, SLOW_S if is_slow else self.world.pause_s / 2)
        for where, offset, name in names:
            self.group.worked_on(where, offset, name)
        await self._maybe_commit(random, reader)

    async def _take_each(self, runtime: Runtime, reader: Consumer, reading: Reading) -> None:
        """For a while, which may be over in the midst of waiting for more."""
        random = runtime.random
        try:
            async with asyncio.timeout(POLL_S):
                async for record in reader:
                    where = TopicPartition(record.topic, record.partition)
                    name = reading.given(where, record)
                    self.group.worked_on(where, record.offset, name)
                    if random.random() < 0.1:
                        await pause(runtime, self.world.pause_s)
        except TimeoutError:
            pass
        await self._maybe_commit(random, reader)

    async def _maybe_commit(self, random: Random, reader: Consumer) -> None:
        if self.options.get("enable_auto_commit", True) or random.random() < 0.5:
            return
        try:
            if random.random() < 0.5:
                reader.commit_soon()
            else:
                await reader.commit()
        except KafkaError as error:
            self._heard("commit", error)


class Administrator:
    """Makes the topics; then adds partitions, deletes and makes again, looks at groups, and sets
    the offsets of one that nobody is in."""

    def __init__(self, world: World, tool: Group) -> None:
        self.world = world
        self.tool = tool
        self.kinds = world.truth.records.kinds
        self.partitions: dict[str, int] = {}
        """Where some were added."""
        self.layout_is_there = False

    async def run(self, runtime: Runtime) -> None:
        is_over = False
        while not is_over:
            try:
                async with Admin(runtime=runtime, **CLIENT) as admin:
                    await self._make_topics(admin)
                    self.layout_is_there = True
                    while not self.world.is_ending:
                        await self._act(runtime, admin)
                        await pause(runtime, 6 * self.world.pause_s)
                    await self._make_topics(admin)
                is_over = True
            except KafkaError as error:
                self.world.truth.counts[f"admin heard {error.code.name}"] += 1
                await pause(runtime, RETRY_S)
        self.world.on_ended()

    async def _make_topics(self, admin: Admin) -> None:
        wanted = [
            NewTopic(name, each.partitions, 1, each.configs) for name, each in self.kinds.items()
        ]
        for made in (await admin.create_topics(wanted)).values():
            if isinstance(made, KafkaError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise made

    async def _act(self, runtime: Runtime, admin: Admin) -> None:
        random = runtime.random
        actions = (
            self._add_partitions,
            self._burn_and_rise,
            self._look,
            self._look,
            self._set_offsets,
            self._set_offsets,
            self._throw_out,
        )
        await random.choice(actions)(random, admin)

    async def _add_partitions(self, random: Random, admin: Admin) -> None:
        name = random.choice(LASTING)
        kind = self.kinds[name]
        count = self.partitions.get(name, kind.partitions) + 1
        if count <= PARTITIONS_MAX:
            kind.partitions_max = count
            try:
                await admin.create_partitions(name, count)
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_PARTITIONS:
                    raise  # else it was done the last time, and the answer was lost
            self.partitions[name] = count
            self.world.truth.counts["partitions added"] += 1

    async def _burn_and_rise(self, random: Random, admin: Admin) -> None:
        error = (await admin.delete_topics([MORTAL]))[MORTAL]
        if error is not None and error.code not in OF_TOPICS:
            raise error
        self.world.truth.counts["topics deleted"] += 1
        await rest(random.choice((0.0, 0.0, 1.0)))
        await self._make_topics(admin)

    async def _look(self, random: Random, admin: Admin) -> None:
        """What is told of offsets was so at some moment since it was asked for."""
        group = random.choice(list(self.world.truth.groups.values()))
        since = group.moments()
        found = await admin.group_offsets(group.name)
        group.check_committed({where: each.offset for where, each in found.items()}, since)
        await admin.list_groups()
        described = (await admin.describe_groups([group.name]))[group.name]
        if isinstance(described, KafkaError) and described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise described
        self.world.truth.counts["looks at groups"] += 1

    async def _set_offsets(self, random: Random, admin: Admin) -> None:
        where = TopicPartition(random.choice(LASTING), random.randrange(2))
        chosen = random.randrange(5)
        if chosen == 0:
            error = (await admin.delete_groups([self.tool.name]))[self.tool.name]
        elif chosen == 1:
            try:
                error = (await admin.delete_group_offsets(self.tool.name, [where]))[where]
            except KafkaError as refused:
                error = refused
        else:
            await admin.alter_group_offsets(self.tool.name, {where: random.randrange(1000)})
            error = None
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error
        self.world.truth.counts["offsets set"] += 1

    async def _throw_out(self, random: Random, admin: Admin) -> None:
        group = random.choice(list(self.world.truth.groups))
        try:
            await admin.remove_all_members(group)
        except KafkaError:
            return  # of another protocol, or gone by themselves
        self.world.truth.counts["members thrown out"] += 1


async def audit(runtime: Runtime, truth: Truth) -> None:
    """Reads everything that there is, while nobody writes."""
    async with (
        Consumer(
            runtime=runtime, auto_offset_reset="earliest", **{**CLIENT, "request_timeout_ms": 5000}
        ) as reader,
        Admin(runtime=runtime, **CLIENT) as admin,
    ):
        kinds = truth.records.kinds
        await _raise_the_mortal(admin, kinds[MORTAL])
        everything = await admin.partitions(*kinds)
        reader.assign(everything)
        # After a start the high watermark may stand lower than before, until what was found is
        # durable anew: so does Kafka's.
        ends = await reader.end_offsets(everything)
        ends = {each: max(ends[each], truth.records.known_end(each)) for each in everything}
        found: dict[TopicPartition, list[Read]] = {each: [] for each in everything}
        while any(len(found[each]) < ends[each] for each in everything):
            for part in await reader.poll(5.0):
                at = found[TopicPartition(part.topic, part.partition)]
                for record in part.records:
                    demand(record.offset == len(at), Promise.NO_GAP, at=part[:2])
                    at.append(record)
        truth.records.check_whole(found)
        for group in truth.groups.values():
            since = group.moments()
            told = await admin.group_offsets(group.name)
            group.check_committed({where: each.offset for where, each in told.items()}, since)
        check_all_was_worked_on(truth, found)


async def _raise_the_mortal(admin: Admin, kind: Kind) -> None:
    """A request to delete it that nobody waits for any more may come after it was made last."""
    made = (await admin.create_topics([NewTopic(MORTAL, kind.partitions, 1)]))[MORTAL]
    if isinstance(made, KafkaError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise made


def check_all_was_worked_on(truth: Truth, found: Mapping[TopicPartition, Iterable[Read]]) -> None:
    """By each group, of what it reads, and while it was there."""
    for group in truth.groups.values():
        for where, records in found.items():
            if group.is_free or not group.reads(where):
                continue
            names = [name_of(each) for each in records if each.offset < truth.ends.get(where, 0)]
            missing = [name for name in names if name not in group.names]
            demand(
                not missing, Promise.ALL_WORKED_ON, group=group.name, at=where, missing=missing[:5]
            )
