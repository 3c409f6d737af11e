"""The target assignment: the partitions that each member should own, as of one group epoch.

It is computed by the first heartbeat of any member that finds the group epoch ahead of the target
epoch. Two targets are at least `group.consumer.assignment.interval.ms` apart, so that fifty members
that start together cost a few targets and not fifty.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.coordinator.group.consumer.assignors import ASSIGNORS, MemberSpec
from moldau.broker.coordinator.group.consumer.member import Member, Profile
from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions
from moldau.broker.coordinator.group.consumer.records import target_epoch, target_of_member
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState, add
from moldau.broker.coordinator.group.consumer.validation import offered_assignors
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.group import bounded, consumer_assignment_interval_ms
from moldau.deferred import dataclass
from moldau.ids import Uuid


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """The target of one member."""

    epoch: int
    partitions: Partitions


def renewed_target(
    state: ConsumerGroupState,
    before: Member,
    member: Member,
    group_epoch: int,
    now_ms: int,
    records: list[LogRecord],
) -> MemberTarget:
    """Return the member's target: of this epoch if it can be computed now, else the current one.

    `member` sent the request and has its state after it (it need not be in the group yet). `before`
    is the same member in the group's counts.
    """
    if state.target_epoch >= group_epoch or not _is_time(state, now_ms):
        return MemberTarget(state.target_epoch, state.target_of(member))
    specs, partition_counts = _members(state, member)
    assigned = ASSIGNORS[_assignor(state, before, member)](specs, partition_counts)
    for member_id in sorted(assigned):
        if assigned[member_id] != state.target.get(member_id):
            records.append(target_of_member(state.group_id, member_id, assigned[member_id]))
    records.append(target_epoch(state.group_id, group_epoch, state.services.wall_ms(now_ms)))
    return MemberTarget(group_epoch, assigned[member.member_id])


def preferred_assignor(state: ConsumerGroupState) -> str:
    """Return the assignor that most members prefer; the broker's default if no member names one."""
    return _most_wanted(state, dict(state.assignors))


def _is_time(state: ConsumerGroupState, now_ms: int) -> bool:
    """Whether the last target is old enough. Its timestamp is wall time, because it survives the
    broker. A timestamp in the future, from before the clock was set back, is ignored."""
    settings = state.services.group_settings(state.group_id)
    interval_ms = bounded(settings, consumer_assignment_interval_ms)
    if state.target_timestamp_ms == 0 or interval_ms == 0:
        return True
    return not 0 <= state.services.wall_ms(now_ms) - state.target_timestamp_ms < interval_ms


def _assignor(state: ConsumerGroupState, before: Member, after: Member) -> str:
    wanted = state.assignors.copy()
    for member, by in ((before, -1), (after, 1)):
        if member.profile.server_assignor is not None:
            add(wanted, (member.profile.server_assignor,), by)
    return _most_wanted(state, wanted)


def _most_wanted(state: ConsumerGroupState, wanted: Mapping[str, int]) -> str:
    offered = offered_assignors(state.services.settings)
    return max(offered, key=lambda name: (wanted.get(name, 0), -offered.index(name)))


def _members(
    state: ConsumerGroupState, member: Member
) -> tuple[dict[str, MemberSpec], dict[Uuid, int]]:
    """Return the assignor's input: all members, and all existing topics that any of them wants."""
    topics_of = _TopicsOf(state)
    replaced = state.static.get(member.profile.instance_id or "")
    specs = {}
    for each in state.members.values():
        if each.member_id not in (member.member_id, replaced):
            held = state.target.get(each.member_id, NO_PARTITIONS)
            specs[each.member_id] = topics_of.spec(each.profile, held)
    specs[member.member_id] = topics_of.spec(member.profile, state.target_of(member))
    return specs, topics_of.partition_counts


class _TopicsOf:
    """Finds the existing topics that a member wants. Equal subscriptions share the set."""

    def __init__(self, state: ConsumerGroupState) -> None:
        self._state = state
        self._known: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
        self.partition_counts: dict[Uuid, int] = {}

    def spec(self, profile: Profile, assigned: Partitions) -> MemberSpec:
        topics = self._known.get(profile.subscription)
        if topics is None:
            topics = self._known[profile.subscription] = self._resolve(profile)
        return MemberSpec(topics, assigned, profile.instance_id, profile.rack_id)

    def _resolve(self, profile: Profile) -> frozenset[Uuid]:
        found = set()
        for name in wanted_topics(self._state, profile):
            topic = self._state.services.cluster.by_name(name)
            if topic is not None:
                found.add(topic.topic_id)
                self.partition_counts[topic.topic_id] = topic.partition_count
        return frozenset(found)


def wanted_topics(state: ConsumerGroupState, profile: Profile) -> frozenset[str]:
    """Return the topics subscribed by name and by expression. An unresolved one adds none."""
    resolved = state.resolved.get(profile.topic_regex)
    return profile.topic_names if resolved is None else profile.topic_names | resolved.topics


class SubscribedTopicIds:
    """The ids of the topics that a member wants. Checks one id at a time: most members have few
    partitions to check, and some want very many topics."""

    __slots__ = ("_cluster", "_matched", "_named")

    def __init__(self, state: ConsumerGroupState, profile: Profile) -> None:
        self._cluster = state.services.cluster
        self._named = profile.topic_names
        resolved = state.resolved.get(profile.topic_regex)
        self._matched = frozenset() if resolved is None else resolved.topics

    def __contains__(self, topic_id: object) -> bool:
        topic = self._cluster.by_id(topic_id) if isinstance(topic_id, bytes) else None
        return topic is not None and (topic.name in self._named or topic.name in self._matched)
