"""Access rules: their words, what a change of them means, and which one decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin.security import Acl
from moldau.errors import BadGiven
from moldau.operations.acls import (
    OPERATIONS,
    RESOURCES,
    Verdict,
    check_possible,
    needs_of_streams,
    notes_of_addition,
    notes_of_removal,
    operation_of,
    plan_acls,
    resource_of,
    resource_text,
    rule_name,
    whole_name_of,
)
from moldau.operations.plan import Action
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource


def rule(
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    pattern: AclPattern = AclPattern.LITERAL,
    permission: AclPermission = AclPermission.ALLOW,
) -> Acl:
    return Acl("User:alice", operation, name, AclResource.TOPIC, pattern, permission, "*")


RULES = st.builds(
    Acl,
    st.sampled_from(["User:alice", "Group:shop"]),
    st.sampled_from(OPERATIONS),
    st.text("ab*:", min_size=1, max_size=3),
    st.sampled_from([each for each in RESOURCES if each is not AclResource.CLUSTER]),
    st.sampled_from([AclPattern.LITERAL, AclPattern.PREFIXED]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
    st.sampled_from(["*", "10.0.0.1"]),
)


@given(RULES, RULES)
def test_different_rules_have_different_names(one: Acl, other: Acl) -> None:
    assert (rule_name(one) == rule_name(other)) == (one == other)


@given(RULES)
def test_a_resource_without_a_star_reads_as_it_is_written(found: Acl) -> None:
    if "*" in found.name:
        return
    assert resource_of(resource_text(found)) == (found.type, found.name, found.pattern)


@pytest.mark.parametrize("text", ["topics:orders", "orders", "topic:", ":orders", ""])
def test_a_text_that_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(BadGiven, match="TYPE:NAME"):
        resource_of(text)


def test_operations_are_read_in_any_case_and_with_hyphens() -> None:
    assert operation_of("idempotent-write") is AclOperation.IDEMPOTENT_WRITE
    with pytest.raises(BadGiven, match="READ"):
        operation_of("any")


@pytest.mark.parametrize("name", ["or*ders", "or ders", "orders/1"])
def test_a_rule_for_a_name_that_no_topic_has_is_refused(name: str) -> None:
    with pytest.raises(BadGiven, match="no topic has the name"):
        check_possible(rule(name))


def test_one_resource_has_no_star() -> None:
    assert whole_name_of("group:a*") == (AclResource.GROUP, "a*")
    with pytest.raises(BadGiven, match="whole name"):
        whole_name_of("topic:a*")


def test_an_app_may_do_all_to_its_own_topics_alone() -> None:
    assert [each for each in needs_of_streams("shop") if each[0] == "ALL"] == [
        ("ALL", "topic:shop-*")
    ]


def test_the_first_rule_about_a_name_closes_it_for_all_others() -> None:
    (note,) = notes_of_addition(rule(), [])
    assert "what no rule allows is denied" in note
    assert notes_of_addition(rule(), [rule(operation=AclOperation.WRITE)]) == []


def test_a_denial_and_a_star_in_the_middle_are_noted() -> None:
    denied = rule("or*", permission=AclPermission.DENY)
    notes = " ".join(notes_of_addition(denied, [rule()]))
    assert "PREFIXED" in notes
    assert "counts before" in notes


def test_removing_the_last_rule_leaves_the_default_of_the_brokers() -> None:
    assert "only rule" in notes_of_removal(rule(), [rule()])[0]
    assert "Other rules" in notes_of_removal(rule(), [rule(), rule("*")])[0]
    assert "no such rule" in notes_of_removal(rule(), [])[0]


def test_a_verdict_names_its_rule_or_says_that_none_allows_it() -> None:
    assert Verdict(rule(), [rule()]).is_allowed
    assert "ALLOW User:alice READ topic:orders" in Verdict(rule(), [rule()]).reason("it")
    assert not Verdict(None, [rule()]).is_allowed
    assert "topic:orders has rules (1)" in Verdict(None, [rule()]).reason("topic:orders")
    assert "no rule is about" in Verdict(None, []).reason("topic:orders")


def test_only_pruning_removes_what_is_not_wanted() -> None:
    wanted, found = {"a": rule("a")}, {"a": rule("a"), "b": rule("b")}
    assert [each.action for each in plan_acls(wanted, found, prunes=False)] == [Action.KEEP]
    steps = plan_acls({"c": rule("c")}, found, prunes=True)
    assert [(each.action, each.name) for each in steps] == [
        (Action.CREATE, "c"),
        (Action.REMOVE, "a"),
        (Action.REMOVE, "b"),
    ]
