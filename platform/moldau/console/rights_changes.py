"""Changes of rules (ACLs), users and quotas. Each is shown before it is made.

A change is read from the fields of a form, and gives them back as the hidden fields of its preview:
so what was shown is what is made. Invariant: a password comes only with the last form, and is on no
page and in no audit line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, Self, TypeVar

from moldau.cli.commands.acl_words import principal_of, told
from moldau.cli.numbers import exact
from moldau.client import Admin
from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.client.admin.security import ITERATIONS, Acl, AclFilter, SecurityAdmin, in_turn
from moldau.console.access import PASSWORD
from moldau.console.previews import Effect, Preview, check_typed, given
from moldau.console.rendering import BadForm
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
)

OPERATIONS: Final = [each for each in AclOperation if each > AclOperation.ANY]
RESOURCES: Final = [each for each in AclResource if each > AclResource.ANY]
CLUSTER: Final = "kafka-cluster"
"""The only resource of its type."""
PATTERNS: Final = [AclPattern.LITERAL, AclPattern.PREFIXED]
PERMISSIONS: Final = [AclPermission.ALLOW, AclPermission.DENY]
QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
OF_ADDRESSES: Final = "connection_creation_rate"
_REMOVE: Final = "remove"
_ALL: Final = "*"

E = TypeVar("E", bound=IntEnum)
Fields = Mapping[str, str]


class RightsChange(Protocol):
    """A change that was read from a form."""

    def fields(self) -> dict[str, str]:
        """Return the form's fields, from which the same change is read."""
        ...

    async def preview(self, admin: Admin) -> Preview:
        """Return what it does."""
        ...

    async def make(self, admin: Admin, form: Fields) -> None:
        """Do it. Raise BadForm if the form lacks a password or a typed name."""
        ...


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule is added or removed."""

    rule: Acl
    is_removal: bool

    @classmethod
    def of(cls, form: Fields) -> Self:
        """Read a form. Raise BadForm."""
        kind = _choice(form, "type", RESOURCES)
        name = CLUSTER if kind is AclResource.CLUSTER else given(form, "name")
        is_removal = form.get("does") == _REMOVE
        is_every = name == _ALL and not is_removal
        rule = Acl(
            principal_of(given(form, "user")),
            _choice(form, "operation", OPERATIONS),
            name,
            kind,
            AclPattern.LITERAL if is_every else _choice(form, "pattern", PATTERNS),
            _choice(form, "permission", PERMISSIONS),
            form.get("host", "").strip() or _ALL,
        )
        return cls(rule, is_removal)

    def fields(self) -> dict[str, str]:
        rule = self.rule
        return {
            "does": _REMOVE if self.is_removal else "add",
            "user": rule.principal,
            "operation": rule.operation.name,
            "type": rule.type.name,
            "name": rule.name,
            "pattern": rule.pattern.name,
            "permission": rule.permission.name,
            "host": rule.host,
        }

    async def preview(self, admin: Admin) -> Preview:
        about = AclFilter(name=self.rule.name, type=self.rule.type, decides=True)
        rules = await SecurityAdmin(admin).describe_acls(about)
        effect = Effect("gone" if self.is_removal else "new", told(self.rule))
        if self.is_removal:
            found = (effect,) if self.rule in rules else ()
            return Preview("Remove a rule", found, tuple(self._notes_of_removal(rules)))
        found = () if self.rule in rules else (effect,)
        return Preview("Add a rule", found, tuple(self._notes(rules)))

    def _notes_of_removal(self, rules: list[Acl]) -> list[str]:
        if self.rule not in rules:
            return ["There is no such rule any more."]
        left = len(rules) - 1
        if left:
            return [f"Other rules about the same name: {left}. What none of them allows is denied."]
        return [
            "It is the only rule about this name. Without one, allow.everyone.if.no.acl.found of "
            "the brokers decides, which is false by default."
        ]

    def _notes(self, rules: list[Acl]) -> list[str]:
        rule, notes = self.rule, []
        if rule in rules:
            return ["There is this rule already."]
        if rule.name.endswith(_ALL) and rule.name != _ALL:
            notes.append(
                f"The name is {rule.name} as it stands. For all names that begin so, leave the "
                "star out and choose PREFIXED."
            )
        if not rules:
            notes.append(
                "It is the first rule about this name: from now on, what no rule allows is denied, "
                "also where allow.everyone.if.no.acl.found of the brokers is true."
            )
        if rule.permission is AclPermission.DENY:
            notes.append("A rule that denies counts before all that allow.")
        return notes

    async def make(self, admin: Admin, form: Fields) -> None:
        security = SecurityAdmin(admin)
        if self.is_removal:
            if not await security.delete_acls(AclFilter.exactly(self.rule)):
                raise BadForm("the rule was removed meanwhile")
            return
        for error in (await security.create_acls([self.rule])).values():
            if error is not None:
                raise error


@dataclass(frozen=True, slots=True)
class UserChange:
    """A SCRAM user gets a password, or its credentials are removed."""

    user: str
    mechanisms: tuple[ScramMechanism, ...]
    """Those that a password is set for, or that are removed."""
    iterations: int
    is_removal: bool

    @classmethod
    def of(cls, form: Fields) -> Self:
        """Read a form. Raise BadForm."""
        words, iterations = form.get("mechanism", ""), form.get("iterations", "").strip()
        if words and words not in SCRAM_MECHANISMS:
            raise BadForm(f"mechanism: {', '.join(SCRAM_MECHANISMS)}, or none of them for both")
        number = int(iterations) if iterations.isdecimal() else None if iterations else ITERATIONS
        if number is None or not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
            raise BadForm(f"iterations: {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        chosen = [SCRAM_MECHANISMS[words]] if words else SCRAM_MECHANISMS.values()
        user = given(form, "user").removeprefix("User:")
        return cls(user, tuple(chosen), number, form.get("does") == _REMOVE)

    def fields(self) -> dict[str, str]:
        one = self.mechanisms[0].sasl_name if len(self.mechanisms) == 1 else ""
        return {
            "does": _REMOVE if self.is_removal else "set",
            "user": self.user,
            "mechanism": one,
            "iterations": str(self.iterations),
        }

    async def preview(self, admin: Admin) -> Preview:
        users = await SecurityAdmin(admin).describe_users()
        found = next((each.iterations for each in users if each.name == self.user), {})
        gone = [
            Effect("gone", f"{self.user}: {each.sasl_name}, {found[each]} iterations")
            for each in self.mechanisms
            if each in found
        ]
        if self.is_removal:
            title, note = f"Remove {self.user}", "Rules and quotas about the user stay."
            if not gone:
                return Preview(title, (), ("There is no such user, or none with this mechanism.",))
            return Preview(title, tuple(gone), (note,), typed=self.user)
        new = [
            Effect("new", f"{self.user}: {each.sasl_name}, {self.iterations} iterations")
            for each in self.mechanisms
        ]
        note = (
            "The next login with the present password is refused."
            if gone
            else "Where brokers decide by rules, the user may do only what a rule allows."
        )
        title = f"{'Set the password of' if found else 'Add the user'} {self.user}"
        return Preview(title, (*gone, *new), (note,), asks_password=True)

    async def make(self, admin: Admin, form: Fields) -> None:
        security = SecurityAdmin(admin)
        if self.is_removal:
            check_typed(form, self.user)
            users = {each.name: each.iterations for each in await security.describe_users()}
            held = [each for each in self.mechanisms if each in users.get(self.user, {})]
            await in_turn(
                self.user, held, lambda one: security.delete_user(self.user, mechanism=one)
            )
            return
        given_first, given_again = form.get(PASSWORD, ""), form.get(f"{PASSWORD}.again")
        if not given_first or given_first != given_again:
            raise BadForm("give the new password twice, the same one")
        await in_turn(
            self.user,
            self.mechanisms,
            lambda one: security.set_password(
                self.user, given_first, mechanism=one, iterations=self.iterations
            ),
        )


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota is set or removed."""

    entity: QuotaEntity
    name: str
    value: float | None
    """None removes it."""

    @classmethod
    def of(cls, form: Fields) -> Self:
        """Read a form. Raise BadForm."""
        user, client_id, ip = (
            form.get(each, "").strip() or None for each in ("user", "client_id", "ip")
        )
        name = form.get("quota", "")
        if name not in QUOTAS:
            raise BadForm(f"quota: {', '.join(QUOTAS)}")
        if bool(ip) != (name == OF_ADDRESSES) or (ip and (user or client_id)):
            raise BadForm(f"{OF_ADDRESSES} is for an address alone, and no other quota is for one")
        if not (user or client_id or ip):
            raise BadForm("give a user, a client id or both, or an address; * is for all others")
        value = None if form.get("does") == _REMOVE else _amount(form.get("value", ""))
        return cls(QuotaEntity(user, client_id, ip), name, value)

    def fields(self) -> dict[str, str]:
        named = {name: value for name, value in self.entity._asdict().items() if value}
        if self.value is None:
            return {**named, "quota": self.name, "does": _REMOVE}
        return {**named, "quota": self.name, "does": "set", "value": repr(self.value)}

    async def preview(self, admin: Admin) -> Preview:
        found = (await QuotaAdmin(admin).describe()).get(self.entity, {}).get(self.name)
        named = ", ".join(
            f"{name.replace('_', ' ')} {'all others' if value == _ALL else value}"
            for name, value in self.entity._asdict().items()
            if value
        )
        title = f"{'Remove' if self.value is None else 'Set'} a quota"
        if found == self.value:
            note = "There is no such quota." if found is None else "It has this value already."
            return Preview(title, (), (note,))
        effects = [
            Effect(kind, f"{named}: {self.name} {exact(value)}")
            for kind, value in (("gone", found), ("new", self.value))
            if value is not None
        ]
        note = "Each broker counts it by itself."
        if self.value is None:
            note = "A wider quota counts then, if there is one: of all others, say."
        return Preview(title, tuple(effects), (note,))

    async def make(self, admin: Admin, form: Fields) -> None:
        quotas = QuotaAdmin(admin)
        if self.value is None:
            await quotas.alter(self.entity, {}, unset=[self.name])
        else:
            await quotas.alter(self.entity, {self.name: self.value})


def _choice(form: Fields, name: str, known: list[E]) -> E:
    found = next((each for each in known if each.name == form.get(name)), None)
    if found is None:
        raise BadForm(f"{name}: {', '.join(each.name for each in known)}")
    return found


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise BadForm("value: give a number above 0")
    return value
