"""`QuotaAdmin` for threads: describes and changes the quotas of clients.

with Admin(bootstrap_servers="localhost:9092") as admin:
    QuotaAdmin(admin).alter(QuotaEntity(user="alice"), {"producer_byte_rate": 1_000_000})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.client.admin.quotas import QuotaAdmin as AsyncQuotaAdmin
from moldau.client.admin.quotas import QuotaEntity
from moldau.client.admin.sync.admin import Admin


class QuotaAdmin:
    """Describes and changes quotas, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def _client(self) -> AsyncQuotaAdmin:
        return AsyncQuotaAdmin(self._admin._client)

    def describe(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas, by entity and name."""
        return self._admin._call(self._client.describe())

    def alter(
        self, entity: QuotaEntity, set_to: Mapping[str, float], *, unset: Iterable[str] = ()
    ) -> None:
        """Set and remove quotas of one entity, all or none."""
        return self._admin._call(self._client.alter(entity, set_to, unset=unset))
