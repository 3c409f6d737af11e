"""Groups at rest beside Apache Kafka's coordinator: the cost of 1,000 groups with ten members each.

Each member has a connection and sends heartbeats as often as clients do by default. In the second
measurement it also commits an offset every 5 s, as clients with `enable.auto.commit` do
(`bench.group_wire`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from bench.group_wire import GROUPS, MEMBERS_A_GROUP, TOPIC, Steady, formed
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
    """What a broker needs for groups at rest."""

    core_percent: float
    core_percent_with_commits: float
    resident_mib: float
    answers_a_second: float


@cache
def rest(broker: str, *, is_consumer: bool) -> Rest:
    """Measure once, on a separate broker: it takes minutes, mostly until all members joined."""
    with STARTS[broker](STEADY_PROPERTIES) as process:
        return _at_rest(process, is_consumer=is_consumer)


def _at_rest(broker: BrokerProcess, *, is_consumer: bool) -> Rest:
    async def live(runtime: Runtime) -> Rest:
        async with Admin(bootstrap_servers=f"{HOST}:{broker.port}", runtime=runtime) as admin:
            topic_id = (await admin.create_topic(NewTopic(TOPIC, MEMBERS_A_GROUP, 1))).topic_id
        steady = await formed(broker.port, "steady", topic_id, is_consumer=is_consumer)
        await steady.live(SETTLING_SECONDS)
        core_percent, _ = await _percent_of_a_core(broker, steady, commits_too=False)
        with_commits, answers_a_second = await _percent_of_a_core(broker, steady, commits_too=True)
        memory = resident_bytes(broker.pid)
        steady.close()
        return Rest(core_percent, with_commits, memory / (1 << 20), answers_a_second)

    return run(live)


async def _percent_of_a_core(
    broker: BrokerProcess, steady: Steady, *, commits_too: bool
) -> tuple[float, float]:
    """Return the broker's CPU while the members keep their pace, and its answers a second."""
    before = cpu_seconds(broker.pid)
    start = time.perf_counter()
    answers_a_second = await steady.live(STEADY_SECONDS, commits_too=commits_too)
    cores = (cpu_seconds(broker.pid) - before) / (time.perf_counter() - start)
    return 100 * cores, answers_a_second


def _rest_case(broker: str, what: Callable[[Rest], float], *, is_consumer: bool) -> Case:
    return Case(broker, lambda: what(rest(broker, is_consumer=is_consumer)))


def _core_table(title: str, case: Callable[..., Case], percent: Callable[[Rest], float]) -> Table:
    return Table(
        title,
        "% of a core",
        [case(OURS, percent), case(THEIRS, percent)],
        [Goal(OURS, at_most=CORE_PERCENT_MAX)],
        higher_is_better=False,
        notes=[
            "each member has a connection",
            f"measured once, over {STEADY_SECONDS:.0f} s: all rounds tell the same",
        ],
    )


def tables() -> Sequence[Table]:
    """Return the tables of CPU, memory and requests, for groups of each protocol."""
    return list(_tables())


def _tables() -> Iterator[Table]:
    for kind, is_consumer in (("classic", False), ("KIP-848", True)):
        title = f"{GROUPS} {kind} groups of {MEMBERS_A_GROUP} members at rest"
        case = partial(_rest_case, is_consumer=is_consumer)
        yield _core_table(f"{title}: CPU", case, lambda found: found.core_percent)
        yield _core_table(
            f"{title}, each commits an offset every 5 s: CPU",
            case,
            lambda found: found.core_percent_with_commits,
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
            f"{title}, each commits an offset every 5 s: what was asked",
            "answers/s",
            [
                case(OURS, lambda found: found.answers_a_second),
                case(THEIRS, lambda found: found.answers_a_second),
            ],
        )
