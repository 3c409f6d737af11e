"""Client quotas: the fold of their records. `quota_changes` decides about changes.

Invariants: an entity without a quota has no entry. The quotas of an entity are replaced and never
changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeAlias

from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""The entity of a quota: (type, name) pairs. A null name is the default of its type."""

CONNECTION_RATE: Final = "connection_creation_rate"
OF_CLIENTS: Final = frozenset(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)
ENFORCED: Final = OF_CLIENTS | {CONNECTION_RATE}
"""The quotas that are enforced. A newer controller of Apache Kafka may have stored others."""


class ClientQuotas:
    """Quota values by entity and key."""

    RECORDS = (ClientQuotaRecord,)

    __slots__ = ("_rates", "_rates_from", "by_entity", "changes")

    def __init__(self) -> None:
        self.by_entity: dict[Entity, dict[str, float]] = {}
        self.changes = 0
        """Grows with each change."""
        self._rates: dict[str | None, float] = {}
        """The connection rates by address in its usual form; None: of every other address."""
        self._rates_from = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientQuotas):
            return NotImplemented
        return self.by_entity == other.by_entity

    __hash__ = None  # type: ignore[assignment]  # it changes

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        assert isinstance(record, ClientQuotaRecord)
        self.changes += 1
        entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        before = self.by_entity.get(entity, {})
        quotas = {key: value for key, value in before.items() if key != record.key}
        if not record.remove:
            quotas[record.key] = record.value
        if quotas:
            self.by_entity[entity] = quotas
        else:
            self.by_entity.pop(entity, None)

    def connection_rate(self, address: str) -> float | None:
        """Return the connections a second that an address may open; None: any number."""
        if not self.by_entity:
            return None
        if self._rates_from != self.changes:
            self._rates_from = self.changes
            self._rates = self._rates_by_address()
        found = self._rates.get(_address(address))
        return self._rates.get(None) if found is None else found

    def _rates_by_address(self) -> dict[str | None, float]:
        rates: dict[str | None, float] = {}
        for entity, quotas in self.by_entity.items():
            for kind, name in entity:
                value = quotas.get(CONNECTION_RATE)
                if kind == "ip" and value is not None:
                    key = None if name is None else _address(name)
                    rates[key] = min(value, rates.get(key, value))
        return rates

    def without_effect(self) -> int:
        """Return how many entities have a quota that brokers do not enforce."""
        return sum(1 for quotas in self.by_entity.values() if quotas.keys() - ENFORCED)

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        return (
            ClientQuotaRecord(
                entity=[
                    EntityData(entity_type=kind, entity_name=name)
                    for kind, name in sorted(entity, key=lambda part: part[0])
                ],
                key=key,
                value=value,
                remove=False,
            )
            for entity, quotas in self.by_entity.copy().items()
            for key, value in sorted(quotas.items())
        )


def _address(text: str) -> str:
    """Return an address in its usual form: one address has many texts, and an IPv4 address one
    more in IPv6."""
    try:
        address = ip_address(text)
    except ValueError:
        return text  # a controller of Apache Kafka stores host names
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
