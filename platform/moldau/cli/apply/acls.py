"""The access rules of a document. A rule is there or not: it has nothing to change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.commands.acl_words import named, told
from moldau.cli.plans import Action, PlanStep
from moldau.client.admin.security import Acl, AclFilter, SecurityAdmin
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclPattern, AclPermission

if TYPE_CHECKING:
    from moldau.cli.commands.cluster_connection import Opened
    from moldau.client.admin.admin import Admin

KIND: Final = "acl"


def rule_name(rule: Acl) -> str:
    """Return the rule as one line, which no other rule has."""
    return told(rule) + (" (literal)" if _looks_prefixed(rule) else "")


def _looks_prefixed(rule: Acl) -> bool:
    """Whether the rule is for one name that ends with `*`, as prefixes are written."""
    is_literal = rule.pattern is AclPattern.LITERAL
    return is_literal and rule.name.endswith("*") and rule.name != "*"


def plan_acls(
    wanted: Mapping[str, Acl], found: Mapping[str, Acl], *, prunes: bool
) -> list[PlanStep]:
    """Return the steps. Both mappings have the rules by their names."""
    steps = [
        PlanStep(Action.KEEP if name in found else Action.CREATE, KIND, name) for name in wanted
    ]
    if prunes:
        gone = sorted(found.keys() - wanted.keys())
        steps += [PlanStep(Action.REMOVE, KIND, name) for name in gone]
    return steps


def exported(rules: Iterable[Acl]) -> dict[str, Any]:
    """Return the section of a document with these rules, by principal."""
    operations: dict[tuple[str, str, AclPermission, str, AclPattern], list[str]] = defaultdict(list)
    looks_prefixed = {}
    for rule in sorted(rules, key=rule_name):
        key = (rule.principal, named(rule), rule.permission, rule.host, rule.pattern)
        operations[key].append(rule.operation.name)
        looks_prefixed[key] = _looks_prefixed(rule)
    section: dict[str, Any] = defaultdict(list)
    for key, names in operations.items():
        principal, resource, permission, host, _ = key
        entry: dict[str, Any] = {permission.name.lower(): names if len(names) > 1 else names[0]}
        entry["resource"] = resource
        if host != "*":
            entry["host"] = host
        if looks_prefixed[key]:
            entry["pattern"] = "literal"
        section[_user(principal)].append(entry)
    return dict(section)


def _user(principal: str) -> str:
    """Return the principal as documents write it: without `User:` where that is clear."""
    name = principal.removeprefix("User:")
    return principal if ":" in name else name


async def found_acls(client: Admin) -> dict[str, Acl]:
    """Return all rules by their names. Raise KafkaError, which says what to do, without rules."""
    try:
        rules = await SecurityAdmin(client).describe_acls()
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        reason = (
            "the brokers decide by no rules: set authorizer.class.name there, or remove the "
            "section acls"
        )
        raise KafkaError(error.code, reason) from None
    return {rule_name(each): each for each in rules}


class Acls:
    """Plans and makes the rules of a document."""

    kind = KIND

    def __init__(self, admin: Opened[Admin], wanted: Mapping[str, Acl], *, prunes: bool) -> None:
        self._admin = admin
        self._wanted = wanted
        self._prunes = prunes
        self._found: Mapping[str, Acl] = {}

    def plan(self) -> list[PlanStep]:
        """Return the steps."""
        self._found = self._admin.run(found_acls)
        return plan_acls(self._wanted, self._found, prunes=self._prunes)

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.CREATE:
            self._admin.run(lambda client: _create(client, self._wanted[step.name]))
        else:
            self._admin.run(lambda client: _delete(client, self._found[step.name]))


async def _create(client: Admin, rule: Acl) -> None:
    for error in (await SecurityAdmin(client).create_acls([rule])).values():
        if error is not None:
            raise error


async def _delete(client: Admin, rule: Acl) -> None:
    await SecurityAdmin(client).delete_acls(AclFilter.exactly(rule))
