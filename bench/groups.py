"""Groups beside Apache Kafka's coordinator: how soon their members share the partitions.

Fifty of our consumers share 500 partitions, with each protocol: all join, one leaves, one joins
(`bench.group_crowd`).

Both brokers have the same settings. Heartbeats are frequent, so that what remains is the
coordinator's and the clients' time. A classic group's first generation waits for its members,
though not as long as by default; otherwise the number of generations would be a matter of luck. (It
waits twice: again, because members joined during the first wait.)
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Final, TypeAlias

from bench.group_crowd import HEARTBEAT_MS, MEMBERS, PARTITIONS, PROTOCOLS, Acts, Crowd, make_topics
from bench.harness import Case, Goal, Table
from bench.peer_brokers import (
    BrokerProcess,
    KafkaPeer,
    MoldauBroker,
    cpu_seconds,
)
from moldau.runtime import Runtime
from moldau.runtime.real import run

Start: TypeAlias = "Callable[[Mapping[str, str]], AbstractContextManager[BrokerProcess]]"

OURS: Final = "moldau"
THEIRS: Final = "Kafka"
STARTS: Final[dict[str, Start]] = {OURS: MoldauBroker.started, THEIRS: KafkaPeer.started}
SECONDS_MAX: Final = 3.0
NOISE: Final = 0.05
"""How much two runs of one broker may differ."""

PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.min.session.timeout.ms": "1000",
}
ACT_NAMES: Final = {
    "all_join": f"{MEMBERS} members join",
    "one_leaves": "one leaves",
    "one_joins": "one joins",
}


@dataclass(slots=True)
class Story:
    """The acts of one group, and the broker's CPU for them."""

    acts: Acts
    cpu_seconds: float


class Stories:
    """Plays once for each broker, protocol and round; all tables of a protocol read the same."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._brokers: dict[str, BrokerProcess] = {
                name: stack.enter_context(start(PROPERTIES)) for name, start in STARTS.items()
            }
            for broker in self._brokers.values():
                run(partial(_prepare, port=broker.port))
            self._stack = stack.pop_all()
            atexit.register(self._stack.close)
        self._played: dict[tuple[str, str], list[Story]] = {}

    def story(self, broker: str, protocol: str, number: int) -> Story:
        """Return the story of that round. Play it if it is new."""
        played = self._played.setdefault((broker, protocol), [])
        while len(played) <= number:
            played.append(self._play(self._brokers[broker], protocol, len(played)))
        return played[number]

    def _play(self, broker: BrokerProcess, protocol: str, number: int) -> Story:
        async def play(runtime: Runtime) -> Acts:
            return await Crowd(runtime, broker.port, f"{protocol}-{number}", protocol).play()

        before = cpu_seconds(broker.pid)
        acts = run(play)
        return Story(acts, cpu_seconds(broker.pid) - before)


async def _prepare(runtime: Runtime, port: int) -> None:
    await make_topics(runtime, port)


@cache
def stories() -> Stories:
    return Stories()


def _reads(broker: str, protocol: str, what: Callable[[Story], float]) -> Case:
    """Return a case that reads one number of the next story."""
    numbers = iter(range(1_000_000))
    return Case(broker, lambda: what(stories().story(broker, protocol, next(numbers))))


def _story_tables(protocol: str) -> Iterator[Table]:
    for act in fields(Acts):

        def seconds(story: Story, name: str = act.name) -> float:
            return float(getattr(story.acts, name))

        yield Table(
            f"{protocol}: {ACT_NAMES[act.name]}, {PARTITIONS} partitions",
            "s until all partitions have owners again",
            [_reads(OURS, protocol, seconds), _reads(THEIRS, protocol, seconds)],
            [
                Goal(OURS, at_most=SECONDS_MAX),
                Goal(OURS, versus=THEIRS, ratio_at_most=1 + NOISE),
            ],
            higher_is_better=False,
        )
    yield Table(
        f"{protocol}: CPU of the broker, all acts together",
        "s",
        [
            _reads(OURS, protocol, lambda story: story.cpu_seconds),
            _reads(THEIRS, protocol, lambda story: story.cpu_seconds),
        ],
        higher_is_better=False,
    )


def tables() -> Sequence[Table]:
    """Return a table for each act of each protocol, and one for the broker's CPU."""
    return [table for protocol in PROTOCOLS for table in _story_tables(protocol)]
