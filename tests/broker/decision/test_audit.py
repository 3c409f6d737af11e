"""The audit log of decisions, a dry run, and the rules that both suggest."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from moldau.broker.decision import audit, audit_shares
from moldau.broker.decision.audit import AuditLog
from moldau.broker.decision.audit_shares import (
    ALLOWED,
    DENIED,
    NETWORKS_DENIED,
    SOURCES_MAX,
    AuditShares,
    Budget,
)
from moldau.broker.decision.context import ANONYMOUS, Principal, RequestContext
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.client.admin.suggestion import suggested
from moldau.errors import ConfigError
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.rights import Right
from moldau.runtime import Runtime
from moldau.runtime.files import File, Mode
from moldau.runtime.real_files import RealFiles
from tests.runtime.arena import play

READ = Right(AclResource.TOPIC, AclOperation.READ)
DESCRIBE = Right(AclResource.TOPIC, AclOperation.DESCRIBE)
DELETE = Right(AclResource.TOPIC, AclOperation.DELETE)
ALICE = RequestContext("c", "/10.0.0.1", 1, "OUT", Principal("User", "alice"))
BOB = RequestContext("c", "/10.0.0.1", 1, "OUT", Principal("User", "bob"))


def rule(name: str, permission: AclPermission) -> Acl:
    kind, operation = AclResource.TOPIC, AclOperation.READ
    return Acl(kind, name, AclPattern.LITERAL, "User:alice", "*", operation, permission)


class Inline:
    """A runtime that does at once what others do in threads."""

    def __init__(self) -> None:
        self.files = RealFiles()
        self.clock = self
        self.now_s = 0.0

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return self.now_s

    async def run_blocking(self, function: Callable[..., None], *given: Any) -> None:
        function(*given)

    def spawn(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        with pytest.raises(StopIteration):
            coroutine.send(None)


def audit_log(path: Path, runtime: Inline | None = None) -> AuditLog:
    failures: list[OSError] = []
    return AuditLog(runtime or Inline(), str(path), failures.append)  # type: ignore[arg-type]


def authorizer(path: Path, index: AclIndex, *, is_dry_run: bool = False) -> StandardAuthorizer:
    log = audit_log(path)
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


class Faulty(RealFiles):
    """Files of which some calls fail."""

    def __init__(self) -> None:
        self.failing = ""

    def rename(self, source: str, target: str) -> None:
        self._fail("rename", errno.EACCES)
        super().rename(source, target)

    def open(self, path: str, mode: Mode = "read") -> File:
        self._fail("open", errno.EMFILE)
        return super().open(path, mode)

    def _fail(self, name: str, code: int) -> None:
        if self.failing == name:
            raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("failing", ["rename", "open"])
def test_a_log_whose_next_file_cannot_be_begun_counts_what_is_missing_and_goes_on(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, runtime = tmp_path / "audit.jsonl", Inline()
    runtime.files = files = Faulty()
    monkeypatch.setattr(audit, "FILE_BYTES_MAX", 1000)
    failures: list[OSError] = []
    recoveries: list[int] = []
    log = AuditLog(runtime, str(path), failures.append, recoveries.append)  # type: ignore[arg-type]
    made = StandardAuthorizer(AclIndex, audit=log)
    made.is_ready = True
    files.failing = failing
    for each in range(20):
        made.allowed(ALICE, READ, (f"t{each}",))
    assert len(failures) == 1, "it is told of once"
    full = Path(f"{path}.1") if failing == "open" else path
    assert full.stat().st_size <= 1000
    assert path.exists() != (failing == "open")

    files.failing = ""
    made.allowed(ALICE, READ, ("last",))
    before = len(lines(Path(f"{path}.1")))
    missing, last = lines(path)
    assert (missing["left_out"], missing["principal"], missing["allowed"]) == (
        20 - before,
        None,
        False,
    )
    assert last["resource"] == "last"
    assert recoveries == [20 - before]
    assert suggested(path.read_text(encoding="utf-8").splitlines()).unwritten == 20 - before

    files.failing = failing
    made.allowed(ALICE, READ, [f"u{each}" for each in range(20)])
    assert len(failures) == 2, "another failure is told of, too"


def test_what_a_full_disk_swallowed_is_told_at_the_end(tmp_path: Path) -> None:
    """No decision comes after the disk has room again: the end of the broker writes the count."""
    path, runtime = tmp_path / "audit.jsonl", Inline()
    log = audit_log(path, runtime)
    made = StandardAuthorizer(AclIndex, audit=log)
    made.is_ready = True
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log, "_store", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
        made.allowed(ALICE, READ, ("a", "b"))
    assert lines(path) == []
    with pytest.raises(StopIteration):
        log.aclose().send(None)
    assert [each["left_out"] for each in lines(path)] == [2]


def test_a_log_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the audit log cannot be written"):
        authorizer(tmp_path / "missing" / "audit.jsonl", AclIndex())


def test_a_client_that_asks_about_many_names_does_not_wash_out_the_log(tmp_path: Path) -> None:
    """The lines of others, and its own denied ones, stay; a line says how many are left out."""
    path, runtime = tmp_path / "audit.jsonl", Inline()
    index = AclIndex()
    index.add(rule("*", AclPermission.ALLOW))
    log = audit_log(path, runtime)
    made = StandardAuthorizer(lambda: index, audit=log)
    made.is_ready = True
    assert not made.allowed(BOB, READ, ("first",))
    many = 10_000
    for right in (READ, DELETE):
        made.allowed(ALICE, right, [f"t{each}" for each in range(many)])
    assert not made.allowed(BOB, READ, ("last",))
    found = lines(path)
    assert {each["resource"] for each in found if each["principal"] == "User:bob"} == {
        "first",
        "last",
    }
    for is_allowed, budget in ((True, ALLOWED), (False, DENIED)):
        own = [
            each
            for each in found
            if (each["principal"], each["allowed"]) == ("User:alice", is_allowed)
        ]
        assert [each.get("left_out") for each in own if "left_out" in each] == [1]
        assert budget.burst_bytes // 2 < sum(map(len, map(json.dumps, own)))
        assert sum(map(len, map(json.dumps, own))) < 2 * budget.burst_bytes

    runtime.now_s = 10.0
    made.allowed(ALICE, DELETE, ["late"])
    told, late = lines(path)[-2:]
    denied = [each for each in lines(path) if each.get("operation") == "DELETE"]
    assert (late["resource"], told["left_out"]) == ("late", many - len(denied))
    assert suggested(path.read_text(encoding="utf-8").splitlines()).unwritten == (
        many - len(denied) + 1
    )


async def written(runtime: Runtime, path: Path) -> None:
    log = AuditLog(runtime, str(path), lambda error: None)
    made = StandardAuthorizer(AclIndex, audit=log)
    made.is_ready = True
    for each in range(3):
        made.allowed(ALICE, READ, (f"t{each}",))
    assert not lines(path), "nothing is written in the turn of the request"
    await made.aclose()
    assert [each["resource"] for each in lines(path)] == ["t0", "t1", "t2"]


def test_lines_are_written_elsewhere_and_before_the_end(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        await written(runtime, tmp_path / "audit.jsonl")

    play("asyncio", main)


def test_sources_beyond_the_most_share_what_they_may_write() -> None:
    shares = AuditShares()
    size = DENIED.burst_bytes
    for each in ("quiet", "silent"):
        assert shares.on_line(each, 1, 0.0, is_allowed=False) == (True, 0)
    for number in range(2 * SOURCES_MAX - 2):
        assert shares.on_line(f"s{number}", size, 0.0, is_allowed=False) == (True, 0)
    assert shares.on_line("more", size, 0.0, is_allowed=False) == (True, 0)
    assert shares.on_line("others", size, 0.0, is_allowed=False) == (False, 1)
    assert shares.on_line("others", size, 0.0, is_allowed=False) == (False, 0)
    assert shares.on_line("s0", 1, 0.0, is_allowed=False) == (False, 1)
    assert shares.on_line("new", size, 2.0, is_allowed=False) == (True, 0), "others are forgotten"
    assert shares.on_line("others", 256, 3.0, is_allowed=False) == (True, 1)


def test_sources_with_something_to_tell_do_not_keep_their_places_for_good() -> None:
    shares, size = AuditShares(), DENIED.burst_bytes
    for number in range(2 * SOURCES_MAX):
        for expected in ((True, 0), (False, 1), (False, 0)):
            assert shares.on_line(f"s{number}", size, 0.0, is_allowed=False) == expected
    later = size / DENIED.bytes_per_second
    for each in ("new", "newer"):
        assert shares.on_line(each, size, later, is_allowed=False) == (True, 0), "its own budget"
    assert shares.take_left_out() == {False: 2 * SOURCES_MAX, True: 0}
    assert shares.take_left_out() == {False: 0, True: 0}


def test_all_clients_without_a_principal_have_one_budget_together() -> None:
    shares, size = AuditShares(), DENIED.burst_bytes

    def network(number: int, size: int, now_s: float) -> tuple[bool, int]:
        return shares.on_line(f"n{number}", size, now_s, is_allowed=False, is_network=True)

    full = NETWORKS_DENIED.burst_bytes // size
    found = [network(number, size, 0.0) for number in range(3 * SOURCES_MAX)]
    assert found[: full + 1] == [(True, 0)] * full + [(False, 1)]
    assert set(found[full + 1 :]) == {(False, 0)}, "it is told of once"
    assert shares.on_line("alice", size, 0.0, is_allowed=False) == (True, 0)
    assert network(-1, 1000, 1.0) == (True, 0)
    assert shares.take_left_out() == {False: 3 * SOURCES_MAX - full - 1, True: 0}


def test_what_several_clients_left_out_is_told_without_a_principal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_shares, "NETWORKS_DENIED", Budget(500, 100))
    path, runtime = tmp_path / "audit.jsonl", Inline()
    made = StandardAuthorizer(AclIndex, audit=audit_log(path, runtime))
    made.is_ready = True
    for number in range(10):
        context = RequestContext("c", f"/10.0.0.{number}", 1, "OUT", ANONYMOUS)
        made.allowed(context, READ, ("orders",))
    runtime.now_s = 10.0
    made.allowed(ALICE, READ, ("orders",))
    made.allowed(RequestContext("c", "/10.0.1.1", 1, "OUT", ANONYMOUS), READ, ("orders",))
    found = lines(path)
    told = [(each["principal"], each["left_out"]) for each in found if "left_out" in each]
    here = sum(each.get("operation") == "READ" for each in found) - 2
    assert told == [("User:ANONYMOUS", 1), (None, 10 - here - 1)]
    texts = path.read_text(encoding="utf-8").splitlines()
    assert suggested(texts).unwritten == 10 - here
    assert suggested(texts, "User:alice").unwritten == 0
