"""Users, rules (ACLs) and quotas, which rule decides about a request, and changes of them.

A change is read from the fields of a form, and gives them back as the hidden fields of its preview:
so what was shown is what is made. Invariant: a password comes only with the last form, and is on no
page and in no audit line.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from moldau.cli.numbers import exact
from moldau.client import Admin
from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.client.admin.requests import at_once
from moldau.client.admin.security import ITERATIONS, Acl, SecurityAdmin
from moldau.console.access.roles import Role
from moldau.console.access.routes import Row, change, look
from moldau.console.access.visitor import PASSWORD
from moldau.console.connection import Connection
from moldau.console.pages.paging import paged
from moldau.console.pages.previews import (
    Effect,
    Form,
    Preview,
    check_typed,
    given,
    preview_page,
)
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.deferred import dataclass
from moldau.errors import BadGiven
from moldau.errors.codes import KafkaError
from moldau.operations import acls, users
from moldau.operations.quotas import QUOTAS, entity_of
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
)

if TYPE_CHECKING:
    from moldau.console.access.routes import Endpoint

PATTERNS: Final = [AclPattern.LITERAL, AclPattern.PREFIXED]
PERMISSIONS: Final = [AclPermission.ALLOW, AclPermission.DENY]
PAGE: Final = "/rights"
_REMOVE: Final = "remove"
_ALL: Final = "*"

E = TypeVar("E", bound=IntEnum)
Fields = Mapping[str, str]

OPERATIONS: Final = [each for each in acls.OPERATIONS if each is not AclOperation.ALL]


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """May this user do that? `is_asked` is False while the form is empty."""

    user: str = ""
    operation: AclOperation = AclOperation.READ
    kind: AclResource = AclResource.TOPIC
    name: str = ""
    host: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether there is something to answer."""
        return bool(self.user and self.name)

    def question(self) -> acls.Question:
        """Return the question itself."""
        principal = acls.principal_of(self.user)
        return acls.Question(principal, self.operation, self.kind, self.name, self.host)

    @classmethod
    def of(cls, query: Mapping[str, str]) -> QuestionForm:
        """Return the question of a form. Raise BadForm."""
        operation, kind = query.get("operation", "READ"), query.get("type", "TOPIC")
        if operation not in [each.name for each in OPERATIONS]:
            raise BadForm(f"operation: {', '.join(each.name for each in OPERATIONS)}")
        if kind not in [each.name for each in acls.RESOURCES]:
            raise BadForm(f"type: {', '.join(each.name for each in acls.RESOURCES)}")
        fields = {name: query.get(name, "").strip() for name in ("user", "name", "host")}
        if kind == AclResource.CLUSTER.name and fields["user"]:
            fields["name"] = acls.CLUSTER
        elif bool(fields["user"]) != bool(fields["name"]):
            raise BadForm("give both a user and the name of a resource")
        return cls(operation=AclOperation[operation], kind=AclResource[kind], **fields)


