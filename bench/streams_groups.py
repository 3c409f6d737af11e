"""Failover in a streams group: the seconds from the moment when the owner of a task has left its
group to the first result of the worker that takes the task over.

An app keeps the last value of each key in one task, so that all of its store has to be there before
a result. Beside a store that has a standby stands one that has none and is restored; beside ours,
Kafka Streams in the same group protocol (KIP-1071) on the same broker. The owner is stopped in
order; the clock starts when the broker does not list it any more, so that what the two do until
then does not count. Each round stops the worker that took over in the round before.

`BENCH_STORE_MB` is the size of the store: 400 unless it is given, so that a run of one round takes
less than ten minutes; 1000 for a store of one gigabyte. `KAFKA_PEER_VERSION=4.4.0` chooses Kafka
Streams. Without Java or Maven its rows are missing.
"""

from __future__ import annotations

import atexit
import base64
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Final

from bench import streams
from bench.harness import Case, Goal, Missing, Table
from bench.streams import JAVA, OURS, App, fresh
from moldau.client import KafkaError, Resource, ResourceType, TopicPartition
from moldau.client.sync import Consumer, Producer
from tests.peers.apache_kafka import PeerMissing

STORE_MB: Final = int(os.environ.get("BENCH_STORE_MB", "400"))
LEAST_MB: Final = 64
VALUE_BYTES: Final = 1000
RECORDS: Final = STORE_MB * 1_000_000 // VALUE_BYTES
MOST_S: Final = 2.0
"""The goal: a standby has taken over after this time."""
WAIT_S: Final = 300.0
STABLE_S: Final = 5.0
"""A copy is whole when its files have not grown for so long."""
TOGETHER: Final = {"BENCH_GROUP_PROTOCOL": "streams", "BENCH_COMMIT_MS": "100"}
OURS_GIVEN: Final = ("--set", "group.protocol=streams", "--set", "commit.interval.ms=100")
_marks = count()


@dataclass
class Group:
    """The workers of one app: the one that owns the task, and the one that comes for a round."""

    app: App
    has_standby: bool
    stack: ExitStack = field(default_factory=ExitStack)
    owner: int = 0
    process: subprocess.Popen[bytes] | None = None

    def state(self, index: int) -> Path:
        return self.app.state / str(index)

    def start(self, index: int) -> subprocess.Popen[bytes]:
        state = self.state(index)
        state.mkdir(parents=True, exist_ok=True)
        app = replace(self.app, state=state)
        words, named = streams.command(app)
        given = () if app.library == JAVA else OURS_GIVEN
        running: AbstractContextManager[subprocess.Popen[bytes]] = streams.started(
            app, [*words, *given], {**named, **TOGETHER}
        )
        return self.stack.enter_context(running)

    def members(self) -> int:
        found = streams.arena().admin.describe_groups([self.app.name])[self.app.name]
        return 0 if isinstance(found, KafkaError) else len(found.members)


def until(reached: partial[bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Wait until something is reached. Raise Missing if it takes too long or the app ends."""
    deadline = time.monotonic() + WAIT_S
    while not reached():
        if time.monotonic() > deadline:
            raise Missing(f"{what}: not after {WAIT_S:.0f} s")
        if (code := process.poll()) is not None:
            raise Missing(f"{what}: the app ended with exit code {code}")
        time.sleep(0.01)


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder that a process is writing to."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


@cache
def loaded() -> str:
    """Return the topic with a value for each key, made once."""
    arena = streams.arena()
    name = arena.topic(f"kept-{STORE_MB}")
    chance = random.Random(name)
    size = VALUE_BYTES * 3 // 4  # of bytes that no compression makes smaller, as text
    with Producer(bootstrap_servers=arena.bootstrap) as producer:
        for first in range(0, RECORDS, 10_000):
            numbers = range(first, min(RECORDS, first + 10_000))
            producer.send_many(
                name,
                [base64.b64encode(chance.randbytes(size)) for _ in numbers],
                keys=[b"key-%08d" % number for number in numbers],
            )
            producer.flush()
    return name


def first_result(group: Group, process: subprocess.Popen[bytes]) -> float:
    """Send a record with a short value, and return when its result is there."""
    arena = streams.arena()
    key = b"mark-%d" % next(_marks)
    where = TopicPartition(group.app.out, 0)
    with (
        Consumer(bootstrap_servers=arena.bootstrap, auto_offset_reset="earliest") as consumer,
        Producer(bootstrap_servers=arena.bootstrap) as producer,
    ):
        consumer.assign([where])
        producer.send(group.app.topics[0], b"now", key=key)
        producer.flush()

        def is_there() -> bool:
            return any(key in part.keys.tolist() for part in consumer.poll_batches(0.02))

        until(partial(is_there), process, "a result")
    return time.perf_counter()


@cache
def group(library: str, has_standby: bool) -> Group:
    """Return the workers of an app that has read the whole load."""
    topic = loaded()
    app = fresh(library, "kept", (topic, topic))
    standbys = "1" if has_standby else "0"
    streams.arena().admin.alter_configs(
        Resource(ResourceType.GROUP, app.name),
        set_to={"streams.num.standby.replicas": standbys},
    )
    made = Group(app, has_standby)
    atexit.register(made.stack.close)
    made.process = made.start(0)
    first_result(made, made.process)
    return made


def is_whole(copy: Path, least: int, seen: dict[int, float]) -> bool:
    """Whether a copy has grown to at least so many bytes, and grows no more."""
    size = size_of(copy)
    since = seen.setdefault(size, time.monotonic())
    return size >= least and time.monotonic() - since > STABLE_S


def failover(library: str, has_standby: bool) -> float:
    """Return the seconds from the owner's end in the group to the first result of the other."""
    if STORE_MB < LEAST_MB:
        raise Missing(f"a store of less than {LEAST_MB} MB is not on a disk: no copy can be seen")
    made = group(library, has_standby)
    leaving = made.process
    assert leaving is not None
    index = 1 - made.owner
    if not has_standby:
        shutil.rmtree(made.state(index), ignore_errors=True)
    taking = made.start(index)
    until(partial(lambda: made.members() == 2), taking, "two members")
    if has_standby:
        seen: dict[int, float] = {}
        least = STORE_MB * 1_000_000 // 2
        until(partial(is_whole, made.state(index), least, seen), taking, "a whole copy")
    leaving.send_signal(signal.SIGTERM)
    until(partial(lambda: made.members() == 1), taking, "one member")
    begun = time.perf_counter()
    ended = first_result(made, taking)
    leaving.wait(WAIT_S)
    made.owner, made.process = index, taking
    return ended - begun


def _libraries() -> list[str]:
    try:
        streams.java_command()
    except PeerMissing:
        return [OURS]
    return [OURS, JAVA]


def tables() -> Iterator[Table]:
    """Measure a failover with and without a standby."""
    libraries = _libraries()
    cases = [
        Case(f"{library}, {'a standby' if has_standby else 'a restore'}", run)
        for library in libraries
        for has_standby in (True, False)
        for run in (partial(failover, library, has_standby),)
    ]
    goals = [Goal(f"{OURS}, a standby", at_most=MOST_S)]
    if JAVA in libraries:
        goals += [
            Goal(f"{OURS}, {how}", f"{JAVA}, {how}", ratio_at_most=1.0)
            for how in ("a standby", "a restore")
        ]
    title = f"failover of a store of {STORE_MB} MB"
    yield Table(title, "s", cases, goals, higher_is_better=False)
