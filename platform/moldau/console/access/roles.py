"""Roles of visitors, of which topics they see messages, and what is masked for them. Pure.

A role includes those below it. Without a file of roles every visitor has the role that the console
was started with. Invariants: a visitor without a role sees nothing; an admin sees every message as
it is; where a file has rules about messages, a topic without a rule is for admins alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

from moldau.console.access.masks import Mask, MaskRule
from moldau.deferred import dataclass


class Role(IntEnum):
    """What a visitor may do."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Its name in files and on pages."""
        return self.name.lower()


UNKNOWN: Final = "-"
"""The user of a visitor without a login."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a visitor has proved: the name of its user, and the groups that its token names."""

    user: str = UNKNOWN
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Holders:
    """Users and groups, as patterns such as `shop-*`."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def include(self, login: Login) -> bool:
        """Whether the user, or one of its groups, is among them."""
        return fits(login.user, self.users) or any(fits(each, self.groups) for each in login.groups)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns has this name."""
    return any(fnmatchcase(name, each) for each in patterns)


@dataclass(frozen=True, slots=True)
class MessageRule:
    """Holders that see the messages of topics by these patterns."""

    topics: tuple[str, ...]
    holders: Holders


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one console."""

    roles: Mapping[Role, Holders] = field(default_factory=dict)
    messages: tuple[MessageRule, ...] | None = None
    """None if every role sees the messages of every topic."""
    masks: tuple[MaskRule, ...] = ()
    fallback: Role | None = None
    """The role of visitors that no entry of `roles` has."""
    hash_key: bytes = field(default=b"", repr=False)

    @property
    def hides_messages(self) -> bool:
        """Whether some messages, or parts of them, are for admins or some logins alone."""
        return self.messages is not None or bool(self.masks)

    def visitor(self, login: Login) -> Visitor:
        """Return the visitor with this login, in its highest role."""
        held = [role for role, holders in self.roles.items() if holders.include(login)]
        return Visitor(login, max(held, default=self.fallback), self)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of the pages. `role` is None if it has none."""

    login: Login
    role: Role | None
    policy: Policy

    def has(self, needed: Role) -> bool:
        """Whether the visitor has this role, or one that includes it."""
        return self.role is not None and self.role >= needed

    @property
    def is_changing(self) -> bool:
        """Whether there is anything that the visitor may change."""
        return self.has(Role.OPERATOR)

    def sees(self, topic: str) -> bool:
        """Whether the visitor may see messages of this topic, and produce to it."""
        rules = self.policy.messages
        if rules is None or self.has(Role.ADMIN):
            return self.role is not None
        return self.role is not None and any(
            fits(topic, each.topics) and each.holders.include(self.login) for each in rules
        )

    def mask(self, topic: str) -> Mask | None:
        """Return what is hidden of this topic's messages; None if nothing is."""
        if self.has(Role.ADMIN):
            return None
        found = tuple(each for each in self.policy.masks if fits(topic, each.topics))
        return Mask(found, self.policy.hash_key) if found else None


def of_role(role: Role | None, login: Login | None = None) -> Visitor:
    """Return a visitor with a role that no file gives."""
    return Visitor(Login() if login is None else login, role, Policy())


BY_CLAIM: Final[Mapping[Role, Holders]] = {role: Holders(groups=(role.word,)) for role in Role}
"""The roles where no file names any: the claim of the token names the role itself."""
