"""The rules that denied requests needed, from the lines of a broker's audit log.

Rules that others imply are left out: READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS
allows DESCRIBE_CONFIGS, and WRITE on any topic allows what IDEMPOTENT_WRITE does (KIP-679).
Requests that a rule denied are left out too: it was meant.

Invariant: a suggested rule allows no more than what was asked for. Clients choose the names that
they ask about, and a name with a `*` at its end would become a rule about many names: such names,
and those that a terminal does not show as they are, are left out and counted. A right that was
asked for from one address only is suggested for that address.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from moldau.client.admin.decision import IMPLYING
from moldau.client.admin.security import Acl
from moldau.protocol.acl_operations import AclOperation, AclResource

_BY_RULE: Final = "rule"
_ANY: Final = "*"
_LEFT_OUT: Final = "left_out"


class Suggestion(NamedTuple):
    """Rules, sorted, and how many lines could not be read."""

    rules: list[Acl]
    bad_lines: int
    left_out: list[Acl]
    """The rules with names that would make them rules about more, or that cannot be shown."""
    unwritten: int
    """How many denied requests the log left out, because their clients made too many."""


def suggested(lines: Iterable[str], principal: str | None = None) -> Suggestion:
    """Return the rules that the denied requests of a principal, or of all, needed."""
    wanted: dict[Acl, set[str]] = {}
    """The rules without a host, with the hosts of the requests."""
    writers: dict[str, set[str]] = {}
    bad_lines = unwritten = 0
    for line in lines:
        try:
            facts = json.loads(line)
            if _LEFT_OUT in facts:
                is_wanted = not facts["allowed"] and principal in (None, facts["principal"])
                unwritten += int(facts[_LEFT_OUT]) if is_wanted else 0
                continue
            rule, host = _rule(facts), str(facts.get("host") or _ANY)
        except (ValueError, KeyError, TypeError, AttributeError):
            bad_lines += 1
            continue
        if rule.operation is AclOperation.WRITE and rule.type is AclResource.TOPIC:
            writers.setdefault(rule.principal, set()).add(host)
        if _lacked_a_rule(facts) and principal in (None, rule.principal):
            wanted.setdefault(rule, set()).add(host)
    needed = sorted(
        (
            replace(each, host=next(iter(hosts)) if len(hosts) == 1 else _ANY)
            for each, hosts in wanted.items()
            if not _is_implied(each, hosts, wanted)
            and not (
                each.operation is AclOperation.IDEMPOTENT_WRITE
                and hosts <= writers.get(each.principal, set())
            )
        ),
        key=_order,
    )
    return Suggestion(
        [each for each in needed if _is_exact(each)],
        bad_lines,
        [each for each in needed if not _is_exact(each)],
        unwritten,
    )


def _is_exact(rule: Acl) -> bool:
    """Whether the rule, as it is written, is about one principal and one resource."""
    texts = (rule.principal, rule.name, rule.host)
    return all(each.isprintable() for each in texts) and not (
        rule.name.endswith(_ANY) or rule.principal.endswith(f":{_ANY}")
    )


def _order(rule: Acl) -> tuple[str, int, str, int]:
    return rule.principal, rule.type, rule.name, rule.operation


def _rule(facts: Any) -> Acl:
    """Return the rule that allows what a decision was about."""
    return Acl(
        str(facts["principal"]),
        AclOperation[facts["operation"]],
        str(facts["resource"]),
        AclResource[facts["resource_type"]],
    )


def _lacked_a_rule(facts: Any) -> bool:
    """Whether a request was denied, and not by a rule."""
    return not facts["allowed"] and facts["cause"] != _BY_RULE


def _is_implied(rule: Acl, hosts: set[str], among: Mapping[Acl, set[str]]) -> bool:
    others = (replace(rule, operation=each) for each in IMPLYING.get(rule.operation, ()))
    return any(
        len(among[each]) > 1 or hosts <= among[each]  # a rule of several hosts is for every host
        for each in others
        if each in among
    )
