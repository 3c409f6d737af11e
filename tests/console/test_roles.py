"""The file of roles: what each visitor may do and see, and each mistake with its line."""

from __future__ import annotations

import pytest

from moldau.console.access.policy_file import BadPolicy, read_policy
from moldau.console.access.roles import BY_CLAIM, Login, Policy, Role

FILE = """
roles:
  admin: {groups: [platform]}
  operator: {groups: ["shop-*"], users: ann}
  viewer: {users: ["*"]}
messages:
  - {topics: [orders, "shop-*"], groups: ["shop-*"]}
  - {topics: ["*-public"], users: ["*"]}
masks:
  - topics: ["*"]
    value: ["**.email", "card"]
    headers: authorization
    how: hash
"""


def role(user: str, *groups: str) -> Role | None:
    return read_policy(FILE, "roles.yaml").policy.visitor(Login(user, frozenset(groups))).role


def test_the_highest_role_of_user_and_groups_counts() -> None:
    assert role("ann") is Role.OPERATOR
    assert role("bob", "shop-eu") is Role.OPERATOR
    assert role("ann", "platform") is Role.ADMIN
    assert role("zoe", "none") is Role.VIEWER


def test_without_an_entry_there_is_no_role_and_nothing_is_seen() -> None:
    policy = read_policy("roles: {admin: {users: ann}}", "f").policy
    visitor = policy.visitor(Login("bob"))
    assert (visitor.role, visitor.sees("orders"), visitor.has(Role.VIEWER)) == (None, False, False)


def test_messages_are_seen_by_the_rules_and_by_admins() -> None:
    policy = read_policy(FILE, "f").policy
    shop = policy.visitor(Login("bob", frozenset(("shop-eu",))))
    other, admin = policy.visitor(Login("zoe")), policy.visitor(Login("x", frozenset(["platform"])))
    assert [shop.sees(each) for each in ("orders", "shop-a", "pay")] == [True, True, False]
    assert [other.sees(each) for each in ("orders", "a-public")] == [False, True]
    assert admin.sees("pay")


def test_masks_are_for_all_below_an_admin() -> None:
    policy = read_policy(FILE, "f").policy
    mask = policy.visitor(Login("zoe")).mask("orders")
    assert mask is not None
    assert "ann@" not in mask.value('{"a": {"email": "ann@example.org"}}')
    assert policy.visitor(Login("x", frozenset(["platform"]))).mask("orders") is None


def test_a_claim_names_the_role_where_no_file_does() -> None:
    policy = Policy(BY_CLAIM)
    assert policy.visitor(Login("a", frozenset(("operator", "x")))).role is Role.OPERATOR
    assert policy.visitor(Login("admin", frozenset(("x",)))).role is None


def test_a_file_tells_what_it_has() -> None:
    found = read_policy("masks: [{topics: a, value: $}]", "f")
    assert (found.has_names, found.has_roles) == (False, False)
    assert read_policy("messages: []", "f").has_names


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("rules: {}", 1, "rules"),
        ("{}", 1, "roles, messages, masks"),
        ("roles: {adnin: {users: a}}", 1, "did you mean admin"),
        ("roles:\n  admin: {}", 2, "no users and no groups"),
        ("roles:\n  admin: ann", 2, "must be a mapping"),
        ("roles:\n  admin: {users: {}}", 2, "must be a text"),
        ("messages: {}", 1, "must be a list"),
        ("messages:\n  - {users: a}", 2, "no topics"),
        ("messages:\n  - {topics: a, user: b}", 2, "did you mean users"),
        ("masks:\n  - {topics: a}", 2, "masks nothing"),
        ("masks:\n  - {topics: a, value: a..b}", 2, "is no path"),
        ("masks:\n  - {topics: a, value: a, how: star}", 2, "did you mean stars"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, part: str) -> None:
    with pytest.raises(BadPolicy) as caught:
        read_policy(text, "roles.yaml")
    assert f"roles.yaml:{line}: error: " in str(caught.value)
    assert part in str(caught.value)
