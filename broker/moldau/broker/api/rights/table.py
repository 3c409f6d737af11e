"""The rights of each API, by key: what the gates of brokers and controllers ask for.

- A right on the cluster is checked before the handler runs. For a request that is forwarded, that
  is on the controller's node, in the context of the original client (KIP-590). Each right on the
  cluster in `also` passes the gate as well.
- A guard takes out the parts of a message that its client has no right to. An API without one has
  no right on what its message names, or its handler checks it (`gate.allowed`). `also` has the
  other rights that guard and handler ask for.
- An API without a right is open to every client of its listeners.

The rights are those of `moldau.protocol.rights`, which clients read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.api.rights import groups, offsets, records, settings, tokens, topics
from moldau.broker.api.rights.guard import Guard
from moldau.broker.api.rights.items import ItemGuard
from moldau.deferred import dataclass
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.rights import (
    ALTER_TOPIC,
    CLUSTER_ACTION,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    NEEDED_RIGHTS,
    Right,
)


@dataclass(frozen=True, slots=True)
class ApiRights:
    """The rights of one API; see the module."""

    right: Right | None = None
    also: tuple[Right, ...] = ()
    guard: Guard | None = None
    """For requests that brokers answer, or answer in part."""
    decision_guard: Guard | None = None
    """For requests that controllers decide."""

    @property
    def cluster_rights(self) -> tuple[Right, ...]:
        """The rights of which the gate asks for one before the handler runs."""
        if self.right is None or self.right.resource is not AclResource.CLUSTER:
            return ()
        others = [each for each in self.also if each.resource is AclResource.CLUSTER]
        return (self.right, *others)

    def on(self, resource: AclResource) -> Right:
        """Return the right that a handler asks for on resources of a kind."""
        for right in (self.right, *self.also):
            if right is not None and right.resource is resource:
                return right
        raise AssertionError(f"the API has no right on {resource.name}")


_SHOWING_MORE: Final = frozenset({60})
"""APIs that are open to every client; their rights show more in the answer."""

_GUARDS: Final[Mapping[int, Guard]] = {
    0: records.guard_produce,
    3: topics.guard_metadata,
    8: offsets.guard_commit,
    9: offsets.guard_fetch,
    10: groups.guard_coordinator,
    15: groups.guard_describe,
    16: groups.guard_list,
    21: ItemGuard(DELETE_TOPIC, is_first=True),
    22: records.guard_producer_id,
    23: ItemGuard(DESCRIBE_TOPIC, cluster=CLUSTER_ACTION.operation),
    32: settings.guard_describe,
    **dict.fromkeys((33, 44), settings.guard_alter),
    41: tokens.guard_describe,
    42: ItemGuard(DELETE_GROUP, is_once=True),
    47: groups.guard_offset_delete,
    60: settings.guard_cluster,
    68: groups.guard_heartbeat,
    **dict.fromkeys((69, 77, 89), groups.guard_described),
    75: topics.guard_topic_partitions,
    20003: ItemGuard(ALTER_TOPIC, is_first=True),
}
_DECISION_GUARDS: Final[Mapping[int, Guard]] = {
    19: topics.guard_create,
    20: topics.guard_delete,
    **dict.fromkeys((33, 44), settings.guard_alter),
    37: ItemGuard(ALTER_TOPIC, is_first=True, is_once=True),
    38: tokens.guard_create,
    41: tokens.guard_describe,
}


def _of_api(key: int, needed: tuple[Right, ...]) -> ApiRights:
    first = 0 if key in _SHOWING_MORE or not needed else 1
    right = needed[0] if first else None
    return ApiRights(right, needed[first:], _GUARDS.get(key), _DECISION_GUARDS.get(key))


RIGHTS: Final[Mapping[int, ApiRights]] = {
    key: _of_api(key, needed) for key, needed in NEEDED_RIGHTS.items()
}
