"""Which quota counts for a client: the most specific of eight levels (KIP-124, KIP-55).

Invariant: clients that share a quota by its level share its rate too. A quota of a user is for all
its clients together, a quota of a user and a client id for those that are both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from moldau.broker.controller.quotas import ClientQuotas, Entity

_USER: Final = "user"
_CLIENT: Final = "client-id"


class Limit(NamedTuple):
    """A quota (bytes, partitions or percents a second). It limits the rate of this user and this
    client id; None: of all."""

    per_second: float
    user: str | None
    client_id: str | None


def _entities(user: str, client_id: str) -> tuple[tuple[Entity, bool, bool], ...]:
    """Return the eight levels, the most specific first: the entity, and whether the rate is kept by
    user and by client id."""
    named, default = (_USER, user), (_USER, None)
    client, any_client = (_CLIENT, client_id), (_CLIENT, None)
    return (
        (frozenset((named, client)), True, True),
        (frozenset((named, any_client)), True, True),
        (frozenset((named,)), True, False),
        (frozenset((default, client)), True, True),
        (frozenset((default, any_client)), True, True),
        (frozenset((default,)), True, False),
        (frozenset((client,)), False, True),
        (frozenset((any_client,)), False, True),
    )


def limit_of(quotas: ClientQuotas, key: str, user: str, client_id: str) -> Limit | None:
    """Return the quota of that key for a client; None if there is none."""
    for entity, by_user, by_client in _entities(user, client_id):
        value = quotas.by_entity.get(entity, {}).get(key)
        if value is not None:
            return Limit(value, user if by_user else None, client_id if by_client else None)
    return None
