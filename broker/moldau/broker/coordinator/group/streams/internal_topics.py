"""The internal topics of a group, which the broker creates.

1. A heartbeat finds that internal topics are missing. Its status names them, and an effect asks the
   controller for them, with the rights of the member's client: it needs CREATE on each.
2. The controller creates them, the metadata has them, and the next heartbeat finds the group ready.
   Or it refuses: the reasons are reported here, and stand in the status until the next attempt.

Nothing of this is in the log: the next coordinator of the group finds that the topics are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from moldau.broker.coordinator.outcome import NOTHING, Effect, Outcome
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.group.streams.configuration import ConfiguredTopology
    from moldau.broker.coordinator.group.streams.state import StreamsGroupState
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.messages.create_topics import CreatableTopic

RETRY_MS = 5_000
"""How long a request that was not answered is waited for."""


@dataclass(frozen=True, slots=True)
class CreateInternalTopics(Effect):
    """Create these topics. Report with `on_created`."""

    group_id: str
    topics: tuple[CreatableTopic, ...]


@dataclass(slots=True)
class Creation:
    """What is known of the creation of a group's internal topics."""

    asked_ms: int | None = None
    """When the topics were last asked for; None if the answer has come."""
    names: frozenset[str] = frozenset()
    errors: Mapping[str, str] | None = None
    """Why the controller refused topics."""


def begin(
    state: StreamsGroupState,
    configured: ConfiguredTopology,
    context: RequestContext,
    now_ms: int,
) -> tuple[str, tuple[Effect, ...]]:
    """Return what the status adds about missing internal topics, and the effect that creates
    them."""
    names = frozenset(configured.missing)
    creation = state.volatile.creation
    may_create = frozenset(state.services.creatable(context, names))
    if may_create < names:
        denied = ", ".join(sorted(names - may_create))
        return f"; Unauthorized to CREATE on topics {denied}.", ()
    detail = ""
    if creation.errors:
        failed = [f"{name} ({creation.errors[name]})" for name in sorted(creation.errors)]
        detail = f"; Creation failed: {', '.join(failed)}."
    is_pending = creation.asked_ms is not None and now_ms - creation.asked_ms < RETRY_MS
    if is_pending and creation.names == names:
        return detail, ()
    creation.asked_ms, creation.names = now_ms, names
    return detail, (CreateInternalTopics(state.group_id, configured.creatable()),)


def on_created(
    groups: Groups, group_id: str, created: Collection[str], errors: Mapping[str, str]
) -> Outcome:
    """Note the answer of the controller."""
    from moldau.broker.coordinator.group.streams.group import StreamsGroup

    group = groups.get(group_id)
    if isinstance(group, StreamsGroup):
        # Topics that were created are in the metadata soon; they are not asked for meanwhile.
        creation = group.state.volatile.creation
        creation.errors = errors
        if not created:
            creation.asked_ms = None
    return NOTHING