class Rights:
    """The endpoints about users, rules and quotas."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    async def show(self, request: Request) -> Response:
        """Rules that contain a text, users and quotas, and the answer to a question."""
        query = request.query_params
        text, question = query.get("q", "").strip(), QuestionForm.of(query)
        admin = await self._connection.admin()
        security = SecurityAdmin(admin)
        asks: dict[str, Callable[[], Awaitable[Any]]] = {
            "rules": security.describe_acls,
            "users": security.describe_users,
            "quotas": QuotaAdmin(admin).describe,
        }
        answers = await at_once(asks, lambda name: asks[name]())
        failures = {name: each for name, each in answers.items() if isinstance(each, KafkaError)}
        known: dict[str, Any] = {
            name: [] if name in failures else each for name, each in answers.items()
        }
        found = [
            each for each in sorted(known["rules"], key=_order) if text.lower() in _words(each)
        ]
        verdict = None
        if question.is_asked and "rules" not in failures:
            verdict = await acls.verdict_of(admin, question.question())
        return self._renderer.page(
            request,
            "rights.html",
            part=paged(found, query.get("page")),
            text=text,
            users=known["users"],
            quotas=known["quotas"] or {},
            failures=failures,
            question=question,
            verdict=verdict,
            choices={
                "operations": OPERATIONS,
                "types": acls.RESOURCES,
                "prefixed": AclPattern.PREFIXED,
            },
            fields_of=lambda rule: RuleChange(rule, is_removal=True).fields(),
            quotas_of=QUOTAS,
            mechanisms=list(SCRAM_MECHANISMS),
        )

    def rows(self) -> list[Row]:
        """Return their rows: the page, and two of each kind of change."""
        rows = [look(PAGE, self.show)]
        for kind, read in KINDS.items():
            path = f"{PAGE}/{kind}"
            rows += [
                Row("POST", f"{path}/plan", self._plan(path, read), Role.ADMIN, is_look=True),
                change(path, self._change(read), f"change a {kind}", Role.ADMIN),
            ]
        return rows

    def _plan(self, path: str, read: Read) -> Endpoint:
        async def plan(request: Request) -> Response:
            found = read(await form_of(request))
            preview = await found.preview(await self._connection.admin())
            form = Form(path, PAGE, found.fields())
            return preview_page(self._renderer, request, preview, form)

        return plan

    def _change(self, read: Read) -> Endpoint:
        async def make(request: Request) -> Response:
            form = await form_of(request)
            await read(form).make(await self._connection.admin(), form)
            return see(PAGE)

        return make


def _order(rule: Acl) -> tuple[int, str, str, int]:
    return rule.type, rule.name, rule.principal, rule.operation


def _words(rule: Acl) -> str:
    named = (rule.principal, rule.name, rule.operation.name, rule.type.name, rule.permission.name)
    return " ".join(named).lower()


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
        kind = _choice(form, "type", acls.RESOURCES)
        name = acls.CLUSTER if kind is AclResource.CLUSTER else given(form, "name")
        is_removal = form.get("does") == _REMOVE
        is_every = name == _ALL and not is_removal
        rule = Acl(
            acls.principal_of(given(form, "user")),
            _choice(form, "operation", acls.OPERATIONS),
            name,
            kind,
            AclPattern.LITERAL if is_every else _choice(form, "pattern", PATTERNS),
            _choice(form, "permission", PERMISSIONS),
            form.get("host", "").strip() or acls.ANY_HOST,
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
        rule = self.rule
        rules = await acls.rules_about(admin, rule.type, rule.name)
        if self.is_removal:
            effects = (Effect("gone", acls.rule_text(rule)),) if rule in rules else ()
            return Preview("Remove a rule", effects, tuple(acls.notes_of_removal(rule, rules)))
        effects = () if rule in rules else (Effect("new", acls.rule_text(rule)),)
        return Preview("Add a rule", effects, tuple(acls.notes_of_addition(rule, rules)))

    async def make(self, admin: Admin, form: Fields) -> None:
        if not self.is_removal:
            await acls.add_rules(admin, [self.rule])
        elif not await acls.remove_rules(admin, [self.rule]):
            raise BadForm("the rule was removed meanwhile")


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
        known = await SecurityAdmin(admin).describe_users()
        found = next((each.iterations for each in known if each.name == self.user), {})
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
        if self.is_removal:
            check_typed(form, self.user)
            await users.remove_held(admin, self.user, self.mechanisms)
            return
        first, again = form.get(PASSWORD, ""), form.get(f"{PASSWORD}.again")
        if not first or first != again:
            raise BadForm("give the new password twice, the same one")
        await users.set_password(admin, self.user, first, self.mechanisms, self.iterations)


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
        user, client_id, ip = (form.get(each, "").strip() for each in ("user", "client_id", "ip"))
        name = form.get("quota", "")
        if name not in QUOTAS:
            raise BadForm(f"quota: {', '.join(QUOTAS)}")
        try:
            entity = entity_of(user, client_id, ip, [name])
        except BadGiven as error:
            raise BadForm(str(error)) from None
        value = None if form.get("does") == _REMOVE else _amount(form.get("value", ""))
        return cls(entity, name, value)

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


Read = Callable[[Fields], RightsChange]

KINDS: Final[dict[str, Read]] = {
    "rule": RuleChange.of,
    "user": UserChange.of,
    "quota": QuotaChange.of,
}
