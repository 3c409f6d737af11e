"""Streams groups beside Kafka Streams in the same protocol (KIP-1071), on the same broker.

- *Records stand still*: a hundred tasks, and a worker that comes to three others or goes
  (bench/streams_standstill.py). Beside it stands the same while nothing moves.
- *Failover*: the seconds from the moment when the owner of a task has left its group to the first
  result of the worker that takes the task over. An app keeps the last value of each key in one
  task, so that all of its store has to be there before a result. Beside a store that has a standby
  stands one that has none and is restored. The owner is stopped in order; the clock starts when the
  broker does not list it any more, so that what the two do until then does not count. Ours runs the
  task until the other has it, so what is left is a record's way through a worker at rest, with a
  new producer and a new consumer of the bench. Each round stops the worker that took over in the
  round before.
- *Restore* of a count without its store, as in `bench.streams`.
- *Members*: a thousand at the broker, beside Apache Kafka's (bench/streams_crowd.py).

`BENCH_STORE_MB` is the size of the store of a failover: 400 unless it is given, so that a run of
one round takes less than ten minutes; 1000 for a store of one gigabyte. `BENCH_SCALE` is that of
`bench.streams`, and `KAFKA_PEER_VERSION` chooses Kafka Streams. Without Java or Maven its rows are
missing.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from bench import streams
from bench.groups import STARTS
from bench.harness import Case, Goal, Missing, Table
from bench.streams import JAVA, OURS, fresh
from bench.streams_crowd import MEMBERS, Crowd, crowd
from bench.streams_members import WAIT_S, Group, until
from bench.streams_standstill import TASKS, Moves, moves
from moldau.client import Resource, ResourceType, TopicPartition
from moldau.client.sync import Consumer, Producer
from tests.peers.apache_kafka import PeerMissing

STORE_MB: Final = int(os.environ.get("BENCH_STORE_MB", "400"))
LEAST_MB: Final = 64
VALUE_BYTES: Final = 1000
RECORDS: Final = STORE_MB * 1_000_000 // VALUE_BYTES
MOST_S: Final = 2.0
"""The goal: a standby has taken over after this time."""
MOST_OF_JAVA: Final = 0.3
STABLE_S: Final = 5.0
"""A copy is whole when its files have not grown for so long."""
_marks = count()
T = TypeVar("T")


@dataclass
class Pair:
    """The workers of one app: the one that owns the task, and the one that comes for a round."""

    group: Group
    process: subprocess.Popen[bytes]
    owner: int = 0


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
def pair(library: str, has_standby: bool) -> Pair:
    """Return the workers of an app that has read the whole load."""
    topic = loaded()
    app = fresh(library, "kept", (topic, topic))
    standbys = "1" if has_standby else "0"
    streams.arena().admin.alter_configs(
        Resource(ResourceType.GROUP, app.name),
        set_to={"streams.num.standby.replicas": standbys},
    )
    group = Group(app)
    atexit.register(group.stack.close)
    made = Pair(group, group.start(0))
    first_result(group, made.process)
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
    made = pair(library, has_standby)
    group, leaving = made.group, made.process
    index = 1 - made.owner
    if not has_standby:
        shutil.rmtree(group.state(index), ignore_errors=True)
    taking = group.start(index)
    until(lambda: group.members() == 2, taking, "two members")
    if has_standby:
        seen: dict[int, float] = {}
        least = STORE_MB * 1_000_000 // 2
        until(partial(is_whole, group.state(index), least, seen), taking, "a whole copy")
    leaving.send_signal(signal.SIGTERM)
    until(lambda: group.members() == 1, taking, "one member")
    begun = time.perf_counter()
    ended = first_result(group, taking)
    leaving.wait(WAIT_S)
    made.owner, made.process = index, taking
    return ended - begun


def _libraries() -> list[str]:
    try:
        streams.java_command()
    except PeerMissing:
        return [OURS]
    return [OURS, JAVA]


def _failover_table(libraries: Sequence[str]) -> Table:
    cases = [
        Case(f"{library}, {'a standby' if has_standby else 'a restore'}", run)
        for library in libraries
        for has_standby in (True, False)
        for run in (partial(failover, library, has_standby),)
    ]
    goals = [Goal(f"{OURS}, a standby", at_most=MOST_S)]
    if JAVA in libraries:
        goals += [
            Goal(f"{OURS}, a standby", f"{JAVA}, a standby", ratio_at_most=MOST_OF_JAVA),
            Goal(f"{OURS}, a restore", f"{JAVA}, a restore", ratio_at_most=1.0),
        ]
    title = f"failover of a store of {STORE_MB} MB"
    return Table(title, "s", cases, goals, higher_is_better=False)


def _standstill_tables(libraries: Sequence[str]) -> Iterator[Table]:
    reads: dict[str, Callable[[Moves], float]] = {
        "a worker comes, the mean task": lambda found: found.comes.mean_s,
        "a worker comes, the longest": lambda found: found.comes.longest_s,
        "a worker goes, the mean task": lambda found: found.goes.mean_s,
        "a worker goes, the longest": lambda found: found.goes.longest_s,
    }
    still: dict[str, Callable[[Moves], float]] = {
        "the mean task": lambda found: found.still.mean_s,
        "the longest": lambda found: found.still.longest_s,
    }
    goals = [Goal(OURS, JAVA, ratio_at_most=MOST_OF_JAVA)] if JAVA in libraries else []
    for what, read in reads.items():
        cases = [_next_of(partial(moves, library), library, read) for library in libraries]
        at_rest = still[what.partition(", ")[2]]
        cases += [
            _next_of(partial(moves, library), f"{library}, nothing moves", at_rest)
            for library in libraries
        ]
        title = f"{TASKS} tasks stand still: {what}"
        yield Table(title, "s without a result", cases, goals, higher_is_better=False)


def _members_tables() -> Iterator[Table]:
    reads: dict[str, tuple[Callable[[Crowd], float], str, float]] = {
        "p99 of a heartbeat": (lambda found: found.p99_s, "s", 0.02),
        "memory": (lambda found: found.resident_mb, "MB resident", 100.0),
    }
    for what, (read, unit, most) in reads.items():
        cases = [_next_of(partial(crowd, broker), broker, read) for broker in STARTS]
        title = f"{MEMBERS} members of streams groups: {what}"
        yield Table(title, unit, cases, [Goal(OURS, at_most=most)], higher_is_better=False)


def _next_of(measured: Callable[[int], T], name: str, read: Callable[[T], float]) -> Case:
    """Return a case that reads one number of the next round."""
    numbers = count()
    return Case(name, lambda: read(measured(next(numbers))))


def tables() -> Iterator[Table]:
    """Measure moves, failovers, a restore, and members at the broker."""
    libraries = _libraries()
    yield from _standstill_tables(libraries)
    yield _failover_table(libraries)
    yield Table(
        f"restore of a count of {streams.RESTORED} records",
        "s",
        [Case(library, partial(streams.restore, library)) for library in libraries],
        [Goal(OURS, JAVA, ratio_at_most=0.1)] if JAVA in libraries else [],
        higher_is_better=False,
    )
    yield from _members_tables()
