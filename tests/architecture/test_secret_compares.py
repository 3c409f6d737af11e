"""Secrets are compared in constant time: `==` tells how much of one is right (CVE-2021-38153)."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, product

_SECRET = re.compile(
    r"(?:^|_)(?:password|secret|proof|hmac|stored_key|server_key|verifier|passphrase)$"
)
_SUSPICIOUS = re.compile(r"password|secret|proof|hmac|stored_key|server_key|verifier|passphrase")


@finding
def plain_compares(source: Source) -> Found:
    """`==`, `!=` and `in` with a side that ends with the name of a secret."""
    if not _SUSPICIOUS.search(source.text):
        return {}
    found = {}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Compare):
            continue
        is_plain = any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        sides = (node.left, *node.comparators)
        if is_plain and any(_SECRET.search(_last_name(each)) for each in sides):
            found[f"{source.path}: {ast.unparse(node)}"] = "use hmac.compare_digest"
    return found


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_secrets_are_compared_in_constant_time() -> None:
    check("secret_compares", plain_compares(product()))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("given == self.password", True),
        ("stored_key != credential.stored_key", True),
        ("token.hmac() == given", True),
        ("hmac.compare_digest(given, password)", False),
        ("password is None", False),
        ("password_count == 1", False),
    ],
)
def test_a_planted_compare_is_found(text: str, is_found: bool) -> None:
    assert bool(plain_compares([Source("platform/moldau/x.py", f"x = {text}\n")])) is is_found
