"""Users, rules (ACLs) and quotas, and which rule decides about a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moldau.cli.commands.acl_words import principal_of
from moldau.client import Admin
from moldau.client.admin.decision import deciding
from moldau.client.admin.quotas import QuotaAdmin
from moldau.client.admin.requests import at_once
from moldau.client.admin.security import Acl, AclFilter, SecurityAdmin
from moldau.console.connection import Connection
from moldau.console.paging import paged
from moldau.console.rendering import BadForm, Renderer
from moldau.console.rights_changes import CLUSTER, QUOTAS, RESOURCES, RuleChange
from moldau.errors.codes import KafkaError
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.scram import SCRAM_MECHANISMS

OPERATIONS: Final = [each for each in AclOperation if each > AclOperation.ALL]


@dataclass(frozen=True, slots=True)
class Question:
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

    @property
    def principal(self) -> str:
        """The user with its type."""
        return principal_of(self.user)

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Question:
        """Return the question of a form. Raise BadForm."""
        operation, kind = query.get("operation", "READ"), query.get("type", "TOPIC")
        if operation not in [each.name for each in OPERATIONS]:
            raise BadForm(f"operation: {', '.join(each.name for each in OPERATIONS)}")
        if kind not in [each.name for each in RESOURCES]:
            raise BadForm(f"type: {', '.join(each.name for each in RESOURCES)}")
        fields = {name: query.get(name, "").strip() for name in ("user", "name", "host")}
        if kind == AclResource.CLUSTER.name and fields["user"]:
            fields["name"] = CLUSTER
        elif bool(fields["user"]) != bool(fields["name"]):
            raise BadForm("give both a user and the name of a resource")
        return cls(operation=AclOperation[operation], kind=AclResource[kind], **fields)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, the rule that decides, and all rules about the resource."""

    is_allowed: bool
    rule: Acl | None
    rules: list[Acl]

    @property
    def reason(self) -> str:
        """Why it is so, if no rule decides."""
        if self.rule is not None:
            return "this rule decides"
        if self.rules:
            return f"the resource has rules ({len(self.rules)}), and none allows it"
        return (
            "no rule is about it: allow.everyone.if.no.acl.found of the brokers decides, which is "
            "false by default"
        )


class Rights:
    """The endpoint about users, rules and quotas."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    async def show(self, request: Request) -> Response:
        """Rules that contain a text, users and quotas, and the answer to a question."""
        query = request.query_params
        text, question = query.get("q", "").strip(), Question.of(query)
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
            verdict = await _verdict(admin, question)
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
            choices={"operations": OPERATIONS, "types": RESOURCES, "prefixed": AclPattern.PREFIXED},
            fields_of=lambda rule: RuleChange(rule, is_removal=True).fields(),
            quotas_of=QUOTAS,
            mechanisms=list(SCRAM_MECHANISMS),
        )


async def _verdict(admin: Admin, question: Question) -> Verdict:
    chosen = AclFilter(name=question.name, type=question.kind, decides=True)
    rules = await SecurityAdmin(admin).describe_acls(chosen)
    rule = deciding(rules, question.principal, question.host, question.operation)
    return Verdict(rule is not None and rule.permission is AclPermission.ALLOW, rule, rules)


def _order(rule: Acl) -> tuple[int, str, str, int]:
    return rule.type, rule.name, rule.principal, rule.operation


def _words(rule: Acl) -> str:
    named = (rule.principal, rule.name, rule.operation.name, rule.type.name, rule.permission.name)
    return " ".join(named).lower()
