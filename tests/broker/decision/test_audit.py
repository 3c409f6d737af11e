"""The audit log of decisions, a dry run, and the rules that both suggest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.broker.decision import audit
from moldau.broker.decision.audit import AuditLog
from moldau.broker.decision.authorizer import Right
from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.client.admin.suggestion import suggested
from moldau.errors import ConfigError
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.runtime.real_files import RealFiles

READ = Right(AclResource.TOPIC, AclOperation.READ)
DESCRIBE = Right(AclResource.TOPIC, AclOperation.DESCRIBE)
ALICE = RequestContext("c", "/10.0.0.1", 1, "OUT", Principal("User", "alice"))


def rule(name: str, permission: AclPermission) -> Acl:
    kind, operation = AclResource.TOPIC, AclOperation.READ
    return Acl(kind, name, AclPattern.LITERAL, "User:alice", "*", operation, permission)


def authorizer(path: Path, index: AclIndex, *, is_dry_run: bool = False) -> StandardAuthorizer:
    failures: list[OSError] = []
    log = AuditLog(RealFiles(), str(path), lambda: 1_700_000_000_000, failures.append)
    made = StandardAuthorizer(lambda: index, ("User:admin",), audit=log, is_dry_run=is_dry_run)
    made.is_ready = True
    return made


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


def test_a_decision_is_written_once_until_a_rule_changes(tmp_path: Path) -> None:
    path, index = tmp_path / "audit.jsonl", AclIndex()
    index.add(rule("orders", AclPermission.ALLOW))
    made = authorizer(path, index)
    for _ in range(3):
        assert made.allowed(ALICE, READ, ("orders", 'pay"roll\n')) == ["orders"]
    first, second = lines(path)
    assert first == {
        "time": "2023-11-14T22:13:20+00:00",
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": "orders",
        "allowed": True,
        "enforced": True,
        "cause": "rule",
        "rule": "ALLOW User:alice READ on TOPIC orders",
    }
    assert (second["resource"], second["allowed"]) == ('pay"roll\n', False)
    index.add(rule("other", AclPermission.ALLOW))
    made.allowed(ALICE, READ, ("orders",))
    assert len(lines(path)) == 3


def test_a_dry_run_serves_what_it_would_deny_and_says_so(tmp_path: Path) -> None:
    path, index = tmp_path / "audit.jsonl", AclIndex()
    index.add(rule("secret", AclPermission.DENY))
    made = authorizer(path, index, is_dry_run=True)
    assert made.allowed(ALICE, READ, ("orders", "secret")) == ("orders", "secret")
    assert made.allowed(ALICE, DESCRIBE, ("orders",)) == ("orders",)
    assert made.allowed_on_some(ALICE, READ)
    assert [each["enforced"] for each in lines(path)] == [False, False, False]
    texts = path.read_text(encoding="utf-8").splitlines()
    found = suggested([*texts, "nonsense", '{"allowed": true}'])
    assert [(each.principal, each.operation.name, each.name) for each in found.rules] == [
        ("User:alice", "READ", "orders")
    ], "READ implies DESCRIBE, and the denial of `secret` was meant"
    assert found.bad_lines == 2
    assert suggested(texts, "User:bob").rules == []


@pytest.mark.parametrize("has_rule", [False, True])
def test_a_writer_of_a_topic_needs_no_right_to_be_idempotent(
    has_rule: bool, tmp_path: Path
) -> None:
    """WRITE on any topic suffices for it (KIP-679), so a rule for it would be one too many."""
    path, index = tmp_path / "audit.jsonl", AclIndex()
    if has_rule:
        index.add(rule("orders", AclPermission.ALLOW)._replace(operation=AclOperation.WRITE))
    made = authorizer(path, index, is_dry_run=True)
    made.allowed(ALICE, Right(AclResource.CLUSTER, AclOperation.IDEMPOTENT_WRITE), ("c",))
    alone = suggested(path.read_text(encoding="utf-8").splitlines())
    assert [each.operation for each in alone.rules] == [AclOperation.IDEMPOTENT_WRITE]
    made.allowed(ALICE, Right(AclResource.TOPIC, AclOperation.WRITE), ("orders",))
    found = suggested(path.read_text(encoding="utf-8").splitlines())
    assert [each.operation for each in found.rules] == ([] if has_rule else [AclOperation.WRITE])


def test_a_full_log_is_kept_as_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    monkeypatch.setattr(audit, "FILE_BYTES_MAX", 600)
    made = authorizer(path, AclIndex())
    made.allowed(ALICE, READ, [f"t{each}" for each in range(5)])
    made = authorizer(path, AclIndex())
    made.allowed(ALICE, READ, ["more"])
    assert lines(path)[-1]["resource"] == "more"
    assert lines(Path(f"{path}.1"))
    assert path.stat().st_size <= 600


def test_a_log_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the audit log cannot be written"):
        authorizer(tmp_path / "missing" / "audit.jsonl", AclIndex())
