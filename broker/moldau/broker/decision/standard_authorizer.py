"""Kafka's StandardAuthorizer: it decides from the rules in the metadata log.

    StandardAuthorizer(lambda: image.acls.index, super_users, allows_by_default=False)

Invariants: super users may do everything, whatever the rules say, and also before the metadata is
known. For all others an authorizer that is not ready answers with an error and not with a guess.
Decisions are kept until a rule changes; how many are kept, and how long their names are, is
bounded, because clients choose the names that they ask about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from moldau.broker.security.access.index import AclIndex, Question
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.decision.audit import AuditLog
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.security.access.rule import Acl
    from moldau.protocol.rights import Right

_KEPT_MAX: Final = 50_000
_KEPT_NAME_MAX: Final = 249
"""The longest name of a topic. Decisions about longer names are made each time."""
_KEPT_PRINCIPAL_MAX: Final = 1024
_SOME_NAME: Final = "hardcode"
"""Kafka's name for a resource that no rule is about."""


_OPERATIONS_MAX: Final = 64
_Key: TypeAlias = tuple[str, str, str, int]
"""The type and name of a principal, its host, and a right as one number."""


class Verdict(NamedTuple):
    """A decision and its cause: a rule, a super user, or the default."""

    is_allowed: bool
    rule: Acl | None
    cause: str
    """One of RULE, SUPER_USER, DEFAULT and NO_MATCH."""


RULE: Final = "rule"
SUPER_USER: Final = "super user"
DEFAULT: Final = "default"
NO_MATCH: Final = "no matching rule"


class _Decisions(dict[str, bool]):
    """Decisions by the name of the resource; one that is missing is made."""

    def __init__(self, decide: Callable[[str], bool]) -> None:
        super().__init__()
        self._decide = decide

    def __missing__(self, name: str) -> bool:
        answer = self._decide(name)
        if len(name) <= _KEPT_NAME_MAX:
            self[name] = answer
        return answer


class StandardAuthorizer:
    """Decides by rules. Satisfies `Authorizer`."""

    allows_all: Final = False
    uses_rules: Final = True

    def __init__(
        self,
        index: Callable[[], AclIndex],
        super_users: Iterable[str] = (),
        *,
        allows_by_default: bool = False,
        audit: AuditLog | None = None,
        is_dry_run: bool = False,
    ) -> None:
        """`super_users` are principals such as User:admin. `allows_by_default` is for resources
        without any rule (allow.everyone.if.no.acl.found). `audit` gets the decisions. A dry run
        serves denied requests."""
        self.super_users: Final = frozenset(super_users)
        self.allows_by_default: Final = allows_by_default
        self.is_dry_run: Final = is_dry_run
        self._audit = audit
        self.is_ready = False
        """Whether the metadata is known. The server sets it."""
        self._index = index
        self._kept: dict[_Key, _Decisions] = {}
        self._kept_count = 0
        self._kept_index: AclIndex | None = None
        self._kept_changes = 0

    def allowed(
        self, context: RequestContext, right: Right, names: Collection[str]
    ) -> Collection[str]:
        """Return those of `names` on which the client has the right, and `names` itself if these
        are all. Raise KafkaError while the rules are not known."""
        principal = context.principal
        index = self._index()
        if index is not self._kept_index or index.changes != self._kept_changes:
            self._forget(index)
        code = right.resource * _OPERATIONS_MAX + right.operation  # hashing the enums is slow
        key = (principal.type, principal.name, context.client_host, code)
        decisions = self._kept.get(key)
        if decisions is None:
            decisions = self._open(key, str(principal), right)
        for name in names:
            if not decisions[name]:
                return [each for each in names if decisions[each]]
        return names

    def _open(self, key: _Key, principal: str, right: Right) -> _Decisions:
        """Return the decisions about one client and one right, which are kept from now on."""
        host = _host(key[2])

        def decide(name: str) -> bool:
            if len(name) <= _KEPT_NAME_MAX:
                self._kept_count += 1
            if self._kept_count > _KEPT_MAX:
                self._forget(self._index())
            verdict = self.explain(principal, host, right, name)
            if self._audit is not None:
                counts = verdict.is_allowed or not self.is_dry_run
                self._audit.note((principal, host), right, name, verdict, counts=counts)
            return verdict.is_allowed or self.is_dry_run

        if principal not in self.super_users:
            self._ready_index()
        decisions = _Decisions(decide)
        if len(key[1]) <= _KEPT_PRINCIPAL_MAX:
            self._kept[key] = decisions
            self._kept_count += 1
        return decisions

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        """Whether the client has the right on some resource, whatever its name."""
        principal, host = str(context.principal), _host(context.client_host)
        if self.is_dry_run or self.explain(principal, host, right, _SOME_NAME).is_allowed:
            return True
        index = self._ready_index()
        return index.allows_some(principal, host, right.operation, right.resource)

    def explain(self, principal: str, host: str, right: Right, name: str) -> Verdict:
        """Return the decision about one resource, with its cause."""
        if principal in self.super_users:
            return Verdict(is_allowed=True, rule=None, cause=SUPER_USER)
        question = Question(principal, host, right.operation, right.resource, name)
        found = self._ready_index().decide(question)
        if found.rule is not None:
            return Verdict(found.allows, found.rule, RULE)
        if found.has_rules:
            return Verdict(is_allowed=False, rule=None, cause=NO_MATCH)
        return Verdict(self.allows_by_default, None, DEFAULT)

    def _ready_index(self) -> AclIndex:
        if not self.is_ready:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the authorizer does not know the rules yet"
            )
        return self._index()

    async def aclose(self) -> None:
        """Write what is left of the audit log, and close it."""
        if self._audit is not None:
            await self._audit.aclose()

    def _forget(self, index: AclIndex) -> None:
        self._kept = {}
        self._kept_count = 0
        self._kept_index, self._kept_changes = index, index.changes


def _host(shown: str) -> str:
    """Return the address as rules have it."""
    return shown.removeprefix("/")
