"""From `send` to the consumer, beside confluent-kafka's and aiokafka's: one record a millisecond.

One process has a producer and a consumer of one client. The time is from the call that takes the
record until the consumer returns it. Once without any setting, where our client and confluent-kafka
let a record wait 5 ms for other records (aiokafka does not, and is left out), and once with
`linger.ms` 0. "uvloop" is our client on that event loop, which is installed with it. First on
moldau's broker, then on Apache Kafka.

The slowest hundredth of a run are about ten moments in which the host takes a core away. One run
may take three times as long as another, so this area needs more rounds than `bench.consumer`.

`BENCH_SCALE=0.1` makes every run a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Final

from bench.broker import Twofold
from bench.broker_load import create_topic, p50_and_p99
from bench.consumer import AIOKAFKA, CONFLUENT, OURS, program, scaled
from bench.harness import Case, Goal, Table
from bench.peer_brokers import BrokerProcess, KafkaPeer, MoldauBroker, both

PER_SECOND: Final = 1_000
ON_THEIR_WAY: Final = 5_000
ON_UVLOOP: Final = "moldau, uvloop"


@cache
def brokers() -> dict[str, BrokerProcess]:
    """Return both brokers, started when the first case runs."""
    with ExitStack() as stack:
        found = both(stack)
        atexit.register(stack.pop_all().close)
    return found


def through(broker: str, linger_ms: Sequence[int], client: str) -> tuple[float, float]:
    """Return p50 and p99 of one run, in seconds."""
    topic = f"through-{time.monotonic_ns()}"
    create_topic(brokers()[broker], topic, 1)
    load = (brokers()[broker].port, topic, PER_SECOND, scaled(ON_THEIR_WAY), *linger_ms)
    return p50_and_p99(sorted(map(float, program("bench.through", client, *load))))


def tables() -> Iterator[Table]:
    for broker in (MoldauBroker.name, KafkaPeer.name):
        yield from _latency(broker, "default settings", [CONFLUENT, OURS, ON_UVLOOP])
        yield from _latency(broker, "linger.ms=0", [CONFLUENT, AIOKAFKA, OURS, ON_UVLOOP], 0)


def _latency(
    broker: str, settings: str, clients: Sequence[str], *linger_ms: int
) -> Iterator[Table]:
    """Return the tables of p50 and p99 of the same runs."""
    found = {name: Twofold(partial(through, broker, linger_ms, name)) for name in clients}
    for share, take in (("p50", Twofold.first), ("p99", Twofold.second)):
        yield Table(
            f"{PER_SECOND:,} a second, {settings}, by {broker}: {share}",
            "seconds",
            [Case(name, partial(take, each)) for name, each in found.items()],
            [Goal(OURS, CONFLUENT, ratio_at_most=1.0)] if share == "p99" else [],
            higher_is_better=False,
        )
