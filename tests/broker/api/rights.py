"""An authorizer with listed rights, and a broker that asks it."""

from __future__ import annotations

from collections.abc import Collection

from moldau.broker.decision.context import RequestContext
from moldau.protocol.rights import Right
from tests.broker.api.administered import Administered


class Rights:
    """An authorizer that allows what is listed, and notes what it is asked."""

    allows_all = False
    uses_rules = True

    def __init__(self, *rights: tuple[Right, str]) -> None:
        self.rights = set(rights)
        self.asked: list[tuple[Right, tuple[str, ...]]] = []

    def allowed(
        self, context: RequestContext, right: Right, names: Collection[str]
    ) -> Collection[str]:
        self.asked.append((right, tuple(names)))
        return [name for name in names if (right, name) in self.rights]

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        return any(each == right for each, _ in self.rights)


def guarded(*rights: tuple[Right, str]) -> tuple[Administered, Rights]:
    administered, authorizer = Administered(1), Rights(*rights)
    administered.node.authorizer = authorizer
    return administered, authorizer
