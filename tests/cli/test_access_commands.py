"""`moldau acl` and `moldau user`, against a broker that decides by rules."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.command import Exit
from moldau.client.admin.security import Acl
from moldau.operations.acls import resource_of, resource_text
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclResource
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.e2e.terminal import blocks


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """The commands are a super user: they log in as nobody."""
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    with SyncEmbeddedBroker(settings=settings) as broker:
        yield Shell(broker.bootstrap_servers)


def rules(shell: Shell, *words: str) -> list[tuple[str, ...]]:
    return [
        (each["permission"], each["principal"], each["operation"], each["type"], each["name"])
        for each in shell.good("acl", "list", "--json", *words).json
    ]


def test_rules_are_added_listed_and_removed(shell: Shell) -> None:
    done = shell.good("acl", "add", "alice", "read", "topic:orders")
    assert done.rows == [["ALLOW", "User:alice", "*", "READ", "topic:orders"]]
    shell.good("acl", "add", "alice", "READ", "topic:orders")
    shell.good("acl", "add", "Group:x", "ALL", "topic:ord*", "--deny", "--host", "10.0.0.1")
    assert rules(shell, "--resource", "topic:orders") == [
        ("ALLOW", "User:alice", "READ", "TOPIC", "orders")
    ]
    assert len(rules(shell, "--resource", "topic:orders", "--deciding")) == 2
    assert len(rules(shell, "--user", "alice")) == 1
    shell.good("acl", "remove", "alice", "READ", "topic:orders")
    done = shell("acl", "remove", "alice", "READ", "topic:orders")
    assert done.code == Exit.FAILED
    assert "not there: 1 of 1 rule\n" in done.err
    shell.good("acl", "remove", "Group:x", "ALL", "topic:ord*", "--deny", "--host", "10.0.0.1")
    assert rules(shell, "--user", "alice") == rules(shell, "--user", "Group:x") == []


def test_producers_and_consumers_get_what_they_need(shell: Shell) -> None:
    shell.good("acl", "add", "bob", "--producer", "t", "--transactional-id", "x")
    shell.good("acl", "add", "bob", "--consumer", "t", "--group", "g")
    assert sorted(each[2:] for each in rules(shell, "--user", "bob")) == [
        ("CREATE", "TOPIC", "t"),
        ("DESCRIBE", "TOPIC", "t"),
        ("DESCRIBE", "TRANSACTIONAL_ID", "x"),
        ("READ", "GROUP", "g"),
        ("READ", "TOPIC", "t"),
        ("WRITE", "TOPIC", "t"),
        ("WRITE", "TRANSACTIONAL_ID", "x"),
    ]
    shell.good("acl", "remove", "bob", "--producer", "t", "--transactional-id", "x")
    shell.good("acl", "add", "dora", "--producer", "a", "--producer", "b")
    assert {each[2:] for each in rules(shell, "--user", "dora")} == {
        (operation, "TOPIC", topic)
        for operation in ("CREATE", "DESCRIBE", "WRITE")
        for topic in ("a", "b")
    }


def test_a_decision_is_explained_by_its_rule(shell: Shell) -> None:
    shell.good("acl", "add", "carol", "READ", "topic:pay*")
    shell.good("acl", "add", "User:*", "READ", "topic:payroll", "--deny")
    allowed = shell.good("acl", "explain", "carol", "DESCRIBE", "topic:payments").out
    assert "allowed, by the rule: ALLOW User:carol READ topic:pay*" in allowed
    denied = shell("acl", "explain", "carol", "READ", "topic:payroll")
    assert denied.code == Exit.FAILED
    assert "denied, by the rule: DENY User:* READ topic:payroll" in denied.out
    nothing = shell("acl", "explain", "dave", "READ", "topic:payments")
    assert "denied, topic:payments has rules (1), and none allows it" in nothing.out
    free = shell("acl", "explain", "dave", "READ", "topic:none", "--json").json
    assert (free["allowed"], free["rule"]) == (False, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("alice", "SING", "topic:t"), "'SING' is no operation; there are ALL, READ"),
        (("alice", "READ", "orders"), "'orders' is not TYPE:NAME"),
        (("alice", "READ"), "READ of what? Give TYPE:NAME"),
        (("alice",), "give an operation and TYPE:NAME"),
        (("alice", "--consumer", "t"), "--consumer needs --group"),
        (
            ("alice", "READ", "topic:or*ders"),
            "no topic has the name in 'topic:or*ders': a * counts",
        ),
        (("alice", "READ", "topic:**"), "no topic has the name in 'topic:**'"),
        (("alice", "--producer", "orders-?"), "no topic has the name in 'topic:orders-?'"),
        (("alice", "WRITE", "cluster:other"), "The only valid name for the CLUSTER resource"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    shell: Shell, words: tuple[str, ...], said: str
) -> None:
    done = shell("acl", "add", *words)
    assert done.code != Exit.DONE
    assert said in done.err
    assert "Traceback" not in done.err


def test_names_and_prefixes_are_what_the_guide_says(shell: Shell) -> None:
    title = "### Names and prefixes"
    (commands,) = blocks(title, "sh")
    for line in commands.splitlines():
        command, _, otherwise = line.partition(" || ")
        done = shell(*shlex.split(command)[1:])
        assert done.code == (Exit.FAILED if otherwise else Exit.DONE), done
    assert rules(shell, "--user", "erin") == [("ALLOW", "User:erin", "DESCRIBE", "TOPIC", "*")]
    shell.good("acl", "remove", "erin", "DESCRIBE", "topic:*")
    (program,) = blocks(title, "python")
    text = program.replace("localhost:9092", shell.environment["MOLDAU_BOOTSTRAP"])
    body = "\n".join(f"    {line}" for line in text.splitlines())
    names: dict[str, Any] = {}
    exec(f"async def main():\n{body}", names)  # noqa: S102
    asyncio.run(names["main"]())
    (rule,) = shell.good("acl", "list", "--resource", "group:team*", "--deciding", "--json").json
    assert (rule["name"], rule["pattern"]) == ("team*", "LITERAL")
    assert shell("acl", "explain", "erin", "READ", "group:team").code == Exit.FAILED
    shell.good("acl", "explain", "erin", "READ", "group:team*")


def test_one_topic_is_explained_by_its_whole_name(shell: Shell) -> None:
    for words in (
        ("explain", "a", "READ", "topic:t*"),
        ("list", "--resource=topic:*", "--deciding"),
    ):
        done = shell("acl", *words)
        assert done.code == Exit.MISUSED
        assert "this is about one topic, by its whole name" in done.err


def test_users_are_added_changed_and_removed(shell: Shell) -> None:
    shell.good("user", "add", "erin", source="a secret\n")
    listed = shell.good("user", "list", "--json").json
    assert listed == [
        {"user": "erin", "mechanisms": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}}
    ]
    again = shell("user", "add", "erin", source="x\n")
    assert "erin is there" in again.err
    shell.good(
        *("user", "password", "erin", "--iterations", "4096", "--mechanism", "SCRAM-SHA-256"),
        source="new\n",
    )
    assert shell.good("user", "list").rows == [
        ["erin", "SCRAM-SHA-256", "(4096),", "SCRAM-SHA-512", "(8192)"]
    ]
    shell.good("user", "remove", "erin", "--mechanism", "SCRAM-SHA-256")
    shell.good("user", "remove", "erin")
    assert shell.good("user", "list", "--json").json == []
    assert "there is no user erin" in shell("user", "password", "erin", source="x\n").err
    assert "give the password as a line" in shell("user", "add", "frank", source="\n").err
    assert "does not exist" in shell("user", "remove", "erin").err


@pytest.mark.parametrize(
    ("name", "pattern"), [("*", "LITERAL"), ("*", "PREFIXED"), ("a", "PREFIXED")]
)
def test_a_resource_is_named_as_it_is_listed(name: str, pattern: str) -> None:
    rule = Acl("User:a", AclOperation.READ, name, pattern=AclPattern[pattern])
    assert resource_of(resource_text(rule)) == (AclResource.TOPIC, name, AclPattern[pattern])


def test_quotas_are_set_listed_and_removed(shell: Shell) -> None:
    both = ("--user", "gus", "--client-id", "*")
    shell.good("quota", "set", *both, "request_percentage=12.3456789", "consumer_byte_rate=2e6")
    assert shell.good("quota", "list", "--json").json == [
        {
            "user": "gus",
            "client_id": "*",
            "ip": None,
            "quotas": {"request_percentage": 12.3456789, "consumer_byte_rate": 2_000_000.0},
        }
    ]
    assert shell.good("quota", "list").rows == [
        ["gus", "*", "consumer_byte_rate", "2000000"],
        ["gus", "*", "request_percentage", "12.3456789"],
    ]
    for words, said in (
        ((*both, "producer_byte_rate"), "is not QUOTA=VALUE"),
        (("producer_byte_rate=1",), "give a user, a client id or both"),
        (("--ip", "10.0.0.1", "producer_byte_rate=1"), "is for an address alone"),
        ((*both, "sing=1"), "Invalid configuration key sing"),
    ):
        done = shell("quota", "set", *words)
        assert done.code != Exit.DONE
        assert said in done.err
    shell.good("quota", "remove", *both, "request_percentage", "consumer_byte_rate")
    assert shell.good("quota", "list", "--json").json == []


def test_a_streams_app_gets_what_exactly_once_needs(shell: Shell) -> None:
    words = ("--streams", "app", "--consumer", "lines", "--producer", "counted")
    shell.good("acl", "add", "sue", *words)
    assert {each[2:] for each in rules(shell, "--user", "sue")} == {
        ("ALL", "TOPIC", "app-"),
        ("CREATE", "TOPIC", "counted"),
        ("DESCRIBE", "TOPIC", "counted"),
        ("WRITE", "TOPIC", "counted"),
        ("DESCRIBE", "TOPIC", "lines"),
        ("READ", "TOPIC", "lines"),
        ("READ", "GROUP", "app"),
        ("DESCRIBE", "TRANSACTIONAL_ID", "app-"),
        ("WRITE", "TRANSACTIONAL_ID", "app-"),
    }


def test_settings_of_a_client_need_those_of_a_login(shell: Shell) -> None:
    done = shell("user", "add", "tom", "--out", "tom.properties")
    assert "their security.protocol is PLAINTEXT" in done.err
    assert shell.good("user", "list", "--json").json == []


def test_rules_are_suggested_from_a_dry_run(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    settings = {
        "authorizer.class.name": "standard",
        "moldau.authorizer.dry.run": "true",
        "moldau.audit.log": str(log),
    }
    with SyncEmbeddedBroker(settings=settings) as broker:
        at = Shell(broker.bootstrap_servers)
        at.good("topic", "create", "orders")
        at.good("produce", "orders", source="value\n")
    done = at("acl", "suggest", str(log))
    assert "leave --host out if the address" in done.err
    found = done.out.splitlines()
    assert "moldau acl add ANONYMOUS WRITE topic:orders --host 127.0.0.1" in found
    assert not [each for each in found if "DESCRIBE topic:orders" in each]
    assert at.good("acl", "suggest", str(log), "--user", "alice").out == ""
    assert "missing.jsonl" in at("acl", "suggest", str(tmp_path / "missing.jsonl")).err


def test_a_suggestion_allows_no_more_than_was_asked_for(tmp_path: Path) -> None:
    """Names are what clients send: a `*` at the end is a name there, and a rule about many here."""
    log = tmp_path / "audit.jsonl"

    def denied(resource: str, host: str = "10.0.0.1", user: str = "ann", **more: str) -> str:
        facts = {
            "principal": f"User:{user}",
            "host": host,
            "operation": "READ",
            "resource_type": "GROUP",
            "resource": resource,
            "allowed": False,
            "cause": "no matching rule",
        }
        return json.dumps({**facts, **more})

    lines = [denied("*"), denied("a*"), denied("b\n"), denied("c", user="*"), denied("d")]
    lines += [denied("d", operation="DESCRIBE"), denied("d", "10.0.0.2", operation="DESCRIBE")]
    lines += [denied("it's", user="-x")]
    log.write_text("\n".join(lines))
    found = Shell("127.0.0.1:1")("acl", "suggest", str(log))
    assert found.code == Exit.DONE
    assert found.out.splitlines() == [
        "moldau acl add User:-x READ 'group:it'\"'\"'s' --host 10.0.0.1",
        "moldau acl add ann READ group:d --host 10.0.0.1",
        "moldau acl add ann DESCRIBE group:d",
    ]
    assert [line.rpartition(" ")[2] for line in found.err.splitlines()[1:]] == [
        "'group:c'",
        "'group:*'",
        "'group:a*'",
        "'group:b\\n'",
    ]
