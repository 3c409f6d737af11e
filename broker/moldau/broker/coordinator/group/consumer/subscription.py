"""Subscriptions of members: regular expressions to resolve, and when the group epoch grows.

The epoch grows with each change that may need a new target: a member's topics, the matches of an
expression, topics that were created, deleted or grew (detected by the metadata hash, KIP-1101). A
new expression that no other member uses does not count before it is resolved, so that the group
does not rebalance twice.

`RegexSearch` resolves all expressions of a group together, at most every REFRESH_MIN_MS.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS
from moldau.broker.coordinator.group.consumer.records import (
    group_epoch,
    member_profile,
    partition_metadata_deleted,
    regex_deleted,
    regex_resolved,
)
from moldau.broker.coordinator.group.consumer.regex import RegexSearch, ResolvedRegex, check_regex
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState, add
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome
from moldau.broker.settings.coordinator import group_consumer_regex_refresh_interval_ms
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.decision.context import RequestContext

REFRESH_MIN_MS: Final = 10_000
SLICE_PAUSE_MS: Final = 1
"""The pause between two slices of a search, in which other events are handled."""


class MemberRequest(NamedTuple):
    """The context of a member's request, and when it is handled."""

    context: RequestContext
    now_ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of a request on a member's subscription."""

    has_changed: bool
    """Whether the member may own topics that it no longer wants."""
    bumps_epoch: bool
    """Whether a new target is needed."""


def apply_profile(
    state: ConsumerGroupState,
    before: Member,
    after: Member,
    request: MemberRequest,
    records: list[LogRecord],
) -> Change:
    """Record the member's new profile, and resolve expressions. Raise INVALID_REGULAR_EXPRESSION
    for an invalid expression."""
    names_changed = False
    if after.profile != before.profile:
        records.append(member_profile(state.group_id, after.member_id, after.profile))
        names_changed = after.profile.topic_names != before.profile.topic_names
    regex_changed, is_resolved, is_new = _change_regex(state, before, after, records)
    _maybe_search(state, before, after, request, must=is_new)
    return Change(names_changed or regex_changed, names_changed or is_resolved)


def renewed_epoch(
    state: ConsumerGroupState,
    before: Member,
    after: Member,
    records: list[LogRecord],
    *,
    must_bump: bool,
) -> int:
    """Return the group epoch after the request, and add its record if it grows. `before` is the
    member in the group's counts: a new member has no subscription, and one that replaces a static
    member has that member's."""
    if not must_bump and not state.has_metadata_expired():
        return state.epoch
    wanted = state.topic_names((before,), after)
    metadata_hash = state.volatile.hashes.of(wanted, state.services.cluster)
    epoch = state.epoch
    if must_bump or metadata_hash != state.metadata_hash:
        epoch += 1
        records.append(group_epoch(state.group_id, epoch, metadata_hash))
        state.services.counts.consumer_rebalances.value += 1
    state.volatile.checked_epoch = epoch
    if state.has_partition_metadata:
        records.append(partition_metadata_deleted(state.group_id))
    return epoch


def advance_search(state: ConsumerGroupState, now_ms: int) -> Outcome:
    """Do one slice of the current search. After the last slice, apply the result."""
    volatile = state.volatile
    if volatile.search is None or volatile.search_due_ms > now_ms:
        return NOTHING
    found = volatile.search.advance()
    if found is None:
        volatile.search_due_ms = now_ms + SLICE_PAUSE_MS
        return NOTHING
    volatile.search = None
    return _take_over(state, found)


def _take_over(state: ConsumerGroupState, found: Mapping[str, ResolvedRegex]) -> Outcome:
    wanted_still = {regex: each for regex, each in found.items() if state.regexes[regex]}
    records = [regex_resolved(state.group_id, regex, each) for regex, each in wanted_still.items()]
    bumps = any(_calls_for_a_target(state, regex, each) for regex, each in wanted_still.items())
    names = set(state.names)
    for regex in state.regexes:
        resolved = wanted_still.get(regex) or state.resolved.get(regex)
        names |= resolved.topics if resolved is not None else frozenset()
    metadata_hash = state.volatile.hashes.of(names, state.services.cluster)
    if bumps or metadata_hash != state.metadata_hash:
        records.append(group_epoch(state.group_id, state.epoch + 1, metadata_hash))
        state.volatile.checked_epoch = state.epoch + 1
        state.services.counts.consumer_rebalances.value += 1
    return Outcome(tuple(records))


def _calls_for_a_target(state: ConsumerGroupState, regex: str, found: ResolvedRegex) -> bool:
    """Whether the expression matches other topics than before.

    An expression that matches nothing at its first search has not changed in that sense. But the
    target of its members may still have the topics of their previous subscription, which no member
    would read then.
    """
    before = state.resolved.get(regex)
    if before is not None or found.topics:
        return before is None or before.topics != found.topics
    cluster = state.services.cluster
    for member in state.members.values():
        if member.profile.topic_regex == regex:
            for topic_id in state.target.get(member.member_id, NO_PARTITIONS):
                topic = cluster.by_id(topic_id)
                if topic is not None and topic.name not in member.profile.topic_names:
                    return True
    return False


def _change_regex(
    state: ConsumerGroupState, before: Member, after: Member, records: list[LogRecord]
) -> tuple[bool, bool, bool]:
    """Return whether the expression changed, whether the matches of the new one are known, and
    whether no member has used it before."""
    old, new = before.profile.topic_regex, after.profile.topic_regex
    if old == new:
        return False, False, False
    if old and state.regexes[old] == 1:
        records.append(regex_deleted(state.group_id, old))
    if not new:
        return True, True, False
    if state.regexes[new]:
        return True, new in state.resolved, False
    check_regex(new)
    return True, False, True


def _maybe_search(
    state: ConsumerGroupState, before: Member, after: Member, request: MemberRequest, *, must: bool
) -> None:
    """Begin a search if one is due and the last one was long enough ago. It finds the topics that
    the client of the request may describe, as in Kafka."""
    if (not must and not state.regexes) or state.volatile.search is not None:
        return
    wall_ms = state.services.wall_ms(request.now_ms)
    last = next(iter(state.resolved.values()), None)
    # The timestamp is wall time, because it survives the broker. One in the future is ignored.
    if last is not None and 0 <= wall_ms - last.timestamp_ms <= REFRESH_MIN_MS:
        return
    regexes = state.regexes.copy()
    add(regexes, [regex for regex in (before.profile.topic_regex,) if regex], -1)
    add(regexes, [regex for regex in (after.profile.topic_regex,) if regex], 1)
    interval_ms = state.services.settings[group_consumer_regex_refresh_interval_ms]
    is_due = (
        must
        or len(regexes) != len(state.resolved)
        or (last.version if last else 0) < state.volatile.topics_version
        or (last is not None and wall_ms > last.timestamp_ms + interval_ms)
    )
    if regexes and is_due:
        cluster, may_see = (
            state.services.cluster,
            partial(state.services.describable, request.context),
        )
        state.volatile.search = RegexSearch(
            regexes, cluster.names(), cluster.version, wall_ms, may_see
        )
        state.volatile.search_due_ms = request.now_ms
