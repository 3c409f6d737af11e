"""`ssl.principal.mapping.rules`: rules that make a short name of a distinguished name.

    RULE:^CN=(.*?),OU=.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name counts. `$1` in the replacement is a group of
the pattern, `L` and `U` at the end change the case. DEFAULT is the name as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError

SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_RULES: Final = deferred_pattern(rf"\s*(?:{_RULE})\s*(?:,\s*|$)")
_GROUP: Final = deferred_pattern(r"\\(.)|\$(\d)|\$\{(\w+)\}")


class NoRuleApplies(Exception):
    """No rule fits a name, so its client has no principal."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the short name; None if the rule does not fit."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        short = _GROUP.sub(lambda group: _part(found, group), self.replacement)
        if self.case == "L":
            return short.lower()
        return short.upper() if self.case == "U" else short


def _part(found: re.Match[str], group: re.Match[str]) -> str:
    if group[1] is not None:
        return group[1]
    key: str | int = int(group[2]) if group[2] is not None else group[3]
    try:
        return found[key] or ""
    except IndexError:
        return group[0]  # no such group: it is text, as in Kafka


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of the setting. Raise ConfigError that names the one at fault."""
    rules = []
    text, position = text.strip(), 0
    while position < len(text):
        found = _RULES.match(text, position)
        if found is None:
            raise ConfigError(
                "not a rule: write RULE:pattern/replacement/ with an L or U behind it, or DEFAULT",
                setting=SETTING,
                value=text[position:],
            )
        position = found.end()
        if found[1] is not None:
            rules.append(Rule(None))
            continue
        try:
            pattern = re.compile(found[2])
        except re.error as error:
            raise ConfigError(
                "the pattern of a rule is no regular expression",
                setting=SETTING,
                value=found[2],
                why=str(error),
            ) from error
        rules.append(Rule(pattern, found[3], found[4]))
    return tuple(rules) or (Rule(None),)


def mapper(rules: Sequence[Rule]) -> Callable[[str], str]:
    """Return the function that applies the rules. It raises NoRuleApplies."""

    def short(name: str) -> str:
        for each in rules:
            found = each.apply(name)
            if found is not None:
                return found
        raise NoRuleApplies("no rule of ssl.principal.mapping.rules fits the name")

    return short
