"""Quotas of clients: how much users and client ids may do in a second (KIP-546).

quotas = QuotaAdmin(admin)
await quotas.alter(QuotaEntity(user="alice"), {"producer_byte_rate": 1_000_000})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.admin.requests import error_of, value_of
from moldau.errors.codes import raise_for
from moldau.link.cluster import CONTROLLER
from moldau.protocol.messages import alter_client_quotas as altering
from moldau.protocol.messages import describe_client_quotas as describing

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

DEFAULT: Final = "*"
"""Stands for all users, or all client ids, that have no quota of their own."""
_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}


class QuotaEntity(NamedTuple):
    """What a quota is for: a user, a client id, both together, or an address."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> list[tuple[str, str | None]]:
        """Return the types and names, as in a request: a default has no name."""
        named = zip(_FIELDS, self, strict=True)
        return [(kind, None if name == DEFAULT else name) for kind, name in named if name]


class QuotaAdmin:
    """Describes and changes quotas, through an admin client that was started."""

    def __init__(self, admin: Admin) -> None:
        self._requests = admin._requests

    async def describe(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas, by entity and name."""
        request = describing.DescribeClientQuotasRequest(components=[], strict=False)
        answer = await self._requests.ask(request, describing.DescribeClientQuotasResponse)
        raise_for("DescribeClientQuotas", answer.error_code, answer.error_message or "")
        found = {}
        for entry in answer.entries or ():
            names = {
                _FIELDS[each.entity_type]: each.entity_name or DEFAULT for each in entry.entity
            }
            found[QuotaEntity(**names)] = {each.key: each.value for each in entry.values}
        return found

    async def alter(
        self, entity: QuotaEntity, set_to: Mapping[str, float], *, unset: Iterable[str] = ()
    ) -> None:
        """Set and remove quotas of one entity, all or none."""
        ops = [altering.OpData(key=key, value=value, remove=False) for key, value in set_to.items()]
        ops += [altering.OpData(key=key, value=0.0, remove=True) for key in unset]
        parts = [
            altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts()
        ]
        entry = altering.AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
        request = altering.AlterClientQuotasRequest(entries=[entry], validate_only=False)
        response = altering.AlterClientQuotasResponse
        (found,) = (await self._requests.ask(request, response, CONTROLLER)).entries
        value_of(error_of("AlterClientQuotas", found.error_code, found.error_message))
