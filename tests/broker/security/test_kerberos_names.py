"""`sasl.kerberos.principal.to.local.rules`, against Java's own answers."""

from __future__ import annotations

import pytest

from moldau.broker.security.kerberos_names import KerberosNames, parse_kerberos_rules
from moldau.broker.security.mapping import NoRuleApplies
from moldau.errors import ConfigError
from tests.broker.security.short_names import REFUSED, Case, cases, kept


def user_of(case: Case) -> str:
    try:
        rules = parse_kerberos_rules(case.rules)
        return "=" + KerberosNames(rules, case.realm).user(case.principal)
    except (ConfigError, NoRuleApplies):
        return "!"


def test_users_are_those_that_java_makes() -> None:
    asked = list(cases())
    answers = kept()
    assert len(answers) == len(asked)
    different = [
        (case, ours, java)
        for case, java in zip(asked, answers, strict=True)
        if (ours := user_of(case)) != java
    ]
    assert different == []
    assert min(answers.count("!"), len(set(answers))) > 100, "cases of one kind say little"


@pytest.mark.parametrize("rule", REFUSED)
def test_what_is_no_rule_is_refused_by_its_text(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules") as caught:
        parse_kerberos_rules(["DEFAULT", rule])
    assert caught.value.context["value"] == rule


@pytest.mark.parametrize(
    "rule",
    [
        "RULE:[1:$2]",
        "RULE:[2:$1$3]",
        "RULE:[1:$]",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/(a)/$x/",
        "RULE:[1:$1]s/(a)/${b}/",
        "RULE:[1:$1]s/a/b$/",
        "RULE:[1:$1]s/a/b\\/",
    ],
)
def test_a_rule_that_can_never_work_is_refused(rule: str) -> None:
    """Java takes it, and fails each login that reaches it."""
    with pytest.raises(ConfigError, match="not a rule"):
        parse_kerberos_rules([rule])
