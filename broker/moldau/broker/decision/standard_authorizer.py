"""Kafka's StandardAuthorizer: it decides from the rules in the metadata log.

    StandardAuthorizer(lambda: image.acls.index, super_users, allows_by_default=False)

Invariants: super users may do everything, whatever the rules say, and also before the metadata is
known. For all others an authorizer that is not ready answers with an error and not with a guess.
Decisions are kept until a rule changes; how many are kept is bounded, because clients choose the
names that they ask about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.security.access.index import AclIndex, Question
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.decision.authorizer import Right
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.security.access.rule import Acl

_KEPT_MAX: Final = 50_000
_SOME_NAME: Final = "hardcode"
"""Kafka's name for a resource that no rule is about."""


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
    ) -> None:
        """`super_users` are principals such as User:admin. `allows_by_default` is for resources
        without any rule (allow.everyone.if.no.acl.found)."""
        self.super_users: Final = frozenset(super_users)
        self.allows_by_default: Final = allows_by_default
        self.is_ready = False
        """Whether the metadata is known. The server sets it."""
        self._index = index
        self._kept: dict[tuple[str, str, Right], dict[str, bool]] = {}
        self._kept_count = 0
        self._kept_from: tuple[AclIndex | None, int] = (None, 0)

    def allowed(
        self, context: RequestContext, right: Right, names: Collection[str]
    ) -> Collection[str]:
        """Return those of `names` on which the client has the right. Raise KafkaError while the
        rules are not known."""
        principal = str(context.principal)
        if principal in self.super_users:
            return names
        index = self._ready_index()
        if self._kept_from != (index, index.changes):
            self._forget(index)
        key = (principal, context.client_host, right)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = {}
            self._kept_count += 1
        found = [name for name in names if self._is_allowed(kept, key, name)]
        if self._kept_count > _KEPT_MAX:
            self._forget(index)
        return names if len(found) == len(names) else found

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        """Whether the client has the right on some resource, whatever its name."""
        principal, host = str(context.principal), _host(context.client_host)
        if self.explain(principal, host, right, _SOME_NAME).is_allowed:
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

    def _is_allowed(self, kept: dict[str, bool], key: tuple[str, str, Right], name: str) -> bool:
        answer = kept.get(name)
        if answer is None:
            principal, host, right = key
            answer = self.explain(principal, _host(host), right, name).is_allowed
            kept[name] = answer
            self._kept_count += 1
        return answer

    def _ready_index(self) -> AclIndex:
        if not self.is_ready:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the authorizer does not know the rules yet"
            )
        return self._index()

    def _forget(self, index: AclIndex) -> None:
        self._kept = {}
        self._kept_count = 0
        self._kept_from = (index, index.changes)


def _host(shown: str) -> str:
    """Return the address as rules have it."""
    return shown.removeprefix("/")
