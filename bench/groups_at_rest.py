"""Groups at rest beside Apache Kafka's coordinator: what 1,000 of them with ten members cost.

Each member has a connection, and sends heartbeats and commits as often as clients do by default
(`bench.group_wire`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from bench.group_wire import GROUPS, MEMBERS_A_GROUP, TOPIC, formed
from bench.groups import OURS, STARTS, THEIRS
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, BrokerProcess, cpu_seconds, resident_bytes
from moldau.client import Admin, NewTopic
from moldau.runtime import Runtime
from moldau.runtime.real import run

STEADY_SECONDS: Final = 15.0
SETTLING_SECONDS: Final = 5.0
CORE_PERCENT_MAX: Final = 30.0

STEADY_PROPERTIES: Final = {
    # Long enough for most members of a group to be in its first generation.
    "group.initial.rebalance.delay.ms": "200",
    # Members come in one by one, and each is to have its partition at once.
    "group.consumer.assignment.interval.ms": "0",
    # All connections are opened in a row.
    "socket.listen.backlog.size": "4096",
}


@dataclass(slots=True)
class Rest:
    """What a broker needs for groups that are at rest."""

    core_percent: float
    resident_mib: float
    answers_a_second: float


@cache
def rest(broker: str, *, is_consumer: bool) -> Rest:
    """Measured once, on a broker of its own: it takes minutes, most of them for members to come."""
    with STARTS[broker](STEADY_PROPERTIES) as process:
        return _at_rest(process, is_consumer=is_consumer)


def _at_rest(broker: BrokerProcess, *, is_consumer: bool) -> Rest:
    async def live(runtime: Runtime) -> Rest:
        async with Admin(bootstrap_servers=f"{HOST}:{broker.port}", runtime=runtime) as admin:
            topic_id = (await admin.create_topic(NewTopic(TOPIC, MEMBERS_A_GROUP, 1))).topic_id
        steady = await formed(broker.port, "steady", topic_id, is_consumer=is_consumer)
        await steady.live(SETTLING_SECONDS)
        before = cpu_seconds(broker.pid)
        start = time.perf_counter()
        answers_a_second = await steady.live(STEADY_SECONDS)
        cores = (cpu_seconds(broker.pid) - before) / (time.perf_counter() - start)
        memory = resident_bytes(broker.pid)
        steady.close()
        return Rest(100 * cores, memory / (1 << 20), answers_a_second)

    return run(live)


def _rest_case(broker: str, what: Callable[[Rest], float], *, is_consumer: bool) -> Case:
    return Case(broker, lambda: what(rest(broker, is_consumer=is_consumer)))


def tables() -> Sequence[Table]:
    """CPU, memory and what was asked, for groups of each protocol."""
    return list(_tables())


def _tables() -> Iterator[Table]:
    for kind, is_consumer in (("classic", False), ("KIP-848", True)):
        title = f"{GROUPS} {kind} groups of {MEMBERS_A_GROUP} members at rest"
        case = partial(_rest_case, is_consumer=is_consumer)
        yield Table(
            f"{title}: CPU",
            "% of a core",
            [
                case(OURS, lambda found: found.core_percent),
                case(THEIRS, lambda found: found.core_percent),
            ],
            [Goal(OURS, at_most=CORE_PERCENT_MAX)],
            higher_is_better=False,
            notes=[
                "each member has a connection, and commits an offset every 5 s",
                f"measured once, over {STEADY_SECONDS:.0f} s: all rounds tell the same",
            ],
        )
        yield Table(
            f"{title}: memory",
            "MiB resident",
            [
                case(OURS, lambda found: found.resident_mib),
                case(THEIRS, lambda found: found.resident_mib),
            ],
            higher_is_better=False,
        )
        yield Table(
            f"{title}: what was asked",
            "answers/s",
            [
                case(OURS, lambda found: found.answers_a_second),
                case(THEIRS, lambda found: found.answers_a_second),
            ],
        )
