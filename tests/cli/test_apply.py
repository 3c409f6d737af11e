"""`moldau apply` and `moldau export`, against a broker that decides by rules."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.command import Exit
from moldau.client import Admin
from moldau.operations import topics
from moldau.operations.topics import FoundTopic
from moldau.testing import SyncEmbeddedBroker
from moldau.testing.cluster import Cluster
from tests.cli.shell import Done, Shell

DOCUMENT = """
topics:
  orders:
    partitions: 3
    config:
      retention.ms: 86400000
      cleanup.policy: [compact, delete]
  plain:
users:
  ann:
    password: {env: ANN_PASSWORD}
  bob:
    password: {file: bob.txt}
    mechanisms: {SCRAM-SHA-256: 4096}
acls:
  ann:
    - {allow: [READ, DESCRIBE], resource: topic:orders}
    - {deny: WRITE, resource: "topic:pay*", host: 10.0.0.1}
    - {allow: READ, resource: "group:g*", pattern: literal}
quotas:
  - {user: ann, client-id: "*", producer_byte_rate: 1000000, request_percentage: 12.5}
"""
THINGS = 9


@pytest.fixture
def shell() -> Iterator[Shell]:
    """The commands are a super user: they log in as nobody."""
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    with SyncEmbeddedBroker(settings=settings) as broker:
        found = Shell(broker.bootstrap_servers)
        found.environment |= {"ANN_PASSWORD": "a secret"}
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "bob.txt").write_text("another secret\n")
    found = tmp_path / "cluster.yaml"
    found.write_text(DOCUMENT)
    return found


def counts(done: Done) -> dict[str, int]:
    found: dict[str, int] = done.json["counts"]
    return {name: count for name, count in found.items() if count}


def steps(done: Done) -> dict[str, Any]:
    return {each["name"]: each for each in done.json["steps"]}


def test_a_document_is_planned_done_and_then_nothing_is_left(shell: Shell, file: Path) -> None:
    words = ("apply", "-f", str(file), "--json")
    assert counts(shell.good(*words, "--dry-run")) == {"create": THINGS}
    assert shell.good("topic", "list", "--json").json == []
    assert counts(shell.good(*words, "--yes")) == {"create": THINGS}
    assert counts(shell.good(*words)) == {"keep": THINGS}

    (orders,) = shell.good("topic", "describe", "orders", "--json").json
    assert len(orders["partitions"]) == 3
    assert orders["configs"]["cleanup.policy"] == "compact,delete"
    users = {each["user"]: each["mechanisms"] for each in shell.good("user", "list", "--json").json}
    assert users == {
        "ann": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192},
        "bob": {"SCRAM-SHA-256": 4096},
    }
    assert len(shell.good("acl", "list", "--json").json) == 4
    (quota,) = shell.good("quota", "list", "--json").json
    assert quota["quotas"] == {"producer_byte_rate": 1_000_000.0, "request_percentage": 12.5}


def test_an_export_is_taken_back_without_a_change(shell: Shell, file: Path, tmp_path: Path) -> None:
    shell.good("apply", "-f", str(file), "--yes")
    exported = shell.good("export").out
    assert "secret" not in exported
    again = tmp_path / "exported.yaml"
    again.write_text(exported)
    assert counts(shell.good("apply", "-f", str(again), "--prune", "--json")) == {"keep": THINGS}
    as_json = tmp_path / "exported.json"
    as_json.write_text(shell.good("export", "--json").out)
    assert counts(shell.good("apply", "-f", str(as_json), "--prune", "--json")) == {"keep": THINGS}
    assert shell.good("export", "quotas").out.startswith("quotas:\n  - user: ann\n")


def test_changes_are_shown_and_done(shell: Shell, file: Path) -> None:
    shell.good("apply", "-f", str(file), "--yes")
    text = DOCUMENT.replace("partitions: 3", "partitions: 4").replace("86400000", "1000")
    text = text.replace("4096", "5000").replace("1000000", "2000000")
    file.write_text(text)
    planned = steps(shell.good("apply", "-f", str(file), "--yes", "--json"))
    assert planned["orders"]["changes"] == [
        {"what": "partitions", "before": "3", "after": "4"},
        {"what": "retention.ms", "before": "86400000", "after": "1000"},
    ]
    assert planned["bob"]["changes"] == [
        {"what": "SCRAM-SHA-256", "before": "4096 iterations", "after": "5000 iterations"}
    ]
    assert planned["user ann, client-id *"]["changes"] == [
        {"what": "producer_byte_rate", "before": "1000000", "after": "2000000"}
    ]
    assert counts(shell.good("apply", "-f", str(file), "--json")) == {"keep": THINGS}
    reset = shell.good("apply", "-f", str(file), "--set-passwords", "--yes", "--json")
    assert counts(reset) == {"update": 2, "keep": THINGS - 2}


def test_only_prune_deletes_and_only_in_sections_that_are_named(shell: Shell, file: Path) -> None:
    shell.good("apply", "-f", str(file), "--yes")
    for name in ("_kept", "app-counts-changelog", "old"):
        shell.good("topic", "create", name)
    file.write_text("topics:\n  orders: {}\nacls:\n")
    words = ("apply", "-f", str(file), "--json")
    kept = steps(shell.good(*words))
    assert {name: each["action"] for name, each in kept.items()} == {"orders": "keep"}
    assert kept["orders"]["note"] == "keeps cleanup.policy, retention.ms"
    only = steps(shell.good(*words, "--prune", "topics", "--dry-run"))
    assert {name: each["action"] for name, each in only.items()} == {
        "orders": "update", "plain": "remove", "old": "remove"
    }  # fmt: skip
    assert counts(shell.good(*words, "--prune", "--yes")) == {"update": 1, "remove": 6}
    names = {each["name"] for each in shell.good("topic", "list", "--json").json}
    assert names == {"orders", "_kept", "app-counts-changelog"}
    assert shell.good("acl", "list", "--json").json == []
    assert len(shell.good("user", "list", "--json").json) == 2
    for more, said in (
        (("--prune", "quotas"), "--prune quotas: the documents have no section quotas"),
        (("--prune", "topcs"), "there is no section topcs; did you mean topics?"),
    ):
        done = shell("apply", "-f", str(file), *more)
        assert (done.code, said in done.err) == (Exit.MISUSED, True), done


def test_a_step_that_is_not_possible_is_named_and_nothing_is_done(
    shell: Shell, file: Path, tmp_path: Path
) -> None:
    shell.good("topic", "create", "orders", "-p", "4")
    file.write_text(
        "topics:\n  new:\n  orders: {partitions: 2}\n  wide: {replication: 3}\n"
        "  odd: {config: {retention.sm: 5}}\n"
        "users:\n  ann: {password: {env: NO_SUCH}}\n  bob: {password: {file: none.txt}}\n  eve:\n"
    )
    done = shell("apply", "-f", str(file), "--yes", "--json")
    assert done.code == Exit.FAILED
    assert "nothing was changed" in done.err
    notes = {name: each["note"] for name, each in steps(done).items()}
    assert "write partitions: 4, or delete and create it" in notes["orders"]
    assert notes["orders"].startswith(f"{file}:3: it has 4 partitions")
    assert "did you mean retention.ms?" in notes["odd"]
    assert "eplication factor" in notes["wide"]
    assert "set NO_SUCH" in notes["ann"]
    assert f"{tmp_path}/none.txt: No such file" in notes["bob"]
    assert "add password: {env: NAME}" in notes["eve"]
    assert len(shell.good("topic", "list", "--json").json) == 1


def test_the_user_is_asked(shell: Shell, file: Path) -> None:
    for answer in ("", "y\n", "no\n"):
        done = shell("apply", "-f", str(file), source=answer)
        assert (done.code, "type yes, or give --yes" in done.err) == (Exit.FAILED, True)
    assert shell.good("user", "list", "--json").json == []
    assert shell("apply", "-f", str(file), source="yes\n").code == Exit.DONE
    assert len(shell.good("user", "list", "--json").json) == 2


def test_a_directory_is_one_document(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("topics:\n  one:\n")
    (tmp_path / "b.yml").write_text("topics:\n  two:\n")
    (tmp_path / "notes.txt").write_text("not: read")
    planned = steps(shell.good("apply", "-f", str(tmp_path), "--dry-run", "--json"))
    assert planned.keys() == {"one", "two"}
    (tmp_path / "c.yaml").write_text("topics:\n  one:\n")
    done = shell("apply", "-f", f"{tmp_path}/", "--dry-run")
    assert f"{tmp_path}/c.yaml:2: error: topics: one is in {tmp_path}/a.yaml:2 already" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topic:\n  a:\n", "1: error: no section topic; did you mean topics?"),
        ("topics:\n  a: {partition: 1}", "2: error: topics.a has no key partition; did you mean"),
        ("topics:\n  a: {partitions: many}", "2: error: topics.a.partitions: input should be a"),
        ("topics:\n  a: {}\n  a: {}", "3: error: the key a is in line 2 already"),
        ("topics: [a]", "1: error: topics must be a mapping"),
        ("users:\n  a: {password: geheim}", "2: error: users.a.password is the place of a passw"),
        ("users:\n  a: {password: {evn: X}}", "no key evn; did you mean env? (known: env, file)"),
        ("users:\n  a: {password: {env: X, file: Y}}", "write one of env: NAME and file: PATH"),
        ("users:\n  a: {mechanisms: MD5}", "users.a.mechanisms.MD5"),
        ("acls:\n  a:\n  - {allow: SING, resource: topic:t}", "3: error: acls.a[0]: 'SING' is no"),
        ("acls:\n  a:\n  - {allow: READ, resource: t}", "3: error: acls.a[0]: 't' is not TYPE:NA"),
        ("acls:\n  a:\n  - {resource: topic:t}", "acls.a[0]: write one of allow: OPERATION and"),
        ("quotas:\n- {user: a, producer_rate: 1}", "quotas[0] has no key producer_rate; did you"),
        ("quotas:\n- {user: a, ip: b}", "2: error: quotas[0]: a quota of an address"),
        (
            "quotas:\n- {ip: b, producer_byte_rate: 1}",
            "2: error: quotas[0]: connection_creation_rate",
        ),
        ("schemas:\n  s: {schema: x}", "2: error: schemas.s: say what the schema is: type: avro"),
        ("schemas:\n  s: {file: s.avsc}", "the file s.avsc cannot be read: No such file or dir"),
        ("connectors:\n  c: {topics: t}", "2: error: connectors.c has no connector.class"),
        ("- a", "a document is a YAML mapping of sections"),
        ("a: [", "not YAML"),
        ("{}", "the documents have no section"),
    ],
)
def test_mistakes_in_a_document_are_told_with_their_lines(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    done = Shell("127.0.0.1:1")("apply", "-f", str(file))
    assert (done.code, said in done.err) == (Exit.MISUSED, True), done.err
    assert "geheim" not in done.err
    assert "Traceback" not in done.err


def test_a_missing_file_is_named() -> None:
    assert "no file or directory nowhere" in Shell("127.0.0.1:1")("apply", "-f", "nowhere").err


def test_rules_need_brokers_that_decide_by_them(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("acls:\n  a:\n  - {allow: READ, resource: topic:t}\n")
    with SyncEmbeddedBroker() as broker:
        plain = Shell(broker.bootstrap_servers)
        done = plain("apply", "-f", str(file), "--yes")
        assert done.code == Exit.FAILED
        assert "acls:" in done.err
        assert "set authorizer.class.name there" in done.err
        exported = plain("export")
        assert "left out acls" in exported.err
        assert "acls" not in exported.out
        assert json.loads(plain.good("export", "topics", "--json").out) == {"topics": {}}
        assert "did you mean topics?" in plain("export", "topic").err


def test_a_broker_that_is_behind_the_controller_is_asked_again(
    shell: Shell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice it does not know the topics that exist, then twice those that do not any more."""
    words = ("apply", "-f", str(file), "--json")
    shell.good(*words, "--yes")
    newest = topics.found_topics
    looks = 0

    async def behind(client: Admin, chosen: Collection[str] | None) -> dict[str, FoundTopic]:
        nonlocal looks
        looks += 1
        return {} if looks < 3 else await newest(client, chosen)

    monkeypatch.setattr(topics, "found_topics", behind)
    assert counts(shell.good(*words, "--yes")) == {"keep": THINGS}
    assert looks == 3

    shell.good("topic", "delete", "orders", "plain")
    looks = 0

    async def ahead(client: Admin, chosen: Collection[str] | None) -> dict[str, FoundTopic]:
        nonlocal looks
        looks += 1
        gone = {"orders": FoundTopic(1, 1, {})}
        return gone if looks < 3 else await newest(client, chosen)

    monkeypatch.setattr(topics, "found_topics", ahead)
    assert counts(shell.good(*words, "--yes")) == {"create": 2, "keep": THINGS - 2}
    assert looks == 3


@pytest.mark.deep
def test_documents_are_applied_again_at_once_on_three_nodes(file: Path, tmp_path: Path) -> None:
    with Cluster(3, directory=str(tmp_path / "cluster")) as cluster:
        every = Shell(cluster.bootstrap_servers)
        for number in range(20):
            document = tmp_path / f"{number}.yaml"
            document.write_text(f"topics:\n  t{number}: {{partitions: 2}}\n")
            words = ("apply", "-f", str(document), "--yes", "--json")
            assert counts(every.good(*words)) == {"create": 1}
            for node in cluster.broker_ids:
                assert counts(Shell(cluster.address_of(node)).good(*words)) == {"keep": 1}
