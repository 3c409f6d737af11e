"""How long records stand still while the tasks of a streams group move to another member.

Each of a hundred tasks gets a record every `EVERY_S`, and an app with state writes a result for
each at its next commit, 100 ms after the last one. A worker comes to three others, and goes again;
meanwhile the longest time without a result is measured for each task.

So no task can measure less than a commit's interval, a record's, and the longest commit of its
worker meanwhile. `still` is what that comes to while nothing moves: the same gaps, of `STILL_S`
before the worker comes.
"""

from __future__ import annotations

import atexit
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench import streams
from bench.harness import Missing
from bench.streams import fresh
from bench.streams_members import WAIT_S, Group
from moldau.client import TopicPartition
from moldau.client.sync import Consumer, Producer

TASKS: Final = 100
MEMBERS: Final = 4
EVERY_S: Final = 0.1
"""A commit's interval, so that nearly each commit of a task that runs has a result. With records
each 40 ms the members at rest alone take 1.3 of two cores, and everything is slower."""
STILL_S: Final = 2.0
KEPT: Final = 500
"""The rows in the store of a task, few enough for it to move without a warm-up."""
_LOOK_S: Final = 0.2
_KEYS: Final = [b"at-%03d" % number for number in range(TASKS)]
_KNOWN: Final = frozenset(_KEYS)


@dataclass(frozen=True, slots=True)
class Standstill:
    """The longest time without a result: of all tasks, and of the mean task."""

    longest_s: float
    mean_s: float


@dataclass(frozen=True, slots=True)
class Moves:
    """What happened while nothing moved, when a worker came, and when it went."""

    still: Standstill
    comes: Standstill
    goes: Standstill


class Flow:
    """Records that come all the time, and the results that are read."""

    def __init__(self, group: Group, consumer: Consumer) -> None:
        self._group = group
        self._consumer = consumer
        self._last: dict[bytes, float] = {}
        self._gaps: dict[bytes, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, name="records")

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _send(self) -> None:
        topic, partitions = self._group.app.topics[0], list(range(TASKS))
        with Producer(bootstrap_servers=streams.arena().bootstrap) as producer:
            number = 0
            while not self._is_over.wait(EVERY_S):
                number += 1
                values = [b"%d" % number] * TASKS
                producer.send_many(topic, values, keys=_KEYS, partition=partitions)

    def read(self) -> None:
        """Take the results that are there, or wait for some for a moment."""
        for part in self._consumer.poll_batches(0.02):
            now = time.perf_counter()
            for key in _KNOWN.intersection(part.keys.tolist()):
                self._gaps[key] = max(self._gaps.get(key, 0.0), now - self._last.get(key, now))
                self._last[key] = now

    def read_until(self, shared_by: int, processes: list[subprocess.Popen[bytes]]) -> None:
        """Read until that many members share all tasks, and each task has had a result since."""
        deadline, look_at = time.monotonic() + WAIT_S, 0.0
        since: float | None = None
        while since is None or any(self._last.get(key, 0.0) < since for key in _KEYS):
            if time.monotonic() > deadline:
                raise Missing(f"{shared_by} members do not share all tasks after {WAIT_S:.0f} s")
            for process in processes:
                if (code := process.poll()) is not None:
                    raise Missing(f"a worker ended with exit code {code}")
            self.read()
            if since is None and time.monotonic() > look_at:
                look_at = time.monotonic() + _LOOK_S
                shares = self._group.shares()
                is_shared = len(shares) == shared_by and sum(shares) == TASKS
                if is_shared and min(shares) >= TASKS // shared_by:
                    since = time.perf_counter() + 1.0  # what is read then has come after it

    def standstill(self, act: Callable[[], None]) -> Standstill:
        """Measure the gaps from before `act` until after it."""
        self._gaps.clear()
        act()
        gaps = [self._gaps.get(key, 0.0) for key in _KEYS]
        return Standstill(max(gaps), sum(gaps) / TASKS)


@cache
def _group(library: str) -> tuple[Group, list[subprocess.Popen[bytes]]]:
    """Start all workers but one, on a topic that fills the stores."""
    name = streams.arena().topic(f"moved-{library.replace(' ', '-')}", TASKS)
    with Producer(bootstrap_servers=streams.arena().bootstrap) as producer:
        for partition in range(TASKS):
            keys = [b"kept-%05d" % number for number in range(KEPT)]
            producer.send_many(name, [b"x" * 200] * KEPT, keys=keys, partition=partition)
    group = Group(fresh(library, "kept", (name, name)))
    atexit.register(group.stack.close)
    return group, [group.start(index) for index in range(MEMBERS - 1)]


@cache
def moves(library: str, number: int) -> Moves:
    """Measure one round: a worker comes, and goes."""
    group, processes = _group(library)
    with Consumer(bootstrap_servers=streams.arena().bootstrap) as consumer:
        consumer.assign([TopicPartition(group.app.out, 0)])
        with Flow(group, consumer) as flow:
            flow.read_until(MEMBERS - 1, processes)
            more: list[subprocess.Popen[bytes]] = []

            def stay() -> None:
                end = time.monotonic() + STILL_S
                while time.monotonic() < end:
                    flow.read()

            def come() -> None:
                more.append(group.start(MEMBERS - 1 + number))
                flow.read_until(MEMBERS, [*processes, *more])

            def go() -> None:
                more[0].send_signal(signal.SIGTERM)
                flow.read_until(MEMBERS - 1, processes)

            found = Moves(flow.standstill(stay), flow.standstill(come), flow.standstill(go))
        more[0].wait(WAIT_S)
    return found
