"""What the rules allow; the cases of Kafka's own behaviour are compared with Java's authorizer in
tests/conformance/test_java_authorizer.py."""

from __future__ import annotations

import pytest

from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.standard_authorizer import (
    DEFAULT,
    NO_MATCH,
    RULE,
    SUPER_USER,
    StandardAuthorizer,
)
from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.errors.codes import KafkaError
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.rights import Right

TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED


def rule(
    name: str,
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
    pattern: AclPattern = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def of(*rules: Acl, allows_by_default: bool = False) -> StandardAuthorizer:
    index = AclIndex()
    for each in rules:
        index.add(each)
    made = StandardAuthorizer(lambda: index, ("User:admin",), allows_by_default=allows_by_default)
    made.is_ready = True
    return made


def context(user: str = "alice", host: str = "10.0.0.1") -> RequestContext:
    return RequestContext("c", f"/{host}", 1, "PLAINTEXT", Principal("User", user))


def may(
    authorizer: StandardAuthorizer,
    operation: AclOperation,
    name: str,
    at: RequestContext | None = None,
) -> bool:
    return bool(authorizer.allowed(at or context(), Right(TOPIC, operation), (name,)))


def test_deny_beats_allow_whatever_the_patterns() -> None:
    authorizer = of(
        rule("orders"), rule("ord", permission=DENY, pattern=PREFIXED), rule("*", WRITE)
    )
    assert not may(authorizer, READ, "orders")
    assert may(authorizer, WRITE, "orders")
    assert may(authorizer, DESCRIBE, "orders"), "DENY READ does not deny DESCRIBE"


def test_names_match_literally_by_prefix_and_by_the_wildcard() -> None:
    authorizer = of(rule("or", pattern=PREFIXED), rule("x"), rule("*", principal="User:bob"))
    assert [name for name in ("o", "or", "orders", "x", "xy") if may(authorizer, READ, name)] == [
        "or",
        "orders",
        "x",
    ]
    assert may(authorizer, READ, "xy", context("bob"))


def test_the_wildcard_is_about_names_that_begin_with_it_too() -> None:
    """Java's authorizer passes over it there, so a group called *a escapes DENY on every group."""
    assert not may(of(rule("*", permission=DENY), rule("*a")), READ, "*a")


def test_hosts_and_principals_are_exact_or_any() -> None:
    authorizer = of(
        rule("t", host="10.0.0.1"),
        rule("u", principal="User:*"),
        rule("v", principal="Group:alice"),
    )
    assert may(authorizer, READ, "t")
    assert not may(authorizer, READ, "t", context(host="10.0.0.2"))
    assert may(authorizer, READ, "u", context("anyone"))
    assert not may(authorizer, READ, "v")


def test_super_users_pass_before_the_rules_are_known_and_others_get_an_error() -> None:
    authorizer = of(rule("t", AclOperation.ALL, DENY, principal="User:*"))
    authorizer.is_ready = False
    assert may(authorizer, READ, "t", context("admin"))
    with pytest.raises(KafkaError, match="does not know the rules yet"):
        may(authorizer, READ, "t")


def test_the_default_counts_for_resources_without_any_rule() -> None:
    authorizer = of(rule("t", principal="User:bob"), allows_by_default=True)
    assert may(authorizer, READ, "free")
    assert not may(authorizer, READ, "t")
    assert not may(of(), READ, "free")


def test_a_kept_decision_ends_with_a_change_of_the_rules() -> None:
    index = AclIndex()
    authorizer = StandardAuthorizer(lambda: index)
    authorizer.is_ready = True
    assert not may(authorizer, READ, "t")
    index.add(rule("t"))
    index.add(rule("t"))
    assert may(authorizer, READ, "t")
    index.remove(rule("t"))
    assert may(authorizer, READ, "t"), "one of two equal rules is left"
    index.remove(rule("t"))
    assert not may(authorizer, READ, "t")


def test_a_right_on_some_resource_needs_one_that_is_not_denied() -> None:
    some = Right(TOPIC, WRITE)
    cases: list[tuple[tuple[Acl, ...], bool]] = [
        ((), False),
        ((rule("t", WRITE),), True),
        ((rule("t", WRITE), rule("*", WRITE, DENY)), False),
        ((rule("t", WRITE), rule("t", WRITE, DENY)), False),
        ((rule("to", WRITE, pattern=PREFIXED), rule("t", WRITE, DENY, PREFIXED)), False),
        ((rule("t", WRITE, pattern=PREFIXED), rule("to", WRITE, DENY, PREFIXED)), True),
        ((rule("*", WRITE), rule("t", WRITE, DENY, PREFIXED)), True),
        ((rule("t", READ),), False),
    ]
    for rules, expected in cases:
        assert of(*rules).allowed_on_some(context(), some) is expected, rules
    assert of().allowed_on_some(context("admin"), some)
    assert of(allows_by_default=True).allowed_on_some(context(), some)


def test_a_decision_is_explained() -> None:
    authorizer = of(rule("t"))
    right = Right(TOPIC, READ)
    assert authorizer.explain("User:admin", "h", right, "t").cause == SUPER_USER
    found = authorizer.explain("User:alice", "h", right, "t")
    assert (found.is_allowed, found.rule, found.cause) == (True, rule("t"), RULE)
    assert authorizer.explain("User:bob", "h", right, "t").cause == NO_MATCH
    assert authorizer.explain("User:bob", "h", right, "u").cause == DEFAULT
    assert str(rule("t", host="10.0.0.1")) == "ALLOW User:alice READ on TOPIC t from 10.0.0.1"


def test_kept_decisions_are_bounded() -> None:
    authorizer = of(rule("*"))
    right = Right(TOPIC, READ)
    for start in range(0, 120_000, 1000):
        names = [str(number) for number in range(start, start + 1000)]
        assert len(authorizer.allowed(context(), right, names)) == 1000
        assert authorizer._kept_count <= 52_000


def test_decisions_about_names_that_no_topic_can_have_are_not_kept() -> None:
    authorizer = of(rule("*"))
    right = Right(TOPIC, READ)
    longest = "n" * 249
    names = [longest, longest + "n"]
    assert authorizer.allowed(context(), right, names) == names
    (kept,) = authorizer._kept.values()
    assert list(kept) == [longest]


@pytest.mark.parametrize(
    ("network", "host", "is_within"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:1", True),
        ("10.0.0.0/8", "2001:db8:0:0:0:0:0:1", False),
        ("10.0.0.0/99", "10.0.0.1", False),
        ("/10.0.0.1", "10.0.0.1", False),
        ("10.0.0.0/8", "", False),
    ],
)
def test_a_rule_for_a_network_is_about_the_addresses_in_it(
    network: str, host: str, is_within: bool
) -> None:
    authorizer = of(rule("orders", host=network))
    right = Right(TOPIC, READ)
    assert authorizer.explain("User:alice", host, right, "orders").is_allowed is is_within
