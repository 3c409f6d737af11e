"""The replicas whose logs are not made yet. Pure.

A few logs in a turn of the event loop are made at once: most topics are small, and clients write to
them right after they were created. All others wait here, and are made in threads, a few at a time
(`LogMaker`). Topics take turns, so that a small one does not wait for all of a large one. The
partitions of a topic, and the topics in each turn, keep the order of the metadata log. Metadata
goes on meanwhile:

    the leader, the epoch or the settings change    the newest ones count when the log is there
    the partition has no leader                     its log is made, if that has begun, and waits
    the partition is removed                        its log is removed, as soon as it is there
    the name is used again                          its second log is made after that

Invariants:
* A name has at most one log under way.
* No log is made at once while another one waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Leadership
    from moldau.broker.replication.topic_config import TopicConfig

AT_ONCE: Final = 8
"""The logs that are made in one turn of the event loop. A log takes a fifth of a millisecond, on a
busy disk ten."""
ROUND: Final = 32
"""The logs that are made in threads before the loop puts them into service."""

Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class WantedReplica:
    """A replica as the newest metadata has it."""

    leadership: Leadership
    config: TopicConfig
    is_led: bool
    """Whether this node leads it; otherwise it follows."""

    @property
    def name(self) -> Name:
        return self.leadership.topic, self.leadership.index


_NONE: Final[Mapping[int, WantedReplica]] = MappingProxyType({})


class WantedReplicas:
    """The replicas that wait for their logs; see the module."""

    def __init__(self) -> None:
        self._wanted: dict[str, dict[int, WantedReplica]] = {}
        """The replicas of each topic that has any here."""
        self._under_way: set[Name] = set()
        self._left_at_once = AT_ONCE

    def __bool__(self) -> bool:
        return bool(self._wanted or self._under_way)

    def __contains__(self, name: Name) -> bool:
        return name in self._under_way or self._find(name) is not None

    def has_any_of(self, topic: str) -> bool:
        """Whether a log of the topic is not made yet."""
        return topic in self._wanted or any(name[0] == topic for name in self._under_way)

    def _find(self, name: Name) -> WantedReplica | None:
        topic, index = name
        return self._wanted.get(topic, _NONE).get(index)

    def may_be_made_at_once(self) -> bool:
        """Whether one more log may be made in this turn of the event loop, and count it."""
        if self or not self._left_at_once:
            return False
        self._left_at_once -= 1
        return True

    def on_turn(self) -> None:
        """Another turn of the event loop has begun."""
        self._left_at_once = AT_ONCE

    def want(self, wanted: WantedReplica) -> None:
        """Wait for this replica's log, or note other metadata of a replica that waits."""
        topic, index = wanted.name
        known = self._find(wanted.name)
        if known is not None and known.leadership.is_new and not wanted.leadership.is_new:
            # No log of it can exist yet, whatever has changed since.
            wanted = replace(wanted, leadership=replace(wanted.leadership, is_new=True))
        self._wanted.setdefault(topic, {})[index] = wanted

    def withdraw(self, name: Name) -> None:
        """The replica is not wanted any more, or not now. A log under way is still made."""
        topic, index = name
        of_topic = self._wanted.get(topic)
        if of_topic is not None and of_topic.pop(index, None) is not None and not of_topic:
            del self._wanted[topic]

    def configure(self, name: Name, config: TopicConfig) -> None:
        """Note other settings of a replica, if it waits."""
        known = self._find(name)
        if known is not None:
            self.want(replace(known, config=config))

    def begin_round(self) -> list[WantedReplica]:
        """Return the replicas whose logs are to be made now. `end` each of them before the next
        round."""
        assert not self._under_way
        begun: list[WantedReplica] = []
        topics = [iter(each.values()) for each in islice(self._wanted.values(), ROUND)]
        while topics and len(begun) < ROUND:
            for topic in list(topics):
                each = next(topic, None)
                if each is None:
                    topics.remove(topic)
                elif len(begun) < ROUND:
                    begun.append(each)
        self._under_way.update(each.name for each in begun)
        return begun

    def end(self, name: Name, topic_id: bytes) -> WantedReplica | None:
        """The log under way is made, or cannot be made. Return the replica as it is wanted now, or
        None if it is not wanted. A replica of another topic with that name waits on."""
        self._under_way.remove(name)
        wanted = self._find(name)
        if wanted is None or wanted.leadership.topic_id != topic_id:
            return None
        self.withdraw(name)
        return wanted
