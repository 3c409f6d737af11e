"""Members of several topologies in one group: a new topology in a rolling upgrade (beyond Kafka).

A topology has an epoch. The group has the topology of the highest epoch that a member has brought;
members with an older one stay beside those of the new one:

1. A member with a higher topology epoch joins. Its topology becomes the group's (record 23), and
   the group notes which subtopologies of it are the same in the older ones (record 17).
2. If topics of the new topology are missing, nothing moves until they are there.
3. The next target gives members of an older topology only tasks of subtopologies that are the same.
   The tasks of all others go to members of the new topology.
4. The new tasks begin when no member runs a task of an older topology that has changed: a changed
   subtopology may read the same partitions under another id, and a partition has one reader.

So the application goes on while its instances are replaced one by one, and an instance of the old
version is never given work that it does not know.

If the upgrade is given up, and no member of the new topology is left, the next member that joins
brings its older topology back. Until then tasks that have changed wait: the group does not know
them any more.

Invariant: a topology epoch stands for one topology. A member that brings another one in the same
epoch is rejected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from moldau.broker.coordinator.group.streams.topology import InternalTopic, Subtopology, Topology
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

PREFIX: Final = "moldau.topology."
"""Of the settings in record 17 that hold older topologies; the epoch follows."""
NO_SUBTOPOLOGIES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class OlderTopology:
    """What the group knows of an older topology that some of its members have."""

    digest: str
    same: frozenset[str]
    """The subtopologies that are the same in the group's topology."""

    @classmethod
    def beside(cls, older: Topology, current: Topology) -> OlderTopology:
        now = {each.subtopology_id: each for each in current.subtopologies}
        same = (
            each.subtopology_id
            for each in older.subtopologies
            if now.get(each.subtopology_id) == each
        )
        return cls(digest_of(older), frozenset(same))


OlderTopologies = Mapping[int, OlderTopology]
"""By topology epoch."""


class Topologies(NamedTuple):
    """The topology of a group, and the older ones that some of its members have."""

    current: Topology
    older: OlderTopologies

    def runs(self, epoch: int) -> frozenset[str] | None:
        """Return the subtopologies that a member with this topology epoch can run; None: all."""
        if not self.older or epoch >= self.current.epoch:
            return None
        known = self.older.get(epoch)
        return NO_SUBTOPOLOGIES if known is None else known.same

    def is_changed(self, subtopology_id: str) -> bool:
        """Whether a subtopology is not the same in each older topology."""
        return any(subtopology_id not in each.same for each in self.older.values())

    def of_members(self, epochs: Collection[int]) -> Topologies:
        """Return these without older topologies that no member has."""
        left = {epoch: each for epoch, each in self.older.items() if epoch in epochs}
        return self if len(left) == len(self.older) else Topologies(self.current, left)


def with_topology(
    known: Topology, older: OlderTopologies, epochs: Collection[int], given: Topology
) -> Topologies:
    """Return the topologies of the group after a member brings `given`. `epochs` has the topology
    epochs of all other members. Raise INVALID_REQUEST if the epoch of `given` stands for another
    topology."""
    if given.epoch > known.epoch:
        now = {each.subtopology_id: each for each in given.subtopologies}
        before = {each.subtopology_id: each for each in known.subtopologies}
        kept = {name for name, each in now.items() if before.get(name) == each}
        moved = {
            epoch: OlderTopology(each.digest, each.same & kept) for epoch, each in older.items()
        }
        moved[known.epoch] = OlderTopology.beside(known, given)
        return Topologies(given, moved).of_members(epochs)
    if given.epoch == known.epoch:
        if given != known:
            raise _other_topology(given)
        return Topologies(known, older)
    if not epochs:
        return Topologies(given, {})  # the whole application was stopped, and an older one starts
    described = OlderTopology.beside(given, known)
    noted = older.get(given.epoch)
    if noted is not None and noted.digest != described.digest:
        raise _other_topology(given)
    if max(epochs) <= given.epoch:
        return _gone_back(given, described, older, epochs)
    return Topologies(known, {**older, given.epoch: described})


def _gone_back(
    given: Topology, described: OlderTopology, older: OlderTopologies, epochs: Collection[int]
) -> Topologies:
    """Return the topologies when no member of a newer one than `given` is left. `described` and
    `older` are beside the topology that the group had: what is the same there in two of them is the
    same in both."""
    still_older = {
        epoch: OlderTopology(each.digest, each.same & described.same)
        for epoch, each in older.items()
        if epoch < given.epoch
    }
    return Topologies(given, still_older).of_members(epochs)


def _other_topology(given: Topology) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
        topology_epoch=given.epoch,
    )


def digest_of(topology: Topology) -> str:
    """Return a digest of the subtopologies: the same for equal ones, in any process."""
    whole = [_canonical(each) for each in topology.subtopologies]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def _canonical(each: Subtopology) -> list[object]:
    return [
        each.subtopology_id,
        sorted(each.sources),
        [_topic(topic) for topic in each.changelogs],
        sorted(each.repartition_sinks),
        [_topic(topic) for topic in each.repartition_sources],
        [sorted(group) for group in each.copartition_groups],
    ]


def _topic(topic: InternalTopic) -> list[object]:
    return [topic.name, topic.partitions, topic.replication_factor, topic.configs]


def as_settings(older: OlderTopologies) -> dict[str, str]:
    """Return the older topologies as settings of record 17."""
    return {
        f"{PREFIX}{epoch}": json.dumps([older[epoch].digest, *sorted(older[epoch].same)])
        for epoch in sorted(older)
    }


def of_settings(configs: Mapping[str, str]) -> OlderTopologies:
    """Return the older topologies in the settings of a record. Others are ignored."""
    found = {}
    for key, value in configs.items():
        epoch = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and epoch.isdecimal():
            try:
                digest, *same = json.loads(value)
            except ValueError:
                continue
            found[int(epoch)] = OlderTopology(str(digest), frozenset(map(str, same)))
    return found
