"""The rules that denied requests needed, from the lines of a broker's audit log.

Rules that others imply are left out: READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS
allows DESCRIBE_CONFIGS, and WRITE on any topic allows what IDEMPOTENT_WRITE does (KIP-679).
Requests that a rule denied are left out too: it was meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from moldau.client.admin.decision import IMPLYING
from moldau.client.admin.security import Acl
from moldau.protocol.acl_operations import AclOperation, AclResource

_BY_RULE: Final = "rule"


class Suggestion(NamedTuple):
    """Rules, sorted, and how many lines could not be read."""

    rules: list[Acl]
    bad_lines: int


def suggested(lines: Iterable[str], principal: str | None = None) -> Suggestion:
    """Return the rules that the denied requests of a principal, or of all, needed."""
    wanted: set[Acl] = set()
    writers: set[str] = set()
    bad_lines = 0
    for line in lines:
        try:
            facts = json.loads(line)
            rule = _rule(facts)
        except (ValueError, KeyError, TypeError):
            bad_lines += 1
            continue
        if rule.operation is AclOperation.WRITE and rule.type is AclResource.TOPIC:
            writers.add(rule.principal)
        if _lacked_a_rule(facts) and principal in (None, rule.principal):
            wanted.add(rule)
    needed = (
        each
        for each in wanted
        if not _is_implied(each, wanted)
        and not (each.operation is AclOperation.IDEMPOTENT_WRITE and each.principal in writers)
    )
    return Suggestion(sorted(needed, key=_order), bad_lines)


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


def _is_implied(rule: Acl, among: set[Acl]) -> bool:
    from dataclasses import replace

    others = IMPLYING.get(rule.operation, ())
    return any(replace(rule, operation=each) in among for each in others)
