"""Plans for `moldau reassign`: the JSON of kafka-reassign-partitions, and the spread of replicas.

Invariants: a plan keeps a replica where it is unless its broker is not among the given ones, or has
more than its share; a partition has at most one replica on a broker, and its replicas are in as
many racks as before or more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.cli.command import UsageError
from moldau.errors.amounts import counted
from moldau.operations.balance import Brokers as Brokers
from moldau.operations.balance import Place as Place
from moldau.operations.balance import Replicas as Replicas
from moldau.operations.balance import level_counts

_VERSION: Final = 1
_ANY: Final = "any"


def plan_text(replicas: Mapping[Place, Sequence[int]]) -> str:
    """Return a plan in the format of Kafka's tool, as one line."""
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "replicas": list(brokers),
            "log_dirs": [_ANY] * len(brokers),
        }
        for (topic, number), brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions}, separators=(",", ":"))


def parse_plan(text: str, name: str) -> dict[Place, Replicas]:
    """Return the replicas of each partition. Raise UsageError that says what is wrong in `name`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise UsageError(f'{name} does not say "version": {_VERSION}')
    rows = document.get("partitions")
    if not isinstance(rows, list) or not rows:
        raise UsageError(f'{name} names no "partitions"')
    found: dict[Place, Replicas] = {}
    for number, row in enumerate(rows):
        place, replicas = _row(row, f"{name}: partitions[{number}]")
        if place in found:
            raise UsageError(f"{name} names {place[0]}-{place[1]} twice")
        found[place] = replicas
    return found


def _row(row: Any, where: str) -> tuple[Place, Replicas]:
    if not isinstance(row, dict):
        raise UsageError(f"{where} is not an object")
    topic, number, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise UsageError(f'{where} has no "topic"')
    if type(number) is not int or number < 0:
        raise UsageError(f'{where} has no "partition" number')
    if not isinstance(replicas, list) or not replicas:
        raise UsageError(f'{where} has no "replicas"')
    if not all(type(each) is int and each >= 0 for each in replicas):
        raise UsageError(f"{where}: replicas are ids of brokers")
    if len(set(replicas)) != len(replicas):
        raise UsageError(f"{where}: a broker holds two replicas")
    directories = row.get("log_dirs", [_ANY] * len(replicas))
    if directories != [_ANY] * len(replicas):
        raise UsageError(f'{where}: every one of log_dirs has to be "any", one a replica')
    return (topic, number), tuple(replicas)


def spread(
    current: Mapping[Place, Sequence[int]], brokers: Brokers, factor: int | None = None
) -> dict[Place, Replicas]:
    """Return replicas for each partition, on these brokers only, with as few moves as an even
    spread needs. `factor` is the number of replicas of each partition; None keeps the present
    number."""
    if not brokers.racks:
        raise UsageError("no brokers are left that could have the replicas")
    placed = {}
    for place, replicas in sorted(current.items()):
        wanted = factor or len(replicas)
        if wanted > len(brokers.racks):
            raise UsageError(
                f"{place[0]}-{place[1]} shall have {counted(wanted, 'replica')}, and there is "
                f"room on {counted(len(brokers.racks), 'broker')}"
            )
        placed[place] = [each for each in replicas if each in brokers.racks][:wanted]
    counts = Counter(dict.fromkeys(brokers.racks, 0))
    for chosen in placed.values():
        counts.update(chosen)
    for place, chosen in placed.items():
        _fill(chosen, factor or len(current[place]), brokers, counts)
    level_counts(placed, brokers)
    return {place: tuple(chosen) for place, chosen in placed.items()}


def evacuation(
    current: Mapping[Place, Sequence[int]], left: Brokers, leaving: int
) -> dict[Place, Replicas]:
    """Return new replicas for the partitions on the leaving broker: another broker takes its place,
    in a rack that the partition is not in yet if possible, and with the fewest replicas."""
    counts = Counter(dict.fromkeys(left.racks, 0))
    for replicas in current.values():
        counts.update(each for each in replicas if each in counts)
    goal = {}
    for place, replicas in sorted(current.items()):
        if leaving not in replicas:
            continue
        others = [each for each in replicas if each != leaving]
        used = Counter(map(left.rack_of, others))
        possible = [each for each in left.racks if each not in others]
        if not possible:
            ids = ",".join(map(str, sorted(left.racks)))
            raise UsageError(
                f"{place[0]}-{place[1]} has {counted(len(replicas), 'replica')}, and no other "
                "broker could "
                f"take the one of broker {leaving}. Add a broker, or give its topic fewer first: "
                f"moldau reassign plan {place[0]} --brokers {ids} --replicas {len(left.racks)} "
                "> plan.json && moldau reassign execute plan.json --wait"
            )
        best = min(possible, key=lambda each: (used[left.rack_of(each)], counts[each], each))
        counts[best] += 1
        goal[place] = tuple(best if each == leaving else each for each in replicas)
    return goal


def _fill(chosen: list[int], wanted: int, brokers: Brokers, counts: Counter[int]) -> None:
    while len(chosen) < wanted:
        used = Counter(map(brokers.rack_of, chosen))
        best = min(
            (each for each in brokers.racks if each not in chosen),
            key=lambda each: (used[brokers.rack_of(each)], counts[each], each),
        )
        chosen.append(best)
        counts[best] += 1
