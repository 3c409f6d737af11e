"""`ssl.principal.mapping.rules`, on the cases of Kafka's own test."""

from __future__ import annotations

import pytest

from moldau.broker.security.mapping import NoRuleApplies, mapper, parse_rules
from moldau.errors import ConfigError

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_counts(name: str, short: str) -> None:
    assert mapper(parse_rules(RULES))(name) == short


@pytest.mark.parametrize("text", ["", "DEFAULT", " DEFAULT "])
def test_the_default_is_the_name_itself(text: str) -> None:
    assert mapper(parse_rules(text))("CN=a") == "CN=a"


@pytest.mark.parametrize(
    ("rule", "name", "short"),
    [
        (r"RULE:^CN=(.*)$/a\/$1\$x/", "CN=b", "a/b$x"),
        ("RULE:^CN=(.*)$/$1$9/", "CN=b", "b$9"),
        ("RULE:^CN=(.*)$//", "CN=b", ""),
    ],
)
def test_a_replacement_has_groups_and_escapes(rule: str, name: str, short: str) -> None:
    assert mapper(parse_rules(rule))(name) == short


def test_a_name_without_a_rule_has_no_principal() -> None:
    with pytest.raises(NoRuleApplies):
        mapper(parse_rules("RULE:^CN=(a)$/$1/"))("CN=ab")


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "RULE:^CN=(.*?)/$1/LU",
        "RULE:^CN=(.*?/L",
        "RULE:^CN=((.*)$/$1/",
        "RULE:a/b/ DEFAULT",
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(text)
