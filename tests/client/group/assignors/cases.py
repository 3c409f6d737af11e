"""Groups to be shared out, as ours and Java's assignors take them, and made up at random."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from moldau.client import TopicPartition
from moldau.client.group.assignors import Subscription, load_assignors
from moldau.client.group.assignors.installed import OURS
from moldau.client.group.subscription_bytes import encode_subscription

GOLDEN: Final = Path(__file__).with_name("golden.jsonl")
GOLDEN_SEEDS: Final = range(16)
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Told:
    """A member: its subscription, and what its assignor remembers."""

    id: str
    subscription: Subscription
    had: tuple[TopicPartition, ...] | None = None
    had_in: int = -1


@dataclass(frozen=True, slots=True)
class Case:
    """A group to be shared out."""

    assignor: str
    topics: dict[str, list[list[str]]]
    members: tuple[Told, ...]

    def to_json(self) -> str:
        return json.dumps(
            {
                "assignor": self.assignor,
                "topics": self.topics,
                "members": [
                    {
                        "id": each.id,
                        "topics": each.subscription.topics,
                        "owned": each.subscription.owned,
                        "generation": each.subscription.generation,
                        "rack": each.subscription.rack,
                        "instance": each.subscription.instance_id,
                        "had": each.had,
                        "had_in": each.had_in,
                    }
                    for each in self.members
                ],
            }
        )

    def ours(self) -> dict[str, Any]:
        """What ours make of it: everybody's bytes, and the shares."""
        whole: dict[str, Subscription] = {}
        for each in self.members:
            (mine,) = load_assignors([self.assignor])
            if each.had is not None:
                mine.on_assignment(each.had, each.had_in)
            told = mine.user_data(frozenset(each.subscription.topics))
            whole[each.id] = replace(each.subscription, user_data=told)
        (leader,) = load_assignors([self.assignor])
        topics = {name: [frozenset(racks) for racks in each] for name, each in self.topics.items()}
        shares = leader.assign(topics, whole)
        return {
            "bytes": {name: encode_subscription(each).hex() for name, each in whole.items()},
            "shares": {name: sorted(map(list, each)) for name, each in shares.items()},
        }


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the order inside a share, which means nothing."""
    if "failed" in answer:
        return answer
    shares = {name: sorted(each) for name, each in answer["shares"].items()}
    return {"bytes": answer["bytes"], "shares": shares}


def story(seed: int) -> list[Case]:
    """A group over a few generations: members come and go, subscriptions and topics change."""
    rng = random.Random(seed)
    name = rng.choice(list(OURS))
    racks = rng.choice(([], ["a", "b"], ["a", "b", "c"]))
    topics = {f"topic-{n}": _partitions(rng, racks) for n in range(rng.randrange(1, 5))}
    members: dict[str, Told] = {}
    for n in range(rng.randrange(1, 9)):
        members |= _joins(rng, n, topics, racks)
    cases = []
    for generation in range(1, _ROUNDS + 1):
        case = Case(name, dict(topics), tuple(members.values()))
        cases.append(case)
        members = _after(case, generation)
        _changes(rng, members, topics, racks, generation)
        if not members:
            break
    return cases


def _partitions(rng: random.Random, racks: Sequence[str]) -> list[list[str]]:
    copies = rng.randrange(1, len(racks) + 1) if racks else 0
    return [sorted(rng.sample(racks, copies)) for _ in range(rng.randrange(1, 12))]


def _joins(
    rng: random.Random, number: int, topics: dict[str, list[list[str]]], racks: Sequence[str]
) -> dict[str, Told]:
    name = f"consumer-{number}-{rng.getrandbits(64):x}"
    wants = list(topics)
    if rng.random() < 0.3:
        wants = sorted(rng.sample(wants, rng.randrange(1, len(wants) + 1)))
    wanted = Subscription(
        topics=tuple(wants),
        rack=rng.choice(racks) if racks and rng.random() < 0.9 else None,
        instance_id=f"i{rng.randrange(100)}-{number}" if rng.random() < 0.2 else None,
    )
    return {name: Told(name, wanted)}


def _after(case: Case, generation: int) -> dict[str, Told]:
    """The members when they join again, having got their shares."""
    found = {}
    shares = case.ours()["shares"]
    for each in case.members:
        got = tuple(TopicPartition(*where) for where in shares[each.id])
        owned = got if case.assignor == "cooperative-sticky" else ()
        wanted = replace(each.subscription, owned=owned, generation=generation)
        found[each.id] = Told(each.id, wanted, got, generation)
    return found


def _changes(
    rng: random.Random,
    members: dict[str, Told],
    topics: dict[str, list[list[str]]],
    racks: Sequence[str],
    generation: int,
) -> None:
    for name in list(members):
        chance = rng.random()
        told = members[name]
        if chance < 0.15 and len(members) > 1:
            del members[name]
        elif chance < 0.25:  # it slept through this generation
            late = replace(told.subscription, generation=generation - 1)
            members[name] = replace(told, subscription=late, had_in=generation - 1)
        elif chance < 0.35:
            fewer = tuple(sorted(rng.sample(list(topics), rng.randrange(1, len(topics) + 1))))
            members[name] = replace(told, subscription=replace(told.subscription, topics=fewer))
    for number in range(rng.randrange(3)):
        members |= _joins(rng, 100 * generation + number, topics, racks)
    if rng.random() < 0.3:
        grown = rng.choice(list(topics))
        topics[grown] = topics[grown] + _partitions(rng, racks)
