"""Quotas: which entity each is for, and those of a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.deferred import dataclass
from moldau.errors import BadGiven
from moldau.operations.plan import Action, Change, PlanStep

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

KIND: Final = "quota"
QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
OF_ADDRESSES: Final = "connection_creation_rate"
_KINDS: Final = ("user", "client-id", "ip")
Entries = Mapping[str, tuple[QuotaEntity, Mapping[str, float]]]
"""What each quota is for, and its values, by name."""


def entity_of(
    user: str | None, client_id: str | None, ip: str | None, quotas: Iterable[str]
) -> QuotaEntity:
    """Return the entity that these quotas are for. Raise BadGiven if they cannot be for it. The
    cluster says which quotas it knows."""
    if not (user or client_id or ip):
        raise BadGiven("give a user, a client id or both, or an address; * is for all others")
    if ip and (user or client_id):
        raise BadGiven("a quota of an address is for an address alone")
    for name in quotas:
        if name in QUOTAS and bool(ip) != (name == OF_ADDRESSES):
            raise BadGiven(f"{OF_ADDRESSES} is for an address alone, and no other quota is for one")
    return QuotaEntity(user or None, client_id or None, ip or None)


def quota_name(entity: QuotaEntity) -> str:
    """Return what a quota is for, as `user ann, client-id *`."""
    words = zip(_KINDS, entity, strict=True)
    return ", ".join(f"{kind} {name}" for kind, name in words if name)


def plan_quotas(wanted: Entries, found: Entries, *, prunes: bool) -> list[PlanStep]:
    """Return the steps from the quotas that are found to those that are wanted."""
    steps = []
    for name, (_, values) in wanted.items():
        there = found[name][1] if name in found else {}
        changes = [
            Change(key, None if key not in there else number(there[key]), number(value))
            for key, value in values.items()
            if there.get(key) != value
        ]
        others = sorted(there.keys() - values.keys())
        note = ""
        if prunes:
            changes += [Change(key, number(there[key]), None) for key in others]
        elif others:
            note = f"keeps {', '.join(others)}"
        action = Action.UPDATE if changes else Action.KEEP
        if name not in found:
            action = Action.CREATE
        steps.append(PlanStep(action, KIND, name, tuple(changes), note))
    if prunes:
        gone = sorted(found.keys() - wanted.keys())
        steps += [PlanStep(Action.REMOVE, KIND, name) for name in gone]
    return steps


def number(value: float) -> str:
    """Return the value as documents write it: a whole number without a point."""
    return str(int(value)) if value % 1 == 0 else repr(value)


def exported(found: Entries) -> list[dict[str, Any]]:
    """Return the section of a document with these quotas."""
    return [
        {
            **{kind: name for kind, name in zip(_KINDS, entity, strict=True) if name},
            **{key: number(value) for key, value in sorted(values.items())},
        }
        for _, (entity, values) in sorted(found.items())
    ]


async def found_quotas(client: Admin) -> dict[str, tuple[QuotaEntity, dict[str, float]]]:
    """Return all quotas of the cluster."""
    found = await QuotaAdmin(client).describe()
    return {quota_name(entity): (entity, values) for entity, values in found.items()}


@dataclass
class Quotas:
    """Plans and makes the quotas of a document."""

    kind: ClassVar = KIND
    wanted: Entries
    prunes: bool
    found: Entries = field(default_factory=dict)

    async def plan(self, admin: Admin) -> list[PlanStep]:
        """Return the steps."""
        self.found = await found_quotas(admin)
        return plan_quotas(self.wanted, self.found, prunes=self.prunes)

    async def do(self, admin: Admin, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.REMOVE:
            entity, values = self.found[step.name]
            await QuotaAdmin(admin).alter(entity, {}, unset=values)
            return
        entity, wanted = self.wanted[step.name]
        set_to = {each.what: wanted[each.what] for each in step.changes if each.after is not None}
        unset = [each.what for each in step.changes if each.after is None]
        await QuotaAdmin(admin).alter(entity, set_to, unset=unset)
