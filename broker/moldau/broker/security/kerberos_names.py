"""`sasl.kerberos.principal.to.local.rules`: rules that make a user of a Kerberos principal. No IO.

    RULE:[2:$1-$2@$0](.*@EXAMPLE\\.COM)s/@.*//L, DEFAULT

`[2:...]` is for principals of two components, as `kafka/broker-1@EXAMPLE.COM`. `$1` and `$2` are
the components, `$0` is the realm; the text that they make must match the expression in parentheses,
and `s/.../.../` then replaces a part of it, all parts with `g`. `L` and `U` at the end change the
case. DEFAULT is the first component of a principal of the own realm. The first rule that fits
counts.

Invariants: a user has no `/` and no `@`. A rule that can never work is refused when it is read,
where Kafka fails the logins that reach it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias

from moldau.broker.security.mapping import NoRuleApplies
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError

SETTING: Final = "sasl.kerberos.principal.to.local.rules"
_RULE: Final = deferred_pattern(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>[0-9]+):(?P<form>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU]?)"
)
_PRINCIPAL: Final = deferred_pattern(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_FORM: Final = deferred_pattern(r"([^$]+)|\$([0-9]*)")
_NEW: Final = deferred_pattern(r"([^\\$]+)|\\(.)|\$\{(\w+)\}|\$([0-9]+)|(.)", re.DOTALL)
_NAMED_GROUP: Final = deferred_pattern(r"\(\?<(?=[a-zA-Z])")
_COUNT_MAX: Final = 2**31 - 1

Part: TypeAlias = "str | int"
"""A piece of text, or the number of a component or a group."""


@dataclass(frozen=True, slots=True)
class KerberosRule:
    """One rule. Without a form it is DEFAULT."""

    form: tuple[Part, ...] | None = None
    count: int = 1
    """How many components a principal has that it is for."""
    match: re.Pattern[str] | None = None
    old: re.Pattern[str] | None = None
    new: tuple[Part, ...] = ()
    replaces_all: bool = False
    case: str = ""

    @property
    def ignores_realm(self) -> bool:
        """Whether principals of every realm get a user by it: one of another, trusted realm can
        then have the user of an own one."""
        if self.form is None:
            return False
        return 0 not in self.form or (self.match is None and self.old is not None)

    def apply(self, components: Sequence[str], default_realm: str) -> str | None:
        """Return the user; None if the rule does not fit. `components` begin with the realm. Raise
        NoRuleApplies for a result that is no user."""
        found = self._found(components, default_realm)
        if found is None:
            return None
        if "/" in found or "@" in found:
            raise NoRuleApplies(f"a rule of {SETTING} makes a name with / or @ of the principal")
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found

    def _found(self, components: Sequence[str], default_realm: str) -> str | None:
        if self.form is None:
            return components[1] if components[0] == default_realm else None
        if len(components) - 1 != self.count:
            return None
        text = "".join(each if isinstance(each, str) else components[each] for each in self.form)
        if self.match is not None and self.match.fullmatch(text) is None:
            return None
        if self.old is None:
            return text
        return self.old.sub(self._replaced, text, count=0 if self.replaces_all else 1)

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(each if isinstance(each, str) else found[each] or "" for each in self.new)


class KerberosNames:
    """Makes users of principals."""

    def __init__(self, rules: Sequence[KerberosRule], default_realm: str) -> None:
        self._rules = tuple(rules)
        self._default_realm = default_realm

    def user(self, principal: str) -> str:
        """Return the user. Raise NoRuleApplies."""
        if "@" not in principal:
            return principal
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoRuleApplies("the principal is not name@REALM or name/instance@REALM")
        name, instance, realm = found[1], found[2], found[3]
        components = (realm, name) if instance is None else (realm, name, instance)
        for each in self._rules:
            user = each.apply(components, self._default_realm)
            if user is not None:
                return user
        raise NoRuleApplies(f"no rule of {SETTING} fits the principal")


def parse_kerberos_rules(rules: Sequence[str]) -> tuple[KerberosRule, ...]:
    """Return the rules of the setting. Raise ConfigError that names the one at fault."""
    return tuple(map(_rule, rules))


def _rule(text: str) -> KerberosRule:
    found = _RULE.fullmatch(text)
    if found is None:
        _refuse(text, "write DEFAULT, or RULE:[COUNT:FORM](MATCH)s/OLD/NEW/g with L or U behind it")
    if found["default"] is not None:
        return KerberosRule()
    count = int(found["count"])
    if count > _COUNT_MAX:
        _refuse(text, "no principal has so many components")
    old = None if found["old"] is None else _pattern(found["old"], text)
    return KerberosRule(
        _form(found["form"], count, text),
        count,
        None if found["match"] is None else _pattern(found["match"], text),
        old,
        () if old is None else _new(found["new"], old, text),
        found["all"] is not None,
        found["case"],
    )


def _pattern(text: str, rule: str) -> re.Pattern[str]:
    """Return Java's expression as ours: its classes are of ASCII alone."""
    try:
        return re.compile(_NAMED_GROUP.sub("(?P<", text), re.ASCII)
    except re.error as error:
        _refuse(rule, f"{text} is no regular expression: {error}")


def _form(text: str, count: int, rule: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for found in _FORM.finditer(text):
        if found[1] is not None:
            parts.append(found[1])
        elif not found[2] or int(found[2]) > count:
            _refuse(rule, f"${found[2]} is none of $0 to ${count}, the realm and the components")
        else:
            parts.append(int(found[2]))
    return tuple(parts)


def _new(text: str, old: re.Pattern[str], rule: str) -> tuple[Part, ...]:
    """Return the parts of a replacement in Java's syntax."""
    parts: list[Part] = []
    for found in _NEW.finditer(text):
        if found[1] is not None or found[2] is not None:
            parts.append(found[1] or found[2])
        elif found[3] is not None and found[3] in old.groupindex:
            parts.append(old.groupindex[found[3]])
        elif found[4] is not None:
            parts += _group(found[4], old.groups, rule)
        else:
            _refuse(rule, f"{found[0]} in {text} is neither text nor a group; text is \\{found[0]}")
    return tuple(parts)


def _group(digits: str, group_count: int, rule: str) -> list[Part]:
    """Return the group with the longest number that exists, and the digits behind it."""
    number, used = int(digits[0]), 1
    if number > group_count:
        _refuse(rule, f"${number} is no group of the expression before it")
    while used < len(digits) and number * 10 + int(digits[used]) <= group_count:
        number = number * 10 + int(digits[used])
        used += 1
    return [number, digits[used:]]


def _refuse(rule: str, why: str) -> NoReturn:
    raise ConfigError(f"not a rule: {why}", setting=SETTING, value=rule)
