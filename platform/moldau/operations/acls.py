"""Access rules (ACLs): the words for them, what a change of them means, and which rule decides.

A resource of a rule is TYPE:NAME; a `*` at the end of a name means every name that begins so, and
`*` alone every name. Elsewhere it is a character of the name, which no topic has. A user without a
type is `User:...`. A rule exists or not: it has nothing to change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from moldau.client.admin.decision import deciding
from moldau.client.admin.security import Acl, AclFilter, SecurityAdmin
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import BadGiven
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.operations.plan import Action, PlanStep
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

E = TypeVar("E", bound=IntEnum)


def one_of(text: str, known: Iterable[E], what: str) -> E:
    """Return the member with this name, in any case and with `-` for `_`. Raise BadGiven."""
    choices = list(known)
    name = text.upper().replace("-", "_")
    for each in choices:
        if each.name == name:
            return each
    raise BadGiven(f"{text!r} is no {what}; there are {', '.join(each.name for each in choices)}")


KIND: Final = "acl"
OPERATIONS: Final = [each for each in AclOperation if each > AclOperation.ANY]
RESOURCES: Final = [each for each in AclResource if each > AclResource.ANY]
CLUSTER: Final = "kafka-cluster"
"""The only resource of its type."""
ANY_HOST: Final = "*"
_EVERY: Final = "*"
_TYPES: Final = {each.name.lower().replace("_", "-"): each for each in RESOURCES}
_TOPIC: Final = deferred_pattern(r"[a-zA-Z0-9._-]+")
_STAR: Final = "a * counts at the end alone, and means every topic that begins so"
_NO_RULE: Final = "allow.everyone.if.no.acl.found of the brokers decides, which is false by default"


# Words


def principal_of(text: str) -> str:
    """Return the principal. A user without a type is `User:...`. Raise BadGiven."""
    kind, colon, name = text.partition(":")
    if colon and not (kind and name):
        raise BadGiven(f"{text!r}: a principal is written as User:NAME")
    return text if colon else f"User:{text}"


def operation_of(text: str) -> AclOperation:
    """Return the operation. Raise BadGiven."""
    return one_of(text, OPERATIONS, "operation")


def resource_of(text: str) -> tuple[AclResource, str, AclPattern]:
    """Return the type, the name and the pattern of a rule's resource. Raise BadGiven."""
    kind, name = _type_and_name(text)
    if name.endswith(_EVERY) and name != _EVERY:
        return kind, name[:-1], AclPattern.PREFIXED
    return kind, name, AclPattern.LITERAL


def whole_name_of(text: str) -> tuple[AclResource, str]:
    """Return the type and the name of one resource, in which a `*` is a character. Raise
    BadGiven."""
    kind, name = _type_and_name(text)
    _check_topic(kind, name, text, "this is about one topic, by its whole name")
    return kind, name


def check_possible(rule: Acl) -> None:
    """Raise BadGiven if the rule has no effect, because no topic can have its name."""
    text = resource_text(rule)
    if text.partition(":")[2] != _EVERY:
        _check_topic(rule.type, rule.name, text, _STAR)


def _check_topic(kind: AclResource, name: str, text: str, advice: str) -> None:
    if kind is AclResource.TOPIC and not _TOPIC.fullmatch(name):
        raise BadGiven(f"no topic has the name in {text!r}: {advice}")


def _type_and_name(text: str) -> tuple[AclResource, str]:
    kind, colon, name = text.partition(":")
    if kind == "cluster" and not colon:
        name = CLUSTER
    if kind not in _TYPES or not name:
        raise BadGiven(f"{text!r} is not TYPE:NAME; the types are {', '.join(_TYPES)}")
    return _TYPES[kind], name


def resource_text(rule: Acl) -> str:
    """Return the resource as `resource_of` reads it."""
    kind = rule.type.name.lower().replace("_", "-")
    return f"{kind}:{rule.name}{_EVERY if rule.pattern is AclPattern.PREFIXED else ''}"


def rule_text(rule: Acl) -> str:
    """Return the rule as one line."""
    where = "" if rule.host == ANY_HOST else f" from {rule.host}"
    return (
        f"{rule.permission.name} {rule.principal} {rule.operation.name} {resource_text(rule)}"
        f"{where}"
    )


def rule_name(rule: Acl) -> str:
    """Return the rule as one line, which no other rule has."""
    return rule_text(rule) + (" (literal)" if _looks_prefixed(rule) else "")


def _looks_prefixed(rule: Acl) -> bool:
    """Whether the rule is for one name that ends with `*`, as prefixes are written."""
    is_literal = rule.pattern is AclPattern.LITERAL
    return is_literal and rule.name.endswith(_EVERY) and rule.name != _EVERY


# What programs need


def needs_of_producer(topic: str, transactional_id: str | None) -> list[tuple[str, str]]:
    """Return the operations and resources that a producer to the topic needs."""
    needs = [(each, f"topic:{topic}") for each in ("WRITE", "DESCRIBE", "CREATE")]
    if transactional_id is not None:
        its = f"transactional-id:{transactional_id}"
        needs += [(each, its) for each in ("WRITE", "DESCRIBE")]
    return needs


def needs_of_consumer(topic: str, group: str) -> list[tuple[str, str]]:
    """Return the operations and resources that a consumer of the topic needs."""
    return [("READ", f"topic:{topic}"), ("DESCRIBE", f"topic:{topic}"), ("READ", f"group:{group}")]


def needs_of_streams(app: str) -> list[tuple[str, str]]:
    """Return what a Streams app needs for its group, its own topics and its transactions."""
    needs = [("READ", f"group:{app}"), ("ALL", f"topic:{app}-*")]
    return needs + [(each, f"transactional-id:{app}-*") for each in ("WRITE", "DESCRIBE")]


# A change of one rule


async def rules_about(admin: Admin, kind: AclResource, name: str) -> list[Acl]:
    """Return all rules that count for the resource, also prefixed ones and those for `*`."""
    chosen = AclFilter(name=name, type=kind, decides=True)
    return await SecurityAdmin(admin).describe_acls(chosen)


def notes_of_addition(rule: Acl, rules: Sequence[Acl]) -> list[str]:
    """Return what the new rule means beside the `rules_about` its resource."""
    if rule in rules:
        return ["There is this rule already."]
    notes = []
    if rule.name.endswith(_EVERY) and rule.name != _EVERY:
        notes.append(
            f"The name is {rule.name} as it stands. For all names that begin so, leave the star "
            "out and choose PREFIXED."
        )
    if not rules:
        notes.append(
            "It is the first rule about this name: from now on, what no rule allows is denied, "
            "also where allow.everyone.if.no.acl.found of the brokers is true."
        )
    if rule.permission is AclPermission.DENY:
        notes.append("A rule that denies counts before all that allow.")
    return notes


def notes_of_removal(rule: Acl, rules: Sequence[Acl]) -> list[str]:
    """Return what stays if the rule is removed from the `rules_about` its resource."""
    if rule not in rules:
        return ["There is no such rule any more."]
    left = len(rules) - 1
    if left:
        return [f"Other rules about the same name: {left}. What none of them allows is denied."]
    return [f"It is the only rule about this name. Without one, {_NO_RULE}."]


async def add_rules(admin: Admin, rules: Sequence[Acl]) -> None:
    """Add all rules, or raise the first refusal."""
    for error in (await SecurityAdmin(admin).create_acls(rules)).values():
        if error is not None:
            raise error


async def remove_rules(admin: Admin, rules: Iterable[Acl]) -> list[Acl]:
    """Remove exactly these rules. Return those that existed."""
    gone: list[Acl] = []
    for each in rules:
        gone += await SecurityAdmin(admin).delete_acls(AclFilter.exactly(each))
    return gone


# Which rule decides


@dataclass(frozen=True, slots=True)
class Question:
    """May a user do something?"""

    principal: str
    operation: AclOperation
    kind: AclResource
    name: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, the rule that decides, and all rules about the resource. The `super.users` of
    the brokers are not seen by a client; they may do everything."""

    rule: Acl | None
    rules: Sequence[Acl]

    @property
    def is_allowed(self) -> bool:
        return self.rule is not None and self.rule.permission is AclPermission.ALLOW

    def reason(self, resource: str) -> str:
        """Return why, with the resource as the user wrote it."""
        if self.rule is not None:
            return f"by the rule: {rule_text(self.rule)}"
        if self.rules:
            return f"{resource} has rules ({len(self.rules)}), and none allows it"
        return f"no rule is about {resource}: {_NO_RULE}"


async def verdict_of(admin: Admin, question: Question) -> Verdict:
    """Ask the cluster for the rules, and decide as its brokers do."""
    rules = await rules_about(admin, question.kind, question.name)
    return Verdict(deciding(rules, question.principal, question.host, question.operation), rules)


# Documents


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
        key = (rule.principal, resource_text(rule), rule.permission, rule.host, rule.pattern)
        operations[key].append(rule.operation.name)
        looks_prefixed[key] = _looks_prefixed(rule)
    section: dict[str, Any] = defaultdict(list)
    for key, names in operations.items():
        principal, resource, permission, host, _ = key
        entry: dict[str, Any] = {permission.name.lower(): names if len(names) > 1 else names[0]}
        entry["resource"] = resource
        if host != ANY_HOST:
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


@dataclass
class Acls:
    """Plans and makes the rules of a document."""

    kind: ClassVar = KIND
    wanted: Mapping[str, Acl]
    prunes: bool
    found: Mapping[str, Acl] = field(default_factory=dict)

    async def plan(self, admin: Admin) -> list[PlanStep]:
        """Return the steps."""
        self.found = await found_acls(admin)
        return plan_acls(self.wanted, self.found, prunes=self.prunes)

    async def do(self, admin: Admin, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.CREATE:
            await add_rules(admin, [self.wanted[step.name]])
        else:
            await remove_rules(admin, [self.found[step.name]])
